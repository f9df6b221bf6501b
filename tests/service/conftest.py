"""What the service's tests share: a service in this process, and one behind a real socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import foreword.demo
from foreword.service import logs
from foreword.service.http import Service
from foreword.service.server import make_protocol
from foreword.service.settings import Settings
from foreword.service.state import ServiceState

DEMO = Path(foreword.demo.__file__).parent / "model"
JSON = {"content-type": "application/json"}


def make_state(*, model: Path | str = DEMO, **settings: Any) -> ServiceState:
    """Make the state of a service for one model, called `demo`."""
    return ServiceState(Settings(models=(f"demo={model}",), **settings))


@asynccontextmanager
async def in_process(state: ServiceState) -> AsyncIterator[httpx.AsyncClient]:
    """Serve without a socket: the models loaded, the executor ended after."""
    await state.start()
    transport = httpx.ASGITransport(Service(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=JSON) as made:
        while state.condition == "loading":
            await asyncio.sleep(0.005)
        try:
            yield made
        finally:
            await state.stop()


class Running:
    """A server in a thread of this process, on a free port of 127.0.0.1."""

    def __init__(self, state: ServiceState) -> None:
        self.state = state
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            Service(state), loop="uvloop", http=make_protocol(state.settings), ws="none",
            log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=5,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop the server runs on."""
        assert self.state.loop is not None
        return self.state.loop

    def __enter__(self) -> Running:
        self.thread.start()
        stop_at = time.monotonic() + 60
        while self.state.condition == "loading":
            assert time.monotonic() < stop_at, "the service did not become ready"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.listener.close()


@pytest.fixture(autouse=True)
def _restore_logs() -> Iterator[None]:
    kept = [
        (one, one.handlers, one.level, one.propagate)
        for one in map(logging.getLogger, (logs.LOGGER_NAME, "uvicorn", "uvicorn.access"))
    ]
    yield
    for one, handlers, level, propagate in kept:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.fixture(scope="session", name="make_state")
def _make_state() -> Callable[..., ServiceState]:
    return make_state


@pytest.fixture(scope="session", name="in_process")
def _in_process() -> Callable[[ServiceState], AbstractAsyncContextManager[httpx.AsyncClient]]:
    return in_process


@pytest.fixture(scope="session", name="running")
def _running() -> type[Running]:
    return Running
