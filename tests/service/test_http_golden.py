"""The real server's recorded answers against ours, over a real socket: the same walker, by HTTP."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from foreword.service.models import ServedModel, ServedModels
from foreword.service.settings import Settings
from foreword.service.state import ServiceState


def _walker() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "golden" / "test_golden.py"
    spec = importlib.util.spec_from_file_location("golden_walker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = _walker()
pytestmark = golden.pytestmark


def _load(settings: Settings) -> ServedModels:
    return ServedModels(
        tuple(ServedModel(name=name, renderer=golden._renderer(name)) for name in settings.models)
    )


@pytest.fixture(scope="module")
def clients(running: Any) -> Iterator[dict[str, httpx.Client]]:
    """One server for each model: a request that names none means the only one."""
    with contextlib.ExitStack() as stack:
        made = {}
        for model in golden.MODELS:
            state = ServiceState(Settings(models=(model,)), load=_load)
            server = stack.enter_context(running(state))
            made[model] = stack.enter_context(httpx.Client(base_url=server.url, timeout=30))
        yield made


@pytest.mark.witness(
    family=(
        "mode:hf",
        "mode:mistral",
        "mode:deepseek_v32",
        "mode:deepseek_v4",
        "format:gpt_oss",
    ),
    what="the same answers over HTTP",
    against="vLLM 0.33's render server",
)
@pytest.mark.parametrize(("model", "name"), list(golden._goldens()) if golden.DATA.is_dir() else [])
def test_golden(
    model: str, name: str, clients: dict[str, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(recorded: dict[str, Any], model: str) -> tuple[int, Any]:
        content = json.dumps(recorded["request"])
        headers = {"content-type": "application/json"}
        response = clients[model].post(recorded["path"], content=content, headers=headers)
        return response.status_code, response.json()

    monkeypatch.setattr(golden, "_answer", answer)
    golden.test_golden(model, name)
