"""A fake internet for the tests of fetching: every address ends at a server on 127.0.0.1.

Names are answered by a stub, and every dial is recorded before it is led to the server that stands
for the address, so a test can say that nothing else was ever connected to.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from foreword.errors import ForewordError
from foreword.service.media_fetch import MediaFetcher, MediaPolicy, ResolvedMedia
from foreword.types import MediaReference

PUBLIC, OTHER_PUBLIC = "93.184.216.34", "1.1.1.1"

Handler = Callable[[str, dict[str, str]], AsyncIterator[bytes]]
"""The request's target and headers in, the pieces of the answer out."""


def png(width: int = 4, height: int = 4) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\r" + head + struct.pack(">I", zlib.crc32(head))
        + b"\x00\x00\x00\x00IDAT\x35\xaf\x06\x1e\x00\x00\x00\x00IEND\xae\x42\x60\x82"
    )  # fmt: skip


def answer(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def always(*pieces: bytes) -> Handler:
    async def handle(target: str, headers: dict[str, str]) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return handle


async def endless(piece: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    while True:
        yield piece
        await asyncio.sleep(pause)


def forever(head: bytes, piece: bytes, pause: float = 0.0) -> Handler:
    async def handle(target: str, headers: dict[str, str]) -> AsyncIterator[bytes]:
        yield head
        async for one in endless(piece, pause):
            yield one

    return handle


GOOD = answer(png(), "Content-Type: image/png")


def redirect(to: str, status: str = "302 Found", *headers: str) -> bytes:
    return answer(b"", f"Location: {to}", *headers, status=status)


def routes(**pieces: bytes) -> Handler:
    """Answer by the last name of the path."""

    async def handle(target: str, headers: dict[str, str]) -> AsyncIterator[bytes]:
        yield pieces[target.rpartition("/")[2]]

    return handle


class Internet:
    """Names, addresses and servers; `dialled` is every connection that was asked for."""

    def __init__(self) -> None:
        self.names: dict[str, list[Sequence[str]]] = {}
        self.dialled: list[tuple[str, int]] = []
        self.asked: list[str] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.num_open = 0
        self._ports: dict[tuple[str, int], int] = {}
        self._servers: list[asyncio.Server] = []
        self._talks: list[asyncio.Task[None]] = []
        self._connect = anyio.connect_tcp

    async def serve(
        self, address: str, handler: Handler, *, port: int = 80, tls: ssl.SSLContext | None = None
    ) -> int:
        """Stand a server for an address; return its real port on 127.0.0.1."""

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.num_open += 1
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                pairs = (line.split(": ", 1) for line in head[1:] if line)
                headers = {name.lower(): value for name, value in pairs}
                self.requests.append((head[0].split(" ")[1], headers))
                async for piece in handler(head[0].split(" ")[1], headers):
                    writer.write(piece)
                    await writer.drain()
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                pass
            finally:
                self.num_open -= 1
                writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._talks.append(asyncio.ensure_future(talk(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        self._servers.append(server)
        self._ports[address, port] = server.sockets[0].getsockname()[1]
        return self._ports[address, port]

    async def look_up(self, host: str, port: int) -> Sequence[tuple[str, int]]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("no such name")
        answers = self.names[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(address, port) for address in found]

    async def connect(self, remote_host: str, remote_port: int, **given: Any) -> Any:
        self.dialled.append((remote_host, remote_port))
        port = self._ports.get((remote_host, remote_port))
        if port is None:
            raise OSError("nobody there")
        return await self._connect("127.0.0.1", port, **given)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._talks:
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)


Scene = Callable[[Internet], Awaitable[None]]


def play(scene: Scene) -> Internet:
    """Run a scene on the fake internet, at most ten seconds, and end every server."""
    internet = Internet()

    async def whole() -> None:
        try:
            await scene(internet)
        finally:
            await internet.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio, "connect_tcp", internet.connect)
        asyncio.run(asyncio.wait_for(whole(), 10))
    return internet


def policy(**given: Any) -> MediaPolicy:
    limits = {"connect_seconds": 5.0, "read_seconds": 5.0, "total_seconds": 9.0}
    return MediaPolicy(**{"fetch": True, **limits, **given})


def refer(*urls: str, modality: str = "image") -> list[MediaReference]:
    return [
        MediaReference(modality=modality, index=i, path=f"m[{i}]", url=url)
        for i, url in enumerate(urls)
    ]


async def fetch(
    internet: Internet, *urls: str, modality: str = "image", **given: Any
) -> tuple[ResolvedMedia, ...]:
    fetcher = MediaFetcher(policy(**given), resolver=internet.look_up)
    return await fetcher.fetch(refer(*urls, modality=modality))


async def refusal(internet: Internet, url: str, **given: Any) -> ForewordError:
    with pytest.raises(ForewordError) as caught:
        await fetch(internet, url, **given)
    assert caught.value.param == "m[0]"
    for secret in (*(address for address, _ in internet.dialled), "127.0.0.1", "10.0.0.5", "169."):
        assert secret not in caught.value.message
    return caught.value
