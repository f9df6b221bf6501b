"""What hostile hosts answer: too much, too slow, compressed, broken; and several at a time."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpcore
import pytest

from foreword.errors import MediaUnavailable, Overloaded
from foreword.service.fetching import dialling
from foreword.service.media_fetch import MediaFetcher


def load_fake() -> Any:
    path = Path(__file__).with_name("fake_internet.py")
    spec = importlib.util.spec_from_file_location("fake_internet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILM = Path(__file__).parents[1] / "media" / "videos" / "film.mov"
fake = load_fake()
PUBLIC = fake.PUBLIC
always = fake.always
answer = fake.answer
endless = fake.endless
fetch = fake.fetch
forever = fake.forever
play = fake.play
png = fake.png
policy = fake.policy
redirect = fake.redirect
refer = fake.refer
refusal = fake.refusal


# -- what an answer may be -----------------------------------------------------------------------


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOMB = gzip.compress(bytes(50_000_000), compresslevel=9)
HOSTILE: dict[str, tuple[Any, str]] = {
    "a length over the limit": (
        always(b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n"), "at most 100000"
    ),
    "a length of many digits": (
        always(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"), "not HTTP"
    ),
    "more than the limit": (
        forever(b"HTTP/1.1 200 OK\r\n\r\n", bytes(65536)), "at most 100000"
    ),
    "endless chunks": (
        forever(CHUNKED, b"1000\r\n" + bytes(4096) + b"\r\n"), "at most 100000"
    ),
    "a flood of small chunks": (forever(CHUNKED, b"1\r\nx\r\n" * 5000), "not HTTP"),
    "a flood of interim answers": (
        forever(b"", b"HTTP/1.1 103 Hints\r\n\r\n" * 1000), "not HTTP"
    ),
    "a drop at a time": (forever(CHUNKED, b"1\r\nx\r\n", 0.05), "did not arrive within"),
    "an endless chunk extension": (forever(CHUNKED, b";x=y" * 4096), "not HTTP"),
    "endless trailers": (forever(CHUNKED + b"0\r\n", b"X: y\r\n" * 4096), "not HTTP"),
    "endless headers": (forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 4096), "not HTTP"),
    "one endless header": (forever(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 4096), "not HTTP"),
    "headers a drop at a time": (
        forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.05), "did not arrive within"
    ),
    "endless interim answers": (forever(b"", b"HTTP/1.1 103 Hints\r\n\r\n", 0.001), "arrive"),
    "silence": (forever(b"", b"", 0.05), "silent for 0.3 seconds"),
    "silence after the head": (forever(CHUNKED, b"", 0.05), "silent for 0.3 seconds"),
    "half a body": (
        always(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + png()), "broke off"
    ),
    "nothing": (always(b""), "not HTTP"),
    "no HTTP": (always(b"+PONG\r\n-ERR unknown command\r\n"), "not HTTP"),
    "two lengths": (
        always(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"), "not HTTP"
    ),
    "a gzip bomb": (
        always(answer(BOMB, "Content-Encoding: gzip", "Content-Type: image/png")), "compressed"
    ),
    "a brotli body": (always(answer(png(), "Content-Encoding: br")), "compressed"),
    "two encodings": (
        always(answer(png(), "Content-Encoding: identity", "Content-Encoding: x-gzip")),
        "compressed",
    ),
    "a gzip transfer": (
        always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "not HTTP"
    ),
    "a bomb that is called an image": (
        always(answer(BOMB, "Content-Type: image/png")), "can't be read"
    ),
    "a page": (always(answer(png(), "Content-Type: text/html")), "not of an image type"),
    "an object": (always(answer(png(), "Content-Type: application/json")), "not of an image type"),
    "a song": (always(answer(png(), "Content-Type: audio/mpeg")), "not of an image type"),
    "text called an image": (
        always(answer(b"root:x:0:0", "Content-Type: image/png")), "can't be read"
    ),
    "a pixel bomb": (always(answer(png(50_000, 50_000))), "at most 178956970"),
    "an absent page": (always(answer(png(), status="404 Not Found")), "status 404"),
    "a fault": (always(answer(png(), status="503 Busy")), "status 503"),
    "part of it": (always(answer(png(), status="206 Partial Content")), "status 206"),
    "no content": (always(b"HTTP/1.1 204 No Content\r\n\r\n"), "status 204"),
    "a redirect to nowhere": (always(answer(b"", status="302 Found")), "status 302"),
    "a switch of protocols": (
        always(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "HTTP"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_ends_in_time_and_in_words(name: str) -> None:
    handler, words = HOSTILE[name]

    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, handler)
        began = time.monotonic()
        error = await refusal(
            net,
            "http://ok.test/x",
            max_item_bytes=100_000,
            # Short only where it is what must strike, so a busy machine changes no verdict.
            read_seconds=0.3 if "silent" in words else 9.0,
            total_seconds=1.0 if "arrive" in words else 9.0,
        )
        assert time.monotonic() - began < 5
        assert isinstance(error, MediaUnavailable)
        assert words in error.message
        assert "root:" not in error.message

    assert play(scene).dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    ("modality", "kind"),
    [
        ("image", "image/png"),
        ("image", "IMAGE/PNG; charset=binary"),
        ("image", "application/octet-stream"),
        ("image", ""),
        ("video", "video/mp4"),
        ("video", "binary/octet-stream"),
    ],
)
def test_types_that_are_taken(modality: str, kind: str) -> None:
    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        data = FILM.read_bytes() if modality == "video" else png()
        await net.serve(PUBLIC, always(answer(data, f"Content-Type: {kind}")))
        assert await fetch(net, "http://ok.test/x", modality=modality)

    play(scene)


# -- several at a time ---------------------------------------------------------------------------


def test_items_are_fetched_together_and_come_back_in_order() -> None:
    peak = 0

    async def scene(net: Any) -> None:
        async def later(target: str, headers: dict[str, str]) -> AsyncIterator[bytes]:
            nonlocal peak
            peak = max(peak, net.num_open)
            number = int(target.rpartition("/")[2])
            await asyncio.sleep(0.005 * (12 - number))
            yield answer(png(number + 1, 1))

        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, later)
        urls = [f"http://ok.test/{number}" for number in range(12)]
        found = await fetch(net, *urls, max_fetches=3)
        assert [one.image.width for one in found if one.image] == list(range(1, 13))
        assert peak == 3
        await fetch(net, *urls)
        assert peak == 8

    play(scene)


def test_the_first_failure_ends_the_others_and_closes_them() -> None:
    async def scene(net: Any) -> None:
        async def handle(target: str, headers: dict[str, str]) -> AsyncIterator[bytes]:
            if target == "/bad":
                await asyncio.sleep(0.05)
                yield answer(b"", status="404 Not Found")
            else:
                yield CHUNKED
                async for piece in endless(b"1\r\nx\r\n", 0.01):
                    yield piece

        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, handle)
        began = time.monotonic()
        with pytest.raises(MediaUnavailable, match="404") as caught:
            await fetch(
                net, "http://ok.test/a", "http://ok.test/bad", "http://ok.test/c", total_seconds=8
            )
        assert time.monotonic() - began < 4
        assert caught.value.param == "m[1]"
        while net.num_open:  # `play` gives up after ten seconds
            await asyncio.sleep(0.01)

    play(scene)


def test_a_caller_that_gives_up_closes_everything() -> None:
    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, forever(CHUNKED, b"1\r\nx\r\n", 0.01))
        task = asyncio.create_task(fetch(net, "http://ok.test/a", "http://ok.test/b"))
        while net.num_open < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while net.num_open:  # `play` gives up after ten seconds
            await asyncio.sleep(0.01)

    play(scene)


def test_what_is_parsed_at_a_stretch_is_bounded() -> None:
    asked: list[int] = []

    class Stream(httpcore.AsyncNetworkStream):
        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            asked.append(max_bytes)
            return bytes(max_bytes)

    async def read_all() -> None:
        metered = dialling._Metered(Stream(), dialling.Meter())
        while True:
            await metered.read(2**20)

    with pytest.raises(httpcore.RemoteProtocolError):
        asyncio.run(read_all())
    assert set(asked) == {dialling.READ_SIZE}
    assert sum(asked) <= dialling.MAX_OVERHEAD + 2 * dialling.READ_SIZE


def test_a_flood_does_not_hold_the_event_loop() -> None:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)

    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, forever(CHUNKED, b"1\r\nx\r\n" * 5000))
        watcher = asyncio.create_task(watch())
        with pytest.raises(MediaUnavailable):
            await fetch(net, "http://ok.test/x", total_seconds=8)
        watcher.cancel()

    began = time.monotonic()
    play(scene)
    assert time.monotonic() - began < 4
    assert longest < 1  # about 0.1; without the meter's bound 0.4 again and again, for 8 seconds


def test_the_bytes_of_a_request_are_counted_together_as_they_come() -> None:
    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, forever(CHUNKED, b"1000\r\n" + bytes(4096) + b"\r\n"))
        with pytest.raises(MediaUnavailable) as caught:
            await fetch(net, *[f"http://ok.test/{i}" for i in range(4)], max_request_bytes=50_000)
        assert caught.value.details["max_request_bytes"] == 50_000

    play(scene)


def test_one_slow_request_does_not_make_another_guilty() -> None:
    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, forever(CHUNKED, b"1\r\nx\r\n", 0.05))
        limits = policy(max_fetches=1, total_seconds=0.4)
        fetcher = MediaFetcher(limits, resolver=net.look_up)
        first = asyncio.create_task(fetcher.fetch(refer("http://ok.test/slow")))
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded) as caught:
            await fetcher.fetch(refer("http://ok.test/x"))
        assert caught.value.details == {"max_fetches": 1}
        with pytest.raises(MediaUnavailable, match="within"):
            await first

    play(scene)
