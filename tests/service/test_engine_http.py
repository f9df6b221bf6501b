"""The client of vLLM's /inference/v1/generate, against a server that is played by hand."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from foreword.errors import ForewordError, InvalidRequest, Overloaded, ServiceError
from foreword.sampling import OutputKind, SamplingParams
from foreword.service.engine_http import HttpEngineClient
from foreword.service.engine_stream import EngineStream
from foreword.service.input_processor import EngineRequest
from foreword.types import EngineInput


class Server(httpx.AsyncBaseTransport):
    """Answers `lines` to /inference/v1/generate; `rest` is awaited before the last of them."""

    def __init__(self, *lines: str, status: int = 200, health: int = 200) -> None:
        self.lines = lines
        self.status = status
        self.health = health
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []
        self.num_closed = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.health == 0:
            raise httpx.ConnectError("nobody is there")
        if request.url.path == "/health":
            return httpx.Response(self.health)
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "m", "max_model_len": 512}]})
        assert request.url.path == "/inference/v1/generate"
        self.bodies.append(json.loads(await request.aread()))
        self.headers.append(request.headers)
        return httpx.Response(self.status, stream=Lines(self))


class Lines(httpx.AsyncByteStream):
    def __init__(self, server: Server) -> None:
        self.server = server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self.server.lines[:-1]:
            yield line.encode()
        await self.server.goes_on.wait()
        for line in self.server.lines[-1:]:
            yield line.encode()

    async def aclose(self) -> None:
        self.server.num_closed += 1


def chunk(*token_ids: int, **end: Any) -> str:
    choice = {"index": 0, "token_ids": list(token_ids), "logprobs": None, **end}
    return f"data: {json.dumps({'request_id': 'r', 'choices': [choice]})}\n\n"


DONE = "data: [DONE]\n\n"


def make_request(name: str = "r") -> EngineRequest:
    return EngineRequest(
        request_id=name,
        external_id=name,
        engine_input=EngineInput(token_ids=array("I", [1, 2, 3]), cache_salt="salt"),
        sampling=SamplingParams(max_tokens=16, stop=("x",), stop_token_ids=(9,)),
        priority=2,
        trace_headers={"traceparent": "00-1"},
    )


async def collect(stream: EngineStream) -> tuple[list[int], str | None, Any]:
    token_ids: list[int] = []
    reason, stop = None, None
    async for update in stream:
        token_ids += update.token_ids
        reason, stop = update.finish_reason, update.stop_reason
    return token_ids, reason, stop


def run(
    server: Callable[[], Server],
    test: Callable[[HttpEngineClient, Server], Awaitable[None]],
    **options: Any,
) -> None:
    async def inside() -> None:
        transport = server()
        client = HttpEngineClient("http://engine/", transport=transport, **options)
        async with asyncio.timeout(20):
            await client.start()
            await test(client, transport)
            await client.close()

    asyncio.run(inside())


def test_ids_go_as_they_are_and_tokens_come_as_they_come() -> None:
    async def test(client: HttpEngineClient, server: Server) -> None:
        answer = await collect(await client.submit(make_request()))
        assert answer == ([5, 6, 9], "stop", 9)
        (body,) = server.bodies
        assert body["token_ids"] == [1, 2, 3]
        assert (body["stream"], body["cache_salt"], body["priority"]) == (True, "salt", 2)
        params = body["sampling_params"]
        # 16 is also what a missing number would not mean to the server.
        assert (params["max_tokens"], params["stop"], params["stop_token_ids"]) == (16, [], [9])
        assert server.headers[0]["authorization"] == "Bearer key"
        assert server.headers[0]["traceparent"] == "00-1"
        assert client.num_in_flight == 0

    end = chunk(9, finish_reason="stop", stop_reason=9)
    run(lambda: Server(": ping\n\n", chunk(5), chunk(6), end, DONE), test, api_key="key")


def scored(token: int, rank: int, *candidates: tuple[int, int]) -> dict[str, Any]:
    top = [{"token_id": one, "logprob": -float(place), "rank": place} for one, place in candidates]
    return {"token_id": token, "logprob": -float(rank), "rank": rank, "top_logprobs": top}


@pytest.mark.parametrize(
    ("number", "asked", "limit"),
    [
        (None, None, 20),
        (0, 0, 20),
        (2, 3, 20),
        (19, 20, 20),
        (20, 20, 20),
        (20, 21, -1),
        (-1, -1, -1),
    ],
)
def test_logprobs_are_asked_for_and_told(number: int | None, asked: int | None, limit: int) -> None:
    content = [scored(7, 9, (7, 9), (1, 1), (2, 2), (3, 3)), scored(1, 1, (1, 1), (2, 2), (3, 3))]
    first = chunk(7, 1, logprobs={"content": content})

    async def test(client: HttpEngineClient, server: Server) -> None:
        request = make_request()
        request = replace(request, sampling=SamplingParams(max_tokens=2, logprobs=number))
        stream = await client.submit(request)
        scores = [one async for update in stream for one in update.scores]
        assert server.bodies[0]["sampling_params"].get("logprobs") == asked
        assert scores == [
            ([7, 1, 2, 3], [-9.0, -1.0, -2.0, -3.0], [9, 1, 2, 3]),
            ([1, 2, 3], [-1.0, -2.0, -3.0], [1, 2, 3]),
        ]

    run(lambda: Server(first, chunk(finish_reason="length"), DONE), test, max_logprobs=limit)


def test_the_server_is_looked_after() -> None:
    async def test(client: HttpEngineClient, server: Server) -> None:
        while client.max_model_len is None:
            await asyncio.sleep(0.005)
        assert (client.condition, client.max_model_len) == ("ready", 512)

    run(Server, test)

    async def not_well(client: HttpEngineClient, server: Server) -> None:
        while client.condition.startswith("waiting"):
            await asyncio.sleep(0.005)
        assert client.condition == "/health says 503"

    run(lambda: Server(health=503), not_well)


@pytest.mark.parametrize(
    ("server", "error", "words"),
    [
        (lambda: Server('{"error":{"message":"too hot"}}', status=400), InvalidRequest, "too hot"),
        (lambda: Server("busy", status=503), Overloaded, "status 503"),
        (lambda: Server("{}", status=500), ServiceError, "500"),
        (lambda: Server(health=0), ServiceError, "ConnectError"),
    ],
)
def test_what_the_server_refuses(
    server: Callable[[], Server], error: type[ForewordError], words: str
) -> None:
    async def test(client: HttpEngineClient, server: Server) -> None:
        with pytest.raises(error, match=words):
            await client.submit(make_request())
        assert client.num_in_flight == 0

    run(server, test)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((chunk(5),), "before it was complete"),
        ((chunk(5), DONE), "before it was complete"),
        ((chunk(5), 'data: {"error":{"message":"out of luck"}}\n\n', DONE), "out of luck"),
        ((chunk(5), "data: nonsense\n\n"), "cannot be read"),
        ((chunk(5), chunk(finish_reason="error")), "own log"),
    ],
)
def test_what_ends_badly(lines: tuple[str, ...], words: str) -> None:
    async def test(client: HttpEngineClient, server: Server) -> None:
        stream = await client.submit(make_request())
        assert list((await anext(stream)).token_ids) == [5]
        with pytest.raises(ServiceError, match=words):
            await anext(stream)

    run(lambda: Server(*lines), test)


@pytest.mark.parametrize(
    ("code", "status"),
    [(400, 400), (422, 400), (413, 400), (429, 503), (503, 503), (502, 503), (500, 500),
     (None, 500), ("odd", 500)],
)  # fmt: skip
def test_an_error_keeps_its_status_wherever_it_was_told(code: Any, status: int) -> None:
    fault = json.dumps({"error": {"message": "bad regex", "code": code, "param": "regex"}})

    async def in_a_stream(client: HttpEngineClient, server: Server) -> None:
        stream = await client.submit(make_request())
        with pytest.raises(ForewordError, match="bad regex") as caught:
            await anext(stream)
        assert caught.value.status == status
        assert caught.value.param == ("regex" if status == 400 else None)

    async def at_once(client: HttpEngineClient, server: Server) -> None:
        with pytest.raises(ForewordError, match="bad regex") as caught:
            await client.submit(make_request())
        assert caught.value.status == status

    run(lambda: Server(f"data: {fault}\n\n", DONE), in_a_stream)
    if isinstance(code, int):
        run(lambda: Server(fault, status=code), at_once)


@pytest.mark.parametrize(
    ("sampling", "kv", "is_whole"),
    [
        ({}, {"do_remote_decode": True}, True),
        ({"output_kind": OutputKind.DELTA}, {"do_remote_decode": True}, True),
        ({"output_kind": OutputKind.FINAL_ONLY}, {"do_remote_prefill": True}, True),
        ({"output_kind": OutputKind.DELTA}, {"do_remote_prefill": True}, False),
        ({"output_kind": OutputKind.FINAL_ONLY, "stop": ("x",)}, {"do": 1}, False),
        ({"output_kind": OutputKind.FINAL_ONLY}, None, False),
    ],
)
def test_transfer_parameters_go_and_come_back(
    sampling: dict[str, Any], kv: dict[str, Any] | None, is_whole: bool
) -> None:
    answer = {
        "request_id": "r", "kv_transfer_params": {"port": 1}, "ec_transfer_params": {"e": 2},
        "choices": [{"index": 0, "token_ids": [5, 6], "finish_reason": "length"}],
    }  # fmt: skip

    async def test(client: HttpEngineClient, server: Server) -> None:
        request = replace(
            make_request(), sampling=SamplingParams(**sampling), kv_transfer_params=kv
        )
        (update,) = [one async for one in await client.submit(request)]
        assert (list(update.token_ids), update.finish_reason) == ([5, 6], "length")
        assert (update.kv_transfer_params, update.ec_transfer_params) == ({"port": 1}, {"e": 2})
        (body,) = server.bodies
        assert body["stream"] is not is_whole
        assert body["kv_transfer_params"] == kv

    text = json.dumps(answer)
    run(lambda: Server(text if is_whole else f"data: {text}\n\n"), test)


def test_who_leaves_closes_the_connection() -> None:
    async def test(client: HttpEngineClient, server: Server) -> None:
        server.goes_on.clear()
        stream = await client.submit(make_request())
        await anext(stream)
        assert client.num_in_flight == 1
        stream.close()
        while client.num_in_flight:
            await asyncio.sleep(0.005)
        assert server.num_closed == 1

    run(lambda: Server(chunk(5), DONE), test)


def test_too_many_are_refused_and_the_end_fails_what_is_open() -> None:
    async def test(client: HttpEngineClient, server: Server) -> None:
        server.goes_on.clear()
        stream = await client.submit(make_request())
        with pytest.raises(Overloaded, match="at most 1"):
            await client.submit(make_request("s"))
        await anext(stream)
        await client.close()
        with pytest.raises(ServiceError, match="shutting down"):
            await anext(stream)
        with pytest.raises(Overloaded):
            await client.submit(make_request("late"))

    run(lambda: Server(chunk(5), DONE), test, max_requests=1)
