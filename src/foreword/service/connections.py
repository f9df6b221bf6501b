"""Bytes of one connection enter; requests whose head arrived in time go on to the application.

Rules of this file: uvicorn's own protocol, and one thing it lacks: who begins a request, or only
opens a connection, and says no more, is closed. A head that comes in one piece sets no clock.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HeadDeadlineProtocol(HttpToolsProtocol):
    """A connection that is closed when a request's head takes longer than `head_seconds`.

    Why: half a head holds one of the connections that `max_connections` allows, for good.
    """

    def __init__(self, *args: Any, head_seconds: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_seconds = head_seconds
        self._is_in_head = True
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_in_head:
            self._stop_clock()
        elif self._clock is None:
            self._set_clock()

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def _set_clock(self) -> None:
        if self._head_seconds > 0:
            self._clock = self.loop.call_later(self._head_seconds, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
