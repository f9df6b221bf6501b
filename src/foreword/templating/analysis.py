"""A template's syntax tree goes in; what it does with messages and which variables it reads come
out.

Rules of this file: nothing is executed. The answers are those of vLLM 0.33 for real templates.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

from foreword.types import ContentFormat


def find_variables(fuelled: nodes.Template) -> frozenset[str]:
    """Return the names a template reads and does not set itself.

    Why: takes the tree with its fuel, since the plain one would have constants computed here.
    """
    return frozenset(find_undeclared_variables(fuelled))


def has_developer_branch(tree: nodes.Template) -> bool:
    """Return whether the template knows the role `developer`."""
    return any(node.value == "developer" for node in tree.find_all(nodes.Const))


def detect_content_format(tree: nodes.Template) -> ContentFormat:
    """Return `openai` when the template loops over a message's content parts, else `string`.

    Source: vLLM 0.33. Followed are aliases of `messages` (plain, through filters, tests and
    slices, or as attributes of a namespace), loops over them, and loops over the `content` of
    what these yield: directly, through a macro's parameter, or under the bare name `content`.
    """
    loops = list(tree.find_all(nodes.For))
    message_lists = _aliases(tree, "messages")
    message_loops = [
        loop for loop in loops if any(_refers(loop.iter, name) for name in message_lists)
    ]
    if not all(isinstance(loop.target, nodes.Name) for loop in message_loops):
        return "string"
    messages = {loop.target.name for loop in message_loops if isinstance(loop.target, nodes.Name)}
    bound = _macro_parameters(tree, messages)
    for loop in loops:
        if _is_over_content(loop, messages, bound):
            return "openai" if isinstance(loop.target, nodes.Name) else "string"
    return "string"


def _is_over_content(loop: nodes.For, messages: set[str], bound: dict[int, set[str]]) -> bool:
    if any(_refers(loop.iter, name, "content") for name in messages):
        return True
    if not isinstance(loop.iter, nodes.Name):
        return False
    if id(loop) in bound:
        return loop.iter.name in bound[id(loop)]
    return loop.iter.name == "content"


def _macro_parameters(tree: nodes.Template, messages: set[str]) -> dict[int, set[str]]:
    """Return, for each loop inside a macro, the parameters that are given message content."""
    bound: dict[int, set[str]] = {}
    calls = [call for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)]
    for macro in tree.find_all(nodes.Macro):
        names = [argument.name for argument in macro.args]
        given: set[str] = set()
        for call in calls:
            if isinstance(call.node, nodes.Name) and call.node.name == macro.name:
                given |= {
                    name for name, value in _arguments(call, names) if _is_content(value, messages)
                }
        for loop in macro.find_all(nodes.For):
            bound[id(loop)] = given or bound.get(id(loop), set())
    return bound


def _arguments(call: nodes.Call, names: list[str]) -> Iterator[tuple[str, nodes.Expr]]:
    yield from zip(names, call.args, strict=False)
    for keyword in call.kwargs:
        if keyword.key in names:
            yield keyword.key, keyword.value


def _is_content(node: nodes.Expr, messages: set[str]) -> bool:
    return any(_refers(node, name, "content") for name in messages)


def _aliases(tree: nodes.Template, name: str) -> set[str]:
    """Return `name` and every name assigned from it; `ns.rest` is an attribute of a namespace."""
    known = {name}
    assignments = list(tree.find_all(nodes.Assign))
    while True:
        found = {
            alias
            for assignment in assignments
            for alias, value in _assigned(assignment)
            if any(_refers(value, other) for other in known)
        }
        if found <= known:
            return known
        known |= found


def _assigned(assignment: nodes.Assign) -> Iterator[tuple[str, nodes.Node]]:
    target, value = assignment.target, assignment.node
    if isinstance(target, nodes.NSRef):
        yield f"{target.name}.{target.attr}", value
    if not isinstance(target, nodes.Name):
        return
    yield target.name, value
    if (
        isinstance(value, nodes.Call)
        and isinstance(value.node, nodes.Name)
        and value.node.name == "namespace"
    ):
        for keyword in value.kwargs:
            yield f"{target.name}.{keyword.key}", keyword.value


def _refers(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Return whether `node` is the variable (or its `key`), seen through filters and slices."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if key is None:
        return _is_variable(node, name)
    if isinstance(node, nodes.Getattr):
        return node.attr == key and _is_variable(node.node, name)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return node.arg.value == key and _is_variable(node.node, name)
    return False


def _is_variable(node: nodes.Node | None, name: str) -> bool:
    if isinstance(node, nodes.Name):
        return node.ctx == "load" and node.name == name
    if isinstance(node, nodes.Getattr) and "." in name:
        owner, _, attribute = name.rpartition(".")
        return node.attr == attribute and _is_variable(node.node, owner)
    return False
