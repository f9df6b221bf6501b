"""A `Target` enters; the body of its answer leaves, within every limit, or a refusal.

Rules of this file: a name is looked up once, every address it has must be allowed, and an address
from that answer is dialled, with the name in Host and SNI. Each request has a connection of its
own, without cookies, credentials, proxies or compression. Redirects are followed here, re-checked.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import httpcore
import httpx

from foreword.errors import MediaUnavailable
from foreword.media.data_url import check_size
from foreword.service.fetching.addresses import parse_address
from foreword.service.fetching.allowance import Allowance
from foreword.service.fetching.dialling import Meter, VettedPlace
from foreword.service.fetching.policy import MediaPolicy
from foreword.service.fetching.urls import (
    Target,
    follow,
    not_public,
    parse_target,
    redirect_refused,
)
from foreword.version import __version__

Resolver = Callable[[str, int], Awaitable[Sequence[tuple[str, int]]]]
"""Host and port in; where to dial (address and port) out, as getaddrinfo answers."""

MAX_DIALLED = 3
"""Most addresses of one host that are tried."""

_LOOK_UPS = ThreadPoolExecutor(max_workers=16, thread_name_prefix="foreword-lookup")
"""A look-up can't be stopped, so slow name servers get threads that nothing else waits for."""

_NETWORK_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPES = {
    "image": ("image/",),
    "audio": ("audio/", "video/", "application/ogg"),
    "video": ("video/", "image/gif", "application/mp4"),
}
_ANY_TYPE = ("", "application/octet-stream", "binary/octet-stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What one download goes by, the same for all its hops."""

    modality: str
    param: str | None
    policy: MediaPolicy
    allowance: Allowance
    resolver: Resolver
    ssl_context: ssl.SSLContext


@cache
def trust() -> ssl.SSLContext:
    """Return what certificates are checked against: certifi's authorities.

    SSL_CERT_FILE and SSL_CERT_DIR replace them, the usual way to trust an own authority; nothing
    else of the environment has a say.
    """
    return httpx.create_ssl_context()


async def look_up(host: str, port: int) -> Sequence[tuple[str, int]]:
    """Ask the system where a host is."""
    asking = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_LOOK_UPS, asking)
    return [(str(place[0]), int(place[1])) for *_, place in found]


async def download(url: str, errand: Errand) -> bytes:
    """Return the body that an http(s) URL answers with.

    Raises: `InvalidRequest` where the URL, an address or a redirect is not allowed;
    `MediaUnavailable` where the answer is late, too large, encoded, or no media.
    """
    target = parse_target(url, errand.policy, param=errand.param)
    for num_redirects in range(errand.policy.max_redirects + 1):
        places = await _vetted(target, errand, is_first=num_redirects == 0)
        try:
            answer = await _ask_any(target, places, errand)
        except (*_NETWORK_ERRORS, OSError) as error:
            raise _failed(error, errand) from None
        if isinstance(answer, bytes):
            return answer
        target = follow(target, answer.location, errand.policy, param=errand.param)
    raise MediaUnavailable(
        f"The media URL redirects more than {errand.policy.max_redirects} times."
        " Send the URL it leads to.",
        param=errand.param,
        details={"max_redirects": errand.policy.max_redirects},
    )


@dataclass(frozen=True, slots=True)
class _Redirect:
    location: str


async def _vetted(target: Target, errand: Errand, *, is_first: bool) -> Sequence[tuple[str, int]]:
    """Return the places to dial; a name with one forbidden address has none."""
    if target.address is not None:
        return [(target.host, target.port)]
    try:
        async with asyncio.timeout(errand.policy.connect_seconds):
            places = await errand.resolver(target.host, target.port)
    except (OSError, UnicodeError):  # a timeout is an OSError too
        places = ()
    addresses = [parse_address(text) for text, _ in places]
    if not addresses or not all(one is not None and target.may_dial(one) for one in addresses):
        raise not_public(target, errand.param) if is_first else redirect_refused(errand.param)
    return list(dict.fromkeys(places))[:MAX_DIALLED]


async def _ask_any(
    target: Target, places: Sequence[tuple[str, int]], errand: Errand
) -> bytes | _Redirect:
    for address, port in places[:-1]:
        try:
            return await _ask(target, address, port, errand)
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            continue
    return await _ask(target, *places[-1], errand)


async def _ask(target: Target, address: str, port: int, errand: Errand) -> bytes | _Redirect:
    meter = Meter()
    # One pool a request: a connection that is kept is known by where it leads, not by what was
    # vetted for it.
    pool = httpcore.AsyncConnectionPool(
        ssl_context=errand.ssl_context,
        max_connections=1,
        max_keepalive_connections=0,
        network_backend=VettedPlace(address, port, meter),
    )
    async with pool:
        response = await pool.handle_async_request(_request(target, errand))
        try:
            headers = httpx.Headers(response.headers)
            if response.status in _REDIRECTS and "location" in headers:
                return _Redirect(headers["location"])
            _check_head(response.status, headers, errand)
            return await _read(response, meter, errand)
        finally:
            await response.aclose()


def _request(target: Target, errand: Errand) -> httpcore.Request:
    policy = errand.policy
    accepted = ", ".join(f"{kind}*" for kind in _TYPES[errand.modality] if kind.endswith("/"))
    return httpcore.Request(
        "GET",
        httpcore.URL(
            scheme=target.scheme.encode(),
            host=target.host.encode(),
            port=target.port,
            target=target.raw_path,
        ),
        headers={
            "Host": target.host_header,
            "Accept": f"{accepted}, */*;q=0.5",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": f"foreword/{__version__}",
        },
        extensions={
            "timeout": {
                "connect": policy.connect_seconds,
                "read": policy.read_seconds,
                "write": policy.read_seconds,
                "pool": policy.connect_seconds,
            },
        },
    )


def _check_head(status: int, headers: httpx.Headers, errand: Errand) -> None:
    if status != 200:
        raise _unavailable(f"it answered with status {status}", errand)
    if headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise _unavailable("its answer is compressed, although that was not asked for", errand)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _ANY_TYPE and not kind.startswith(_TYPES[errand.modality]):
        raise _unavailable(f"its answer is not of an {errand.modality} type", errand)
    length = headers.get("content-length", "")
    if length.isdecimal() and len(length) <= 20:
        check_size(int(length), errand.policy.max_item_bytes, errand.param)


async def _read(response: httpcore.Response, meter: Meter, errand: Errand) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_stream():
        meter.num_body += len(chunk)
        errand.allowance.take_bytes(len(chunk), errand.param)
        body += chunk
        check_size(len(body), errand.policy.max_item_bytes, errand.param)
    return bytes(body)


def _failed(error: Exception, errand: Errand) -> MediaUnavailable:
    if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
        return _unavailable("no connection could be made", errand)
    if isinstance(error, httpcore.TimeoutException):
        return _unavailable(f"it was silent for {errand.policy.read_seconds:g} seconds", errand)
    return _unavailable("its answer is not HTTP, or broke off", errand)


def _unavailable(reason: str, errand: Errand) -> MediaUnavailable:
    return MediaUnavailable(
        f"The media URL can't be fetched: {reason}. Check the URL, or send a data: URL.",
        param=errand.param,
    )
