"""A model's configurations enter; the tokenizer class an engine on transformers takes leaves.

Rules of this file: names only, nothing is loaded and no remote code is ever run. Follows
transformers 5.20 `AutoTokenizer` as vLLM 0.33 calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foreword.tokenizer.class_table import (
    CLASS_ALIASES,
    CLASS_BY_MODEL_TYPE,
    GENERIC,
    MISDECLARED_IN_TRANSFORMERS,
    MISDECLARED_IN_VLLM,
    MODEL_OF_CLASS,
    PYTHON_CLASSES,
    TYPED_CLASSES,
)


def engine_class(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> str:
    """Return the tokenizer class by its name without `Fast`; `GENERIC` for the plain one.

    Why: a class with a pipeline of its own rebuilds it from tokenizer.json's vocabulary, brings
    default special tokens, and reads `add_prefix_space` and `legacy`; the generic one does not.
    """
    model_type, model_name = (_name(config, key) for key in ("model_type", "model_name"))
    if model_type in MISDECLARED_IN_VLLM:
        return GENERIC
    declared = tokenizer_config.get("tokenizer_class")
    hub_class = declared or config.get("tokenizer_class")
    registered = CLASS_BY_MODEL_TYPE.get(model_type)
    if hub_class and registered and not has_own_code(tokenizer_config):
        if registered != str(hub_class).removesuffix("Fast"):
            misdeclared = {model_type, model_name} & MISDECLARED_IN_TRANSFORMERS
            if registered == GENERIC:
                return GENERIC
            return registered if misdeclared else _known(hub_class)
        return registered
    if hub_class:
        return _known(hub_class)
    return registered or GENERIC


def returns_token_types(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> bool:
    """Tell whether the model's tokenizer gives token types beside ids, unasked.

    Source: transformers 5.20: `model_input_names`, the file's own or the class's.
    """
    names = tokenizer_config.get("model_input_names")
    if isinstance(names, list):
        return "token_type_ids" in names
    return engine_class(config, tokenizer_config) in TYPED_CLASSES


def has_own_code(tokenizer_config: Mapping[str, Any]) -> bool:
    """Tell whether the model declares a tokenizer class of its own (`auto_map`)."""
    auto_map = tokenizer_config.get("auto_map")
    if isinstance(auto_map, Mapping):
        return auto_map.get("AutoTokenizer") is not None
    return bool(auto_map)


def _name(config: Mapping[str, Any], key: str) -> str:
    """Return a name; what is no text is nobody's."""
    value = config.get(key)
    return value if isinstance(value, str) else ""


def _known(name: object) -> str:
    short = str(name).removesuffix("Fast")
    short = CLASS_ALIASES.get(short, short)
    return short if short in MODEL_OF_CLASS or short in PYTHON_CLASSES else GENERIC
