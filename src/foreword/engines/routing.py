"""An `EngineInput` enters; what a router needs to know of its prompt leaves.

Rules of this file: ids are expanded, as an engine's cache knows them; hashes are whole.
"""

from __future__ import annotations

from typing import Any

from foreword.types import EngineInput, MediaSpan


def routing_view(engine_input: EngineInput) -> dict[str, Any]:
    """Return the ids and every item's place and identity, as plain values.

    Shapes: a block of the cache that overlaps `[offset, offset + length)` depends on the item;
    `num_embeds` of its tokens are embeddings, where `is_embed` (run lengths) says, or all.
    """
    return {
        "token_ids": engine_input.token_ids.tolist(),
        "cache_salt": engine_input.cache_salt,
        "media": [_media(span) for span in engine_input.media_features],
    }


def _media(span: MediaSpan) -> dict[str, Any]:
    length = span.stop - span.start
    mask = span.is_embed
    return {
        "modality": span.modality,
        "index": span.index,
        "offset": span.start,
        "length": length,
        "hash": span.identity,
        "num_embeds": count_embeds(span),
        "is_embed": None if mask is None else [list(run) for run in mask],
    }


def count_embeds(span: MediaSpan) -> int:
    """Return how many of a span's tokens are embeddings."""
    if span.is_embed is None:
        return span.stop - span.start
    return sum(length for length, embeds in span.is_embed if embeds)
