"""A template's syntax tree goes in; the same tree with its fuel put in comes out.

Rules of this file: the rewritten template gives the same text. Nodes become calls of filters
whose names no template can spell, since filters that take the context are the one thing Jinja
compiles to a plain call and never computes while compiling (`'x' * 10**9` would be).
"""

# ruff: noqa: N802 (the names Jinja's visitor calls)

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from foreword.templating import operators
from foreword.templating.fuel import CHARS_PER_STEP_BITS

GENERATION_METHOD = "record_generation"
NESTED_GENERATION_METHOD = "pass_generation"

_TICK, _MEASURED, _ADD, _ADD_MEASURED = " tick", " measured", " add", " add measured"
_CONCATENATE, _MULTIPLY, _POWER, _MODULO = " concatenate", " multiply", " power", " modulo"
_SLICED = " sliced"

OPERATOR_FILTERS: dict[str, Any] = {
    _TICK: operators.tick,
    _MEASURED: operators.measured,
    _SLICED: operators.sliced,
    _ADD: operators.add,
    _ADD_MEASURED: operators.add_measured,
    _CONCATENATE: operators.concatenate,
    _MULTIPLY: operators.multiply,
    _POWER: operators.power,
    _MODULO: operators.modulo,
}

# Filters whose result is text that was counted already.
_COUNTED = frozenset({_CONCATENATE, _ADD_MEASURED, "tojson", "trim", "upper", "lower", "string"})


def add_fuel(tree: nodes.Template, environment: Any) -> nodes.Template:
    """Put the ticks and the measured operations into `tree`, in place, and return it."""
    fuelled = _Fuel().visit(tree)
    fuelled.set_environment(environment)
    return fuelled  # type: ignore[no-any-return]


class _Fuel(NodeTransformer):
    def __init__(self) -> None:
        # How many buffers surround the node: what is inside one has no place in the output yet.
        self.num_buffers = 0

    # -- what repeats

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self._inside(node, is_buffer=bool(node.recursive))
        if node.test is not None:
            node.test = nodes.And(_tick(node.lineno, 1), node.test, lineno=node.lineno)
        is_buffered = bool(node.recursive or self.num_buffers)
        node.body.insert(0, _tick_statement(node, is_buffered=is_buffered))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self._inside(node)
        node.body.insert(0, _tick_statement(node))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        function = node.call.node
        if (
            isinstance(function, nodes.ExtensionAttribute)
            and function.name == GENERATION_METHOD
            and self.num_buffers
        ):
            function.name = NESTED_GENERATION_METHOD
        self._inside(node)
        node.body.insert(0, _tick_statement(node))
        return node

    def visit_Block(self, node: nodes.Block) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _tick_statement(node, is_buffered=False))
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        return self._inside(node)

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:
        return self._inside(node)

    def _inside(self, node: nodes.Node, is_buffer: bool = True) -> nodes.Node:
        self.num_buffers += is_buffer
        self.generic_visit(node)
        self.num_buffers -= is_buffer
        return node

    # -- what grows

    def visit_Add(self, node: nodes.Add) -> nodes.Node:
        terms = _terms(node)
        if all(isinstance(term, nodes.Const) for term in terms):
            return node
        return _call(_ADD, *[self.visit(term) for term in terms])

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        if all(isinstance(part, nodes.Const) for part in node.nodes):
            return node
        return _call(_CONCATENATE, *[self.visit(part) for part in node.nodes])

    def visit_Mul(self, node: nodes.Mul) -> nodes.Node:
        return _call(_MULTIPLY, self.visit(node.left), self.visit(node.right))

    def visit_Pow(self, node: nodes.Pow) -> nodes.Node:
        return _call(_POWER, self.visit(node.left), self.visit(node.right))

    def visit_Mod(self, node: nodes.Mod) -> nodes.Node:
        return _call(_MODULO, self.visit(node.left), self.visit(node.right))

    # -- what looks at everything at a stroke

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        children = []
        for child in node.nodes:
            # What is joined only to be printed is printed part by part.
            children += child.nodes if isinstance(child, nodes.Concat) else [child]
        node.nodes = [self._printed(child) for child in children]
        return node

    def _printed(self, node: nodes.Expr) -> nodes.Expr:
        if isinstance(node, nodes.Add) and not self.num_buffers:
            terms = _terms(node)
            if any(isinstance(term, nodes.Const) and isinstance(term.value, str) for term in terms):
                # A text, and it goes straight to the output, where it is counted.
                return _sum([self.visit(term) for term in terms])
        node = self.visit(node)
        if isinstance(node, nodes.TemplateData | nodes.Const):
            return node
        if isinstance(node, nodes.Filter):
            if node.name == _ADD:
                node.name = _ADD_MEASURED
            if node.name in _COUNTED:
                return node
        return _call(_MEASURED, node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        sides = [node.expr, *(operand.expr for operand in node.ops)]
        # A plain constant ends a comparison at once, however deep the other side is.
        if sum(not _is_constant(side) for side in sides) > 1:
            node.expr = _measured(node.expr)
            for operand in node.ops:
                operand.expr = _measured(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return _call(_SLICED, node)
        node.arg = _measured(node.arg)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key = _measured(node.key)
        return node


def _terms(node: nodes.Expr) -> list[nodes.Expr]:
    """Return the terms of a sum, first to last."""
    terms = []
    while isinstance(node, nodes.Add):
        terms.append(node.right)
        node = node.left
    return [node, *reversed(terms)]


def _sum(terms: list[nodes.Expr]) -> nodes.Expr:
    total = terms[0]
    for term in terms[1:]:
        total = nodes.Add(total, term, lineno=total.lineno)
    return total


def _measured(node: nodes.Expr) -> nodes.Expr:
    return node if _is_constant(node) else _call(_MEASURED, node)


def _is_constant(node: nodes.Expr) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(isinstance(item, nodes.Const) for item in node.items)
    return isinstance(node, nodes.Const | nodes.Neg)


def _call(name: str, first: nodes.Expr, *rest: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(first, name, list(rest), [], None, None, lineno=first.lineno)


def _tick(lineno: int, num_steps: int) -> nodes.Expr:
    return _call(_TICK, nodes.Const(num_steps, lineno=lineno))


def _tick_statement(node: Any, *, is_buffered: bool = True) -> nodes.ExprStmt:
    # A buffer's constant text is paid for with its tick; the output itself is counted as it
    # streams.
    num_chars = 0
    if is_buffered:
        num_chars = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
    steps = 1 + (num_chars >> CHARS_PER_STEP_BITS)
    return nodes.ExprStmt(_tick(node.lineno, steps), lineno=node.lineno)
