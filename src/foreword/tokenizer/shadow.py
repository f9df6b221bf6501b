"""What a fast engine answered enters; whether the reference agrees leaves, at a bounded cost.

Rules of this file: pure. A short text is compared whole; of a long one a stretch between two proved
cuts, whose ids must stand in the answer as they are. Where no cut is found, the whole is compared.

Why: the reference takes fifty times as long, and one request of a hundred would wait for it.
"""

from __future__ import annotations

from typing import NamedTuple

from foreword.tokenizer.accelerated import EncodeBatch
from foreword.tokenizer.encode import make_segment
from foreword.tokenizer.segments import CutRules, next_cut
from foreword.types import TokenIds

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
    if (start, stop) == (0, len(text)):
        return ids == wanted
    if start == 0 and ids[: len(wanted)] != wanted:
        return False
    if stop == len(text) and ids[max(len(ids) - len(wanted), 0) :] != wanted:
        return False
    num_places = _count_places(wanted, ids)
    if num_places > 1:  # a text that repeats itself: which of them is meant, and are all there?
        return ids == encode_reference([text])[0]
    return num_places == 1


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


def _count_places(wanted: TokenIds, ids: TokenIds) -> int:
    """Count the places where one row of ids stands in another, up to 2."""
    size = ids.itemsize
    row, part = ids.tobytes(), wanted.tobytes()
    count, place = 0, row.find(part)
    while place >= 0 and count < 2:
        count += place % size == 0
        place = row.find(part, place + 1)
    return count
