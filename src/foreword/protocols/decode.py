"""A request's bytes (or a dict) enter; a checked request struct leaves.

Rules of this file: every fault of the body becomes a 400 that names the field by its path. A
caller's dict is copied before it is read, so nothing shared can change later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from foreword.chat.checks import find_surrogate, lone_surrogate
from foreword.errors import InvalidRequest, MalformedRequest
from foreword.protocols.faults import explain_validation
from foreword.sampling import StructuredOutputs

T = TypeVar("T")

MAX_NESTING = 200
"""Arrays and objects inside each other; a chat with tools and schemas has less than 30."""

_BOM = b"\xef\xbb\xbf"
_CONTAINERS = (dict, list, msgspec.Struct, StructuredOutputs)


def decode_request(
    body: bytes | bytearray | memoryview | str | Mapping[str, Any],
    type: type[T],  # noqa: A002 (msgspec's own word)
    *,
    max_bytes: int | None,
    max_nesting: int = MAX_NESTING,
) -> T:
    """Return `body` as a request of the given struct type.

    Shapes: numbers may come as strings, as pydantic's lax mode allows; unknown fields are ignored.
    A byte order mark before the JSON is passed over.
    `max_bytes` None sets no limit; a dict has none, and nests at most `MAX_NESTING` deep.

    Raises: `MalformedRequest` for a body that is not JSON or has a wrong type; `InvalidRequest`
    for one that is too large, nests too deeply, holds a lone surrogate or contradicts itself.
    """
    if isinstance(body, Mapping):
        return _convert(_copy_object(body), type)
    data = without_bom(_to_bytes(body))
    if max_bytes is not None and len(data) > max_bytes:
        raise InvalidRequest(
            f"The body has {len(data)} bytes; at most {max_bytes} are accepted."
            " Send a shorter request.",
            details={"num_bytes": len(data), "max_bytes": max_bytes},
        )
    try:
        request = msgspec.json.decode(data, type=type, strict=False)
    except msgspec.ValidationError as error:
        raise explain_validation(error, type) from None
    except msgspec.DecodeError as error:
        raise _not_json(data, str(error)) from None
    except RecursionError:
        raise _too_deep(max_nesting) from None
    if sum(count_up_to(data, char, max_nesting + 1) for char in (b"[", b"{")) > max_nesting:
        _check_nesting(request, max_nesting)
    return request


def without_bom(data: bytes) -> bytes:
    """Return bytes of JSON without the mark that some editors and shells put before UTF-8."""
    return data.removeprefix(_BOM)


def count_up_to(data: bytes, char: bytes, most: int) -> int:
    """Return how often a byte occurs in `data`, or `most` when it is as often or more.

    Why not count(): that looks at every byte by itself. This jumps from one to the next, ten times
    as fast where there are few, and stops after `most`.
    """
    return len(data) - len(data.replace(char, b"", most))


def _convert(body: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise explain_validation(error, kind) from None


def _to_bytes(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, str):
        # A surrogate written as itself is found by the same search as an escaped one.
        return body.encode("utf-8", "surrogatepass")
    raise MalformedRequest("The body must be JSON text or a mapping.")


# -- a dict --------------------------------------------------------------------------------------


def _copy_object(body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = _copy(body, MAX_NESTING)
    except UnicodeEncodeError:
        raise lone_surrogate(find_surrogate(body) or "") from None
    return copied


def _copy(value: Any, depth: int) -> Any:
    """Return `value` with its own dicts and lists; keys become text, as JSON would have them."""
    if isinstance(value, str):
        if not value.isascii():
            value.encode()
        return value
    if depth == 0 and isinstance(value, (Mapping, list, tuple)):
        raise _too_deep(MAX_NESTING)
    if isinstance(value, Mapping):
        return {_copy_key(key): _copy(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > 8 and set(map(type, value)) == {int}:
            return list(value)
        return [_copy(item, depth - 1) for item in value]
    return value


def _copy_key(key: Any) -> Any:
    if isinstance(key, str):
        if not key.isascii():
            key.encode()
        return key
    return str(key) if type(key) is int else key


# -- what went wrong -----------------------------------------------------------------------------


def _check_nesting(request: object, max_nesting: int) -> None:
    """Refuse what nests too deeply, level by level.

    Why: the decoder's own limit is Python's recursion limit, which depends on who calls, and what
    it lets through would fail later, in a template.
    """
    level = [request]
    for _ in range(max_nesting):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise _too_deep(max_nesting)


def _children(item: object) -> list[object]:
    items: Iterable[object]
    if isinstance(item, dict):
        items = item.values()
    elif isinstance(item, list):
        items = item
    elif isinstance(item, StructuredOutputs):
        items = (item.json,)
    else:
        items = (getattr(item, name) for name in type(item).__struct_fields__)  # type: ignore[attr-defined]
    return [child for child in items if isinstance(child, _CONTAINERS)]


def _not_json(data: bytes, reason: str) -> InvalidRequest:
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return MalformedRequest(f"The body is not valid JSON: {_reason(reason)}.")
    path = find_surrogate(value)
    if path is None:
        return MalformedRequest(f"The body is not valid JSON: {_reason(reason)}.")
    return lone_surrogate(path)


def _reason(reason: str) -> str:
    text = reason.removeprefix("JSON is malformed: ").rstrip(".")
    return "it ends too early" if text == "Input data was truncated" else text


def _too_deep(max_nesting: int) -> InvalidRequest:
    return InvalidRequest(
        f"The body nests arrays and objects more than {max_nesting} deep (the setting"
        " max_nesting). Flatten it.",
        details={"max_nesting": max_nesting},
    )
