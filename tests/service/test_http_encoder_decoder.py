"""A model with an encoder and a decoder over HTTP: no route takes it for a decoder alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import foreword
from foreword.errors import UnsupportedFeature
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.service.executor import Executor
from foreword.service.input_processor import InputProcessor
from foreword.service.metrics import NullMetrics
from foreword.service.settings import Settings

DEMO = Path(foreword.__file__).parent / "demo" / "model"
MESSAGES = [{"role": "user", "content": "hello"}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in DEMO.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((DEMO / "config.json").read_text())
    made = {**config, "model_type": "t5", "is_encoder_decoder": True, "decoder_start_token_id": 0}
    (tmp_path / "config.json").write_text(json.dumps(made))
    return tmp_path


Serve = Callable[[Callable[[httpx.AsyncClient], Awaitable[None]]], None]


@pytest.fixture
def serve(make_state: Any, in_process: Any, folder: Path) -> Serve:
    def run(test: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
        async def inside() -> None:
            async with in_process(make_state(model=folder)) as client:
                await test(client)

        asyncio.run(inside())

    return run


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat/completions/render", {"messages": MESSAGES}),
        ("/v1/chat/completions/render", {"messages": [{"role": "user", "content": [IMAGE]}]}),
        ("/v1/completions/render", {"prompt": "hello"}),
        ("/v1/completions/render", {"prompt": [1, 2]}),
        ("/v1/completions/render", {"prompt": ["hello", "again"]}),
    ],
)
def test_a_render_route_refuses_it_with_the_way(serve: Serve, route: str, body: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        response = await client.post(route, json={"model": "demo", **body})
        assert response.status_code == 400
        error = response.json()["error"]
        assert "an encoder and a decoder" in error["message"]
        assert "render_encoder_decoder" in error["message"]
        assert "documents[" not in error["message"]

    serve(test)


def test_an_encoder_prompt_is_told_the_way(serve: Serve) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        body = {"model": "demo", "encoder_prompt": "hello"}
        response = await client.post("/v1/completions/render", json=body)
        assert response.status_code == 400
        error = response.json()["error"]
        assert error["param"] == "encoder_prompt"
        assert "render_encoder_decoder" in error["message"]

    serve(test)


def test_its_tokens_can_be_counted(serve: Serve, folder: Path) -> None:
    expected = foreword.load(folder).tokenize({"prompt": "hello"}).count

    async def test(client: httpx.AsyncClient) -> None:
        response = await client.post("/tokenize", json={"model": "demo", "prompt": "hello"})
        assert (response.status_code, response.json()["count"]) == (200, expected)
        chat = await client.post("/tokenize", json={"model": "demo", "messages": MESSAGES})
        assert chat.status_code == 200

    serve(test)


@pytest.mark.parametrize(
    "request_",
    [ChatCompletionRequest(messages=MESSAGES), CompletionRequest(prompt=["hello", "again"])],
)
def test_no_engine_gets_it(folder: Path, request_: Any) -> None:
    renderer = foreword.load(folder)
    processor = InputProcessor(renderer, Executor(Settings(threads=1), NullMetrics()))
    with pytest.raises(UnsupportedFeature, match="an encoder and a decoder"):
        processor.process_inputs("r", request_)
    if isinstance(request_, ChatCompletionRequest):
        with pytest.raises(UnsupportedFeature, match="an encoder and a decoder"):
            renderer.collect_media(request_)
