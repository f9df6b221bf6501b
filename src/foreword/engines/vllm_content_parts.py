"""A `GenerateRequest` with expanded media enters; one that lets the engine expand them leaves.

Rules of this file: the engine gets the ids with one placeholder an item, and each item as the
client sent it, named by its identity. Both forms of a request ask for the same prompt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from foreword.engines.vllm_generate import GenerateRequest
from foreword.errors import UnsupportedFeature
from foreword.trace import Trace
from foreword.types import MediaReference, MediaSlot, Offsets, TokenIds, TokenSequence


class ContentParts(NamedTuple):
    """The ids with one placeholder an item, and the items."""

    token_ids: TokenIds
    offsets: Offsets | None
    parts: tuple[Mapping[str, Any], ...]


def content_parts(line: Trace, *, urls: Mapping[int, str] | None = None) -> ContentParts | None:
    """Return the prompt of a line as an engine expands it itself; None where it has no media.

    Shapes: `urls`, by the item's index, are sent in place of the client's own.

    Source: vLLM 0.33 `/inference/v1/generate`; it takes a given uuid as the item's hash.
    """
    tokens = line.unexpanded
    if tokens is None or line.conversation is None:
        return None
    _check_plain_placeholders(line, tokens)
    references, offsets = line.conversation.media, tokens.offsets
    removed = _removed(len(tokens.token_ids), line)
    if offsets is not None:
        starts, stops = (_without(one, removed) for one in (offsets.starts, offsets.stops))
        offsets = Offsets(starts=starts, stops=stops)
    return ContentParts(
        token_ids=_without(tokens.token_ids, removed),
        offsets=offsets,
        parts=tuple(
            _part(reference, item.identity, (urls or {}).get(reference.index, reference.url))
            for reference, item in zip(references, line.items, strict=True)
        ),
    )


def with_content_parts(
    request: GenerateRequest, line: Trace, *, urls: Mapping[int, str] | None = None
) -> GenerateRequest:
    """Return `request` with the media of its line as `content_parts`; `urls` as there."""
    sent = content_parts(line, urls=urls)
    if sent is None:
        return request
    return replace(
        request,
        token_ids=sent.token_ids,
        token_offsets=None if request.token_offsets is None else sent.offsets,
        features=None,
        content_parts=sent.parts,
    )


def _check_plain_placeholders(line: Trace, tokens: TokenSequence) -> None:
    """Refuse what an engine would expand elsewhere: it finds such a placeholder by its spelling.

    Source: vLLM 0.33 replaces the first texts that spell placeholders which are no tokens.
    """
    rendered = line.rendered
    if rendered is None:
        return
    slots = [slot for slot in rendered.slots if not _is_one_token(slot, tokens)]
    targets = [rendered.text[slot.start : slot.stop] for slot in slots]
    for target in set(targets):
        if rendered.text.count(target) > targets.count(target):
            raise _needs_features("the chat's text spells it too, and the engine takes the first")
    if slots and line.engine_input.num_truncated:
        raise _needs_features("the prompt was cut, and the engine's ids beside it may differ")


def _is_one_token(slot: MediaSlot, tokens: TokenSequence) -> bool:
    """Return whether an engine finds the placeholder by its id: no text is taken for a token."""
    if tokens.offsets is None:
        return True
    starts, stops = tokens.offsets.starts, tokens.offsets.stops
    low, high = tokens.num_prefix_special, len(starts) - tokens.num_suffix_special
    first = bisect_right(starts, slot.start, low, high) - 1
    return first >= low and starts[first] <= slot.start and slot.stop <= stops[first]


def _needs_features(reason: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        feature="Media as content_parts where the model's placeholder is ordinary text",
        remedy=f"Here {reason}. Send the ids with features, or write the text otherwise.",
        param="messages",
    )


def _removed(num_tokens: int, line: Trace) -> tuple[int, int]:
    """Return which unexpanded tokens a cut takes that took only text from the expanded ones.

    Why: a cut that left every item whole lies on one side of all of them, and there both forms have
    the same tokens.
    """
    made, tokens = line.engine_input, line.tokens
    if not made.num_truncated:
        return 0, 0
    prefix, suffix = tokens.num_prefix_special, tokens.num_suffix_special
    if line.params.truncation_side is not None or len(made.token_ids) < prefix + suffix:
        prefix = suffix = 0
    if made.truncated_side == "left":
        return prefix, prefix + made.num_truncated
    return num_tokens - suffix - made.num_truncated, num_tokens - suffix


def _without(values: TokenIds, removed: tuple[int, int]) -> TokenIds:
    return values[: removed[0]] + values[removed[1] :]


def _part(reference: MediaReference, identity: str, url: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"type": f"{reference.modality}_url", "uuid": identity}
    # Without a URL the engine is asked for what it has cached under the uuid.
    return part if url is None else {**part, "url": url}
