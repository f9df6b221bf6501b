"""The HTTP surface: routes, errors in the client's dialect, keys, names, limits, headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import foreword
from foreword.service.models import load_models
from foreword.service.settings import Settings
from foreword.service.state import ServiceState

CHAT = "/v1/chat/completions/render"
COMPLETIONS = "/v1/completions/render"
MESSAGES = [{"role": "user", "content": "How many tokens is this?"}]
Test = Callable[[httpx.AsyncClient], Awaitable[None]]


@pytest.fixture
def serve(make_state: Any, in_process: Any) -> Callable[..., None]:
    def run(test: Test, state: ServiceState | None = None, **settings: Any) -> None:
        async def inside() -> None:
            async with in_process(state or make_state(**settings)) as client:
                await test(client)

        asyncio.run(inside())

    return run


@pytest.fixture(scope="module")
def renderer() -> foreword.Renderer:
    return foreword.load(str(Path(foreword.__file__).parent / "demo" / "model"))


def test_a_chat_gets_the_librarys_ids_and_the_numbers_in_headers(
    serve: Any, renderer: foreword.Renderer
) -> None:
    request = {"model": "demo", "messages": MESSAGES, "max_tokens": 5}
    expected = renderer.render_chat(request).engine_input

    async def test(client: httpx.AsyncClient) -> None:
        response = await client.post(CHAT, json=request, headers={"X-Request-Id": "r-1"})
        assert response.status_code == 200
        body = response.json()
        assert body["token_ids"] == expected.token_ids.tolist()
        assert body["request_id"] == "chatcmpl-r-1"
        assert body["sampling_params"]["max_tokens"] == 5
        assert response.headers["x-request-id"] == "r-1"
        assert response.headers["x-foreword-chars"] == str(expected.num_chars)
        assert response.headers["x-foreword-tokens"] == str(len(expected.token_ids))
        assert response.headers["x-foreword-truncated"] == "0"
        assert len(response.headers["x-foreword-fingerprint"]) == 64

    serve(test)


def test_an_id_never_becomes_a_header_of_the_clients_own(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for request_id in ("a\r\nset-cookie: b=c", "é", "\x00"):
            request = {"messages": MESSAGES, "request_id": request_id}
            response = await client.post(CHAT, json=request)
            assert response.json()["request_id"] == f"chatcmpl-{request_id}"
            assert "x-request-id" not in response.headers

    serve(test)


def test_a_cut_is_told(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        whole = await client.post(CHAT, json={"messages": MESSAGES})
        num_tokens = int(whole.headers["x-foreword-tokens"])
        request = {"messages": MESSAGES, "truncate_prompt_tokens": 4, "truncation_side": "right"}
        cut = await client.post(CHAT, json=request)
        assert cut.headers["x-foreword-tokens"] == "4"
        number, *notes = cut.headers["x-foreword-truncated"].split(";")
        assert "side=right" in notes
        assert int(number) == num_tokens - 4 or "at-least" in notes

    serve(test)


def test_several_prompts_are_a_list_in_order(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        request = {"prompt": ["one", "two three"], "request_id": "mine"}
        response = await client.post(COMPLETIONS, json=request)
        first, second = response.json()
        assert [first["request_id"], second["request_id"]] == ["cmpl-mine-0", "cmpl-mine-1"]
        total = len(first["token_ids"]) + len(second["token_ids"])
        assert response.headers["x-foreword-tokens"] == str(total)

    serve(test)


def test_tokenize_and_back_and_the_number_alone(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        request = {"model": "demo", "prompt": "Hello there"}
        tokens = (await client.post("/tokenize", json=request)).json()
        assert tokens["count"] == len(tokens["tokens"]) > 0
        counted = await client.post("/tokenize", json={**request, "count_only": True})
        assert counted.json() == {"count": tokens["count"]}
        back = await client.post("/detokenize", json={"tokens": tokens["tokens"]})
        assert back.json() == {"prompt": "Hello there"}

    serve(test)


def test_what_the_openai_client_sends_is_accepted(serve: Any) -> None:
    chat = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "model": "demo", "frequency_penalty": 0, "logit_bias": {}, "logprobs": False,
        "max_completion_tokens": 10, "metadata": {"a": "b"}, "modalities": ["text"], "n": 1,
        "parallel_tool_calls": True, "presence_penalty": 0, "response_format": {"type": "text"},
        "seed": 1, "service_tier": "auto", "stop": ["x"], "store": False, "stream": True,
        "stream_options": {"include_usage": True}, "temperature": 1, "tool_choice": "auto",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "top_p": 1, "user": "u",
    }  # fmt: skip
    completion = {
        "model": "demo", "prompt": "hi", "best_of": 1, "echo": False, "frequency_penalty": 0,
        "logit_bias": {}, "logprobs": None, "max_tokens": 5, "n": 1, "presence_penalty": 0,
        "seed": 1, "stop": "x", "stream": False, "suffix": None, "temperature": 0, "top_p": 1,
        "user": "u",
    }  # fmt: skip

    async def test(client: httpx.AsyncClient) -> None:
        for path, body in ((CHAT, chat), (COMPLETIONS, completion)):
            response = await client.post(path, json=body)
            assert response.status_code == 200, response.text

    serve(test)


def test_the_small_routes(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).json() == {"status": "ready"}
        assert (await client.get("/version")).json() == {"version": foreword.__version__}
        (card,) = (await client.get("/v1/models")).json()["data"]
        assert (await client.get(f"/v1/models/{card['id']}")).json() == card
        assert (await client.get("/v1/models/nobody")).status_code == 404
        assert (card["id"], card["object"]) == ("demo", "model")
        assert card["max_model_len"] > 0
        info = (await client.get("/tokenizer_info")).json()
        assert info["chat_template"]
        assert info["tokenizer_class"]
        await client.post(CHAT, json={"messages": MESSAGES})
        metrics = (await client.get("/metrics")).text
        assert (
            'foreword_answers_total{route="/v1/chat/completions/render",status="200"} 1' in metrics
        )
        for stage in ("parse", "conversation", "template", "tokenize", "budget", "serialise"):
            assert f'foreword_stage_seconds_count{{model="demo",stage="{stage}"}}' in metrics
        assert "_created" not in metrics

    serve(test)


def test_the_docs_need_no_network(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        description = (await client.get("/openapi.json")).json()
        assert description["openapi"].startswith("3.")
        schemas = description["components"]["schemas"]
        assert "messages" in schemas["ChatCompletionRequest"]["properties"]
        references = [part.split('"')[0] for part in json.dumps(description).split('"$ref": "')[1:]]
        for reference in references:
            assert reference.removeprefix("#/components/schemas/") in schemas
        page = await client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert CHAT in page.text
        for word in ("http://", "https://", "<script", "src="):
            assert word not in page.text

    serve(test)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/derender",
        "/v1/completions/derender",
        "/v1/messages/render",
        "/v1/responses/render",
    ],
)
def test_what_is_not_there_yet_says_so_by_name(serve: Any, path: str) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        error = (await client.post(path, json={})).json()["error"]
        assert (error["code"], error["type"]) == (501, "NotImplementedError")
        assert path in error["message"]

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "param", "words"),
    [
        ("POST", CHAT, {"json": {"model": "nope", "messages": MESSAGES}}, 404, "model", "demo"),
        ("POST", CHAT, {"content": b"{"}, 400, None, "not valid JSON"),
        ("POST", CHAT, {"json": {"messages": "x"}}, 400, "messages", ""),
        ("POST", CHAT, {"content": b"{}", "headers": {"content-type": "text/plain"}}, 400, None,
         "application/json"),
        ("POST", CHAT, {"json": {"messages": MESSAGES, "chat_template": "{{ 1 }}"}}, 400,
         None, "trust"),
        ("POST", CHAT, {"json": {"messages": MESSAGES}, "headers": {"x-request-id": "i" * 300}},
         400, None, "300 characters"),
        ("POST", "/nowhere", {}, 404, None, "No such route"),
        ("GET", CHAT, {}, 405, None, "POST"),
        ("POST", "/health", {}, 405, None, "GET"),
    ],
)  # fmt: skip
def test_errors(
    serve: Any, method: str, path: str, options: Any, status: int, param: str | None, words: str
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        response = await client.request(method, path, **options)
        error = response.json()["error"]
        assert response.status_code == error["code"] == status
        assert set(error) == {"message", "type", "param", "code"}
        assert error["param"] == param
        assert words in error["message"]

    serve(test)


DEEP: Any = "x"
for _ in range(40):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("setting", "limit", "path", "body", "status", "param"),
    [
        ("max_body_bytes", 100, CHAT, {"messages": MESSAGES, "user": "u" * 200}, 413, None),
        ("max_messages", 1, CHAT, {"messages": MESSAGES * 2}, 400, "messages"),
        ("max_parts", 2, CHAT, {"messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}] * 3}]}, 400, "messages"),
        ("max_prompt_chars", 50, CHAT, {"messages": [
            {"role": "user", "content": "a" * 60}]}, 400, "messages"),
        ("max_prompt_chars", 50, COMPLETIONS, {"prompt": "a" * 60}, 400, "prompt"),
        ("max_prompt_chars", 50, "/tokenize", {"prompt": "a" * 60}, 400, "prompt"),
        ("max_tools_bytes", 50, CHAT, {"messages": MESSAGES, "tools": [
            {"type": "function", "function": {"name": "f" * 60, "parameters": {}}}]}, 400, "tools"),
        ("max_prompts", 2, COMPLETIONS, {"prompt": ["a", "b", "c"]}, 400, "prompt"),
        ("max_detokenize_tokens", 2, "/detokenize", {"tokens": [1, 2, 3]}, 400, "tokens"),
        ("max_nesting", 20, CHAT, {"messages": MESSAGES, "chat_template_kwargs": {"a": DEEP}},
         400, None),
        ("max_template_output_chars", 1, CHAT, {"messages": MESSAGES}, 400, None),
        ("max_template_work", 1, CHAT, {"messages": MESSAGES * 50}, 400, None),
    ],
)  # fmt: skip
def test_limits(
    serve: Any, setting: str, limit: int, path: str, body: Any, status: int, param: str | None
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        response = await client.post(path, json=body)
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (status, param), error
        assert str(limit) in error["message"]

    serve(test, **{setting: limit}, warm_up=False)


def test_keys_guard_every_route_but_two(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        closed = ("/v1/models", "/version", "/metrics", "/docs", "/openapi.json", "/nowhere",
                  "/tokenizer_info", CHAT, "/tokenize")  # fmt: skip
        for path in closed:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "two"}):
                response = await client.get(path, headers=headers)
                assert response.status_code == 401, path
                assert response.headers["www-authenticate"] == "Bearer"
        for path in ("/health", "/ready"):
            assert (await client.get(path)).status_code == 200
        for key in ("one", "two"):
            headers = {"authorization": f"Bearer {key}"}
            assert (await client.get("/v1/models", headers=headers)).status_code == 200
            body = {"messages": MESSAGES}
            assert (await client.post(CHAT, json=body, headers=headers)).status_code == 200

    serve(test, api_keys=("one", "two"))


def test_several_models_by_name_and_alias(serve: Any, make_state: Any) -> None:
    folder = str(Path(foreword.__file__).parent / "demo" / "model")
    settings = Settings(models=(f"a={folder}", f"b={folder}"), aliases=("c=b",), max_model_len=100)

    async def test(client: httpx.AsyncClient) -> None:
        cards = (await client.get("/v1/models")).json()["data"]
        assert [(card["id"], card["root"]) for card in cards] == [
            ("a", "a"),
            ("b", "b"),
            ("c", "b"),
        ]
        for name in ("a", "b", "c"):
            response = await client.post(CHAT, json={"model": name, "messages": MESSAGES})
            assert response.json()["model"] == name
        response = await client.post(CHAT, json={"model": "d", "messages": MESSAGES})
        assert response.status_code == 404
        assert "a, b, c" in response.json()["error"]["message"]
        assert folder not in response.text
        # As a vLLM server does, it also goes by what it was loaded from.
        response = await client.post(CHAT, json={"model": folder, "messages": MESSAGES})
        assert response.status_code == 200

    serve(test, ServiceState(settings))


def test_names_that_do_not_fit_together() -> None:
    for settings, words in (
        (Settings(), "No model"),
        (Settings(models=("a=x", "a=y")), "Two models"),
        (Settings(models=("a=x", "b=y"), aliases=("c",)), "ALIAS=NAME"),
        (Settings(models=("=x",)), "NAME=MODEL"),
    ):
        with pytest.raises(foreword.ForewordError, match=words):
            load_models(settings, load_one=lambda *_, **__: None)  # type: ignore[arg-type,return-value]


def test_ids_an_earlier_leg_forwards_are_not_made_again(serve: Any) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        transfer = {"prompt_token_ids": [5, 6, 7], "remote": "host"}
        request = {"messages": MESSAGES, "kv_transfer_params": transfer}
        body = (await client.post(CHAT, json=request)).json()
        assert body["token_ids"] == [5, 6, 7]
        assert body["kv_transfer_params"] == {"remote": "host"}
        plain = (await client.post(CHAT, json={"messages": MESSAGES})).json()
        echo = (await client.post(CHAT, json={**request, "echo": True})).json()
        assert echo["token_ids"] == plain["token_ids"]
        for ids in ([], [True], [-1], "x", [10**9]):
            transfer = {"prompt_token_ids": ids}
            response = await client.post(CHAT, json={**request, "kv_transfer_params": transfer})
            error = response.json()["error"]
            assert error["param"] == "kv_transfer_params.prompt_token_ids"
            assert response.status_code == 400

    serve(test)


def test_until_the_models_are_loaded_it_is_alive_and_not_ready(make_state: Any) -> None:
    from foreword.service.http import Service

    async def test() -> None:
        state = make_state()
        transport = httpx.ASGITransport(Service(state))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            assert (await client.get("/health")).status_code == 200
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()) == (503, {"status": "loading"})
            for response in (
                await client.post(CHAT, json={"messages": MESSAGES}),
                await client.get("/v1/models"),
            ):
                assert response.status_code == 503
                assert response.headers["retry-after"] == "1"

    asyncio.run(test())


@pytest.mark.parametrize("asked", [False, True])
def test_prompts_are_logged_only_when_asked_for(
    serve: Any, caplog: pytest.LogCaptureFixture, asked: bool
) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        body = {"messages": [{"role": "user", "content": "a secret"}]}
        await client.post(CHAT, json=body)
        await client.post(CHAT, json={**body, "truncate_prompt_tokens": -5})

    with caplog.at_level("DEBUG", logger="foreword"):
        serve(test, log_prompts=asked, log_requests=True)
    assert ("secret" in repr([vars(record) for record in caplog.records])) == asked


def test_an_own_fault_says_nothing_of_the_prompt(
    serve: Any, make_state: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from foreword.service.work import Work

    def fail(work: Work, body: bytes, request_id: str) -> None:
        raise KeyError(body.decode())

    monkeypatch.setattr(Work, "chat", fail)

    async def test(client: httpx.AsyncClient) -> None:
        response = await client.post(CHAT, json={"messages": [{"content": "secret"}]})
        assert response.status_code == 500
        assert "secret" not in response.text

    serve(test, warm_up=False)
    fields = [record.__dict__["fields"] for record in caplog.records if "fields" in vars(record)]
    assert any(one.get("error") == "KeyError" for one in fields)
    assert "secret" not in repr(fields)
