"""Engine requests enter; their tokens leave as they come: the client of /inference/v1/generate.

Rules of this file: requests are streamed, so that tokens come as soon as there are any and a
client that leaves ends the engine's work. Text is made here, so stop strings are not sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec

from foreword.engines.vllm_generate import GenerateRequest, to_json
from foreword.errors import (
    EngineFailed,
    ForewordError,
    InvalidRequest,
    Overloaded,
    ServiceError,
)
from foreword.sampling import OutputKind
from foreword.sampling.limits import MAX_LOGPROBS
from foreword.service.engine_stream import EngineStream, EngineUpdate, TokenScores
from foreword.service.input_processor import EngineRequest
from foreword.service.logs import log
from foreword.service.refusals import shutting_down

PATH = "/inference/v1/generate"
LOOK_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_END = "[DONE]"
_CALLERS_FAULTS = (
    httpx.codes.BAD_REQUEST,
    httpx.codes.REQUEST_ENTITY_TOO_LARGE,
    httpx.codes.UNPROCESSABLE_ENTITY,
)


class _Candidate(msgspec.Struct):
    token_id: int
    logprob: float
    rank: int | None = None


class _Position(_Candidate):
    top_logprobs: list[_Candidate] = []


class _Logprobs(msgspec.Struct):
    content: list[_Position] | None = None


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: _Logprobs | None = None


class _Fault(msgspec.Struct):
    message: str = ""
    param: str | None = None
    code: int | str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    error: _Fault | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None


class _Model(msgspec.Struct):
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


class HttpEngineClient:
    """A vLLM server that generates from token ids."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        max_requests: int = 1024,
        silence_seconds: float = 300.0,
        max_logprobs: int = MAX_LOGPROBS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.num_dropped = 0
        self.num_lost = 0
        self._max_requests = max_requests
        self._max_logprobs = max_logprobs
        self._condition = "waiting for the engine's server"
        self._max_model_len: int | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/"),
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            transport=transport,
            timeout=httpx.Timeout(silence_seconds or None, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx.Limits(max_connections=max_requests + 1, max_keepalive_connections=64),
        )

    @property
    def condition(self) -> str:
        """`ready` while the server says that it is well."""
        return self._condition

    @property
    def max_model_len(self) -> int | None:
        """The context length the server told."""
        return self._max_model_len

    @property
    def num_in_flight(self) -> int:
        """Requests whose answers are coming."""
        return len(self._tasks)

    async def start(self) -> None:
        """Begin to look after the server."""
        self._looking = asyncio.ensure_future(self._look())

    async def close(self) -> None:
        """End all answers and connections. Safe to call twice."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()

    async def submit(self, request: EngineRequest) -> EngineStream:
        """Send a request; return once the server has accepted it.

        Raises: `InvalidRequest` when the server refuses the request, `Overloaded` when it can't
        take it now, `ServiceError` when it fails or is not there.
        """
        if self._is_closed:
            raise shutting_down()
        if len(self._tasks) >= self._max_requests:
            raise Overloaded(
                f"The engine has {len(self._tasks)} requests of this front end, at most"
                f" {self._max_requests} are allowed (max_engine_requests). Retry in 1 s.",
                details={"num_in_flight": len(self._tasks), "retry_after_seconds": 1},
            )
        stream = EngineStream(request.request_id, self._give_up)
        accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._read(request, stream, accepted))
        self._tasks[request.request_id] = task
        try:
            await accepted
        except asyncio.CancelledError:
            stream.close()
            raise
        return stream

    def _give_up(self, stream: EngineStream) -> None:
        task = self._tasks.get(stream.request_id)
        if task is not None:
            task.cancel()  # the connection closes, which ends the request at the server

    async def _read(
        self, request: EngineRequest, stream: EngineStream, accepted: asyncio.Future[None]
    ) -> None:
        """Send the request and pass on its answer, to its end or failure."""
        try:
            async with self._http.stream(
                "POST", PATH, content=_body(request, self._max_logprobs), headers=_headers(request)
            ) as response:
                if response.status_code != httpx.codes.OK:
                    await response.aread()
                    raise _refusal(response.status_code, response.content)
                if not accepted.done():
                    accepted.set_result(None)
                if _is_whole(request):
                    self._take(_decoded(await response.aread()), stream)
                else:
                    async for chunk in _events(response):
                        self._take(chunk, stream)
                if not stream.is_over:
                    raise ServiceError(
                        "The engine's server ended the answer before it was complete."
                    )
        except (httpx.HTTPError, ForewordError) as error:
            told = error if isinstance(error, ForewordError) else _broken(error)
            self.num_lost += not isinstance(error, ForewordError)
            if accepted.done():
                stream.fail(told)
            else:
                accepted.set_exception(told)
        except asyncio.CancelledError:
            stream.fail(shutting_down())
            accepted.cancel()
            raise
        finally:
            self._tasks.pop(request.request_id, None)

    def _take(self, chunk: _Chunk, stream: EngineStream) -> None:
        """Pass on what the server said.

        Raises: what the server failed with.
        """
        if chunk.error is not None:
            raise _failure(chunk.error.code, chunk.error)
        for choice in chunk.choices:
            if choice.finish_reason == "error":
                raise EngineFailed("The engine gave the request up; its own log says why.")
            update = EngineUpdate(
                token_ids=choice.token_ids or (),
                finish_reason=choice.finish_reason,
                stop_reason=choice.stop_reason,
                scores=_scores(choice.logprobs),
                kv_transfer_params=chunk.kv_transfer_params,
                ec_transfer_params=chunk.ec_transfer_params,
            )
            self.num_dropped += not stream.push(update)

    async def _look(self) -> None:
        """Keep `condition` true."""
        while True:
            before = self._condition
            try:
                response = await self._http.get("/health", timeout=_CONNECT_SECONDS)
                is_well = response.status_code == httpx.codes.OK
                self._condition = "ready" if is_well else f"/health says {response.status_code}"
                if is_well and self._max_model_len is None:
                    models = await self._http.get("/v1/models", timeout=_CONNECT_SECONDS)
                    with contextlib.suppress(msgspec.MsgspecError):
                        told = msgspec.json.decode(models.content, type=_Models).data
                        self._max_model_len = told[0].max_model_len if told else None
            except httpx.HTTPError as error:
                self._condition = f"the engine's server is not there ({type(error).__name__})"
            if self._condition != before:
                log(logging.INFO, "engine", condition=self._condition)
            await asyncio.sleep(LOOK_SECONDS)


def _scores(logprobs: _Logprobs | None) -> list[TokenScores]:
    made = []
    for position in (logprobs and logprobs.content) or ():
        top = [one for one in position.top_logprobs if one.token_id != position.token_id]
        tokens = [position, *top]
        made.append(
            TokenScores(
                [one.token_id for one in tokens],
                [one.logprob for one in tokens],
                [one.rank for one in tokens],
            )
        )
    return made


def _body(request: EngineRequest, max_logprobs: int) -> bytes:
    # This front end makes the text, so it finds the stop strings; a server without a tokenizer
    # would refuse them.
    sampling = request.sampling.replace(stop=(), include_stop_str_in_output=False)
    number = sampling.logprobs or 0
    if number > 0 and (number < max_logprobs or max_logprobs == -1):
        # vLLM 0.32 counts the chosen token among the likeliest, also when it is none of them.
        sampling = sampling.replace(logprobs=number + 1)
    media = request.media
    return to_json(
        GenerateRequest(
            request_id=request.request_id,
            token_ids=request.engine_input.token_ids if media is None else media.token_ids,
            content_parts=None if media is None else media.parts,
            sampling_params=sampling,
            stream=not _is_whole(request),
            cache_salt=request.engine_input.cache_salt,
            priority=request.priority,
            kv_transfer_params=request.kv_transfer_params,
            ec_transfer_params=request.ec_transfer_params,
        )
    )


def _is_whole(request: EngineRequest) -> bool:
    """Say whether the answer shall come as one, since a stream has no transfer parameters.

    Why: they are what the client's next leg needs. Where it needs none it may want a stream, and
    stop strings are only found in one.
    """
    params: Mapping[str, Any] = request.kv_transfer_params or {}
    if params.get("do_remote_decode"):
        return True
    is_streamed = request.sampling.output_kind != OutputKind.FINAL_ONLY
    has_some = bool(params or request.ec_transfer_params)
    return has_some and not is_streamed and not request.sampling.stop


def _headers(request: EngineRequest) -> dict[str, str]:
    return {"content-type": "application/json", **(request.trace_headers or {})}


async def _events(response: httpx.Response) -> AsyncIterator[_Chunk]:
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        if name != "data":
            continue
        value = value.strip()
        if value == _END:
            return
        yield _decoded(value)


def _decoded(value: str | bytes) -> _Chunk:
    try:
        return msgspec.json.decode(value, type=_Chunk)
    except msgspec.MsgspecError as error:
        raise ServiceError(
            f"The engine's server sent what cannot be read: {error}. Is it vLLM's {PATH}?"
        ) from None


def _refusal(status: int, content: bytes) -> ForewordError:
    try:
        fault = msgspec.json.decode(content, type=_Chunk).error
    except msgspec.MsgspecError:
        fault = None
    return _failure(status, fault)


def _failure(status: int | str | None, fault: _Fault | None) -> ForewordError:
    """Return what a server's error is here, by its status, wherever that was told."""
    text = fault.message if fault is not None else f"status {status}"
    param = fault.param if fault is not None else None
    if status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
        return Overloaded(
            f"The engine's server takes no request now: {text}. Retry in 1 s.",
            details={"retry_after_seconds": 1},
        )
    if status in _CALLERS_FAULTS:
        return InvalidRequest(f"The engine's server refused the request: {text}", param=param)
    # Between this service and the server: it was not the request's doing.
    is_between = status in (httpx.codes.BAD_GATEWAY, httpx.codes.GATEWAY_TIMEOUT)
    kind = ServiceError if is_between else EngineFailed
    return kind(f"The engine's server failed ({status}): {text}", details={"engine_status": status})


def _broken(error: httpx.HTTPError) -> ServiceError:
    return ServiceError(
        f"The connection to the engine's server failed ({type(error).__name__})."
        " Send the request again.",
        details={"retry_after_seconds": 1},
    )
