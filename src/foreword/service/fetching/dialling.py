"""A vetted address enters; the network as one connection sees it leaves.

Rules of this file: whatever host is asked for, the vetted address is dialled, so no name is looked
up twice; Host and SNI keep the name. What arrives is counted before it is parsed, since parsing a
flood of headers or of tiny chunks would hold the event loop.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, NoReturn

import httpcore

READ_SIZE = 16 * 1024
"""Bytes parsed at a stretch: what holds the event loop at a time."""

MAX_OVERHEAD = 64 * 1024
"""Bytes that may arrive beside the body: status lines, headers, chunk sizes, trailers."""


class Meter:
    """Counts what arrives, and what of it is body.

    Of chunks, half may be their sizes; a body in smaller ones is no file somebody serves.
    """

    __slots__ = ("_num_read", "num_body")

    def __init__(self) -> None:
        self._num_read = 0
        self.num_body = 0

    def count(self, num_bytes: int) -> None:
        """Count what was read.

        Raises: `httpcore.RemoteProtocolError` when too little of it is body.
        """
        # What was just read is not parsed yet, so it is judged at the next reading.
        if self._num_read > MAX_OVERHEAD + 2 * self.num_body:
            raise httpcore.RemoteProtocolError("more frame than content")
        self._num_read += num_bytes


class VettedPlace(httpcore.AsyncNetworkBackend):
    """A network with one place in it."""

    def __init__(self, address: str, port: int, meter: Meter) -> None:
        self._address = address
        self._port = port
        self._meter = meter
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the vetted address, whatever was asked for."""
        stream = await self._network.connect_tcp(self._address, self._port, timeout=timeout)
        return _Metered(stream, self._meter)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: there are no sockets of this machine here."""
        raise httpcore.ConnectError("no unix sockets")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)


class _Metered(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,
    ) -> bytes:
        data = await self._stream.read(min(max_bytes, READ_SIZE), timeout)
        self._meter.count(len(data))
        return data

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,
    ) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Metered(
            await self._stream.start_tls(ssl_context, server_hostname, timeout), self._meter
        )

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
