"""A text with items' slots and its tokens enter; which tokens are an item's placeholder leaves.

Rules of this file: a place holds the placeholder's own characters and no other; a token beside it
keeps its spaces. Where the placeholder is ordinary text and its tokens take more than it, the text
is written with the items' own tokens in its place, and encoded again.

Source: vLLM 0.33 looks for the placeholder's ids; where an item's are not there, it replaces all
placeholders in the text and encodes that once.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.media.runs import IdRun
from foreword.types import (
    MediaSlot,
    Offsets,
    RenderedText,
    Span,
    TokenIds,
    Tokenizer,
    TokenSequence,
    make_token_ids,
)


class Placed(NamedTuple):
    """Tokens, and which of them stand for each item, by its index."""

    tokens: TokenSequence
    places: Mapping[int, Span]


def place_items(
    tokens: TokenSequence,
    rendered: RenderedText,
    runs: Mapping[int, Sequence[IdRun]],
    tokenizer: Tokenizer,
    *,
    scope: str = "",
) -> Placed:
    """Return tokens in which every item has tokens of its own, and which these are.

    Shapes: `runs` are what each item becomes, by its index. Offsets speak of `rendered.text`.

    Raises: `InvalidRequest` where a placeholder shares a token with its neighbours;
    `UnsupportedFeature` where it is ordinary text and what the engine makes of it isn't known.
    """
    offsets = tokens.offsets
    assert offsets is not None
    found: dict[int, Span] = {}
    missing: list[MediaSlot] = []
    wanted: dict[str, tuple[int | None, list[int]]] = {}
    for slot in rendered.slots:
        target = rendered.text[slot.start : slot.stop]
        if target not in wanted:
            wanted[target] = _ids_of(target, tokenizer)
        place = _find(slot, tokens, offsets, rendered.text, *wanted[target])
        if place is None:
            missing.append(slot)
        else:
            found[slot.index] = place
    is_plain = any(added is None for added, _ in wanted.values())
    if is_plain:
        _check_reads_back(tokens, rendered, tokenizer)
    for slot in missing:
        if wanted[rendered.text[slot.start : slot.stop]][0] is not None:
            raise _shared(slot)
    if not missing:
        return Placed(tokens, found)
    return _respell(tokens, rendered, runs, tokenizer, scope)


def _ids_of(target: str, tokenizer: Tokenizer) -> tuple[int | None, list[int]]:
    """Return the added token that spells a placeholder, or None, and the ids of it as text."""
    ids = list(tokenizer.encode(target, add_special_tokens=False).token_ids)
    token_id = tokenizer.token_to_id(target)
    return (token_id, [token_id]) if token_id in ids else (None, ids)


def _find(
    slot: MediaSlot,
    tokens: TokenSequence,
    offsets: Offsets,
    text: str,
    added: int | None,
    ids: Sequence[int],
) -> Span | None:
    low = tokens.num_prefix_special
    high = len(offsets) - tokens.num_suffix_special
    first = bisect_left(offsets.starts, slot.start, low, high)
    # A token that takes the spaces in front of it begins before its text.
    if first > low and offsets.stops[first - 1] > slot.start:
        first -= 1
    last = bisect_left(offsets.starts, slot.stop, first, high)
    if first == last or list(tokens.token_ids[first:last]) != list(ids):
        return None
    start, stop = offsets.starts[first], offsets.stops[last - 1]
    if added is None:
        return (first, last) if (start, stop) == (slot.start, slot.stop) else None
    # An added token may be one that takes the spaces around it (`lstrip`, `rstrip`).
    around = text[start : slot.start] + text[slot.stop : stop]
    return (
        (first, last) if start <= slot.start and slot.stop <= stop and not around.strip() else None
    )


def _respell(
    tokens: TokenSequence,
    rendered: RenderedText,
    runs: Mapping[int, Sequence[IdRun]],
    tokenizer: Tokenizer,
    scope: str,
) -> Placed:
    """Encode the text with each item's first and last token in its placeholder's place.

    Why: both are added tokens, which part the text wherever they stand, so what lies between them
    changes nothing around them.
    """
    pieces: list[str] = []
    moved: list[MediaSlot] = []
    ids_at: dict[int, tuple[int, ...]] = {}
    position = length = 0
    for slot in rendered.slots:
        edges = _edges(runs[slot.index])
        spelled = "".join(_spelling(one, tokenizer) for one in edges)
        before = rendered.text[position : slot.start]
        pieces += (before, spelled)
        start = length + len(before)
        length, position = start + len(spelled), slot.stop
        moved.append(MediaSlot(index=slot.index, start=start, stop=length))
        ids_at[slot.index] = edges
    text = "".join((*pieces, rendered.text[position:]))
    made = tokenizer.encode(
        text,
        add_special_tokens=False,
        with_offsets=True,
        scope=scope,
        literal_spans=_moved_spans(rendered, moved),
    )
    assert made.offsets is not None
    places: dict[int, Span] = {}
    for slot in moved:
        place = _find(slot, made, made.offsets, text, ids_at[slot.index][0], ids_at[slot.index])
        if place is None:
            raise _unknown("its tokens join the text beside them")
        places[slot.index] = place
    offsets = _restored(made.offsets, rendered.slots, moved, places)
    return Placed(replace(tokens, token_ids=made.token_ids, offsets=offsets), places)


def _edges(runs: Sequence[IdRun]) -> tuple[int, ...]:
    first, last = runs[0], runs[-1]
    return (first.token_id,) if len(runs) == 1 else (first.token_id, last.token_id)


def _spelling(token_id: int, tokenizer: Tokenizer) -> str:
    """Return the text of an added token.

    Raises: `UnsupportedFeature` for any other, whose ids depend on what stands beside it.
    """
    word = tokenizer.id_to_token(token_id)
    if word is None:
        raise _unknown(f"the tokenizer has no token {token_id}, which items become")
    as_added = tokenizer.encode(word, add_special_tokens=False).token_ids
    as_text = tokenizer.encode(
        word, add_special_tokens=False, literal_spans=((0, len(word)),)
    ).token_ids
    if list(as_added) != [token_id] or as_added == as_text:
        raise _unknown(f"items become the token {token_id}, which is no added token")
    return word


def _moved_spans(rendered: RenderedText, moved: Sequence[MediaSlot]) -> tuple[Span, ...]:
    stops = [slot.stop for slot in rendered.slots]
    shifts = [0, *(new.stop - old.stop for old, new in zip(rendered.slots, moved, strict=True))]
    spans = []
    for start, stop in rendered.literal_spans:
        # The slots that end before it: those whose stop is at most its start.
        shift = shifts[bisect_left(stops, start + 1)]
        spans.append((start + shift, stop + shift))
    return tuple(spans)


def _restored(
    offsets: Offsets,
    slots: Sequence[MediaSlot],
    moved: Sequence[MediaSlot],
    places: Mapping[int, Span],
) -> Offsets:
    """Return offsets as they are in the text with placeholders."""
    starts, stops = make_token_ids(), make_token_ids()
    position = shift = 0
    for old, new in zip(slots, moved, strict=True):
        first, last = places[old.index]
        _copy_back(offsets, (position, first), shift, starts, stops)
        starts.extend((old.start,) * (last - first))
        stops.extend((old.stop,) * (last - first))
        position, shift = last, new.stop - old.stop
    _copy_back(offsets, (position, len(offsets)), shift, starts, stops)
    return Offsets(starts=starts, stops=stops)


def _copy_back(offsets: Offsets, part: Span, shift: int, starts: TokenIds, stops: TokenIds) -> None:
    starts.extend(make_token_ids([one - shift for one in offsets.starts[slice(*part)]]))
    stops.extend(make_token_ids([one - shift for one in offsets.stops[slice(*part)]]))


def _check_reads_back(tokens: TokenSequence, rendered: RenderedText, tokenizer: Tokenizer) -> None:
    """Refuse where an engine that decodes the ids would see another text than was rendered."""
    if tokens.num_prefix_special or tokens.num_suffix_special:
        raise _unknown(
            "the tokenizer adds special tokens, which the engine reads as text",
            remedy="Set add_special_tokens to false.",
        )
    read = tokenizer.decode(tokens.token_ids)
    if read not in (rendered.text, _composed(rendered)):
        raise _unknown("the tokenizer does not give the prompt's text back as it was")


def _composed(rendered: RenderedText) -> str:
    """Return the text in NFC, which several tokenizers bring it to, its placeholders apart."""
    pieces: list[str] = []
    position = 0
    for slot in rendered.slots:
        pieces.append(unicodedata.normalize("NFC", rendered.text[position : slot.start]))
        pieces.append(rendered.text[slot.start : slot.stop])
        position = slot.stop
    pieces.append(unicodedata.normalize("NFC", rendered.text[position:]))
    return "".join(pieces)


def _unknown(
    reason: str, *, remedy: str = "Send the request to the engine itself."
) -> UnsupportedFeature:
    return UnsupportedFeature(
        feature="A placeholder of media that is ordinary text",
        remedy=f"Here {reason}, so its ids are not known. {remedy}",
        param="messages",
    )


def _shared(slot: MediaSlot) -> InvalidRequest:
    return InvalidRequest(
        f"The placeholder of media item {slot.index} is not made of tokens of its own: the text"
        " beside it joins them. Put a space or a line break between them.",
        param="messages",
        details={"index": slot.index},
    )
