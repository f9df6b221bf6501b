"""A rendered text, or given token ids, enter; a `TokenSequence` leaves.

Rules of this file: the character gate refuses only where its inequality is proved. Tokens are
asked for no further than the budget can use. Offsets always speak of the text as rendered:
lower-casing and pre-cuts are undone in them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from foreword.errors import InvalidTokenIds, PromptTooManyChars
from foreword.params import TokenizeParams
from foreword.types import (
    MAX_TOKEN_ID,
    Offsets,
    RenderedText,
    Span,
    TokenIds,
    Tokenizer,
    TokenizerInfo,
    TokenSequence,
    Window,
)


def tokenize_text(
    rendered: RenderedText,
    params: TokenizeParams,
    tokenizer: Tokenizer,
    *,
    with_offsets: bool = False,
    count_in_full: bool = False,
    scope: str = "",
) -> TokenSequence:
    """Return the tokens of a rendered text, as far as the budget can use them.

    Shapes: offsets are characters of `rendered.text`. `count_in_full` forbids stopping early, and
    so do media, whose tokens are not there yet; they are found by offsets, which are then given.
    Raises: `PromptTooManyChars` when no tokenization of the text could fit.
    Source: vLLM 0.33 tokenizes with `max_length = limit + 1` and pre-cuts long text; here the
    ids are those of the full encode wherever the tokenizer can cut its work (docs/decisions/0003).
    """
    info = tokenizer.info
    piece = _gate(rendered, params, info)
    text, literal_spans = piece.text, rendered.literal_spans
    lowered_from: TokenIds | None = None
    if params.do_lower_case:
        text, lowered_from = lower(text)
        if lowered_from is not None:
            literal_spans = _move(literal_spans, lowered_from)
    tokens = tokenizer.encode(
        text,
        add_special_tokens=params.add_special_tokens,
        with_offsets=with_offsets or params.return_token_offsets or bool(rendered.slots),
        window=None if count_in_full or rendered.slots else _window(params, info),
        scope=scope,
        literal_spans=literal_spans,
    )
    if lowered_from is None and tokens.num_chars == len(rendered.text) == len(piece.text):
        return tokens  # they speak of the text as it was rendered already
    offsets = _restore_offsets(tokens, lowered_from, piece.num_dropped_left)
    return replace(
        tokens,
        offsets=offsets,
        num_chars=len(rendered.text),
        num_dropped_chars=len(rendered.text) - len(piece.text),
        is_complete=tokens.is_complete and len(piece.text) == len(rendered.text),
    )


def tokenize_ids(token_ids: Sequence[int], info: TokenizerInfo, *, param: str) -> TokenSequence:
    """Return given ids as a `TokenSequence`; they are never decoded and encoded again.

    Raises: `InvalidTokenIds` naming the first id that is no integer of the vocabulary.
    """
    if isinstance(token_ids, array):
        ids = token_ids if token_ids.typecode == "I" else array("I", token_ids)
    elif all(type(token_id) is int for token_id in token_ids):
        try:
            ids = array("I", token_ids)
        except OverflowError:
            raise _bad_id(token_ids, info, param) from None
    else:
        raise _bad_id(token_ids, info, param)
    if ids and max(ids) > info.max_token_id:
        raise _bad_id(ids, info, param)
    return TokenSequence(token_ids=ids)


def _bad_id(token_ids: Sequence[int], info: TokenizerInfo, param: str) -> InvalidTokenIds:
    limit = min(info.max_token_id, MAX_TOKEN_ID)
    for position, token_id in enumerate(token_ids):
        if type(token_id) is not int or not 0 <= token_id <= limit:
            return InvalidTokenIds(
                token_id=token_id, position=position, max_token_id=limit, param=param
            )
    raise AssertionError("called for valid ids")


# ---------------------------------------------------------------------------------------------
# The character gate.


class _Piece(NamedTuple):
    text: str
    num_dropped_left: int


def _gate(rendered: RenderedText, params: TokenizeParams, info: TokenizerInfo) -> _Piece:
    text = rendered.text
    max_chars = params.max_input_chars(info.max_chars_per_token)
    if max_chars is None or len(text) <= max_chars or info.char_gate_gap is not None:
        return _Piece(text, 0)
    if params.truncate_prompt_tokens is None:
        raise PromptTooManyChars(
            num_chars=len(text),
            max_chars=max_chars,
            max_tokens=max_chars // info.max_chars_per_token,
        )
    has_places = bool(rendered.literal_spans or rendered.slots)
    if params.truncation_side is None or info.has_proved_cuts or has_places:
        # The tokenizer bounds its own work at proved cuts, exactly; nothing is thrown away here.
        return _Piece(text, 0)
    if params.truncation_side == "left":
        return _Piece(text[len(text) - max_chars :], len(text) - max_chars)
    return _Piece(text[:max_chars], 0)


def _window(params: TokenizeParams, info: TokenizerInfo) -> Window | None:
    """Which tokens can matter: one more than fit, or those that truncation keeps."""
    kept = params.truncation_tokens
    if kept is None:
        limit = params.max_input_tokens
        return None if limit is None else Window(num_tokens=limit + 1, keep="head")
    side = params.truncation_side or info.truncation_side
    return Window(num_tokens=kept, keep="tail" if side == "left" else "head")


# ---------------------------------------------------------------------------------------------
# Offsets that survive.


def lower(text: str) -> tuple[str, TokenIds | None]:
    """Lower-case `text`; where that changes its length, also say where each character came from.

    Shapes: the array has one entry per lowered character, the index of its original.
    """
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered, None  # lower() never shortens a character, so nothing moved
    origin = array("I")
    for index, character in enumerate(text):
        origin.extend([index] * len(character.lower()))
    return lowered, origin


def _move(spans: Sequence[Span], lowered_from: TokenIds) -> tuple[Span, ...]:
    """Return where spans of a text stand in its lowered form."""
    return tuple(
        (bisect_left(lowered_from, start), bisect_left(lowered_from, stop)) for start, stop in spans
    )


def _restore_offsets(
    tokens: TokenSequence, lowered_from: TokenIds | None, num_dropped_left: int
) -> Offsets | None:
    offsets = tokens.offsets
    if offsets is None or (lowered_from is None and num_dropped_left == 0):
        return offsets
    starts, stops = array("I"), array("I")
    first, last = tokens.num_prefix_special, len(offsets) - tokens.num_suffix_special
    for position, (start, stop) in enumerate(offsets):
        if not first <= position < last:
            starts.append(start)
            stops.append(stop)
            continue
        if lowered_from is not None:
            stop = lowered_from[stop - 1] + 1 if stop > start else _origin(lowered_from, start)
            start = _origin(lowered_from, start)
        starts.append(start + num_dropped_left)
        stops.append(stop + num_dropped_left)
    return Offsets(starts=starts, stops=stops)


def _origin(lowered_from: TokenIds, position: int) -> int:
    if position < len(lowered_from):
        return lowered_from[position]
    return lowered_from[-1] + 1 if lowered_from else 0
