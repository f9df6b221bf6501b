"""A token id enters, with the ids before it; the text a client is shown for that token leaves.

Rules of this file: no I/O. The texts of the tokens of an answer, joined, are nearly its text: a
character of several tokens is shown at the one that completes it, and the others show nothing.

Source: vLLM 0.33 `logprobs.py` and `detokenizer_utils.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Protocol

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
NUM_CONTEXT = 4
"""Tokens before one that may hold the beginning of its character, which has four bytes."""
_NUM_REMEMBERED = 2**16


class Vocabulary(Protocol):
    """The part of a `Tokenizer` that is needed here."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...

    def id_to_token(self, token_id: int) -> str | None: ...


class TokenTexts:
    """The texts of one vocabulary's tokens, each by itself.

    Shapes: `space_marker` is the character that stands for a space in the vocabulary's strings,
    where decoding drops the first one. Special tokens are shown as they are written.
    """

    def __init__(self, vocabulary: Vocabulary, *, space_marker: str | None = None) -> None:
        self._vocabulary = vocabulary
        self._marker = space_marker
        self.decoded = lru_cache(_NUM_REMEMBERED)(self._decoded)
        """The decoded text of a token, as it is."""
        self._alone = lru_cache(_NUM_REMEMBERED)(self._with_spaces)

    def text(self, token_id: int, context: Sequence[int] = ()) -> str:
        """Return the text of a token that stands after `context` (its last ids are enough)."""
        text = self._alone(token_id)
        if not text.endswith(REPLACEMENT):
            return text
        for number in range(1, min(len(context), NUM_CONTEXT) + 1):
            before = context[-number:]
            whole = self._vocabulary.decode([*before, token_id])
            if not whole.endswith(REPLACEMENT):
                shown = self._vocabulary.decode(self._complete(before))
                same = takewhile(lambda pair: pair[0] == pair[1], zip(shown, whole, strict=False))
                return whole[sum(1 for _ in same) :]
        return ""

    def _complete(self, token_ids: Sequence[int]) -> Sequence[int]:
        """Leave out the last tokens that are no whole characters: they showed nothing."""
        stop = len(token_ids)
        while stop and self.decoded(token_ids[stop - 1]).endswith(REPLACEMENT):
            stop -= 1
        return token_ids[:stop]

    def _decoded(self, token_id: int) -> str:
        return self._vocabulary.decode([token_id])

    def _with_spaces(self, token_id: int) -> str:
        text = self.decoded(token_id)
        if self._marker is None:
            return text
        string = self._vocabulary.id_to_token(token_id) or ""
        num_spaces = len(string) - len(string.lstrip(self._marker))
        return " " * (num_spaces - (len(text) - len(text.lstrip(" ")))) + text
