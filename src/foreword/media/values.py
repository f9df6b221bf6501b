"""How a file's value becomes a constant: one function a spelling.

Rules of this file: an unfit value raises `TypeError`, `ValueError`, `KeyError` or `IndexError`,
which `files` turns into an error that names the key.
"""

from __future__ import annotations

import math
from typing import Any

from foreword.media.files import Constant

RESIZES = Constant("do_resize", ("image:do_resize",), True, only=(True,))
"""Without resizing, counts follow other rules."""


def positive(value: Any) -> int:
    """Read a whole number above zero."""
    if type(value) is not int or value <= 0:
        raise ValueError(value)
    return value


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def number(value: Any) -> int:
    """Read a whole number that may be zero."""
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def square(value: Any) -> int:
    """Read a side given as a number, a pair or {"height", "width"}, both the same."""
    if isinstance(value, dict):
        value = [value["height"], value["width"]]
    if isinstance(value, list):
        height, width = value
        if height != width:
            raise ValueError(value)
        value = height
    return positive(value)


def canvases(value: Any) -> tuple[tuple[int, int], ...]:
    """Read [[height, width], …] as (width, height) pairs."""
    pairs = tuple((positive(width), positive(height)) for height, width in value)
    if not pairs:
        raise ValueError(value)
    return pairs


def is_default_strategy(value: Any) -> bool:
    """Read whether the first feature (CLS) is dropped: `default` does, `full` does not."""
    return {"default": True, "full": False}[value]


def max_tiles(value: Any) -> int:
    """Read the number in `anyres_max_9`."""
    if not isinstance(value, str) or not value.startswith("anyres_max_"):
        raise ValueError(value)
    return positive(int(value.removeprefix("anyres_max_")))


def square_root(value: Any) -> int:
    """Read a number of patches as the side of their square."""
    side = math.isqrt(positive(value))
    if side * side != value:
        raise ValueError(value)
    return side


def seconds_at_16khz(value: Any) -> int:
    """Read seconds as samples at 16 kHz."""
    return positive(value) * 16_000


def patches_per_token(value: Any) -> int:
    """Read MiniCPM's `16x` or `4x`."""
    return {"16x": 16, "4x": 4}[value]
