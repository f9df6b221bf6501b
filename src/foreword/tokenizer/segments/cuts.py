"""Find proved cuts in a text without reading all of it.

What enters: `CutRules`, a text, and where to look. What leaves: places, in characters.

Rules of this file: only short stretches are searched, near where a cut is wanted, so that a text
that offers none costs little. Looking is bounded; being exact never depends on where one looks.
"""

from __future__ import annotations

from collections.abc import Iterator

from foreword.tokenizer.segments.rules import CutRules

WINDOW_CHARS = 512
"""How far a search between words looks before it gives up."""
_MAX_REFUSALS = 64
_MAX_REFUSALS_IN_FULL = 200_000
"""A fifth of a second: more only where nearly every place looks like a cut and is none."""
_MAX_TOKENS_PASSED = 8
_LOOKAHEAD_CHARS = 2
_LAST_LOOK_CHARS = 32
"""Backwards, how much is looked at first; each further look is four times as wide."""


def next_cut(
    rules: CutRules, text: str, start: int, stop: int, *, max_refusals: int = _MAX_REFUSALS
) -> int | None:
    """Return the first cut between words in `[start, stop)`, or None.

    Shapes: `max_refusals` bounds how many places that look like one are asked.
    """
    if rules.places is None:
        return None
    place, refusals = max(start, 1), 0
    end = min(stop + _LOOKAHEAD_CHARS, len(text))
    while refusals < max_refusals:
        found = rules.places.search(text, place, end)
        if found is None or found.start() >= min(stop, len(text)):
            return None
        if rules.holds(text, found.start()):
            return found.start()
        place, refusals = found.start() + 1, refusals + 1
    return None


def previous_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    """Return the last cut between words in `[start, stop)`, or None."""
    if rules.places is None:
        return None
    low, stop = max(start, 1), min(stop, len(text))
    high, size = stop, _LAST_LOOK_CHARS
    while high > low:
        begin = max(high - size, low)
        end = min(high + _LOOKAHEAD_CHARS, len(text))
        places = [found.start() for found in rules.places.finditer(text, begin, end)]
        for place in reversed(places[-_MAX_REFUSALS:]):
            if place < high and rules.holds(text, place):
                return place
        high, size = begin, size * 4
    return None


def next_token_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    """Return the first cut before an added token in `[start, stop)`, or None."""
    anchors, best = rules.added_tokens.anchors, None
    # One character is found ten times as fast as two; where it is frequent, two are looked for.
    for char in rules.added_tokens.first_chars:
        place, is_cut = _search_token(rules, text, char, start, stop)
        if is_cut:
            best = stop = place
        elif place >= 0:
            for prefix in anchors:
                found, is_cut = _search_token(rules, text, prefix, place, stop)
                if is_cut:
                    best = stop = found
    return best


def _search_token(
    rules: CutRules, text: str, needle: str, start: int, stop: int
) -> tuple[int, bool]:
    """Return the first cut where `needle` stands, or where the search gave up (-1: nowhere)."""
    end = stop - 1 + len(needle)
    place = text.find(needle, start, end)
    for _ in range(_MAX_REFUSALS):
        if place < 0:
            return -1, False
        if rules.is_cut_at_token(text, place):
            return place, True
        place = text.find(needle, place + 1, end)
    return place, False


def previous_token_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    """Return the last cut before an added token in `[start, stop)`, or None."""
    best = None
    for prefix in rules.added_tokens.anchors:
        place = text.rfind(prefix, start, stop + 1)
        for _ in range(_MAX_REFUSALS):
            if place < 0 or rules.is_cut_at_token(text, place):
                break
            place = text.rfind(prefix, start, place + 1)
        else:
            continue
        if place >= 0:
            best, start = place, place + 1
    return best


class _TokenCuts:
    """The cuts before added tokens, asked for from the front: nothing is looked at twice.

    `[_begin, _end)` holds none; `_is_cut` says whether one stands at `_end`.
    """

    __slots__ = ("_begin", "_end", "_is_cut", "_rules", "_text")

    def __init__(self, rules: CutRules, text: str) -> None:
        self._rules, self._text = rules, text
        self._begin = self._end = 0
        self._is_cut = False

    def next(self, start: int, stop: int) -> int | None:
        """Return the first cut before an added token in `[start, stop)`, or None."""
        if not self._begin <= start <= self._end:
            self._begin, self._end, self._is_cut = start, start, False
        if self._is_cut:
            return self._end if self._end < stop else None
        if self._end >= stop:
            return None
        found = next_token_cut(self._rules, self._text, self._end, stop)
        self._end, self._is_cut = (stop, False) if found is None else (found, True)
        return found


def iterate_cuts(
    rules: CutRules,
    text: str,
    *,
    start: int = 0,
    stop: int | None = None,
    target_chars: int,
    at_messages: bool = True,
) -> Iterator[int]:
    """Yield cuts from `start` on, about `target_chars` apart.

    With `at_messages` cuts before added tokens come first, so that a long message is cut alike
    wherever it stands. Where a text offers no cut the next look is twice as far away.
    """
    end = len(text) if stop is None else stop
    tokens = _TokenCuts(rules, text)
    last = start
    while end - last > target_chars:
        place = _cut_at_message(tokens, last, end, target_chars) if at_messages else None
        if place is None:
            place = _cut_beyond(rules, tokens, text, last, end, target_chars)
        if place is None:
            return
        yield place
        last = place


def _cut_at_message(tokens: _TokenCuts, last: int, end: int, target_chars: int) -> int | None:
    """Return the first added token that begins a long stretch, else one that ends a long enough.

    Why: an end-of-turn token stands right before the next turn's; the cut belongs to the latter.
    """
    near, stop = target_chars // 4, last + target_chars
    place = tokens.next(last + 1, stop)
    if place is None:
        return None
    for _ in range(_MAX_TOKENS_PASSED):
        if place is None or place >= stop:
            break
        following = tokens.next(place + 1, min(place + near, end))
        if following is None and end - place > near:
            return place
        place = following
    return tokens.next(last + near, stop)


def _cut_beyond(
    rules: CutRules, tokens: _TokenCuts, text: str, last: int, end: int, target_chars: int
) -> int | None:
    reach = target_chars
    while last + reach < end:
        start = last + reach
        place = next_cut(rules, text, start, min(start + WINDOW_CHARS, end))
        high = min(last + 2 * reach, end) if place is None else place
        token = tokens.next(start, high)
        if token is not None or place is not None:
            return place if token is None else token
        reach *= 2
    return None


def iterate_cuts_in_full(
    rules: CutRules, text: str, *, start: int, stop: int, target_chars: int
) -> Iterator[int]:
    """Yield cuts in `(start, stop)`, about `target_chars` apart, and read all that lies between.

    Why: a stretch is only called too long when all of it was looked at.
    """
    tokens, last = _TokenCuts(rules, text), start
    while stop - last > target_chars:
        near = last + target_chars
        place = next_cut(rules, text, near, stop, max_refusals=_MAX_REFUSALS_IN_FULL)
        token = tokens.next(near, stop if place is None else place)
        following = next((one for one in (token, place) if one is not None), stop)
        if following - near > target_chars:
            # What comes now is long by itself: it begins as late as it can.
            following = _last_cut(rules, text, last + 1, near) or following
        last = following
        if last < stop:
            yield last


def _last_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    places = (previous_cut(rules, text, start, stop), previous_token_cut(rules, text, start, stop))
    return max((place for place in places if place is not None), default=None)


def iterate_cuts_backwards(
    rules: CutRules, text: str, *, start: int = 0, stop: int | None = None, target_chars: int
) -> Iterator[int]:
    """Yield cuts from `stop` back, about `target_chars` apart, the last first."""
    last = len(text) if stop is None else stop
    while last - start > target_chars:
        low = last - target_chars
        place = previous_token_cut(rules, text, low, last - target_chars // 4)
        if place is None:
            place = _cut_before(rules, text, start, last, target_chars)
        if place is None:
            return
        yield place
        last = place


def _cut_before(rules: CutRules, text: str, start: int, last: int, target_chars: int) -> int | None:
    reach = target_chars
    while last - reach > start:
        stop = last - reach
        place = previous_cut(rules, text, max(stop - WINDOW_CHARS, start + 1), stop)
        low = max(last - 2 * reach, start + 1) if place is None else place + 1
        token = previous_token_cut(rules, text, low, stop)
        if token is not None or place is not None:
            return token if token is not None else place
        reach *= 2
    return None


def stable_prefix(rules: CutRules, text: str, *, target_chars: int) -> int:
    """Return the last cut of `text` that no text appended to it could change, or 0.

    Why: a text that ends in `<|im_` and grows `end|>` changes its own last cuts; a place is stable
    when every added token, flag and neighbour that could speak against it lies inside `text`.
    """
    places = list(iterate_cuts(rules, text, target_chars=target_chars))
    stable = (place for place in reversed(places) if rules.is_cut(text, place, is_open=True))
    return next(stable, 0)
