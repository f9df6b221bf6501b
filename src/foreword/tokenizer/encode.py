"""Plan how a text is encoded in pieces, and put the pieces' answers together again.

What enters: `CutRules` and a text; later the ids and offsets of each piece. What leaves:
`Segment`s, then the ids and offsets of the whole.

Rules of this file: pure; it never encodes. Pieces are encoded by the reference without special
tokens, truncation or padding; the post-processor's tokens are put around the whole by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from foreword.tokenizer.segments import (
    CutRules,
    iterate_cuts,
    iterate_cuts_backwards,
    iterate_cuts_in_full,
)
from foreword.types import Offsets, Span, TokenIds, make_token_ids

TARGET_CHARS = 3000
"""Characters a piece should have: few enough to share, enough to make its own cost small."""
_CHARS_PER_TOKEN = 3
"""A low guess, so that a bounded encode rarely needs a second batch."""


class Segment(NamedTuple):
    """A piece of a text: characters `[start, stop)`, of which `[encode_from, stop)` are encoded."""

    start: int
    stop: int
    encode_from: int
    """One past `start` when the normalizer itself puts a space before the piece."""

    def of(self, text: str) -> str:
        """Return what the reference is to encode."""
        return text[self.encode_from : self.stop]


def plan(
    rules: CutRules,
    text: str,
    *,
    start: int = 0,
    target_chars: int = TARGET_CHARS,
) -> tuple[Segment, ...]:
    """Cut `text[start:]` into segments; encoded one by one they give the ids of the whole.

    Shapes: the segments cover `[start, len(text))` without gaps. `start` is 0 or a cut of `text`.
    """
    return tuple(head_segments(rules, text, start=start, target_chars=target_chars))


def head_segments(
    rules: CutRules,
    text: str,
    *,
    start: int = 0,
    target_chars: int = TARGET_CHARS,
    at_messages: bool = True,
) -> Iterator[Segment]:
    """Yield the segments of `plan`, found one by one from the front.

    With `at_messages` a long message is cut alike wherever it stands, so that its pieces are found
    in the memo; that takes more looking than cuts about `target_chars` apart.
    """
    cuts = iterate_cuts(
        rules, text, start=start, target_chars=target_chars, at_messages=at_messages
    )
    yield from _between(rules, text, start, cuts, len(text))


def shorter_segments(
    rules: CutRules, text: str, segment: Segment, *, target_chars: int
) -> Iterator[Segment]:
    """Yield what a segment that is too long can be cut into, from the front, reading all of it."""
    start, stop = segment.start, segment.stop
    cuts = iterate_cuts_in_full(rules, text, start=start, stop=stop, target_chars=target_chars)
    yield from _between(rules, text, start, cuts, stop)


def _between(
    rules: CutRules, text: str, start: int, cuts: Iterable[int], stop: int
) -> Iterator[Segment]:
    last = start
    for cut in chain(cuts, (stop,)):
        if cut > last:
            yield make_segment(rules, text, last, cut)
        last = cut


def tail_segments(
    rules: CutRules, text: str, *, start: int = 0, target_chars: int = TARGET_CHARS
) -> Iterator[Segment]:
    """Yield segments that cover `text[start:]`, the last one first."""
    cuts = iterate_cuts_backwards(rules, text, start=start, target_chars=target_chars)
    last = len(text)
    for cut in chain(cuts, (start,)):
        if cut < last:
            yield make_segment(rules, text, cut, last)
        last = cut


def make_segment(rules: CutRules, text: str, start: int, stop: int) -> Segment:
    """Return the segment between two cuts (or ends) of `text`."""
    drops = rules.drops_space and start > 0 and text[start] == " "
    return Segment(start, stop, start + 1 if drops else start)


def batch(segments: Iterable[Segment], *, num_tokens: int) -> Iterator[tuple[Segment, ...]]:
    """Group `segments` so that the first batch probably holds `num_tokens` ids.

    Why: when only so many ids can matter the caller encodes a batch in parallel, counts, and stops
    at enough. Later batches are a quarter of the first.
    """
    wanted = num_tokens * _CHARS_PER_TOKEN + 1
    batched: list[Segment] = []
    num_chars = 0
    for segment in segments:
        batched.append(segment)
        num_chars += segment.stop - segment.start
        if num_chars >= wanted:
            yield tuple(batched)
            batched, num_chars, wanted = [], 0, num_tokens * _CHARS_PER_TOKEN // 4 + 1
    if batched:
        yield tuple(batched)


def assemble(pieces: Iterable[TokenIds], *, onto: TokenIds | None = None) -> TokenIds:
    """Return the ids of the whole from the ids of its segments, in order.

    `onto` holds the ids before them, and is extended: a long beginning is not copied again.
    """
    whole = make_token_ids() if onto is None else onto
    for piece in pieces:
        whole.extend(piece)
    return whole


def assemble_offsets(segments: Iterable[Segment], pieces: Iterable[Sequence[Span]]) -> Offsets:
    """Return the offsets of the whole from each segment's own, in order.

    Shapes: a piece's spans count from the first character that was encoded.
    """
    starts, stops = make_token_ids(), make_token_ids()
    for segment, spans in zip(segments, pieces, strict=True):
        base = segment.encode_from
        starts.extend([base + start for start, _ in spans])
        stops.extend([base + stop for _, stop in spans])
        if segment.encode_from > segment.start and spans:
            _cover_dropped_space(segment, spans, starts, stops)
    return Offsets(starts=starts, stops=stops)


def _cover_dropped_space(
    segment: Segment, spans: Sequence[Span], starts: TokenIds, stops: TokenIds
) -> None:
    """Give the dropped space back to the piece's first token.

    Why: alone, the reference aligns what it prepends with the first character. When the second
    token begins at that character too, the first is the prepended space and nothing else.
    """
    first = len(starts) - len(spans)
    starts[first] = segment.start
    if len(spans) > 1 and spans[1][0] == spans[0][0]:
        stops[first] = segment.start + 1
