"""/v1/chat/completions and /v1/completions before an engine that shares no code with foreword."""

from __future__ import annotations

import asyncio
import json
import sys
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import zmq

sys.path.insert(0, str(Path(__file__).parent))
import fake_engine as fake

import foreword
from foreword.errors import InvalidRequest
from foreword.sampling import SamplingParams
from foreword.service.engine_stream import EngineUpdate
from foreword.service.generation import Choice
from foreword.service.input_processor import EngineRequest
from foreword.service.settings import Settings
from foreword.service.state import ServiceState
from foreword.types import EngineInput

DEMO = Path(foreword.__file__).parent / "demo" / "model"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "How many tokens is this?"}]


class Scripted:
    """An engine's mind: the tokens it answers with, whatever it is asked."""

    def __init__(self, token_ids: list[int]) -> None:
        self.token_ids = token_ids

    def __call__(self, prompt: list[int], place: int) -> int:
        return self.token_ids[place % len(self.token_ids)]


Test = Callable[[httpx.AsyncClient, Any, ServiceState], Awaitable[None]]


@pytest.fixture(scope="module")
def renderer() -> foreword.Renderer:
    return foreword.load(str(DEMO))


@pytest.fixture
def serve(make_state: Any, in_process: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(test: Test, *, answer: list[int] | None = None, **options: Any) -> None:
        if answer is not None:
            monkeypatch.setattr(fake, "answer_of", Scripted(answer))
        engine_options = options.pop("engine", {})

        async def inside() -> None:
            engine = fake.FakeEngine(**engine_options)
            state = make_state(engine_zmq=("tcp://127.0.0.1:0",), **options)
            async with asyncio.timeout(30), in_process(state) as client:
                assert state.condition == "engine"
                socket = state.engine._sockets.handshake
                await engine.come(socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode())
                while state.condition != "ready":
                    await asyncio.sleep(0.002)
                await test(client, engine, state)
            await engine.die()

        asyncio.run(inside())

    return run


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    *lines, last = [line for line in response.text.split("\n\n") if line]
    assert last == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def ids_of(renderer: foreword.Renderer, text: str) -> list[int]:
    return list(renderer.tokenizer.encode(text, add_special_tokens=False).token_ids)


def test_a_chat_is_answered_with_text_and_exactly_the_engines_ids(
    serve: Any, renderer: foreword.Renderer
) -> None:
    said = ids_of(renderer, "Seven tokens, I think 😀.")
    expected = renderer.render_chat({"messages": MESSAGES}).engine_input.token_ids.tolist()

    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {"messages": MESSAGES, "max_tokens": 99, "return_token_ids": True}
        response = await client.post(CHAT, json=body, headers={"x-request-id": "mine"})
        answer = response.json()
        (request,) = engine.requests.values()
        assert request.prompt == answer["prompt_token_ids"] == expected
        (choice,) = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": "Seven tokens, I think 😀."}
        assert choice["token_ids"] == [*said, 2]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", None)
        assert answer["usage"]["completion_tokens"] == len(said) + 1
        assert answer["usage"]["prompt_tokens"] == len(expected)
        assert (answer["id"], answer["object"]) == ("chatcmpl-mine", "chat.completion")
        assert (answer["model"], response.headers["x-request-id"]) == ("demo", "mine")

    serve(test, answer=[*said, 2])


def test_a_streamed_chat_says_the_same_piece_by_piece(
    serve: Any, renderer: foreword.Renderer
) -> None:
    said = ids_of(renderer, "a 😀 b 中文")

    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {"messages": MESSAGES, "stream": True, "return_token_ids": True}
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        first, *chunks, last = events(await client.post(CHAT, json=body))
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert first["prompt_token_ids"] == next(iter(engine.requests.values())).prompt
        texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
        assert "".join(texts) == "a 😀 b 中文"
        assert not any("\ufffd" in text for text in texts)
        ids = [one for chunk in chunks for one in chunk["choices"][0]["token_ids"]]
        assert ids == [*said, 2]
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "stop"
        assert last["choices"] == []
        assert last["usage"] == chunks[-1]["usage"]
        assert last["usage"]["completion_tokens"] == len(said) + 1
        assert len({chunk["id"] for chunk in (first, *chunks, last)}) == 1

    serve(test, answer=[*said, 2])


def test_what_the_engine_is_told_is_complete(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {
            "prompt": "x", "max_tokens": 3, "bad_words": ["the"], "priority": 4,
            "stop_token_ids": [77], "cache_salt": "s",
        }  # fmt: skip
        assert (await client.post(COMPLETIONS, json=body)).status_code == 200
        (request,) = engine.requests.values()
        params = request.params
        assert params["_eos_token_id"] == 2
        assert params["stop_token_ids"] == [77, 0]
        assert sorted(params["_all_stop_token_ids"]) == [0, 2, 77]
        assert (params["temperature"], params["top_p"]) == (0.7, 0.9)
        assert params["_bad_words_token_ids"]
        assert request.fields[fake.PRIORITY] == 4
        assert request.fields[7] == "s"

    serve(test)


def test_several_prompts_and_answers_are_in_order(serve: Any, renderer: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {"prompt": ["one", "two"], "n": 2, "seed": 5, "max_tokens": 4, "echo": True}
        answer = (await client.post(COMPLETIONS, json=body)).json()
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        texts = [choice["text"] for choice in answer["choices"]]
        assert texts[0] == texts[1] != texts[2] == texts[3]
        assert texts[0].startswith("one")
        assert texts[2].startswith("two")
        assert answer["usage"]["completion_tokens"] == 16
        assert answer["usage"]["prompt_tokens"] == sum(
            len(ids_of(renderer, text)) for text in ("one", "two")
        )
        seeds = [one.params["seed"] for one in engine.requests.values()]
        assert sorted(seeds) == [5, 5, 6, 6]
        chunks = events(await client.post(COMPLETIONS, json={**body, "stream": True}))
        for place, text in enumerate(texts):
            mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == place]
            assert "".join(choice["text"] for choice in mine) == text
            assert [one["finish_reason"] for one in mine if one["finish_reason"]] == ["length"]

    serve(test)


def test_a_stop_string_ends_the_answer_and_the_engine_is_told(
    serve: Any, renderer: foreword.Renderer
) -> None:
    said = ids_of(renderer, "count to END of it")

    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {"prompt": "x", "max_tokens": 4000, "stop": ["END"], "return_token_ids": True}
        for include, text in ((False, "count to "), (True, "count to END")):
            asked = {**body, "include_stop_str_in_output": include}
            (choice,) = (await client.post(COMPLETIONS, json=asked)).json()["choices"]
            assert (choice["text"], choice["stop_reason"]) == (text, "END")
            assert choice["finish_reason"] == "stop"
            assert choice["token_ids"] == said[: len(choice["token_ids"])]
            chunks = events(await client.post(COMPLETIONS, json={**asked, "stream": True}))
            assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == text
        while len(engine.aborted) < 4:
            await asyncio.sleep(0.002)
        assert state.engine is not None
        assert state.engine.num_in_flight == 0

    serve(test, answer=said, engine={"step_seconds": 0.001})


def test_the_token_that_ends_an_answer_counts_and_has_no_text(
    serve: Any, renderer: foreword.Renderer
) -> None:
    said = ids_of(renderer, "a!")
    assert len(said) == 2

    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {"prompt": "x", "stop_token_ids": said[1:], "return_token_ids": True}
        for include, text in ((False, "a"), (True, "a!")):
            asked = {**body, "include_stop_str_in_output": include}
            answer = (await client.post(COMPLETIONS, json=asked)).json()
            (choice,) = answer["choices"]
            assert (choice["text"], choice["token_ids"]) == (text, said)
            assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", said[1])
            assert answer["usage"]["completion_tokens"] == 2

    serve(test, answer=said)


def test_tokens_that_come_together_with_the_stop_string_but_after_it_are_left_out(
    renderer: foreword.Renderer,
) -> None:
    said = ids_of(renderer, "count to END of it")
    request = EngineRequest(
        request_id="r",
        external_id="r",
        engine_input=EngineInput(token_ids=array("I", [97])),
        sampling=SamplingParams(stop=("END",)),
    )
    choice = Choice(0, request, renderer.tokenizer)
    delta = choice.take(EngineUpdate(token_ids=said, finish_reason="length"))
    assert (delta.text, delta.finish_reason, delta.stop_reason) == ("count to ", "stop", "END")
    assert list(delta.token_ids) == said[: choice.num_tokens]
    assert renderer.tokenizer.decode(said[: choice.num_tokens]).endswith("END")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": 1, "logprob_token_ids": [10**6]}, "logprob_token_ids"),
        ({"return_block_hashes": True}, "return_block_hashes"),
        ({"stop_token_ids": [10**6]}, "stop_token_ids"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"temperature": 9}, "temperature"),
        ({"n": 600, "prompt": ["x", "y"]}, "n"),
        ({"model": "other"}, "model"),
        ({"prompt": [1] * 9000}, "input_tokens"),
    ],
)
def test_what_an_engine_would_refuse_never_reaches_it(
    serve: Any, body: dict[str, Any], param: str
) -> None:
    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        response = await client.post(COMPLETIONS, json={"prompt": "x", "stream": True, **body})
        assert response.status_code in (400, 404)
        assert response.json()["error"]["param"] == param
        assert not engine.received

    serve(test)


def test_what_is_not_done_is_said(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        tool = {"type": "function", "function": {"name": "f"}}
        for further, param in (
            ({"echo": True}, "echo"),
            ({"tools": [tool], "tool_choice": "required"}, "tool_choice"),
        ):
            response = await client.post(CHAT, json={"messages": MESSAGES, **further})
            assert response.status_code == 400
            assert response.json()["error"]["param"] == param
        assert (await client.get(CHAT)).status_code == 405

    serve(test)


def test_the_engines_context_is_what_holds(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        refused = await client.post(COMPLETIONS, json={"prompt": [5] * 64, "max_tokens": 1})
        assert refused.status_code == 400
        body = {"prompt": [5] * 60, "max_tokens": 50}
        answer = (await client.post(COMPLETIONS, json=body)).json()
        assert answer["usage"]["completion_tokens"] == 4

    serve(test, engine={"max_model_len": 64})


def test_no_engine_and_an_engine_that_dies(serve: Any) -> None:
    async def test(client: httpx.AsyncClient, engine: Any, state: ServiceState) -> None:
        body = {"prompt": "x", "max_tokens": 3000}
        asked = [
            asyncio.ensure_future(client.post(COMPLETIONS, json={**body, "stream": stream}))
            for stream in (False, True)
        ]
        while len(engine.received) < 2 or any(r.num_given < 3 for r in engine.requests.values()):
            await asyncio.sleep(0.002)
        await engine.die()
        whole, streamed = await asyncio.gather(*asked)
        assert (whole.status_code, whole.json()["error"]["type"]) == (
            503, "ServiceUnavailableError",
        )  # fmt: skip
        assert events(streamed)[-1]["error"]["code"] == 503
        assert (await client.get("/ready")).json() == {"status": "engine"}
        refused = await client.post(COMPLETIONS, json=body)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        rendered = await client.post(f"{COMPLETIONS}/render", json=body)
        assert rendered.status_code == 200
        metrics = (await client.get("/metrics")).text
        assert "foreword_engine_lost_total 1.0" in metrics
        assert "foreword_engine_ready 0.0" in metrics

    serve(test, engine={"step_seconds": 0.005})


def test_a_client_that_leaves_takes_its_requests_along(make_state: Any, running: Any) -> None:
    async def test() -> None:
        engine = fake.FakeEngine(step_seconds=0.005)
        state = make_state(engine_zmq=("tcp://127.0.0.1:0",))
        with running(state) as server:
            handshake = state.engine._sockets.handshake.get(zmq.LAST_ENDPOINT)
            await engine.come(handshake.rstrip(b"\0").decode())
            async with asyncio.timeout(20), httpx.AsyncClient(base_url=server.url) as client:
                while (await client.get("/ready")).status_code != 200:
                    await asyncio.sleep(0.01)
                body = {"prompt": ["x", "y"], "max_tokens": 3000}
                asked = asyncio.ensure_future(client.post(COMPLETIONS, json=body))
                while len(engine.received) < 2:
                    await asyncio.sleep(0.005)
                asked.cancel()
                streaming = {**body, "stream": True}
                async with client.stream("POST", COMPLETIONS, json=streaming) as response:
                    async for _ in response.aiter_lines():
                        break
                while len(engine.aborted) < 4:
                    await asyncio.sleep(0.005)
                whole = await client.post(COMPLETIONS, json={"prompt": "x", "max_tokens": 2})
                assert whole.status_code == 200
        await engine.die()

    asyncio.run(test())


def test_settings_that_do_not_go_together() -> None:
    for name, wrong in (
        ("engine_url", {"engine_url": "http://h:1", "engine_zmq": ("tcp://h:1",)}),
        ("models", {"engine_url": "http://h:1", "models": ("a=a", "b=b")}),
        ("workers", {"engine_zmq": ("tcp://h:1",), "workers": 2}),
        ("runner", {"engine_url": "http://h:1", "runner": "pooling"}),
        ("engine_client_index", {"engine_zmq": ("tcp://h:1",), "engine_client_index": 1}),
    ):
        with pytest.raises(InvalidRequest) as raised:
            Settings(**wrong)  # type: ignore[arg-type]
        assert raised.value.param == name
    with pytest.raises(InvalidRequest, match="http://"):
        ServiceState(Settings(models=("m",), engine_url="h:1"))


def test_without_an_engine_the_routes_say_what_is_missing(make_state: Any, in_process: Any) -> None:
    async def test() -> None:
        async with in_process(make_state()) as client:
            for path in (CHAT, COMPLETIONS):
                response = await client.post(path, json={})
                assert response.status_code == 501
                assert "--engine-url" in response.json()["error"]["message"]
                assert path not in (await client.get("/openapi.json")).json()["paths"]
        state = make_state(engine_url="http://127.0.0.1:9")
        async with in_process(state) as client:
            assert CHAT in (await client.get("/openapi.json")).json()["paths"]
            response = await client.post(CHAT, json={"messages": MESSAGES})
            assert response.status_code == 503

    asyncio.run(test())
