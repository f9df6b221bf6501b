"""A SentencePiece model and the class a configuration declares enter; a tokenizer.json leaves.

Rules of this file: what a class adds to its SentencePiece file (special tokens around a text,
tokens behind the last piece) is said here. A class that moves the file's ids is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foreword.errors import AssetsInvalid
from foreword.tokenizer.class_table import MODEL_OF_CLASS, PYTHON_CLASSES
from foreword.tokenizer.declared_class import has_own_code
from foreword.tokenizer.json_parts import added_token
from foreword.tokenizer.sentencepiece_file import (
    convert_sentencepiece,
    declared_roles,
    known_differences,
)
from foreword.tokenizer.sentencepiece_model import SentencePieceModel


@dataclass(frozen=True, slots=True)
class Adds:
    """What a class puts around a text where its configuration does not say."""

    bos: bool
    eos: bool
    num_extra_ids: int = 0


_ADDS: Mapping[str, Adds] = {
    "LlamaTokenizer": Adds(bos=True, eos=False),
    "CodeLlamaTokenizer": Adds(bos=True, eos=False),
    "GemmaTokenizer": Adds(bos=True, eos=False),
    "T5Tokenizer": Adds(bos=False, eos=True, num_extra_ids=100),
}


def convert_for_class(
    model: SentencePieceModel,
    name: str,
    tokenizer_config: Mapping[str, Any],
    added_tokens: Mapping[str, int],
) -> tuple[dict[str, Any], dict[str, str], tuple[str, ...]]:
    """Return the tokenizer.json, the special tokens by role, and what to warn of.

    `added_tokens` is added_tokens.json: texts by id behind the last piece.

    Raises: `AssetsInvalid` for a class that arranges ids of its own, or ids that leave a gap.
    Source: transformers' classes over SentencePiece files.
    """
    adds, warnings = _adds_of(name, tokenizer_config)
    add_bos = bool(tokenizer_config.get("add_bos_token", adds.bos and model.bos_id >= 0))
    add_eos = bool(tokenizer_config.get("add_eos_token", adds.eos))
    file = convert_sentencepiece(model, name, add_bos=add_bos, add_eos=add_eos)
    roles = declared_roles(model)
    behind = {i: text for text, i in added_tokens.items() if i >= len(model.pieces)}
    num_extra = int(tokenizer_config.get("extra_ids", adds.num_extra_ids))
    if num_extra and not behind and "added_tokens_decoder" not in tokenizer_config:
        last = len(model.pieces) + num_extra - 1
        behind = {last - i: f"<extra_id_{i}>" for i in range(num_extra)}
    if sorted(behind) != list(range(len(model.pieces), len(model.pieces) + len(behind))):
        raise AssetsInvalid(
            file="added_tokens.json",
            problem=f"its ids do not follow on the {len(model.pieces)} pieces of {name}.",
        )
    special = {*roles.values(), *_texts(tokenizer_config)}
    for token_id, text in sorted(behind.items()):
        is_special = text in special or text.startswith("<extra_id_")
        file["added_tokens"].append(added_token(token_id, text, is_special=is_special))
    return file, roles, warnings + known_differences(model, name)


def _adds_of(name: str, tokenizer_config: Mapping[str, Any]) -> tuple[Adds, tuple[str, ...]]:
    declared = str(tokenizer_config.get("tokenizer_class") or "").removesuffix("Fast")
    if has_own_code(tokenizer_config):
        return Adds(bos=True, eos=False), (
            f"tokenizer_config.json names tokenizer code of its own (auto_map), which is never run"
            f" here: {name} is encoded as the sentencepiece library does it.",
        )
    if declared in _ADDS:
        return _ADDS[declared], (
            f"{name} is encoded as the sentencepiece library does it; an engine on transformers"
            " may treat spaces at the beginning of a text, or beside special tokens, differently.",
        )
    if declared in MODEL_OF_CLASS or declared in PYTHON_CLASSES:
        raise AssetsInvalid(
            file=name,
            problem=f"the configuration asks for {declared}, which arranges the ids of its"
            f" SentencePiece file anew. Classes read here: {', '.join(sorted(_ADDS))}.",
            remedy="Load a revision with a tokenizer.json, or convert it with transformers.",
        )
    return Adds(bos=True, eos=False), ()


def _texts(tokenizer_config: Mapping[str, Any]) -> set[str]:
    values = [value for key, value in tokenizer_config.items() if key.endswith("_token")]
    values += tokenizer_config.get("additional_special_tokens") or []
    found = (value.get("content") if isinstance(value, Mapping) else value for value in values)
    return {text for text in found if isinstance(text, str)}
