"""How many tokens a model's context holds: its configuration in, one number out.

Rules of this file: the number is the one vLLM 0.33 derives, since prompts are judged by it.
A nested text configuration is looked at instead of the outer one, never as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foreword.assets.class_defaults import ORIGINAL_LENGTHS, with_default
from foreword.assets.files import json_type
from foreword.assets.rope import is_longrope, length_factor
from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.types import ModelAssets

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_TEXT_CONFIG_KEYS = (
    "text_config",
    "llm_config",
    "language_config",
    "decoder",
    "generator",
    "text_encoder",
)
_ASSUMED_LENGTH = 2048
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_SUFFIXES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLength:
    """A context length, the key it comes from, and a sentence when it is a guess."""

    max_model_len: int
    source: str
    warning: str | None = None


def derive_max_model_len(
    assets: ModelAssets,
    *,
    requested: int | None = None,
    runner: str = "generate",
    allow_longer: bool = False,
) -> int:
    """Return the context length a model is served with: `requested`, or the model's own.

    `requested` −1 is the same as None. `allow_longer` lets it exceed what the model was made for
    (vLLM: VLLM_ALLOW_LONG_MAX_MODEL_LEN=1).

    Raises: `InvalidRequest` (param `max_model_len`) when `requested` is no length or too long;
    `AssetsInvalid` when config.json holds a value that is no length.

    Source: vLLM 0.33 `ModelConfig.get_and_verify_max_len`.
    """
    return explain_max_model_len(
        assets, requested=requested, runner=runner, allow_longer=allow_longer
    ).max_model_len


def explain_max_model_len(
    assets: ModelAssets,
    *,
    requested: int | None = None,
    runner: str = "generate",
    allow_longer: bool = False,
) -> ContextLength:
    """Return what `derive_max_model_len` returns, with where it comes from."""
    if requested is not None and requested != -1 and requested < 1:
        raise InvalidRequest(
            f"max_model_len is {requested}; it must be at least 1, or -1 for the model's own.",
            param="max_model_len",
            details={"requested": requested},
        )
    text = text_config(assets.config)
    limit, source = _model_limit(assets, text, runner)
    if limit is None and requested is not None and requested != -1:
        return ContextLength(max_model_len=requested, source="requested")
    warning = None
    if limit is None:
        limit, source = _ASSUMED_LENGTH, "assumed"
        warning = (
            f"config.json names no context length; {_ASSUMED_LENGTH} is assumed."
            " Set max_model_len if the model holds more."
        )
    limit = limit * length_factor(text)
    if assets.max_seq_length is not None:
        limit, source, warning = assets.max_seq_length, "sentence-transformers", None
    if requested is None or requested == -1:
        return ContextLength(
            max_model_len=_served_length(text, limit), source=source, warning=warning
        )
    if not allow_longer:
        _check_requested(requested, limit, source, text)
    return ContextLength(max_model_len=requested, source="requested")


def parse_max_model_len(value: str) -> int:
    """Return the number an operator wrote: `8192`, `8k` (8000), `8K` (8192), `auto` (−1).

    Raises: `InvalidRequest` when it is none of these.
    """
    text = value.strip()
    if text in ("auto", "-1"):
        return -1
    match = re.fullmatch(r"(\d+)(?:(\.\d+)?([kmgt])|([KMGT]))?", text, re.ASCII)
    if match is None:
        raise InvalidRequest(
            f"max_model_len is {value!r}; write a whole number, a short form such as 8k (8000),"
            " 25.6k or 8K (8192), or auto.",
            param="max_model_len",
        )
    whole, fraction, decimal, binary = match.groups()
    if decimal:
        return int(float(whole + (fraction or "")) * _SUFFIXES[decimal])
    return int(whole) * _BINARY_SUFFIXES.get(binary or "", 1)


def model_vocab_size(assets: ModelAssets) -> int | None:
    """Return the size of the model's embedding table; None when config.json does not say."""
    value = text_config(assets.config).get("vocab_size")
    if value is None:
        value = assets.config.get("vocab_size")
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise _no_number("vocab_size", value)
    return value


def model_type(assets: ModelAssets) -> str | None:
    """Return the `model_type` of config.json; None when there is none."""
    return _type_of(assets.config)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a configuration that describes the text model: often all of it."""
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        return text_config(thinker)
    for key in _TEXT_CONFIG_KEYS:
        nested = config.get(key)
        if isinstance(nested, Mapping) and nested:
            return nested
    return config


def _type_of(config: Mapping[str, Any]) -> str | None:
    value = config.get("model_type")
    return value if isinstance(value, str) else None


def _model_limit(
    assets: ModelAssets, text: Mapping[str, Any], runner: str
) -> tuple[float | None, str]:
    lengths = {key: _length(text, key) for key in _LENGTH_KEYS}
    found = {key: length for key, length in lengths.items() if length is not None}
    found = with_default(found, _type_of(text) or _type_of(assets.config))
    if "model_max_length" in found:
        limit, source = found["model_max_length"], "model_max_length"
    elif found:
        source = min(found, key=found.__getitem__)
        limit = found[source]
    else:
        limit, source = math.inf, ""
    is_absolute = assets.config.get("position_embedding_type") == "absolute"
    if runner == "pooling" and is_absolute:
        tokenizer_limit = assets.tokenizer_config.get("model_max_length")
        if isinstance(tokenizer_limit, (int, float)) and 1 <= tokenizer_limit < limit:
            limit, source = tokenizer_limit, "tokenizer_config.json model_max_length"
    return (None if limit == math.inf else limit), source


def _length(config: Mapping[str, Any], key: str) -> float | None:
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _no_number(key, value)
    if not 1 <= value < math.inf:
        raise _no_number(key, value)
    return value


def _served_length(text: Mapping[str, Any], limit: float) -> int:
    if is_longrope(text):
        # The longer context is on request only: it costs quality on short prompts.
        original = _length(text, "original_max_position_embeddings")
        default = ORIGINAL_LENGTHS.get(_type_of(text) or "", limit)
        return int(default if original is None else original)
    return int(limit)


def _check_requested(requested: int, limit: float, source: str, text: Mapping[str, Any]) -> None:
    if requested <= limit:
        return
    spare = _length(text, "model_max_length")
    if spare is not None and requested <= spare:
        return
    raise InvalidRequest(
        f"max_model_len is {requested}, more than the {int(limit)} tokens the model holds"
        f" ({source}). Request {int(limit)} or less.",
        param="max_model_len",
        details={"requested": requested, "max_model_len": int(limit), "source": source},
    )


def _no_number(key: str, value: object) -> AssetsInvalid:
    shown = repr(value) if isinstance(value, (int, float)) else json_type(value)
    return AssetsInvalid(
        file="config.json",
        problem=f"{key} is {shown}, not a positive number.",
        remedy="Correct the file, or download the model again.",
    )
