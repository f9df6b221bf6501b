"""A fast engine that is the reference, wrong where a test says so."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Regex, Tokenizer, pre_tokenizers

sys.path.insert(0, str(Path(__file__).parent))
import small_models

from foreword.tokenizer.accelerated import FastEngine
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.tokenizer.trusted import TrustedEngine
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


def serving(plain: SegmentedTokenizer, engine: FastEngine) -> SegmentedTokenizer:
    """Return the tokenizer with a fast engine in service, of which nothing is sampled."""
    trusted = TrustedEngine(
        engine=engine,
        guard=None,
        encode_reference=reference_of(plain.reference.tokenizer),
        rules=plain.rules,
        state=plain.state,
        shadow_every=0,
    )
    return replace(plain, fast=trusted)
