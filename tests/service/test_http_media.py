"""Chats with media over HTTP: data: URLs always, files and hosts only where the operator opened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "media"))
from media_models import CHATML, QWEN_FILES, QWEN_TOKENS, byte_level, picture, png, write_model

PATH = "/v1/chat/completions/render"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vision")
    write_model(folder, QWEN_FILES, byte_level(QWEN_TOKENS), CHATML)
    return folder


def chat(url: str) -> dict[str, Any]:
    part = {"type": "image_url", "image_url": {"url": url}}
    return {"messages": [{"role": "user", "content": [part]}], "max_tokens": 1}


Ask = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


@pytest.fixture
def ask(model: Path, make_state: Any, in_process: Any) -> Ask:
    async def post(body: Any, **settings: Any) -> tuple[int, dict[str, Any]]:
        async with in_process(make_state(model=model, **settings)) as client:
            answer = await client.post(PATH, json=chat(body) if isinstance(body, str) else body)
            return answer.status_code, answer.json()

    return post


def places(answer: dict[str, Any]) -> Any:
    return answer["features"]["mm_placeholders"]["image"]


def test_a_data_url(ask: Ask) -> None:
    asyncio.run(_a_data_url(ask))


async def _a_data_url(ask: Ask) -> None:
    url = picture(84, 84)["image_url"]["url"]
    for settings in ({}, {"inline_max_size": 0}):
        status, answer = await ask(url, **settings)
        assert status == 200
        assert places(answer) == [{"offset": 7, "length": 9}]


def test_a_file_below_the_folder(ask: Ask, tmp_path: Path) -> None:
    asyncio.run(_a_file_below_the_folder(ask, tmp_path))


async def _a_file_below_the_folder(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(64, 128))
    url = f"file://{tmp_path}/a.png"
    status, answer = await ask(url)
    assert (status, answer["error"]["param"]) == (400, "messages[0].content[0]")
    for settings in ({}, {"inline_max_size": 0}):
        status, answer = await ask(url, media_folder=str(tmp_path), **settings)
        assert status == 200
        assert places(answer) == [{"offset": 7, "length": 8}]


def test_a_host_that_was_opened(ask: Ask) -> None:
    asyncio.run(_a_host_that_was_opened(ask))


async def _a_host_that_was_opened(ask: Ask) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        data = png(64, 128)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\nContent-Type: image/png\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/a.png"
    async with server:
        status, answer = await ask(url)
        assert (status, answer["error"]["param"]) == (400, "messages[0].content[0]")
        status, answer = await ask(url, media_fetch=True)
        assert status == 400  # an address of the machine itself
        opened = (f"127.0.0.1:{port}",)
        status, answer = await ask(url, media_fetch=True, media_private_hosts=opened)
    assert status == 200
    assert places(answer) == [{"offset": 7, "length": 8}]


def test_what_cannot_be_fetched_is_told_apart(ask: Ask, tmp_path: Path) -> None:
    asyncio.run(_what_cannot_be_fetched_is_told_apart(ask, tmp_path))


async def _what_cannot_be_fetched_is_told_apart(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    for name, code in (("a.png", 422), ("b.png", 422), ("../a.png", 400)):
        url = f"file://{tmp_path}/{name}"
        status, answer = await ask(url, media_folder=str(tmp_path))
        assert (status, answer["error"]["param"]) == (code, "messages[0].content[0]")


def test_a_limit_on_items(ask: Ask) -> None:
    asyncio.run(_a_limit_on_items(ask))


async def _a_limit_on_items(ask: Ask) -> None:
    part = picture(32, 32)
    body = {"messages": [{"role": "user", "content": [part, part, part]}]}
    status, answer = await ask(body, max_media_items=2)
    assert status == 400
    assert "At most 2 image" in answer["error"]["message"]
