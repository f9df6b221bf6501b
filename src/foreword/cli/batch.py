"""A file of requests enters, line by line; as many lines of answers leave, in the same order.

Rules of this file: one line is in memory at a time, and every line is answered, whatever it is.
An answer or error has the HTTP shape.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import msgspec

from foreword.cli.inputs import MAX_BODY_BYTES, STDIN, open_file
from foreword.cli.json_output import to_json
from foreword.cli.model import load_renderer
from foreword.cli.output import Console, exit_code
from foreword.cli.progress import Progress
from foreword.cli.values import render_one
from foreword.diagnosis import RequestKind
from foreword.errors import (
    ForewordError,
    InvalidRequest,
    MalformedRequest,
)
from foreword.protocols.decode import decode_request
from foreword.protocols.error_body import error_body
from foreword.renderer import Renderer, kind_of

_WRAPPING_BYTES = 64 * 1024
"""What a batch file's line may hold beside the body."""
_KINDS: Mapping[str, RequestKind] = {"/chat/completions": "chat", "/completions": "completion"}


class _Line(NamedTuple):
    data: bytes
    num_bytes: int


class _Answer(NamedTuple):
    status: int
    custom_id: object
    key: str
    value: Any


class _Probe(msgspec.Struct):
    """The keys that tell a line of an OpenAI batch file from a bare body."""

    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    url: Any = msgspec.UNSET
    custom_id: Any = msgspec.UNSET


def render_batch(options: Namespace, console: Console, target: Console, station: str) -> int:
    """Render every line and return the exit code: of the gravest fault, if there was any."""
    source = sys.stdin.buffer if options.batch == STDIN else open_file(options.batch)
    with source:
        renderer = load_renderer(options, console.warn)
        is_file = options.batch != STDIN and os.path.isfile(options.batch)
        progress = Progress(
            console.err,
            console.err_style,
            is_shown=not console.is_quiet,
            total_bytes=os.fstat(source.fileno()).st_size if is_file else None,
        )
        codes = {0}
        try:
            for index, line in enumerate(_lines(source)):
                answer, code = _answer(renderer, line, options, station)
                codes.add(code)
                _write(target, index, answer)
                progress.add(line.num_bytes, failed=code != 0)
        finally:
            progress.close()
    return next(code for code in (3, 4, 2, 0) if code in codes)


def _lines(source: IO[bytes]) -> Iterator[_Line]:
    """Yield the lines; of one that is too long only its beginning, and its true size."""
    limit = MAX_BODY_BYTES + _WRAPPING_BYTES
    while data := source.readline(limit + 1):
        num_bytes, piece = len(data), data
        while not piece.endswith(b"\n") and (piece := source.readline(1 << 20)):
            num_bytes += len(piece)
        yield _Line(data, num_bytes)


def _answer(
    renderer: Renderer, line: _Line, options: Namespace, station: str
) -> tuple[_Answer, int]:
    custom_id: object = msgspec.UNSET
    try:
        probe = _probe(line)
        custom_id = probe.custom_id
        request, kind = _unwrap(line, probe, options)
        value = render_one(renderer, request, kind=kind, station=station)
    except ForewordError as error:
        return _Answer(error.status, custom_id, "error", error_body(error)["error"]), exit_code(
            error
        )
    except Exception as error:  # no line is lost, whatever happens inside
        return _Answer(500, custom_id, "error", _internal_error(error)), 3
    return _Answer(200, custom_id, "response", value), 0


def _probe(line: _Line) -> _Probe:
    limit = MAX_BODY_BYTES + _WRAPPING_BYTES
    if line.num_bytes > limit:
        raise InvalidRequest(
            f"The line has {line.num_bytes} bytes; at most {MAX_BODY_BYTES} are accepted."
            " Send a shorter request.",
            details={"num_bytes": line.num_bytes, "max_bytes": MAX_BODY_BYTES},
        )
    if not line.data.strip():
        raise MalformedRequest("The line is empty. Write one request a line.")
    return decode_request(line.data, _Probe, max_bytes=None)


def _unwrap(line: _Line, probe: _Probe, options: Namespace) -> tuple[bytes, RequestKind]:
    """Return the body, and which API it is for."""
    is_wrapped = isinstance(probe.body, msgspec.Raw) and probe.url is not msgspec.UNSET
    body = bytes(probe.body) if isinstance(probe.body, msgspec.Raw) and is_wrapped else line.data
    if options.runner == "pooling":
        return body, "pooling"
    return body, options.kind or (_kind_of_url(probe.url) if is_wrapped else kind_of(body))


def _kind_of_url(url: object) -> RequestKind:
    path = url.removesuffix("/render") if isinstance(url, str) else ""
    for ending, kind in _KINDS.items():
        if path.endswith(ending):
            return kind
    raise MalformedRequest(
        "url must be /v1/chat/completions or /v1/completions: no other request is generated from.",
        param="url",
    )


def _internal_error(error: Exception) -> dict[str, Any]:
    return {
        "message": f"An error inside foreword ({type(error).__name__}); it is a bug.",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }


def _write(target: Console, index: int, answer: _Answer) -> None:
    row: dict[str, Any] = {"index": index, "status": answer.status}
    if answer.custom_id is not msgspec.UNSET:
        row = {"index": index, "custom_id": answer.custom_id, "status": answer.status}
    row[answer.key] = answer.value
    target.out.write(to_json(row).decode() + "\n")
    target.out.flush()
