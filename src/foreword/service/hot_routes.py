"""A POST of one of the hot routes enters, as bare ASGI; its answer is sent.

Rules of this file: nothing between the socket and the work but what every request needs. Whatever
happens there is one answer, unless the client has left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from foreword.errors import ForewordError
from foreword.service.answers import (
    CLOSE,
    Answer,
    Receive,
    Scope,
    Send,
    error_answer,
    send_answer,
    unexpected,
)
from foreword.service.bodies import BodyRefused, ClientLeft, Head, read_body, read_head
from foreword.service.executor import LongerThanThought
from foreword.service.logs import log
from foreword.service.media_step import (
    NOTHING,
    Arrived,
    Collect,
    fetch_media,
    may_hold_media,
    tenant_of,
)
from foreword.service.state import ServiceState
from foreword.service.work import Work

T = TypeVar("T")
Call = Callable[..., Answer]


class HotRoute:
    """One path: reads the body, has the work done, answers.

    `collect` says what media a body points to, on paths that take media.
    """

    def __init__(
        self,
        path: str,
        state: ServiceState,
        choose: Callable[[Work], Call],
        *,
        collect: Callable[[Work], Collect] | None = None,
    ) -> None:
        self.path = path
        self._state = state
        self._choose = choose
        self._collect = collect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        state, started = self._state, time.perf_counter()
        head = read_head(scope)
        state.enter()
        try:
            with state.tracing.request(self.path, scope["headers"]):
                answer = await self._answer(head, receive)
        except ClientLeft:
            state.metrics.refused("client_left")
            return
        finally:
            state.leave()
        extra = [CLOSE] if state.is_draining else []
        if head.request_id and answer.status != 200:
            extra.append((b"x-request-id", head.request_id.encode("latin-1")))
        await send_answer(send, answer, *extra)
        seconds = time.perf_counter() - started
        state.metrics.answered(self.path, answer.status, seconds)
        if answer.code:
            state.metrics.refused(answer.code)
        if state.settings.log_requests:
            log(
                logging.INFO, "request answered", route=self.path, status=answer.status,
                code=answer.code, seconds=round(seconds, 6), request_id=head.request_id,
            )  # fmt: skip

    async def _answer(self, head: Head, receive: Receive) -> Answer:
        state, settings = self._state, self._state.settings
        try:
            body = await read_body(
                receive,
                head,
                max_bytes=settings.max_body_bytes,
                deadline_seconds=settings.body_deadline_seconds,
            )
            if settings.log_prompts:
                log(logging.DEBUG, "request", route=self.path, body=body.decode("utf-8", "replace"))
            work = self._choose(state.work())
            if self._collect is not None:
                arrived = Arrived(tenant=tenant_of(head.authorization))
                if state.fetcher is not None and may_hold_media(body):
                    collect = self._collect(state.work())
                    fetching = fetch_media(state.fetcher, state.executor, collect, body)
                    arrived = replace(arrived, fetched=await _while_wanted(receive, fetching))
                work = partial(work, arrived=arrived) if arrived != NOTHING else work
            if state.executor.may_run_here(len(body)):
                with suppress(LongerThanThought):
                    return state.executor.run_here(work, body, head.request_id)
            # Stopped when the client leaves first.
            running = state.executor.run(work, body, head.request_id)
            return await _while_wanted(receive, running)
        except BodyRefused as refused:
            if refused.answer.status == 408:
                state.metrics.deadline_hit("body")
            return refused.answer
        except ForewordError as error:
            return error_answer(error)
        except (ClientLeft, asyncio.CancelledError):
            raise
        except Exception as error:
            return unexpected(error, with_message=settings.log_prompts)


async def _while_wanted(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Wait for work; cancel it when the client leaves first."""
    running = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientLeft
        return running.result()
    finally:
        leaving.cancel()
        if not running.done():
            running.cancel()
        del running  # it holds the error, which holds this frame
