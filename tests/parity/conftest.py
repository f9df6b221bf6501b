"""What parity tests share."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import math
import sys
import types
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


@pytest.fixture
def vllm_sources() -> Path:
    """The folder of vLLM 0.33's sources, which must be on the path; they are not imported."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("needs the sources of vLLM 0.33")
    folder = Path(spec.origin).parent
    if "image_order" not in (folder / "tokenizers" / "deepseek_v41_encoding.py").read_text():
        pytest.skip("this vLLM is older than 0.33")
    return folder


@pytest.fixture
def vllm_tokenizers(vllm_sources: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of vLLM's `tokenizers`, the rest of vLLM stubbed: no torch, no build."""
    folder = vllm_sources / "tokenizers"
    stubs: dict[str, dict[str, Any]] = {
        "vllm": {"__path__": []},
        "vllm.logger": {"init_logger": lambda name: None},
        "vllm.renderers": {"__path__": []},
        "vllm.renderers.chat_utils": {"ChatCompletionMessageParam": dict},
        "vllm.tokenizers": {"__path__": [str(folder)]},
        "vllm.tokenizers.hf": {"HfTokenizer": object, "get_cached_tokenizer": lambda one: one},
        "vllm.tokenizers.protocol": {"TokenizerLike": object},
        "vllm.transformers_utils": {"__path__": []},
        "vllm.transformers_utils.repo_utils": {"hf_api": None},
    }
    for name in [one for one in sys.modules if one.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    for name, values in stubs.items():
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)

    def load(name: str) -> Any:
        full = f"vllm.tokenizers.{name}"
        module = importlib.import_module(full)
        monkeypatch.setitem(sys.modules, full, module)  # so that it is forgotten afterwards
        return module

    return load
