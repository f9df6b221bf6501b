"""Prove cuts inside a BPE word: two neighbouring symbols that no vocabulary entry joins.

What enters: a BPE model's vocabulary. What leaves: a `Vocabulary` that answers for a pair.

Why it holds: a merge only ever makes a token whose string is in the vocabulary. Where no entry
holds the two symbols side by side no token can cover the cut, so the merges on its two sides never
touch and run in the same order as they would alone. Both symbols must be entries themselves: then
no unknown token is pending at the cut that could fuse across, and no byte fallback takes part.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from operator import add

import msgspec

from foreword.tokenizer.tokenizer_file import ModelSection

_BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
# A lone surrogate, which no JSON text decodes to: no pair can span two entries.
_SEPARATOR = "\ud800"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The symbols of a vocabulary, and which of them ever stand side by side in an entry."""

    symbols: frozenset[str]
    pairs: frozenset[str]
    space: str
    """The symbol that U+0020 has become before the model sees it."""

    def parts(self, before: str, after: str) -> bool:
        """Say whether no token can cover the joint of these two characters of the text."""
        before = self.space if before == " " else before
        after = self.space if after == " " else after
        return before in self.symbols and after in self.symbols and before + after not in self.pairs


def word_gap(model: ModelSection) -> str | None:
    """Say why the model proves no cut inside a word, as far as its parameters tell."""
    if model.type != "BPE":
        return f"a {model.type} model is not proved inside a word"
    if model.ignore_merges:
        return "ignore_merges lets a piece be a token that its merges would not make"
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return "the model marks the middle or end of a word with an affix"
    return None


def index_vocabulary(
    entries: Collection[str], *, unk_token: str | None, space: str
) -> Vocabulary | str:
    """Return which symbols ever stand side by side in an entry, or why that proves nothing."""
    joined = _SEPARATOR.join(entries)
    num_byte_tokens = sum(1 for e in entries if len(e) == 6 and _BYTE_TOKEN.match(e))
    if len(_BYTE_TOKEN.findall(joined)) > num_byte_tokens:
        return "byte tokens take part in merges"
    if unk_token and joined.count(unk_token) > 1:
        return "the unknown token takes part in merges"
    symbols = frozenset(entry for entry in entries if len(entry) == 1)
    return Vocabulary(symbols=symbols, pairs=frozenset(map(add, joined, joined[1:])), space=space)


class _Model(msgspec.Struct, frozen=True):
    vocab: dict[str, int]


class _File(msgspec.Struct, frozen=True):
    model: _Model


def read_vocabulary(tokenizer_json: bytes) -> Collection[str]:
    """Return the vocabulary of a BPE model's file."""
    return msgspec.json.decode(tokenizer_json, type=_File).model.vocab
