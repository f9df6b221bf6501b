"""A `TokenSequence` enters; an `EngineInput` that fits leaves, with every cut told.

Rules of this file: truncate, then pad, then check the length; everything parallel to the ids is
cut with the same slice; a media span is kept whole, moved, or the cut is refused. Refusing and
truncating are two questions (`TokenizeParams`).
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import NamedTuple

from foreword.errors import InvalidRequest, MediaWouldBeCut, PromptTooLong
from foreword.params import TokenizeParams
from foreword.types import (
    EngineInput,
    MediaSpan,
    Offsets,
    Side,
    Span,
    TokenIds,
    TokenizerInfo,
    TokenSequence,
)


def apply_budget(
    tokens: TokenSequence,
    params: TokenizeParams,
    info: TokenizerInfo,
    *,
    assistant_spans: tuple[Span, ...] | None = None,
) -> EngineInput:
    """Decide the prompt's budget: cut it, pad it, or refuse it.

    `assistant_spans` (characters) ask for the assistant mask; they need offsets.

    Raises: `PromptTooLong`, `MediaWouldBeCut`, `InvalidRequest` (padding without a pad token).
    Source: vLLM 0.33 order of truncation, padding, length check. A generation prompt that fills
    the context exactly is refused here, where vLLM's generate side would refuse it.
    """
    cut = _truncate(tokens, params, info)
    engine_input = EngineInput(
        token_ids=cut.token_ids,
        offsets=cut.offsets,
        media_features=cut.spans,
        num_chars=tokens.num_chars,
        num_prompt_tokens=len(tokens.token_ids),
        num_prompt_tokens_is_lower_bound=not tokens.is_complete,
        num_truncated=len(tokens.token_ids) - len(cut.token_ids),
        truncated_side=cut.side,
        assistant_mask=_assistant_mask(cut.offsets, assistant_spans),
    )
    engine_input = _pad(engine_input, params, info)
    _check_length(engine_input, params)
    return engine_input


# ---------------------------------------------------------------------------------------------
# Truncation.


class _Cut(NamedTuple):
    token_ids: TokenIds
    offsets: Offsets | None
    spans: tuple[MediaSpan, ...]
    side: Side | None


def _truncate(tokens: TokenSequence, params: TokenizeParams, info: TokenizerInfo) -> _Cut:
    limit = params.truncation_tokens
    if limit is None or (len(tokens.token_ids) <= limit and tokens.is_complete):
        return _Cut(tokens.token_ids, tokens.offsets, tokens.spans, None)
    side = params.truncation_side or tokens.own_side or info.truncation_side
    ranges = _kept_ranges(tokens, limit, side, keeps_special=params.truncation_side is None)
    return _Cut(
        _take(tokens.token_ids, ranges),
        None if tokens.offsets is None else _take_offsets(tokens.offsets, ranges),
        _move_spans(tokens.spans, ranges),
        side,
    )


def _kept_ranges(
    tokens: TokenSequence, limit: int, side: Side, *, keeps_special: bool
) -> tuple[Span, ...]:
    """Which token ranges stay: one plain slice, or the special tokens around a slice."""
    total = len(tokens.token_ids)
    prefix, suffix = tokens.num_prefix_special, tokens.num_suffix_special
    if not keeps_special or limit < prefix + suffix:
        return ((max(0, total - limit), total) if side == "left" else (0, min(limit, total)),)
    room, first, last = limit - prefix - suffix, prefix, total - suffix
    kept = (max(first, last - room), last) if side == "left" else (first, min(first + room, last))
    return ((0, prefix), kept, (last, total))


def _take(values: TokenIds, ranges: tuple[Span, ...]) -> TokenIds:
    taken = array("I")
    for start, stop in ranges:
        taken.extend(values[start:stop])
    return taken


def _take_offsets(offsets: Offsets, ranges: tuple[Span, ...]) -> Offsets:
    return Offsets(starts=_take(offsets.starts, ranges), stops=_take(offsets.stops, ranges))


def _move_spans(spans: tuple[MediaSpan, ...], ranges: tuple[Span, ...]) -> tuple[MediaSpan, ...]:
    return tuple(_move_span(span, ranges) for span in spans)


def _move_span(span: MediaSpan, ranges: tuple[Span, ...]) -> MediaSpan:
    before = 0
    for start, stop in ranges:
        if start <= span.start and span.stop <= stop:
            shift = before - start
            return replace(span, start=span.start + shift, stop=span.stop + shift)
        before += stop - start
    kept = max(ranges, key=lambda kept: kept[1] - kept[0])
    raise MediaWouldBeCut(
        modality=span.modality, index=span.index, start=span.start, stop=span.stop, kept=kept
    )


def _assistant_mask(offsets: Offsets | None, spans: tuple[Span, ...] | None) -> bytes | None:
    if spans is None or offsets is None:
        return None
    mask = bytearray(len(offsets))
    remaining = list(reversed(spans))
    for position, (start, stop) in enumerate(offsets):
        while remaining and remaining[-1][1] <= start:
            remaining.pop()
        mask[position] = bool(remaining) and start < stop and remaining[-1][0] < stop
    return bytes(mask)


# ---------------------------------------------------------------------------------------------
# Padding and the length check.


def _pad(engine_input: EngineInput, params: TokenizeParams, info: TokenizerInfo) -> EngineInput:
    target = params.pad_prompt_tokens
    if target is not None and target < 0:
        target = params.max_input_tokens
    missing = 0 if target is None else target - len(engine_input.token_ids)
    if missing <= 0:
        return engine_input
    if info.pad_token_id is None:
        raise InvalidRequest(
            f"The prompt was to be padded by {missing} tokens, but the model's tokenizer has no"
            " pad token. Leave padding out.",
            param="pad_prompt_tokens",
            details={"missing": missing},
        )
    offsets, nothing = engine_input.offsets, array("I", bytes(4 * missing))
    if offsets is not None:
        offsets = Offsets(starts=offsets.starts + nothing, stops=offsets.stops + nothing)
    mask = engine_input.assistant_mask
    return replace(
        engine_input,
        token_ids=engine_input.token_ids + array("I", [info.pad_token_id]) * missing,
        offsets=offsets,
        assistant_mask=None if mask is None else mask + bytes(missing),
        num_padded=missing,
    )


def _check_length(engine_input: EngineInput, params: TokenizeParams) -> None:
    limit = params.max_input_tokens
    if limit is None:
        return
    room = limit - 1 if params.is_generation else limit
    num_tokens = len(engine_input.token_ids)
    if num_tokens <= room:
        return
    if engine_input.num_truncated:
        # It was cut to what the caller asked for, so the size asked for is at fault.
        raise InvalidRequest(
            f"truncate_prompt_tokens is {params.truncate_prompt_tokens}, which leaves no room for"
            f" a token to follow in a context of {limit}. Use {room}, or -1 for as much as fits.",
            param="truncate_prompt_tokens",
            details={"requested": params.truncate_prompt_tokens, "max_tokens": room},
        )
    raise PromptTooLong(
        num_tokens=num_tokens,
        max_tokens=room,
        is_lower_bound=engine_input.num_prompt_tokens_is_lower_bound,
        max_model_len=limit,
    )
