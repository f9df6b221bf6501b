"""What a fast engine answered enters; whether the reference agrees leaves, at a bounded cost.

Rules of this file: pure. A short text is compared whole; of a long one a stretch between two proved
cuts, whose ids must stand in the answer as they are. Where no cut is found, the whole is compared.

Why: the reference takes fifty times as long, and one request of a hundred would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from foreword.tokenizer.encode import make_segment
from foreword.tokenizer.segments import CutRules, next_cut
from foreword.types import TokenIds

EncodeBatch = Callable[[Sequence[str]], list[TokenIds]]

STRETCH_CHARS = 16_384
"""About 10 ms of the reference."""
_LOOK_CHARS = 4096
_SPREAD = 2_654_435_761
"""Multiplied by it, consecutive numbers lie far apart."""


class Stretch(NamedTuple):
    """Characters `[start, stop)` of a text."""

    start: int
    stop: int


def agrees(
    rules: CutRules, text: str, ids: TokenIds, encode_reference: EncodeBatch, number: int
) -> bool:
    """Say whether `ids` are the reference's for `text`, as far as they are compared.

    `number` chooses the stretch of a long text: other numbers, other places.
    """
    start, stop = choose_stretch(rules, text, number)
    (wanted,) = encode_reference([make_segment(rules, text, start, stop).of(text)])
    if start == 0:
        return ids == wanted if stop == len(text) else ids[: len(wanted)] == wanted
    if stop == len(text):
        return ids[max(len(ids) - len(wanted), 0) :] == wanted
    return _stands_in(wanted, ids)


def choose_stretch(rules: CutRules, text: str, number: int) -> Stretch:
    """Return what of `text` is compared: all of it where it is short, or offers no cut there."""
    whole = Stretch(0, len(text))
    if len(text) <= 2 * STRETCH_CHARS:
        return whole
    at = number * _SPREAD % (len(text) - STRETCH_CHARS)
    is_near_end = at + STRETCH_CHARS + 2 * _LOOK_CHARS > len(text)
    start = 0 if at < _LOOK_CHARS else next_cut(rules, text, at, at + _LOOK_CHARS)
    if start is None:
        return whole
    begin = start + STRETCH_CHARS
    stop = len(text) if is_near_end else next_cut(rules, text, begin, begin + _LOOK_CHARS)
    return whole if stop is None else Stretch(start, stop)


def _stands_in(wanted: TokenIds, ids: TokenIds) -> bool:
    """Say whether one row of ids is part of another."""
    size = ids.itemsize
    row, part = ids.tobytes(), wanted.tobytes()
    place = row.find(part)
    while place >= 0 and place % size:
        place = row.find(part, place + 1)
    return place >= 0
