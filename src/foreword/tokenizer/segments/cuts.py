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
_LOOKAHEAD_CHARS = 2


def next_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    """Return the first cut between words in `[start, stop)`, or None."""
    if rules.places is None:
        return None
    place, refusals = max(start, 1), 0
    end = min(stop + _LOOKAHEAD_CHARS, len(text))
    while refusals < _MAX_REFUSALS:
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
    start, stop = max(start, 1), min(stop, len(text))
    end = min(stop + _LOOKAHEAD_CHARS, len(text))
    places = [found.start() for found in rules.places.finditer(text, start, end)]
    candidates = (place for place in reversed(places[-_MAX_REFUSALS:]) if place < stop)
    return next((place for place in candidates if rules.holds(text, place)), None)


def next_token_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    """Return the first cut before an added token in `[start, stop)`, or None."""
    best = None
    for prefix in rules.added_tokens.anchors:
        place = text.find(prefix, start, stop + 1)
        while place >= 0 and not rules.is_cut_at_token(text, place):
            place = text.find(prefix, place + 1, stop + 1)
        if place >= 0:
            best, stop = place, place
    return best


def previous_token_cut(rules: CutRules, text: str, start: int, stop: int) -> int | None:
    """Return the last cut before an added token in `[start, stop)`, or None."""
    best = None
    for prefix in rules.added_tokens.anchors:
        place = text.rfind(prefix, start, stop + 1)
        while place >= 0 and not rules.is_cut_at_token(text, place):
            place = text.rfind(prefix, start, place + 1)
        if place >= 0:
            best, start = place, place + 1
    return best


def iterate_cuts(
    rules: CutRules, text: str, *, start: int = 0, stop: int | None = None, target_chars: int
) -> Iterator[int]:
    """Yield cuts from `start` on, about `target_chars` apart.

    A cut before an added token is taken from a quarter of the target on, so that the pieces of a
    message are the same wherever the message stands. Where a text offers no cut the next look is
    twice as far away.
    """
    end = len(text) if stop is None else stop
    last = start
    while end - last > target_chars:
        place = next_token_cut(rules, text, last + target_chars // 4, last + target_chars)
        if place is None:
            place = _cut_beyond(rules, text, last, end, target_chars)
        if place is None:
            return
        yield place
        last = place


def _cut_beyond(rules: CutRules, text: str, last: int, end: int, target_chars: int) -> int | None:
    reach = target_chars
    while last + reach < end:
        start = last + reach
        place = next_cut(rules, text, start, min(start + WINDOW_CHARS, end))
        high = min(last + 2 * reach, end) if place is None else place
        token = next_token_cut(rules, text, start, high)
        if token is not None or place is not None:
            return place if token is None else token
        reach *= 2
    return None


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
