"""Block hashes over HTTP: on request; for media, adapters and tenants; with the engine's facts."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from foreword.errors import InvalidRequest
from foreword.service.settings import Settings

sys.path.insert(0, str(Path(__file__).parents[1] / "media"))
from media_models import CHATML, QWEN_FILES, QWEN_TOKENS, byte_level, picture, write_model

CHAT, COMPLETIONS = "/v1/chat/completions/render", "/v1/completions/render"
MESSAGES = [{"role": "user", "content": "How many tokens is this, and how many blocks?"}]


@pytest.fixture
def serve(make_state: Any, in_process: Any) -> Callable[..., None]:
    def run(test: Callable[[httpx.AsyncClient], Awaitable[None]], **settings: Any) -> None:
        async def inside() -> None:
            async with in_process(make_state(**settings)) as client:
                await test(client)

        asyncio.run(inside())

    return run


def by_the_rule(token_ids: list[int], size: int, seed: str, *extra: Any) -> list[str]:
    """vLLM's default hashes of a prompt whose first block alone has extra keys."""
    parent, made = hashlib.sha256(pickle.dumps(seed, protocol=5)).digest(), []
    for start in range(0, len(token_ids) // size * size, size):
        block = tuple(token_ids[start : start + size])
        value = (parent, block, extra if extra and start == 0 else None)
        parent = hashlib.sha256(pickle.dumps(value, protocol=5)).digest()
        made.append(parent.hex())
    return made


def test_both_render_routes_tell_them(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        asked = {"return_block_hashes": True}
        chat = (await client.post(CHAT, json={"messages": MESSAGES, **asked})).json()
        assert chat["block_hashes"] == {
            "block_size": 5,
            "algorithm": "sha256",
            "hashes": by_the_rule(chat["token_ids"], 5, "42"),
        }
        assert len(chat["block_hashes"]["hashes"]) > 1
        body = {"prompt": [[7] * 11, [7] * 5], **asked, "cache_salt": "s"}
        answers = (await client.post(COMPLETIONS, json=body)).json()
        for answer in answers:
            expected = by_the_rule(answer["token_ids"], 5, "42", ("cache_salt", "s"))
            assert answer["block_hashes"]["hashes"] == expected
        assert "block_hashes" not in (await client.post(CHAT, json={"messages": MESSAGES})).json()
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
        assert "block_hashes" in schemas["GenerateRequest"]["properties"]
        assert schemas["CompletionRequest"]["properties"]["return_block_hashes"]

    serve(test, hash_block_size=5, hash_seed="42")


def test_an_adapter_is_a_name_with_hashes_of_its_own(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        body = {"prompt": [7] * 5, "return_block_hashes": True}
        for name, extra in (("demo", ()), ("sql", (("lora", "sql", "/adapters/sql"),))):
            (answer,) = (await client.post(COMPLETIONS, json={**body, "model": name})).json()
            assert answer["model"] == name
            expected = by_the_rule([7] * 5, 5, "vllm-none-hash", *extra)
            assert answer["block_hashes"]["hashes"] == expected
        listed = (await client.get("/v1/models")).json()["data"]
        assert {one["id"] for one in listed} == {"demo", "sql"}

    serve(test, hash_block_size=5, hash_lora_adapters=("sql=/adapters/sql",))


def test_media_are_part_of_them(serve: Any, tmp_path: Path) -> None:
    write_model(tmp_path, QWEN_FILES, byte_level(QWEN_TOKENS), CHATML)

    async def test(client: httpx.AsyncClient) -> None:
        message = {"role": "user", "content": [picture(84, 84)]}
        body = {"messages": [message], "return_block_hashes": True, "max_tokens": 1}
        answer = (await client.post(CHAT, json=body)).json()
        (identity,) = answer["features"]["mm_hashes"]["image"]
        (place,) = answer["features"]["mm_placeholders"]["image"]
        assert place == {"offset": 7, "length": 9}
        key = ("mm", "".join(list(identity)), 7)
        expected = by_the_rule(answer["token_ids"][:16], 16, "vllm-none-hash", key)
        assert answer["block_hashes"]["hashes"] == expected

    serve(test, hash_block_size=16, model=tmp_path)


def test_without_a_block_size_they_are_refused(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for path, body in ((CHAT, {"messages": MESSAGES}), (COMPLETIONS, {"prompt": "x"})):
            response = await client.post(path, json={**body, "return_block_hashes": True})
            assert response.status_code == 400
            assert response.json()["error"]["param"] == "return_block_hashes"
            assert "hash_block_size" in response.json()["error"]["message"]

    serve(test)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"hash_block_size": 0}, "hash_block_size"),
        ({"hash_algorithm": "md5"}, "hash_algorithm"),
        ({"hash_block_size": 16, "hash_lora_adapters": ("name",)}, "hash_lora_adapters"),
        ({"hash_block_size": 16, "hash_lora_adapters": ("=path",)}, "hash_lora_adapters"),
        ({"hash_lora_adapters": ("a=b",)}, "hash_lora_adapters"),
        (
            {"hash_block_size": 16, "hash_lora_adapters": ("a=b",), "models": ("m", "n")},
            "hash_lora_adapters",
        ),
        (
            {"hash_block_size": 16, "hash_lora_adapters": ("a=b",), "engine_url": "http://h"},
            "hash_lora_adapters",
        ),
    ],
)
def test_settings_that_do_not_go_together(wrong: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Settings(**wrong)
    assert caught.value.param == param


def test_xxhash_needs_the_engines_seed(make_state: Any) -> None:
    pytest.importorskip("xxhash", reason="needs the extra hashes")
    from foreword.service.models import load_models

    state = make_state(hash_block_size=16, hash_algorithm="xxhash")
    with pytest.raises(InvalidRequest, match="PYTHONHASHSEED") as caught:
        load_models(state.settings)
    assert caught.value.param == "hash_seed"
