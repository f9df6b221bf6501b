"""What a route found out enters: a result, or an error; the ASGI messages of its answer leave.

Rules of this file: an error's body has exactly the four keys OpenAI-style clients read. Nothing
that is not a `ForewordError` says more to the client than that it happened.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from foreword.errors import DeadlineExceeded, ForewordError, Overloaded
from foreword.protocols.error_body import error_body
from foreword.service.logs import log

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
CLOSE: Header = (b"connection", b"close")


class Answer(NamedTuple):
    """An HTTP answer: `code` is the error's own code, for the metrics, and empty without one."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()
    code: str = ""


def json_answer(value: Any, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
    """Answer with a value as JSON."""
    return Answer(status, msgspec.json.encode(value), headers)


def error_answer(error: ForewordError) -> Answer:
    """Answer with an error, in the client's dialect."""
    headers: tuple[Header, ...] = ()
    if isinstance(error, Overloaded | DeadlineExceeded):
        seconds = error.details.get("retry_after_seconds", 1)
        headers = ((b"retry-after", str(seconds).encode()),)
    return Answer(error.status, msgspec.json.encode(error_body(error)), headers, error.code)


def fault(
    status: HTTPStatus, message: str, *, param: str | None = None, headers: tuple[Header, ...] = ()
) -> Answer:
    """Answer with an error of HTTP itself: a route, a method, a key, a body."""
    kind = "NotImplementedError" if status == HTTPStatus.NOT_IMPLEMENTED else status.phrase
    error = {"message": message, "type": kind, "param": param, "code": status.value}
    code = status.phrase.lower().replace(" ", "_")
    return Answer(status.value, msgspec.json.encode({"error": error}), headers, code)


def unexpected(error: BaseException, *, with_message: bool) -> Answer:
    """Log a fault of our own and answer 500; the message may hold prompts, so it is asked for."""
    log(
        logging.ERROR,
        "request failed unexpectedly",
        error=type(error).__name__,
        **({"message": str(error)} if with_message else {}),
        traceback="".join(traceback.format_tb(error.__traceback__)),
    )
    return fault(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The service failed on this request; its log says where. Please report it.",
    )._replace(code="unexpected")


async def send_answer(send: Send, answer: Answer, *extra: Header) -> None:
    """Send an answer as one response."""
    headers = [
        JSON,
        (b"content-length", str(len(answer.body)).encode()),
        *answer.headers,
        *extra,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
