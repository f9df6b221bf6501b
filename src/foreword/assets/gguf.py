"""A GGUF file's header enters; what a model folder's configuration files would say leaves.

Rules of this file: only the header is read, never a tensor. What the header does not say stays
absent; nothing is taken from the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from foreword.errors import AssetsInvalid
from foreword.gguf_header import read_gguf_header
from foreword.types import ModelAssets

SUFFIX = ".gguf"
DIGEST_KEY = "gguf_header_sha256"
"""The entry of `tokenizer_config` that stands for the vocabulary in fingerprints."""

_SHARD = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")
_TEMPLATE = "tokenizer.chat_template"
# Source: transformers 5.20, which reads the same headers; a GGUF file holds the text part alone.
_MODEL_TYPES = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gpt-oss": "gpt_oss",
    "minimax-m2": "minimax_m2",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "t5encoder": "t5",
}
_ENCODERS = frozenset({"t5encoder"})
"""Architectures of the encoder alone, whose model type stands for both halves."""
_NAMED = {("llama", "mistral"): "mistral", ("t5", "umt5"): "umt5", ("t5encoder", "umt5"): "umt5"}
"""Model types that only the model's name tells from others of the architecture."""
_ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",
    "pad_token": "padding_token_id",
    "mask_token": "mask_token_id",
}


def choose_gguf(file_names: Iterable[str]) -> str | None:
    """Return the GGUF file of a folder that holds a header, or None when there is none.

    Raises: `AssetsInvalid` when there are several: they may differ.
    """
    names = sorted(name for name in file_names if name.endswith(SUFFIX))
    first = [name for name in names if not (m := _SHARD.search(name)) or int(m[1]) == 1]
    if len(first) > 1:
        raise AssetsInvalid(
            file=first[0],
            problem=f"the folder holds {len(first)} GGUF models ({', '.join(first[:3])} …).",
            remedy="Give the path of the file itself.",
        )
    return first[0] if first else None


def gguf_assets(model: str, folder: Path, name: str) -> ModelAssets:
    """Read a GGUF file's header as a model's assets.

    Raises: `AssetsInvalid` when it is broken, or holds no vocabulary.
    """
    header = read_gguf_header(folder / name)
    values = header.values
    tokens = values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise AssetsInvalid(
            file=name,
            problem="its header holds no vocabulary (tokenizer.ggml.tokens).",
            remedy="Give the first part of a split model, or a complete one.",
        )
    return ModelAssets(
        name=model,
        folder=str(folder),
        file_names=frozenset({name}),
        tokenizer_config={**_roles(values, tokens), DIGEST_KEY: header.digest},
        chat_templates=_templates(values),
        config=_config(values, len(tokens)),
    )


def _roles(values: Mapping[str, Any], tokens: list[str]) -> dict[str, str]:
    ids = {role: values.get(f"tokenizer.ggml.{key}") for role, key in _ROLES.items()}
    return {
        role: tokens[token_id]
        for role, token_id in ids.items()
        if isinstance(token_id, int) and 0 <= token_id < len(tokens)
    }


def _templates(values: Mapping[str, Any]) -> dict[str, str]:
    templates = {
        key.removeprefix(f"{_TEMPLATE}."): value
        for key, value in values.items()
        if key.startswith(f"{_TEMPLATE}.") and isinstance(value, str)
    }
    if isinstance(values.get(_TEMPLATE), str):
        templates["default"] = values[_TEMPLATE]
    return templates


def _config(values: Mapping[str, Any], vocab_size: int) -> dict[str, Any]:
    architecture = values.get("general.architecture")
    said = {
        "model_type": _model_type(architecture, values.get("general.name")),
        "is_encoder_decoder": False if architecture in _ENCODERS else None,
        "decoder_start_token_id": values.get(f"{architecture}.decoder_start_token_id"),
        "vocab_size": vocab_size,
        "max_position_embeddings": values.get(f"{architecture}.context_length"),
        "bos_token_id": values.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": values.get("tokenizer.ggml.eos_token_id"),
    }
    return {key: value for key, value in said.items() if value is not None}


def _model_type(architecture: object, name: object) -> object:
    """Return what a config.json would call the architecture; an unknown one keeps its name."""
    if not isinstance(architecture, str):
        return None
    for (of, part), model_type in _NAMED.items():
        if architecture == of and part in str(name or "").lower():
            return model_type
    return _MODEL_TYPES.get(architecture, architecture)
