"""Constraints and transfer parameters before an engine: what it is told, and what clients are."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import zmq

sys.path.insert(0, str(Path(__file__).parent))
import fake_engine as fake

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "x"}]
EXTRA_ARGS = "extra_args"


Test = Callable[[httpx.AsyncClient, Any], Awaitable[None]]


@pytest.fixture
def serve(make_state: Any, in_process: Any) -> Any:
    def run(test: Test, **options: Any) -> None:
        async def inside() -> None:
            engine = fake.FakeEngine()
            state = make_state(engine_zmq=("tcp://127.0.0.1:0",), **options)
            async with asyncio.timeout(30), in_process(state) as client:
                socket = state.engine._sockets.handshake
                await engine.come(socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode())
                while state.condition != "ready":
                    await asyncio.sleep(0.002)
                await test(client, engine)
            await engine.die()

        asyncio.run(inside())

    return run


def bodies() -> dict[str, dict[str, Any]]:
    return {
        CHAT: {"messages": MESSAGES, "max_tokens": 2},
        COMPLETIONS: {"prompt": "x", "max_tokens": 2},
    }


def last_params(engine: Any) -> dict[str, Any]:
    params: dict[str, Any] = list(engine.requests.values())[-1].params
    return params


def test_the_engine_is_told_the_transfer_parameters(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any) -> None:
        kv, ec = {"do_remote_prefill": True, "blocks": [1, 2]}, {"a": None}
        for path, body in bodies().items():
            given = {"kv_transfer_params": kv, "ec_transfer_params": ec, "vllm_xargs": {"mine": 3}}
            assert (await client.post(path, json={**body, **given})).status_code == 200
            assert last_params(engine)[EXTRA_ARGS] == {
                "mine": 3, "kv_transfer_params": kv, "ec_transfer_params": ec,
            }  # fmt: skip
            given = {"kv_transfer_params": {}, "ec_transfer_params": None}
            assert (await client.post(path, json={**body, **given, "n": 2})).status_code == 200
            assert EXTRA_ARGS not in last_params(engine)

    serve(test)


def test_ids_of_the_first_leg_are_the_prompt_and_are_not_handed_on(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any) -> None:
        body = bodies()[CHAT]
        for kv, told in (({"prompt_token_ids": [5, 6]}, None), ({"b": 1}, {"b": 1})):
            given = {"kv_transfer_params": {"prompt_token_ids": [5, 6], **kv}}
            assert (await client.post(CHAT, json={**body, **given})).status_code == 200
            assert list(engine.requests.values())[-1].prompt == [5, 6]
            extra = last_params(engine).get(EXTRA_ARGS)
            assert extra == (None if told is None else {"kv_transfer_params": told})

    serve(test)


def test_clients_are_told_where_the_cache_is(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any) -> None:
        engine.kv_answer, engine.ec_answer = {"remote_block_ids": [7]}, {"e": 1}
        for path, body in bodies().items():
            answer = (await client.post(path, json=body)).json()
            assert answer["kv_transfer_params"] == {"remote_block_ids": [7]}
            assert answer["ec_transfer_params"] == {"e": 1}
            streamed = (await client.post(path, json={**body, "stream": True})).text
            *_, end = [line for line in streamed.split("\n\n") if line]
            assert end == "data: [DONE]"
            told = [json.loads(one[6:]) for one in streamed.split("\n\n")[:-2]]
            assert told[-1]["kv_transfer_params"] == {"remote_block_ids": [7]}
            assert told[-1]["choices"][0]["finish_reason"] == "length"
            assert not any("kv_transfer_params" in one for one in told[:-1])
        engine.kv_answer = engine.ec_answer = None
        answer = (await client.post(COMPLETIONS, json=bodies()[COMPLETIONS])).json()
        assert (answer["kv_transfer_params"], answer["ec_transfer_params"]) == (None, None)

    serve(test)


def test_choices_reach_the_engine_as_its_backend_takes_them(serve: Any) -> None:
    body = {**bodies()[CHAT], "structured_outputs": {"choice": ["yes", "no"]}}

    async def by_default(client: httpx.AsyncClient, engine: Any) -> None:
        assert (await client.post(CHAT, json=body)).status_code == 200
        told = last_params(engine)["structured_outputs"]
        assert (told["choice"], told["_backend"]) == (None, "xgrammar")
        assert told["grammar"] == 'root ::= "yes" | "no"'

    async def by_guidance(client: httpx.AsyncClient, engine: Any) -> None:
        assert (await client.post(CHAT, json=body)).status_code == 200
        told = last_params(engine)["structured_outputs"]
        assert (told["choice"], told["_backend"]) == (["yes", "no"], "guidance")

    serve(by_default)
    serve(by_guidance, engine_structured_outputs_backend="guidance")


@pytest.mark.parametrize(
    ("further", "param"),
    [
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs.json_object"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "(" * 500}}, "structured_outputs.regex"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"pattern": "(" * 500}},
                }
            },
            "response_format",
        ),
        (
            {"response_format": {"type": "structural_tag", "structures": 3}},
            "response_format",
        ),
    ],
)
def test_what_the_engine_would_fail_on_never_reaches_it(
    serve: Any, further: dict[str, Any], param: str
) -> None:
    async def test(client: httpx.AsyncClient, engine: Any) -> None:
        for path, body in bodies().items():
            response = await client.post(path, json={**body, **further})
            assert response.status_code == 400
            assert response.json()["error"]["param"] == param
            assert not engine.received
            # vLLM's render route does not look at constraints, and the fleet behind it does.
            assert (
                await client.post(f"{path}/render", json={**body, **further})
            ).status_code == 200

    serve(test)


@pytest.mark.parametrize(
    ("failure", "status", "words"),
    [
        (
            [{"code": "validation_error", "message": "Invalid structured outputs: x"}],
            400,
            "Invalid structured",
        ),
        ([{"code": "validation_error", "message": "no"}], 400, "no"),
        ([{"code": "paused", "message": "later", "retryable": True}], 503, "later"),
        ([{"code": "odd", "message": "broken"}], 500, "broken"),
        ([], 500, "structured_outputs.regex"),
    ],
)
def test_whose_fault_it_is_that_the_engine_gave_up(
    serve: Any, failure: list[Any], status: int, words: str
) -> None:
    async def test(client: httpx.AsyncClient, engine: Any) -> None:
        engine.failure = failure
        body = {**bodies()[CHAT], "structured_outputs": {"regex": "("}}
        response = await client.post(CHAT, json=body)
        assert response.status_code == status
        error = response.json()["error"]
        assert words in error["message"]
        assert error["code"] == status
        assert (error["param"] == "structured_outputs") == (status == 400)
        assert "retry-after" not in response.headers
        if not failure:
            plain = (await client.post(CHAT, json=bodies()[CHAT])).json()["error"]
            assert plain["code"] == 500
            assert "structured" not in plain["message"]

    serve(test)
