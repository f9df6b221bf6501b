"""ASGI's messages of one request enter; the whole body leaves, within its size and time.

Rules of this file: a body that says it is too large is not read. What a client does to its body
never becomes more than one answer, or one `ClientLeft`.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import NamedTuple

from foreword.service.answers import CLOSE, Answer, Receive, Scope, fault

MAX_REQUEST_ID_CHARS = 256


class ClientLeft(Exception):
    """The client closed the connection before it had an answer."""


class BodyRefused(Exception):
    """The body is not accepted; `answer` says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Head(NamedTuple):
    """What the routes need of a request's headers."""

    content_type: bytes = b""
    content_length: bytes = b""
    request_id: str = ""
    authorization: bytes = b""


def read_head(scope: Scope) -> Head:
    """Read the four headers that matter here."""
    content_type = content_length = authorization = b""
    request_id = ""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            content_length = value
        elif name == b"x-request-id":
            request_id = value.decode("latin-1")
        elif name == b"authorization":
            authorization = value
    return Head(content_type, content_length, request_id, authorization)


async def read_body(
    receive: Receive, head: Head, *, max_bytes: int, deadline_seconds: float
) -> bytes:
    """Return the body of a POST.

    Raises: `BodyRefused` when it is not JSON by its type, too large or too slow; `ClientLeft`.
    """
    _check_head(head, max_bytes)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientLeft
    first: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return _checked(first, max_bytes)
    try:
        async with asyncio.timeout(deadline_seconds if deadline_seconds > 0 else None):
            return await _read_rest(receive, first, max_bytes)
    except TimeoutError:
        message_text = f"The body did not arrive within {deadline_seconds:g} s. Send it faster."
        raise BodyRefused(
            fault(HTTPStatus.REQUEST_TIMEOUT, message_text, headers=(CLOSE,))
        ) from None


async def _read_rest(receive: Receive, first: bytes, max_bytes: int) -> bytes:
    parts, size = [first], len(first)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise BodyRefused(_too_large(size, max_bytes))
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_head(head: Head, max_bytes: int) -> None:
    kind = head.content_type.split(b";", 1)[0].strip().lower()
    if kind != b"application/json":
        raise BodyRefused(
            fault(
                HTTPStatus.BAD_REQUEST,
                "The Content-Type must be application/json, with the request as its body.",
            )
        )
    if len(head.request_id) > MAX_REQUEST_ID_CHARS:
        raise BodyRefused(
            fault(
                HTTPStatus.BAD_REQUEST,
                f"X-Request-Id has {len(head.request_id)} characters; at most"
                f" {MAX_REQUEST_ID_CHARS} are accepted.",
            )
        )
    if head.content_length.isdigit() and int(head.content_length) > max_bytes:
        raise BodyRefused(_too_large(int(head.content_length), max_bytes))


def _checked(body: bytes, max_bytes: int) -> bytes:
    if len(body) > max_bytes:
        raise BodyRefused(_too_large(len(body), max_bytes))
    return body


def _too_large(size: int, max_bytes: int) -> Answer:
    return fault(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body has at least {size} bytes; at most {max_bytes} are accepted."
        " Send a shorter request, or raise max_body_bytes.",
        headers=(CLOSE,),
    )
