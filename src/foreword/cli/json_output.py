"""Values enter; JSON for a program, or for a reader, leaves.

Rules of this file: one value has one compact form, whatever the terminal; only the layout for a
reader depends on its width.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from foreword.cli.output import Console
from foreword.types import Offsets


def write_json(console: Console, value: object, indent: int | None = None) -> None:
    """Print a value as JSON: on a terminal for a reader, else as one line."""
    if indent is None and not console.is_terminal:
        console.say(to_json(value).decode())
    else:
        console.say(pretty_json(value, 2 if indent is None else indent, console.width))


def to_plain(value: Any) -> Any:
    """Return a station's value as JSON has it: arrays as lists, offsets as pairs."""
    if isinstance(value, Offsets):
        return [list(span) for span in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, array | bytes):
        return list(value)
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value


def to_json(value: object) -> bytes:
    """Return a plain value as compact JSON."""
    return msgspec.json.encode(value, enc_hook=to_plain)


def pretty_json(value: Any, indent: int, width: int) -> str:
    """Return a plain value as JSON for a reader: what fits on a line is on one line.

    Why: a prompt is thousands of ids; one a line helps nobody.
    """
    return _pretty(msgspec.json.decode(to_json(value)), indent, width, 0)


def _pretty(value: Any, indent: int, width: int, depth: int) -> str:
    if not isinstance(value, dict | list) or not value:
        return _one_line(value)
    room = width - indent * (depth + 1)
    is_flat = not isinstance(value, list) or not any(isinstance(v, dict | list) for v in value)
    if len(value) <= width and is_flat:
        line = _one_line(value)
        if len(line) <= room:
            return line
    start, end = "\n" + " " * (indent * (depth + 1)), "\n" + " " * (indent * depth)
    if isinstance(value, dict):
        rows = [
            f"{_one_line(key)}: {_pretty(item, indent, width, depth + 1)}"
            for key, item in value.items()
        ]
        return "{" + start + ("," + start).join(rows) + end + "}"
    if all(isinstance(item, int | float) for item in value):
        return "[" + start + start.join(_filled([_one_line(v) for v in value], room)) + end + "]"
    if all(isinstance(item, list) and len(item) <= 3 for item in value):
        return "[" + start + start.join(_filled([_one_line(v) for v in value], room)) + end + "]"
    rows = [_pretty(item, indent, width, depth + 1) for item in value]
    return "[" + start + ("," + start).join(rows) + end + "]"


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_one_line(k)}: {_one_line(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_one_line, value)) + "]"
    return msgspec.json.encode(value).decode()


def _filled(items: list[str], width: int) -> Iterator[str]:
    line, last = "", len(items) - 1
    for index, item in enumerate(items):
        piece = item + ("," if index < last else "")
        if line and len(line) + 1 + len(piece) > width:
            yield line
            line = piece
        else:
            line = f"{line} {piece}" if line else piece
    yield line
