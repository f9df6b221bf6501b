"""Chat formats that are code, not Jinja: which one a model has, if any.

Rules of this file: a family is one file and one row. A format is chosen by the tokenizer mode the
operator asked for, or by the model's own type where engines do so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foreword.formats.deepseek_v4 import DeepSeekV4
from foreword.formats.deepseek_v32 import DeepSeekV32
from foreword.formats.deepseek_v41 import DeepSeekV41
from foreword.formats.harmony import Harmony
from foreword.formats.inkling import Inkling
from foreword.types import ChatFormat

__all__ = ["BY_MODE", "BY_MODEL_TYPE", "BY_VOCABULARY", "find_chat_format", "template_hint"]

BY_MODE: Mapping[str, Callable[[], ChatFormat]] = {
    "deepseek_v32": DeepSeekV32,
    "deepseek_v4": DeepSeekV4,
    "deepseek_v41": DeepSeekV41,
}
"""Tokenizer mode → format."""

BY_VOCABULARY: Mapping[str, Callable[[Callable[[str], int | None]], ChatFormat]] = {
    "inkling": Inkling.of_vocabulary,
}
"""Tokenizer mode → format, given how the vocabulary spells its control tokens."""

BY_MODEL_TYPE: Mapping[str, Callable[[str | None], ChatFormat]] = {
    "gpt_oss": lambda start_date: Harmony(start_date=start_date),
}
"""`model_type` of config.json → format, given the date to tell the model."""


_FAMILIES = {"deepseek": tuple(BY_MODE), "inkling": tuple(BY_VOCABULARY)}


def template_hint(config: Mapping[str, Any]) -> str:
    """Return which tokenizer modes may render the chats of a model that brings no template."""
    model_type = str(config.get("model_type") or "")
    modes = next((m for family, m in _FAMILIES.items() if model_type.startswith(family)), ())
    if not modes:
        return ""
    return (
        "Models of this family whose chats are code, not a template, need their tokenizer mode:"
        f" --tokenizer-mode (tokenizer_mode=) {' or '.join(modes)}."
    )


def find_chat_format(
    mode: str,
    config: Mapping[str, Any],
    *,
    start_date: str | None = None,
    token_to_id: Callable[[str], int | None] = lambda token: None,
) -> ChatFormat | None:
    """Return the format of a model whose chat is not rendered by a template, or None.

    Source: vLLM 0.33, where gpt-oss speaks Harmony whatever templates it brings.
    """
    model_type = config.get("model_type")
    if isinstance(model_type, str) and model_type in BY_MODEL_TYPE:
        return BY_MODEL_TYPE[model_type](start_date)
    if mode in BY_VOCABULARY:
        return BY_VOCABULARY[mode](token_to_id)
    return BY_MODE[mode]() if mode in BY_MODE else None
