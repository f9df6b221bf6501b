"""What rotary scaling does to a context length: a text configuration in, a factor out.

Rules of this file: most kinds of scaling leave `max_position_embeddings` already scaled; only
the others (linear, dynamic ...) multiply it. Old spellings mean what they were renamed to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from foreword.errors import AssetsInvalid

_ALREADY_SCALED = frozenset(
    {"longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
_RENAMED = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}


def length_factor(text_config: Mapping[str, Any]) -> float:
    """Return what to multiply the configured length by: 1 for most models.

    Raises: `AssetsInvalid` when a scaling's factor or kind makes no sense.

    Source: vLLM 0.33 `_get_and_verify_max_len`, transformers 5.20 `RotaryEmbeddingConfigMixin`.
    """
    # Gemma 3's published length is the scaled one, though its scaling is linear.
    if "gemma3" in str(text_config.get("model_type", "")):
        return 1.0
    factor: object = 1.0
    for scaling in _scalings(text_config):
        if _kind(scaling) not in _ALREADY_SCALED:
            factor = scaling.get("factor", factor)
    if factor is None:
        return 1.0
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        factor = math.nan
    if not 0 < factor < math.inf:
        raise AssetsInvalid(
            file="config.json", problem="the rope scaling's factor is not a positive number."
        )
    return factor


def is_longrope(text_config: Mapping[str, Any]) -> bool:
    """Return whether the model has a short and a long way of placing tokens (Phi-3)."""
    return any(_kind(scaling) == "longrope" for scaling in _scalings(text_config))


def _scalings(text_config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = text_config.get("rope_scaling") or text_config.get("rope_parameters")
    if not isinstance(found, Mapping):
        return []
    # Models that mix kinds of layers keep one entry a kind (`full_attention`, `main` ...).
    nested = [value for value in found.values() if isinstance(value, Mapping) and value]
    return nested or [found]


def _kind(scaling: Mapping[str, Any]) -> str:
    new, old = scaling.get("rope_type"), scaling.get("type")
    kinds = {_RENAMED.get(kind, kind) for kind in (new, old) if isinstance(kind, str)}
    if len(kinds) > 1:
        raise AssetsInvalid(
            file="config.json",
            problem=f"the rope scaling has rope_type {new!r} and type {old!r}, which disagree.",
            remedy="Keep one of them.",
        )
    return kinds.pop() if kinds else "default"
