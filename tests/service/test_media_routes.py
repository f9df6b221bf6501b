"""Every route that takes chats resolves media alike, and the operator's settings hold for all."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "media"))
from media_models import CHATML, QWEN_FILES, QWEN_TOKENS, byte_level, picture, png, write_model

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.media.hashing import client_identity, vllm_image_hash
from foreword.media.headers import read_image_size
from foreword.service import work
from foreword.service.engine_http import HttpEngineClient
from foreword.service.http import Service
from foreword.service.models import load_models
from foreword.service.settings import Settings
from foreword.service.state import ServiceState

RENDER, TOKENIZE, ANSWER = "/v1/chat/completions/render", "/tokenize", "/v1/chat/completions"
URL = {"type": "image_url", "image_url": {"url": "placeholder"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vision")
    write_model(folder, QWEN_FILES, byte_level(QWEN_TOKENS), CHATML)
    return folder


class EngineServer(httpx.AsyncBaseTransport):
    """A vLLM server that says one token to everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            return httpx.Response(200)
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "m", "max_model_len": 512}]})
        self.asked.append(json.loads(await request.aread()))
        choice = {"index": 0, "token_ids": [7], "finish_reason": "length"}
        said = json.dumps({"request_id": "r", "choices": [choice]})
        return httpx.Response(200, content=f"data: {said}\n\ndata: [DONE]\n\n".encode())


def serve(
    model: Path,
    test: Callable[[httpx.AsyncClient, EngineServer], Coroutine[Any, Any, None]],
    in_process: Any,
    **settings: Any,
) -> None:
    async def inside() -> None:
        server = EngineServer()
        url = "http://engine"
        state = ServiceState(
            Settings(models=(f"demo={model}",), engine_url=url, **settings),
            engine=HttpEngineClient(url, transport=server),
        )
        assert Service(state)
        async with asyncio.timeout(30), in_process(state) as client:
            while state.condition != "ready":
                await asyncio.sleep(0.002)
            await test(client, server)

    asyncio.run(inside())


def chat(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], "max_tokens": 1, **fields}


def count_of(path: str, answer: httpx.Response) -> int:
    told = answer.json()
    if path == RENDER:
        return len(told["token_ids"])
    return int(told["count"] if path == TOKENIZE else told["usage"]["prompt_tokens"])


SPELLINGS: list[Callable[[str], dict[str, Any]]] = [
    lambda path: {"type": "image_url", "image_url": {"url": f"file://{path}"}},
    lambda path: {"type": "input_image", "image_url": f"file://{path}"},
    lambda path: {"type": "image", "path": path},
    lambda path: {"type": "image", "source": {"type": "url", "url": f"file://{path}"}},
]


@pytest.mark.parametrize("path", [RENDER, TOKENIZE, ANSWER])
def test_a_file_is_read_on_every_route_in_every_spelling(
    path: str, model: Path, tmp_path: Path, in_process: Any
) -> None:
    (tmp_path / "a.png").write_bytes(png(64, 128))

    async def opened(client: httpx.AsyncClient, server: EngineServer) -> None:
        inline = await client.post(path, json=chat(picture(64, 128)))
        assert inline.status_code == 200, inline.text
        for spelling in SPELLINGS:
            sent = chat(spelling(f"{tmp_path}/a.png"))
            answer = await client.post(path, json=sent)
            assert answer.status_code == 200, answer.text
            assert count_of(path, answer) == count_of(path, inline)
        outside = await client.post(path, json=chat(SPELLINGS[2]("/etc/hostname")))
        assert outside.status_code == 400
        assert "does not lead below the folder" in outside.json()["error"]["message"]

    async def closed(client: httpx.AsyncClient, server: EngineServer) -> None:
        for spelling in SPELLINGS:
            answer = await client.post(path, json=chat(spelling(f"{tmp_path}/a.png")))
            assert (answer.status_code, answer.json()["error"]["param"]) == (
                400, "messages[0].content[0]",
            )  # fmt: skip

    serve(model, opened, in_process, media_folder=str(tmp_path))
    serve(model, closed, in_process)


@pytest.mark.parametrize("path", [RENDER, TOKENIZE, ANSWER])
def test_a_host_is_asked_on_every_route(path: str, model: Path, in_process: Any) -> None:
    async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        data = png(64, 128)
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\nContent-Type: image/png\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()
        writer.close()

    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        host = await asyncio.start_server(answer_http, "127.0.0.1", port)
        part = {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{port}/a.png"}}
        async with host:
            answer = await client.post(path, json=chat(part))
        assert answer.status_code == 200, answer.text
        assert count_of(path, answer) == count_of(
            path, await client.post(path, json=chat(picture(64, 128)))
        )
        refused = await client.post(
            path, json=chat({"type": "image", "url": "http://169.254.169.254/latest"})
        )
        assert refused.status_code == 400

    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    opened = (f"127.0.0.1:{port}",)
    serve(model, test, in_process, media_fetch=True, media_private_hosts=opened)


def test_an_engine_gets_the_bytes_that_were_counted(
    model: Path, tmp_path: Path, in_process: Any
) -> None:
    """It expands them itself, and fetches nothing again."""
    (tmp_path / "a.png").write_bytes(png(64, 128))
    parts = [picture(84, 84), {"type": "image", "path": f"{tmp_path}/a.png"}]

    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        rendered = (await client.post(RENDER, json=chat(*parts))).json()
        answer = await client.post(ANSWER, json=chat(*parts))
        assert answer.status_code == 200, answer.text
        (asked,) = server.asked
        hashes = rendered["features"]["mm_hashes"]["image"]
        data = base64.b64encode(png(64, 128)).decode()
        assert asked["content_parts"] == [
            {"type": "image_url", "uuid": hashes[0], "url": parts[0]["image_url"]["url"]},
            {"type": "image_url", "uuid": hashes[1], "url": f"data:image/png;base64,{data}"},
        ]
        assert asked["features"] is None
        assert len(asked["token_ids"]) == len(rendered["token_ids"]) - 8 - 7
        assert answer.json()["usage"]["prompt_tokens"] == len(rendered["token_ids"])

    serve(model, test, in_process, media_folder=str(tmp_path))


@pytest.mark.parametrize("output", ["features", "content_parts"])
def test_what_the_render_route_answers(
    output: Any, model: Path, tmp_path: Path, in_process: Any
) -> None:
    (tmp_path / "a.png").write_bytes(png(84, 84))

    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        path = f"{tmp_path}/a.png"
        told = (await client.post(RENDER, json=chat({"type": "image", "path": path}))).json()
        if output == "features":
            assert told["features"]["mm_placeholders"]["image"][0]["length"] == 9
            assert told.get("content_parts") is None
            return
        assert told["features"] is None
        (part,) = told["content_parts"]
        assert part["url"] == picture(84, 84)["image_url"]["url"]
        inline = (await client.post(RENDER, json=chat(picture(84, 84)))).json()
        assert told["token_ids"] == inline["token_ids"]
        assert told["content_parts"] == inline["content_parts"]

    serve(model, test, in_process, media_folder=str(tmp_path), media_output=output)


def test_tensors_are_refused_beside_media(model: Path, in_process: Any) -> None:
    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        for field, value in (("mm_payload", "tensors"), ("return_mm_kwargs", True)):
            answer = await client.post(RENDER, json=chat(picture(32, 32), **{field: value}))
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
            said = chat({"type": "text", "text": "a"}, **{field: value})
            assert (await client.post(RENDER, json=said)).status_code == 200
        answer = await client.post(RENDER, json=chat(picture(32, 32), mm_payload="none"))
        assert answer.status_code == 200

    serve(model, test, in_process)


def test_an_engine_behind_zmq_takes_no_media(make_state: Any, model: Path, in_process: Any) -> None:
    state = make_state(model=model, engine_zmq=("tcp://127.0.0.1:0",))

    async def test() -> None:
        from foreword.protocols.chat_completions import ChatCompletionRequest

        async with asyncio.timeout(30), in_process(state):
            while state.condition == "loading":
                await asyncio.sleep(0.005)
            sent = json.dumps(chat(picture(32, 32))).encode()
            with pytest.raises(UnsupportedFeature, match="engine_url"):
                state.generations().prepare(sent, ChatCompletionRequest, "", None)

    asyncio.run(test())


# ---------------------------------------------------------------------------------------------
# Names.


def test_a_uuid_counts_with_its_clients_key(model: Path, tmp_path: Path, in_process: Any) -> None:
    (tmp_path / "a.png").write_bytes(png(32, 32))
    inline = chat(picture(32, 32, uuid="mine"))
    fetched = chat({"type": "image", "path": f"{tmp_path}/a.png", "uuid": "mine"})

    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        async def name_of(body: dict[str, Any], key: str, **fields: Any) -> str:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            answer = await client.post(RENDER, json={**body, **fields}, headers=headers)
            return str(answer.json()["features"]["mm_hashes"]["image"][0])

        names = [
            await name_of(inline, "one"),
            await name_of(inline, "two"),
            await name_of(inline, ""),
            await name_of(inline, "one", cache_salt="s"),
            await name_of(inline, "", cache_salt="s"),
        ]
        assert len(set(names)) == 5
        assert "mine" not in names
        key = hashlib.sha256(b"one").hexdigest()
        assert names[0] == client_identity("mine", namespace=f"{key}\0")
        assert await name_of(inline, "one") == names[0] == await name_of(fetched, "one")
        assert await name_of(fetched, "two") == names[1]
        assert names[2] == client_identity("mine", namespace="")

    serve(model, test, in_process, media_folder=str(tmp_path))


def test_trusted_uuids_are_taken_as_they_are(model: Path, in_process: Any) -> None:
    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        answer = await client.post(RENDER, json=chat(picture(32, 32, uuid="mine")))
        assert answer.json()["features"]["mm_hashes"] == {"image": ["mine"]}

    serve(model, test, in_process, media_trust_uuids=True)


@pytest.mark.parametrize("algorithm", ["blake3", "sha256", "sha512"])
def test_images_can_be_named_as_the_engine_names_them(
    model: Path, in_process: Any, algorithm: Any
) -> None:
    if algorithm == "blake3":
        pytest.importorskip("blake3")
    data = png(32, 32)
    header = read_image_size(data)

    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        for model_id, settings in ((str(model), {}), ("org/m", {"media_naming_model": "org/m"})):
            told = load_models(
                Settings(
                    models=(f"demo={model}",), media_naming="vllm",
                    media_naming_algorithm=algorithm, **settings,
                )
            )  # fmt: skip
            naming = told.all[0].renderer.options.media.naming
            assert naming.model_id == model_id
        answer = await client.post(RENDER, json=chat(picture(32, 32)))
        expected = vllm_image_hash(data, header, model_id="org/m", algorithm=algorithm)
        assert answer.json()["features"]["mm_hashes"] == {"image": [expected]}

    serve(
        model, test, in_process, media_naming="vllm", media_naming_model="org/m",
        media_naming_algorithm=algorithm,
    )  # fmt: skip


def test_a_hash_that_cannot_be_made_stops_the_start(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "blake3", None)
    with pytest.raises(UnsupportedFeature, match="blake3"):
        load_models(Settings(models=(str(model),), media_naming="vllm"))


# ---------------------------------------------------------------------------------------------
# Limits and policies.


@pytest.mark.parametrize("path", [RENDER, TOKENIZE, ANSWER])
def test_limits_by_modality(path: str, model: Path, in_process: Any) -> None:
    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        part = picture(32, 32)
        assert (await client.post(path, json=chat(part, part))).status_code == 200
        answer = await client.post(path, json=chat(part, part, part))
        assert answer.status_code == 400
        assert "At most 2 image" in answer.json()["error"]["message"]

    serve(model, test, in_process, max_images=2, max_audio_clips=0, max_videos=5)


def test_the_smaller_limit_holds(model: Path) -> None:
    given = Settings(models=(str(model),), max_media_items=3, max_images=9, max_videos=0)
    (served,) = load_models(given).all
    assert served.renderer.options.media.max_items == {"image": 3, "audio": 3, "video": 0}
    with pytest.raises(InvalidRequest, match="max_images"):
        Settings(max_images=-1)


@pytest.mark.parametrize("path", [RENDER, TOKENIZE, ANSWER])
def test_a_typed_placeholder_is_text_or_refused(path: str, model: Path, in_process: Any) -> None:
    sent = chat({"type": "text", "text": "a <|image_pad|>"}, picture(84, 84))

    async def as_text(client: httpx.AsyncClient, server: EngineServer) -> None:
        assert (await client.post(path, json=sent)).status_code == 200

    async def refused(client: httpx.AsyncClient, server: EngineServer) -> None:
        answer = await client.post(path, json=sent)
        assert answer.status_code == 400
        assert "spells a placeholder" in answer.json()["error"]["message"]

    serve(model, as_text, in_process)
    serve(model, refused, in_process, media_placeholder_text="refuse")


@pytest.mark.parametrize("path", [RENDER, TOKENIZE, ANSWER])
@pytest.mark.parametrize("name", ["mm_processor_kwargs", "media_io_kwargs"])
def test_what_changes_counts_is_refused_beside_media(
    path: str, name: str, model: Path, in_process: Any
) -> None:
    fields = {name: {"image": {"max_pixels": 1}}}

    async def test(client: httpx.AsyncClient, server: EngineServer) -> None:
        answer = await client.post(path, json=chat(picture(32, 32), **fields))
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
        said = chat({"type": "text", "text": "a"}, **fields)
        assert (await client.post(path, json=said)).status_code == 200

    serve(model, test, in_process)


def test_keys_can_be_tolerated(tmp_path: Path) -> None:
    processor = {**QWEN_FILES["preprocessor_config.json"], "novel_rule": 7}
    files = {**QWEN_FILES, "preprocessor_config.json": processor}
    write_model(tmp_path, files, byte_level(QWEN_TOKENS), CHATML)
    given: list[tuple[str, ...]] = [(), ("novel_rule",)]
    families = [
        load_models(Settings(models=(str(tmp_path),), media_tolerated_keys=keys))
        .all[0]
        .renderer.media.family
        for keys in given
    ]
    assert families[0] is None
    assert families[1] is not None


@pytest.mark.parametrize("image", [object(), None])
def test_what_rarer_images_need_is_imported_at_start(
    image: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[bool] = []
    monkeypatch.setattr(work, "load_image_plugins", lambda: imported.append(True))
    family = SimpleNamespace(image=image)
    renderer = SimpleNamespace(media=SimpleNamespace(family=family))
    models = SimpleNamespace(all=(SimpleNamespace(name="m", renderer=renderer),))
    asked = SimpleNamespace(chat=lambda *_: None, completion=lambda *_: None)
    work.warm_up(asked, models)  # type: ignore[arg-type]
    assert imported == ([True] if image else [])
