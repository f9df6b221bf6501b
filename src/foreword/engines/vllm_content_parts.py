"""A `GenerateRequest` with expanded media enters; one that lets the engine expand them leaves.

Rules of this file: the engine gets the ids with one placeholder an item, and each item as the
client sent it, named by its identity. Both forms of a request ask for the same prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from foreword.engines.vllm_generate import GenerateRequest
from foreword.trace import Trace
from foreword.types import MediaReference, Offsets, TokenIds


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
