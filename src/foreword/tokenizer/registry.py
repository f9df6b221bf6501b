"""Tokenizer modes: a mode's name enters, the class that loads it leaves.

Rules of this file: a class is imported when it is asked for, never before. A mode that is known
but not built says what it needs; it is not in the table.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any, Protocol, cast

from foreword.errors import AssetsInvalid, InvalidRequest, UnsupportedFeature
from foreword.types import ModelAssets, Side, Tokenizer

_BUILT = {
    "hf": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer"),
    "alpamayo2_super": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer"),
    "inkling": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer"),
    "kimi_audio": ("foreword.tokenizer.kimi_audio", "KimiAudioTokenizer"),
    "mistral": ("foreword.tokenizer.mistral", "MistralTokenizer"),
    "deepseek_v32": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer"),
    "deepseek_v4": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer"),
    "deepseek_v41": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer"),
}

_COMPLETIONS = "its tokens are those of mode 'hf', which serves plain completions"

NOT_BUILT: Mapping[str, str] = {
    "gpt_oss": "is not a tokenizer mode of vLLM 0.33: use 'hf', since this chat format follows from"
    " model_type in config.json",
    "kimi_k3": "needs the model's own Python file encoding_k3.py, which writes its chats token by"
    f" token and of which there is no public description; {_COMPLETIONS}",
    "cohere": "needs the package cohere_melody, whose compiled code writes its chats (cmd3, cmd4)"
    f" and is not described elsewhere; {_COMPLETIONS}",
    "grok2": "is gone from vLLM 0.33: it needs the model's tokenizer.tok.json, whose format is not"
    " read here; use 'hf' with a tokenizer.json made from it",
    "qwen_vl": "is gone from vLLM 0.33: it needs qwen.tiktoken and the image tags of the model's"
    " own tokenization_qwen.py; mode 'hf' reads qwen.tiktoken for text without images",
}
"""Modes by name that this version does not load, and what each of them needs."""


class TokenizerClass(Protocol):
    """What a mode's class offers: assets in, a tokenizer that never changes out."""

    @classmethod
    def from_assets(
        cls,
        assets: ModelAssets,
        *,
        mode: str,
        truncation_side: Side,
        model_vocab_size: int | None,
    ) -> Tokenizer: ...


class TokenizerRegistry:
    """Mode → (module, class)."""

    def __init__(self, rows: Mapping[str, tuple[str, str]] | None = None) -> None:
        self._rows: dict[str, tuple[str, str]] = dict(rows or {})

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that load, sorted."""
        return tuple(sorted(self._rows))

    def row(self, mode: str) -> tuple[str, str] | None:
        """Return the module and class of `mode`; None when nothing is registered for it."""
        return self._rows.get(mode)

    def register(self, mode: str, module: str, class_name: str) -> None:
        """Make `mode` load `class_name` of `module`; a second registration warns and wins."""
        mode = mode.lower()  # as whoever asks for it is understood
        if mode in self._rows:
            old = ".".join(self._rows[mode])
            warnings.warn(
                f"tokenizer mode {mode!r} was {old} and is now {module}.{class_name}",
                stacklevel=2,
            )
        self._rows[mode] = (module, class_name)

    def load_tokenizer_class(self, mode: str) -> type[TokenizerClass]:
        """Import and return the class of `mode`.

        Raises: `UnsupportedFeature` for a known mode that is not built, `InvalidRequest` for an
        unknown one, `AssetsInvalid` when a registered class cannot be imported.
        """
        if mode not in self._rows:
            raise self._refusal(mode)
        module, class_name = self._rows[mode]
        try:
            loaded: Any = getattr(importlib.import_module(module), class_name)
        except (ImportError, AttributeError) as error:
            raise AssetsInvalid(
                file=f"tokenizer mode {mode!r}",
                problem=f"{module}.{class_name} cannot be imported ({error}).",
                remedy="Install what it needs, or choose another mode.",
            ) from error
        return cast("type[TokenizerClass]", loaded)

    def _refusal(self, mode: str) -> Exception:
        if mode in NOT_BUILT:
            return UnsupportedFeature(
                feature=f"tokenizer mode {mode!r}",
                remedy=f"It {NOT_BUILT[mode]}.",
                param="tokenizer_mode",
            )
        return InvalidRequest(
            f"tokenizer mode {mode!r} is unknown. Modes that load: auto, {', '.join(self.modes)};"
            f" known but not built: {', '.join(sorted(NOT_BUILT))}.",
            param="tokenizer_mode",
        )


TOKENIZER_REGISTRY = TokenizerRegistry(_BUILT)
"""The registry everything uses unless another is passed."""
