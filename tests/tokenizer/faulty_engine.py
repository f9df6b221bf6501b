"""A fast engine that is the reference, wrong where a test says so."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, pre_tokenizers

sys.path.insert(0, str(Path(__file__).parent))
import small_models

from foreword.types import TokenIds

ADDED = ["<|end|>"]


@dataclass(frozen=True)
class FaultyEngine:
    """The reference, but for texts where `is_wrong` says so."""

    tokenizer: Tokenizer
    is_wrong: Callable[[str], bool]
    name: str = "faulty"

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        return [
            ids + array("I", [0]) if self.is_wrong(text) else ids
            for text, ids in zip(texts, reference_of(self.tokenizer)(texts), strict=True)
        ]


def reference_of(tokenizer: Tokenizer) -> Callable[[Sequence[str]], list[TokenIds]]:
    def reference(texts: Sequence[str]) -> list[TokenIds]:
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [array("I", encoding.ids) for encoding in encodings]

    return reference


def byte_level(pattern: str) -> Tokenizer:
    tokenizer = small_models.byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return tokenizer
