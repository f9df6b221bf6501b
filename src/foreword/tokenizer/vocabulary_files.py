"""A model without tokenizer.json enters; an equal one, made from the file it has, leaves.

Rules of this file: tokenizer.json is never looked for here. Which file is read follows from the
files' names, in a fixed order; what cannot be converted exactly is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from foreword.errors import AssetsInvalid
from foreword.gguf_header import read_gguf_header
from foreword.tokenizer.gguf_file import convert_gguf
from foreword.tokenizer.sentencepiece_classes import convert_for_class
from foreword.tokenizer.sentencepiece_model import read_model
from foreword.tokenizer.tiktoken_file import convert_tiktoken, is_tiktoken
from foreword.types import ModelAssets

_TIKTOKEN = ("tiktoken.model", "*.tiktoken")
_MODELS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece*.model")
_ADDED = "added_tokens.json"
_NOT_READ = ("tekken.json", "vocab.json", "vocab.txt", "merges.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A tokenizer.json as an object, what the file declares beside it, and what to know of it.

    `name` is the file it was made from; `declared` is what tokenizer_config.json would say where
    it says nothing.
    """

    name: str
    file: Mapping[str, Any]
    declared: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def convert_vocabulary(assets: ModelAssets) -> Converted:
    """Convert the vocabulary file of a model that has no tokenizer.json.

    Raises: `AssetsInvalid` when there is none, or it cannot be converted exactly.
    """
    name = _choose(assets.file_names, (*_TIKTOKEN, *_MODELS, "*.gguf"))
    if name is None:
        raise _nothing_to_read(assets.file_names)
    if name.endswith(".gguf"):
        header = read_gguf_header(Path(assets.folder) / name)
        return Converted(name=name, file=convert_gguf(header.values, name))
    data = _read(assets, name)
    if is_tiktoken(data) or any(fnmatchcase(name, pattern) for pattern in _TIKTOKEN):
        return Converted(name=name, file=convert_tiktoken(data, name, assets.tokenizer_config))
    return _convert_sentencepiece(data, name, assets)


def _convert_sentencepiece(data: bytes, name: str, assets: ModelAssets) -> Converted:
    added: dict[str, int] = {}
    if _ADDED in assets.file_names:
        try:
            added = msgspec.json.decode(_read(assets, _ADDED), type=dict[str, int])
        except msgspec.DecodeError as error:
            raise AssetsInvalid(file=_ADDED, problem=f"{error}.") from error
    file, roles, warnings = convert_for_class(
        read_model(data, name), name, assets.tokenizer_config, added
    )
    return Converted(name=name, file=file, declared=roles, warnings=warnings)


def _choose(file_names: frozenset[str], patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        found = sorted(name for name in file_names if fnmatchcase(name, pattern))
        if found:
            return found[0]
    return None


def _read(assets: ModelAssets, name: str) -> bytes:
    try:
        return (Path(assets.folder) / name).read_bytes()
    except OSError as error:
        raise AssetsInvalid(
            file=name, problem=f"it cannot be read ({error.strerror or type(error).__name__})."
        ) from error


def _nothing_to_read(file_names: frozenset[str]) -> AssetsInvalid:
    present = [name for name in _NOT_READ if name in file_names]
    has = f"the model has {', '.join(present)}, but" if present else "the model has"
    remedy = (
        "Convert it once with the transformers library (AutoTokenizer … save_pretrained), or load"
        " a revision that has the file."
    )
    if "tekken.json" in file_names:
        remedy += (
            " Its tekken.json is read in Mistral's own mode: load with --tokenizer-mode mistral"
            " (tokenizer_mode='mistral'), extra `mistral`."
        )
    return AssetsInvalid(
        file="tokenizer.json",
        problem=f"missing: {has} no fast tokenizer file, and slow tokenizers are not run here.",
        remedy=remedy,
    )
