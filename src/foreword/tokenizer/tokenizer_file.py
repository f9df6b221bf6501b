"""tokenizer.json bytes enter; its small sections, typed, leave. The vocabulary is stepped over.

Rules of this file: a 33 MB file is scanned, never turned into Python objects. Older layouts (no
model type, merges as strings) are read as the tokenizers library reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from foreword.errors import AssetsInvalid

TOKENIZER_JSON = "tokenizer.json"

Section = dict[str, Any]
"""A normalizer, pre-tokenizer, post-processor or decoder as its file writes it."""


class AddedTokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `added_tokens`."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class ModelSection(msgspec.Struct, frozen=True, kw_only=True):
    """The model's parameters, without vocabulary and merges."""

    type: str | None = None
    unk_token: str | None = None
    unk_id: int | None = None
    dropout: float | None = None
    fuse_unk: bool | None = None
    byte_fallback: bool | None = None
    ignore_merges: bool | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    max_input_chars_per_word: int | None = None


class TokenizerFile(msgspec.Struct, frozen=True, kw_only=True):
    """What tokenizer.json says about the pipeline, as it is run.

    `model.type` is always filled in. `truncation` and `padding` are what the file said; neither
    is ever run.
    """

    model: ModelSection
    normalizer: Section | None = None
    pre_tokenizer: Section | None = None
    post_processor: Section | None = None
    decoder: Section | None = None
    added_tokens: tuple[AddedTokenRow, ...] = ()
    truncation: Section | None = None
    padding: Section | None = None


class _ModelKeys(msgspec.Struct, frozen=True):
    merges: msgspec.Raw = msgspec.Raw(b"")
    vocab: msgspec.Raw = msgspec.Raw(b"")


class _ModelOnly(msgspec.Struct, frozen=True):
    model: _ModelKeys


def read_tokenizer_file(raw: bytes) -> TokenizerFile:
    """Read the small sections of a tokenizer.json.

    Raises: `AssetsInvalid` naming the file and where it is broken.
    """
    try:
        file = msgspec.json.decode(raw, type=TokenizerFile)
        if file.model.type is None:
            file = msgspec.structs.replace(
                file, model=msgspec.structs.replace(file.model, type=_untyped_model(raw))
            )
    except msgspec.ValidationError as error:
        raise AssetsInvalid(file=TOKENIZER_JSON, problem=f"{error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AssetsInvalid(
            file=TOKENIZER_JSON,
            problem=f"not valid JSON ({error}; {len(raw)} bytes).",
            remedy="Download it again.",
        ) from error
    return file


def _untyped_model(raw: bytes) -> str:
    model = msgspec.json.decode(raw, type=_ModelOnly).model
    if bytes(model.merges):
        return "BPE"
    return "Unigram" if bytes(model.vocab).lstrip().startswith(b"[") else "WordPiece"


def replace_sections(raw: bytes, sections: Mapping[str, Section | None]) -> bytes:
    """Return `raw` with these top-level sections replaced; everything else is copied as it is."""
    if not sections:
        return raw
    top = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    for name, section in sections.items():
        top[name] = msgspec.Raw(msgspec.json.encode(section))
    return msgspec.json.encode(top)


def flatten(section: Section | None) -> list[Section]:
    """Return a section's steps in order: sequences opened, empty ones gone."""
    if section is None:
        return []
    if section.get("type") != "Sequence":
        return [section]
    for key in ("normalizers", "pretokenizers", "processors", "decoders"):
        if key in section:
            return [step for inner in section[key] for step in flatten(inner)]
    return []
