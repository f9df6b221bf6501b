"""A service and a bound socket enter; it is served by uvicorn until told to stop.

Rules of this file: telling it to stop loses nothing. First it says so (/ready, `Connection: close`)
and serves on; then the door is closed, with everyone who stood in it taken in; then it ends what it
accepted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
import time
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from foreword.service.connections import HeadDeadlineProtocol
from foreword.service.http import Service
from foreword.service.logs import log
from foreword.service.settings import Settings

SWITCH_SECONDS = 0.001
"""How long one thread may keep the interpreter while another wants it."""

LAST_WORDS_SECONDS = 0.5
"""How long connections without a request are kept once the door is closed: one may be coming."""


class Server(uvicorn.Server):
    """Uvicorn's server, with an end in three steps."""

    def __init__(self, service: Service, listener: socket.socket) -> None:
        settings = service.state.settings
        super().__init__(_config(service, settings))
        self._state = service.state
        self._listener = listener
        self._close_at = 0.0

    def serve_until_stopped(self) -> None:
        """Serve on the socket; return after an orderly end."""
        sys.setswitchinterval(SWITCH_SECONDS)
        self.run(sockets=[self._listener])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end; told twice, skip the waiting."""
        if self._state.is_draining:
            self.should_exit = True
            return
        seconds = self._state.settings.drain_seconds
        self._state.is_draining = True
        self._close_at = time.monotonic() + seconds
        log(logging.INFO, "draining", seconds=seconds)

    async def on_tick(self, counter: int) -> bool:
        """Close the door when it is time."""
        if self._close_at and time.monotonic() >= self._close_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door, take in who stood in it, hear everyone out, and end."""
        self._state.is_draining = True
        for accepted in self._close_door():
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol, accepted, ssl=self.config.ssl
            )
        stop_at = time.monotonic() + LAST_WORDS_SECONDS
        while self.server_state.connections and time.monotonic() < stop_at:
            await asyncio.sleep(0.01)
        await super().shutdown(sockets)

    def _close_door(self) -> list[socket.socket]:
        """Stop listening; return the connections the kernel had made and nobody had accepted.

        Why: closing a listening socket resets them, though their clients believe to be connected.
        """
        door = self._listener.dup()
        door.setblocking(False)
        for server in self.servers:
            server.close()
        self._listener.close()
        waiting: list[socket.socket] = []
        with door:
            while True:
                try:
                    waiting.append(door.accept()[0])
                except OSError:
                    return waiting

    def _make_protocol(self) -> asyncio.Protocol:
        kind = self.config.http_protocol_class
        return kind(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


def make_protocol(settings: Settings) -> Any:
    """Return what uvicorn makes a connection of."""
    return partial(HeadDeadlineProtocol, head_seconds=settings.body_deadline_seconds)


def _config(service: Service, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        service,
        loop="uvloop",
        http=make_protocol(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=round(settings.keep_alive_seconds),
        timeout_graceful_shutdown=max(1, round(settings.shutdown_deadline_seconds)),
        limit_concurrency=settings.max_connections,
        ssl_certfile=settings.tls_certificate_file,
        ssl_keyfile=settings.tls_key_file,
        ssl_ca_certs=settings.tls_ca_file,
        ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_ca_file else ssl.CERT_NONE,
    )
