"""What parity tests share."""

from __future__ import annotations

import ast
import importlib.util
import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


def source_functions(name: str, *functions: str, **world: Any) -> SimpleNamespace:
    """Return functions (or methods) of a module that can't be imported without torch."""
    spec = importlib.util.find_spec("transformers")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "models" / f"{name}.py"
    found = {
        node.name: node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name in functions
    }
    for node in found.values():
        node.decorator_list = []
        node.returns = None
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
    tree = ast.Module(body=list(found.values()), type_ignores=[])
    scope: dict[str, Any] = {"math": math, "defaultdict": defaultdict, **world}
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in functions})


@pytest.fixture(name="source_functions")
def provide_source_functions() -> Callable[..., SimpleNamespace]:
    """Functions of transformers' modules that can't be imported without torch."""
    return source_functions
