"""A value of the request enters; the same value leaves, or an error that names its path.

Rules of this file: a path is a JSON path into the request (`messages[1].content`). A message never
quotes the request's text. Text with a lone surrogate is refused, since no encoder can read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foreword.errors import InvalidRequest, MalformedRequest


def require_text(value: object, path: str) -> str:
    """Return `value` when it is text that can be encoded.

    Raises: `MalformedRequest` when it is not a string; `InvalidRequest` for a lone surrogate.
    """
    if not isinstance(value, str):
        raise wrong_type(value, path, expected="a string")
    if not is_encodable(value):
        raise lone_surrogate(path)
    return value


def check_strings(value: object, path: str) -> None:
    """Check every string inside a JSON value, the keys of its objects too.

    Raises: `InvalidRequest` for a lone surrogate, with the path of the string that holds it.

    Why: two walks; the first keeps no paths, because nearly every value is clean.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if not is_encodable(item):
                raise lone_surrogate(find_surrogate(value, path) or path)
        elif isinstance(item, Mapping):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)


def wrong_type(value: object, path: str, *, expected: str) -> MalformedRequest:
    """Return the error for a value of another JSON type than `expected`."""
    return MalformedRequest(f"{path} must be {expected}, not {json_type(value)}.", param=path)


def json_type(value: object) -> str:
    """Return what JSON calls a value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "an array"
    return f"a Python {type(value).__name__}"


def is_encodable(text: str) -> bool:
    """Return whether a text is Unicode: whether it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def lone_surrogate(path: str) -> InvalidRequest:
    """Return the error for a text that no encoder can read; an empty path is the whole body."""
    return InvalidRequest(
        f"{path or 'The body'} holds a lone surrogate (half of a \\uD800-\\uDFFF pair), which is"
        " not text. Send the whole pair, or replace it by U+FFFD.",
        param=path or None,
    )


def find_surrogate(value: object, path: str = "") -> str | None:
    """Return the path of a string in a JSON value that is no Unicode, or None.

    An object's path stands for its keys.
    """
    pending: list[tuple[Any, str]] = [(value, path)]
    while pending:
        item, where = pending.pop()
        if isinstance(item, str):
            if not is_encodable(item):
                return where
        elif isinstance(item, Mapping):
            if not all(is_encodable(key) for key in item if isinstance(key, str)):
                return where
            prefix = f"{where}." if where else ""
            pending.extend((child, f"{prefix}{key}") for key, child in item.items())
        elif isinstance(item, (list, tuple)):
            pending.extend((child, f"{where}[{place}]") for place, child in enumerate(item))
    return None
