"""The media stage: tokens with a placeholder an item in, tokens with the items expanded out.

Rules of this file: only the positions the caller gives are expanded, never tokens that look
alike; ids, offsets, spans and counts move together. Runs become ids here and nowhere before.

Why: a placeholder a user typed has the same id as an item's own; only its place tells them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from foreword.errors import InvalidRequest
from foreword.media.items import MediaItem
from foreword.media.model import MediaTokens
from foreword.media.places import place_items
from foreword.media.runs import IdRun, embed_mask, materialise
from foreword.types import (
    MediaSpan,
    Offsets,
    RenderedText,
    Span,
    TokenIds,
    Tokenizer,
    TokenSequence,
    make_token_ids,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedItem:
    """One item's place in the unexpanded tokens, `[start, stop)`, and what stands there instead.

    `runs` are its tokens (`media.to_id_runs`); `identity` names its content.
    """

    modality: str
    index: int
    start: int
    stop: int
    identity: str
    runs: tuple[IdRun, ...]


def expand_items(
    tokens: TokenSequence,
    rendered: RenderedText | None,
    items: Sequence[MediaItem],
    media: MediaTokens,
    tokenizer: Tokenizer,
    *,
    scope: str = "",
) -> TokenSequence:
    """Replace the placeholder of every item by what the model's family makes of it.

    Shapes: tokens that no text was rendered for tell the placeholders' places themselves, as spans.
    `scope` is as for encoding.

    Raises: as `place_items` and `expand`; `InvalidRequest` for an item the family refuses, for a
    token that an engine takes for media outside of every placeholder, and for tokens without
    offsets, or that stopped early.
    """
    places: Mapping[int, Span]
    runs = dict(enumerate(map(media.to_ids, media.count(items))))
    if rendered is None:
        places = {span.index: (span.start, span.stop) for span in tokens.spans}
    elif tokens.offsets is None or not tokens.is_complete:
        raise _stopped_early()
    else:
        tokens, places = place_items(tokens, rendered, runs, tokenizer, scope=scope)
    _check_reserved(tokens.token_ids, set(media.reserved().values()), places)
    expanded = [
        ExpandedItem(
            modality=item.modality,
            index=index,
            start=places[index][0],
            stop=places[index][1],
            identity=item.identity,
            runs=runs[index],
        )
        for index, item in enumerate(items)
    ]
    return expand(tokens, expanded, joins=media.joins())


def _check_reserved(
    token_ids: TokenIds, reserved_ids: Collection[int], places: Mapping[int, Span]
) -> None:
    own = {position for place in places.values() for position in range(*place)}
    for position, token_id in _reserved(token_ids, reserved_ids):
        if position not in own:
            raise InvalidRequest(
                f"Token {position} of the prompt ({token_id}) is one that stands for media, but it"
                " belongs to no item: the text spells a placeholder. Write it otherwise.",
                param="messages",
                details={"position": position, "token_id": token_id},
            )


def _reserved(token_ids: TokenIds, reserved_ids: Collection[int]) -> Iterator[tuple[int, int]]:
    for token_id in reserved_ids:
        position = -1
        for _ in range(token_ids.count(token_id)):
            position = token_ids.index(token_id, position + 1)
            yield position, token_id


def _stopped_early() -> InvalidRequest:
    return InvalidRequest(
        "Tokens that stopped early can't be expanded: encode a prompt with media whole.",
        param="messages",
    )


def expand(
    tokens: TokenSequence,
    items: Sequence[ExpandedItem],
    *,
    joins: Sequence[tuple[int, int, int]] = (),
) -> TokenSequence:
    """Replace each item's placeholder by its tokens, and say where each item stands.

    Shapes: the items' places are disjoint, in any order. Media tokens have no characters of their
    own: their offsets are (0, 0), as those of special tokens. `joins` are (left, right, merged)
    ids that become one where an expansion meets its neighbour, each tried everywhere in turn; a
    merged token counts as the later item's, so that a span starts where the engine says.

    Raises: `InvalidRequest` for places that overlap or lie outside, or tokens that stopped early.

    Source: vLLM 0.33: an item's range is its whole replacement, `is_embed` its embeddings.
    """
    if not items:
        return tokens
    ordered = sorted(items, key=lambda item: item.start)
    _check_places(tokens, ordered)
    pieces = _Pieces(has_offsets=tokens.offsets is not None)
    position = 0
    for item in ordered:
        pieces.copy(tokens, position, item.start)
        pieces.put(item)
        position = item.stop
    pieces.copy(tokens, position, len(tokens.token_ids))
    pieces.join(joins)
    return replace(
        tokens,
        token_ids=pieces.ids,
        offsets=pieces.offsets(),
        spans=tuple(pieces.span(place) for place in pieces.places),
    )


def placeholder_offsets(tokens: TokenSequence, rendered: RenderedText | None) -> Offsets | None:
    """Return offsets for people: an item's tokens have the characters of its placeholder."""
    offsets = tokens.offsets
    if offsets is None or rendered is None or not tokens.spans:
        return offsets
    slots = {slot.index: slot for slot in rendered.slots}
    starts, stops = offsets.starts[:], offsets.stops[:]
    for span in tokens.spans:
        slot, num_tokens = slots[span.index], span.stop - span.start
        starts[span.start : span.stop] = make_token_ids((slot.start,)) * num_tokens
        stops[span.start : span.stop] = make_token_ids((slot.stop,)) * num_tokens
    return Offsets(starts=starts, stops=stops)


def _check_places(tokens: TokenSequence, ordered: Sequence[ExpandedItem]) -> None:
    if not tokens.is_complete:
        raise _stopped_early()
    position = 0
    for item in ordered:
        if item.start < position or item.stop <= item.start or item.stop > len(tokens.token_ids):
            raise InvalidRequest(
                f"The {item.modality} {item.index} has tokens {item.start} to {item.stop} of"
                f" {len(tokens.token_ids)}, which is no place of its own.",
                param="messages",
            )
        position = item.stop


@dataclass(slots=True)
class _Place:
    item: ExpandedItem
    start: int
    stop: int
    mask: tuple[tuple[int, bool], ...] | None


class _Pieces:
    """The expansion under construction: arrays that grow in step, and the places of the items."""

    def __init__(self, *, has_offsets: bool) -> None:
        self.has_offsets = has_offsets
        self.ids: TokenIds = make_token_ids()
        self.starts: TokenIds = make_token_ids()
        self.stops: TokenIds = make_token_ids()
        self.places: list[_Place] = []

    def copy(self, tokens: TokenSequence, start: int, stop: int) -> None:
        self.ids.extend(tokens.token_ids[start:stop])
        if tokens.offsets is not None:
            self.starts.extend(tokens.offsets.starts[start:stop])
            self.stops.extend(tokens.offsets.stops[start:stop])

    def put(self, item: ExpandedItem) -> None:
        start = len(self.ids)
        self.ids.extend(materialise(item.runs))
        self.places.append(_Place(item, start, len(self.ids), embed_mask(item.runs)))
        if self.has_offsets:
            nothing = make_token_ids((0,)) * (len(self.ids) - start)
            self.starts.extend(nothing)
            self.stops.extend(nothing)

    def join(self, joins: Sequence[tuple[int, int, int]]) -> None:
        for left, right, merged in joins:
            num_lost = 0
            for edge in self._borders():
                border = edge - num_lost
                if self.ids[border - 1] == left and self.ids[border] == right:
                    self._merge(border, merged)
                    num_lost += 1

    def _borders(self) -> list[int]:
        """Return where an item meets what stands beside it."""
        edges = {edge for place in self.places for edge in (place.start, place.stop)}
        return sorted(edge for edge in edges if 0 < edge < len(self.ids))

    def _merge(self, border: int, merged: int) -> None:
        self.ids[border - 1] = merged
        del self.ids[border]
        if self.has_offsets:
            if not self.stops[border - 1]:
                self.starts[border - 1] = self.starts[border]
                self.stops[border - 1] = self.stops[border]
            del self.starts[border]
            del self.stops[border]
        is_shared = any(place.start == border for place in self.places)
        for place in self.places:
            if place.stop == border and is_shared:
                place.stop -= 1
                place.mask = _without_last(place.mask)
            elif place.start >= border:
                place.start -= 1
                place.stop -= 1

    def offsets(self) -> Offsets | None:
        return Offsets(starts=self.starts, stops=self.stops) if self.has_offsets else None

    def span(self, place: _Place) -> MediaSpan:
        return MediaSpan(
            modality=place.item.modality,
            index=place.item.index,
            start=place.start,
            stop=place.stop,
            identity=place.item.identity,
            is_embed=place.mask,
        )


def _without_last(
    mask: tuple[tuple[int, bool], ...] | None,
) -> tuple[tuple[int, bool], ...] | None:
    if not mask:
        return mask
    length, embeds = mask[-1]
    return mask[:-1] if length == 1 else (*mask[:-1], (length - 1, embeds))
