"""A Mistral model's tokenizer file enters; what makes mistral-common backends of it leaves.

Rules of this file: mistral-common is imported when a model is loaded, never before. Backends
share one vocabulary, which nothing changes; what reads requests is each backend's own.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from foreword.errors import AssetsInvalid
from foreword.tokenizer.mistral_media import hide_media

Backend: TypeAlias = Any
"""mistral-common's MistralTokenizer, which need not be installed."""

_SENTENCEPIECE = re.compile(r"\.model(\.v\d+(m\d+)?)?$")
_ROLES = {
    "bos_token": "bos_id",
    "eos_token": "eos_id",
    "pad_token": "pad_id",
    "unk_token": "unk_id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendMaker:
    """Makes a backend of its own for one thread around the shared, read-only vocabulary."""

    path: Path
    original: Backend

    def __reduce__(self) -> tuple[Any, ...]:
        return load_backend, (self.path,)

    def __call__(self) -> Backend:
        from mistral_common.protocol.instruct.normalize import get_normalizer
        from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        instruct = copy.copy(self.original.instruct_tokenizer)
        hide_media(instruct)
        vocabulary = instruct.tokenizer
        return MistralTokenizer(
            instruct,
            validator=get_validator(vocabulary.version, mode=ValidationMode.test),
            request_normalizer=get_normalizer(
                vocabulary.version, vocabulary.model_settings_builder
            ),
        )


def load_backend(path: Path) -> BackendMaker:
    """Read a tokenizer file in mistral-common's validation mode `test`, as engines do.

    Raises: `AssetsInvalid` when it is broken, or mistral-common is missing.
    """
    try:
        from mistral_common.protocol.instruct.validator import ValidationMode
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    except ImportError as error:
        raise AssetsInvalid(
            file=path.name,
            problem=f"mistral-common, which reads it, cannot be imported ({error}).",
            remedy="Install it with `pip install 'foreword[mistral]'`.",
        ) from error
    try:
        return BackendMaker(
            path=path, original=MistralTokenizer.from_file(str(path), mode=ValidationMode.test)
        )
    except Exception as error:
        # Assertions, key errors and pydantic's: mistral-common has no one type for a bad file.
        raise AssetsInvalid(
            file=path.name,
            problem=f"mistral-common cannot read it ({type(error).__name__}).",
            remedy="Download it again, or install a newer mistral-common.",
        ) from error


def choose_file(file_names: frozenset[str]) -> str:
    """Return the file to read: tekken.json, else the SentencePiece model last by name.

    Raises: `AssetsInvalid` when there is neither.
    Source: mistral-common's own choice.
    """
    if "tekken.json" in file_names:
        return "tekken.json"
    named = sorted(name for name in file_names if _SENTENCEPIECE.search(name))
    if not named:
        raise AssetsInvalid(
            file="tekken.json",
            problem="missing: tokenizer mode 'mistral' needs it, or a tokenizer.model.v*.",
            remedy="Choose mode 'hf' for a model with a tokenizer.json.",
        )
    return named[-1]


def find_roles(vocabulary: Any) -> dict[str, int]:
    """Return the ids of the special tokens the vocabulary has, by role."""
    roles = {}
    for role, name in _ROLES.items():
        try:
            token_id = int(getattr(vocabulary, name))
        except ValueError:
            continue
        if token_id >= 0:
            roles[role] = token_id
    return roles
