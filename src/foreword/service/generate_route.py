"""A POST of /v1/chat/completions or /v1/completions enters; the engine's answer is sent.

Rules of this file: nothing is sent before the engine has said something, so what fails until then
has a status of its own. Whoever leaves takes its requests along. Every stream ends with `[DONE]`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from foreword.errors import ForewordError, ServiceError
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.service.answers import (
    CLOSE,
    Answer,
    Header,
    Receive,
    Scope,
    Send,
    error_answer,
    send_answer,
    unexpected,
)
from foreword.service.bodies import BodyRefused, ClientLeft, Head, read_body, read_head
from foreword.service.engine_stream import EngineClient, EngineStream, EngineUpdate
from foreword.service.generation import Choice, ChoiceDelta, Generation, GenerationBody
from foreword.service.generation_bodies import (
    WholeAnswer,
    delta_chunk,
    error_chunk,
    first_chunk,
    joined,
    last_chunks,
    whole_body,
)
from foreword.service.logs import log
from foreword.service.media_step import Arrived, fetch_media, may_hold_media, tenant_of
from foreword.service.state import ServiceState

_EVENTS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
Step = tuple[Choice, ChoiceDelta]


class GenerateRoute:
    """One path: renders the prompts, has the engine answer, and answers with text and ids."""

    def __init__(self, path: str, state: ServiceState, kind: type[GenerationBody]) -> None:
        self.path = path
        self._state = state
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        state, started = self._state, time.perf_counter()
        head = read_head(scope)
        status, code = 200, ""
        state.enter()
        try:
            with state.tracing.request(self.path, scope["headers"]):
                status, code = await self._serve(head, receive, send)
        except ClientLeft:
            state.metrics.refused("client_left")
            return
        finally:
            state.leave()
        seconds = time.perf_counter() - started
        state.metrics.answered(self.path, status, seconds)
        if code:
            state.metrics.refused(code)
        if state.settings.log_requests:
            log(
                logging.INFO, "request answered", route=self.path, status=status, code=code,
                seconds=round(seconds, 6), request_id=head.request_id,
            )  # fmt: skip

    async def _serve(self, head: Head, receive: Receive, send: Send) -> tuple[int, str]:
        """Answer; return the status and the error's code."""
        sender = _Sender(send, head, is_last=self._state.is_draining)
        try:
            settings = self._state.settings
            body = await read_body(
                receive,
                head,
                max_bytes=settings.max_body_bytes,
                deadline_seconds=settings.body_deadline_seconds,
            )
            async with _while_wanted(receive):
                await self._answer(await self._prepare(body, head), sender)
        except BodyRefused as refused:
            if refused.answer.status == 408:
                self._state.metrics.deadline_hit("body")
            return await sender.refuse(refused.answer)
        except ForewordError as error:
            return await sender.fail(error)
        except (ClientLeft, asyncio.CancelledError):
            raise
        except Exception as error:
            answer = unexpected(error, with_message=self._state.settings.log_prompts)
            if sender.has_begun:
                return await sender.fail(ServiceError("The service failed on this request."))
            return await sender.refuse(answer)
        return 200, ""

    async def _prepare(self, body: bytes, head: Head) -> Generation:
        state = self._state
        engine, generations = state.engine, state.generations()
        assert engine is not None
        arrived = Arrived(tenant=tenant_of(head.authorization))
        is_chat = self._kind is ChatCompletionRequest
        if is_chat and state.fetcher is not None and may_hold_media(body):
            collect = state.work().collect_media
            fetched = await fetch_media(state.fetcher, state.executor, collect, body)
            arrived = replace(arrived, fetched=fetched)
        return await state.executor.run(
            generations.prepare,
            body,
            self._kind,
            head.request_id,
            engine.max_model_len,
            arrived,
            size_hint=len(body),
        )

    async def _answer(self, generation: Generation, sender: _Sender) -> None:
        engine = self._state.engine
        assert engine is not None
        for prompt in generation.prompts:
            self._state.metrics.rendered(
                self._state.models.find(generation.request.model).name, prompt.engine_input
            )
        async with _submitted(engine, generation.choices) as streams:
            if generation.request.stream:
                await _stream(generation, streams, sender)
                return
            answers = [WholeAnswer(choice) for choice in generation.choices]
            async for choice, delta in _steps(streams):
                answers[choice.index].add(delta)
        await sender.answer(whole_body(generation, answers))


class _Sender:
    """What is sent to one client, in order."""

    def __init__(self, send: Send, head: Head, *, is_last: bool) -> None:
        self.has_begun = False
        self._send = send
        self._extra: list[Header] = [CLOSE] if is_last else []
        if head.request_id:
            self._extra.append((b"x-request-id", head.request_id.encode("latin-1")))

    async def answer(self, body: bytes) -> None:
        await send_answer(self._send, Answer(200, body), *self._extra)

    async def refuse(self, answer: Answer) -> tuple[int, str]:
        await send_answer(self._send, answer, *self._extra)
        return answer.status, answer.code

    async def fail(self, error: ForewordError) -> tuple[int, str]:
        """Tell an error: with its status, or as the stream's last event."""
        if not self.has_begun:
            return await self.refuse(error_answer(error))
        await self.event(error_chunk(error), is_last=True)
        return 200, error.code

    async def event(self, data: bytes, *, is_last: bool = False) -> None:
        if not self.has_begun:
            self.has_begun = True
            headers = [*_EVENTS, *self._extra]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})


async def _stream(
    generation: Generation, streams: Sequence[tuple[Choice, EngineStream]], sender: _Sender
) -> None:
    opened: set[int] = set()
    async for choice, delta in _steps(streams):
        opening = None
        if choice.index not in opened:
            opened.add(choice.index)
            opening = first_chunk(generation, choice)
        data = joined((opening, delta_chunk(generation, choice, delta)))
        if data:
            await sender.event(data)
    await sender.event(last_chunks(generation), is_last=True)


@contextlib.asynccontextmanager
async def _submitted(
    engine: EngineClient, choices: Sequence[Choice]
) -> AsyncIterator[list[tuple[Choice, EngineStream]]]:
    """Have the engine make every answer, for the time of the block."""
    streams: list[tuple[Choice, EngineStream]] = []
    try:
        for choice in choices:
            streams.append((choice, await engine.submit(choice.engine_request)))
        yield streams
    finally:
        for _, stream in streams:
            stream.close()


async def _steps(streams: Sequence[tuple[Choice, EngineStream]]) -> AsyncIterator[Step]:
    """Give the deltas of all answers, as they come, until every answer is complete.

    Raises: `ServiceError` when an answer fails.
    """
    waiting: dict[asyncio.Future[EngineUpdate], tuple[Choice, EngineStream]] = {
        asyncio.ensure_future(anext(stream)): (choice, stream) for choice, stream in streams
    }
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                choice, stream = waiting.pop(future)
                delta = choice.take(future.result())
                if delta.finish_reason is None:
                    waiting[asyncio.ensure_future(anext(stream))] = choice, stream
                else:
                    stream.close()  # a stop string ends it before the engine does
                yield choice, delta
    finally:
        for future in waiting:
            if not future.cancel() and not future.cancelled():
                future.exception()  # it failed as well; one error is told


@contextlib.asynccontextmanager
async def _while_wanted(receive: Receive) -> AsyncIterator[None]:
    """Cancel the block when the client leaves. Raises: `ClientLeft`."""
    task = asyncio.current_task()
    assert task is not None
    has_left = False

    async def watch() -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            pass
        has_left = True
        task.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        yield
    except asyncio.CancelledError:
        if has_left and task.uncancel() == 0:
            raise ClientLeft from None
        raise
    finally:
        watching.cancel()
