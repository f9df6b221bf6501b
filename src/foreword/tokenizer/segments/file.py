"""Read of a `tokenizer.json` what proofs need; the merges, its largest part, are never decoded.

What enters: the file's bytes. What leaves: a `TokenizerFile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from foreword.errors import AssetsInvalid

Component: TypeAlias = Mapping[str, Any]
"""A normalizer, pre-tokenizer or post-processor as the file spells it."""


class AddedToken(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `added_tokens`."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class ModelPart(msgspec.Struct, frozen=True, kw_only=True):
    """The `model` of the file, its vocabulary and merges left as bytes."""

    type: str | None = None
    dropout: float | None = None
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    ignore_merges: bool = False
    max_input_chars_per_word: int | None = None
    vocab: msgspec.Raw = msgspec.Raw(b"{}")
    merges: msgspec.Raw = msgspec.Raw(b"")

    @property
    def kind(self) -> str:
        """The model's type; old files leave it out, and the library then tries them in order."""
        if self.type is not None:
            return self.type
        if bytes(self.merges):
            return "BPE"
        if bytes(self.vocab).lstrip().startswith(b"["):
            return "Unigram"
        return "WordPiece" if self.max_input_chars_per_word is not None else "WordLevel"


class TokenizerFile(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a `tokenizer.json` that decide where a text may be cut."""

    added_tokens: list[AddedToken] = []
    normalizer: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None
    post_processor: dict[str, Any] | None = None
    model: ModelPart


def read_file(tokenizer_json: bytes) -> TokenizerFile:
    """Return the parts of `tokenizer_json` that decide where a text may be cut.

    Raises: `AssetsInvalid` when it is not a tokenizer file.
    """
    try:
        return msgspec.json.decode(tokenizer_json, type=TokenizerFile)
    except msgspec.DecodeError as error:
        problem = f"is not a tokenizer file: {error}."
        raise AssetsInvalid(file="tokenizer.json", problem=problem) from error


def flatten(component: Component | None, children: str) -> tuple[Component, ...]:
    """Return a component's steps in order, nested sequences opened."""
    if component is None:
        return ()
    if component.get("type") != "Sequence":
        return (component,)
    return tuple(step for child in component[children] for step in flatten(child, children))
