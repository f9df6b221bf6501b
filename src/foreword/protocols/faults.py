"""A validation error of the decoder enters; the sentence and path a client reads leave.

Rules of this file: the client's value is never quoted, only its JSON type.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from foreword.errors import MalformedRequest

_WORDS = {
    "array": "an array",
    "bool": "a boolean",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
_EXPECTED = re.compile(r"Expected `([^`]+)`(?: (>=|<=|>|<) (\S+))?(?:, got `([^`]+)`)?")
_LENGTH = re.compile(r"Expected `array` of length (<=|>=) (\d+)")
_PATH = re.compile(r" - at .*?`\$(.*)`$")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def explain_validation(error: msgspec.ValidationError, request_type: Any) -> MalformedRequest:
    """Return the error for a field of the wrong type, with its path in the request."""
    text = str(error)
    path = _path_of(text)
    subject = path or "The body"
    return MalformedRequest(
        f"{subject} {_complaint(text, path, request_type)}.", param=path or None
    )


def _path_of(text: str) -> str:
    """Return `messages[1].content` for what the decoder calls `$.messages[1].content`."""
    missing = re.match(r"Object missing required field `([^`]+)`", text)
    found = _PATH.search(text)
    # The decoder writes `[...]` where it kept no key of a dict.
    path = found[1].split("[...]")[0].removeprefix(".") if found else ""
    if missing:
        return f"{path}.{missing[1]}" if path else missing[1]
    return path


def _complaint(text: str, path: str, request_type: Any) -> str:
    if text.startswith("Object missing required field"):
        return "is required"
    if text.startswith("Invalid enum value"):
        allowed = _allowed_values(path, request_type)
        return f"must be one of {allowed}" if allowed else "has a value that is not allowed"
    if text.startswith(("Integer value out of range", "Number out of range")):
        return "is a number too large to be represented"
    length = _LENGTH.match(text)
    if length:
        return f"must have {_BOUNDS[length[1]]} {length[2]} entries"
    expected = _EXPECTED.match(text)
    if expected is None:
        return "has a value of the wrong kind"
    kinds, bound, limit, got = expected.groups()
    wanted = " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))
    if bound:
        wanted += f", {_BOUNDS[bound]} {limit}"
    return f"must be {wanted}" + (f", not {_WORDS.get(got, got)}" if got else "")


def _allowed_values(path: str, request_type: Any) -> str:
    annotation = get_type_hints(request_type).get(path)
    parts = (annotation, *get_args(annotation))
    literals = [part for part in parts if get_origin(part) is Literal]
    return ", ".join(repr(value) for part in literals for value in get_args(part))
