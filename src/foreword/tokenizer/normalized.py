"""A tokenizer enters; a twin without its normalizer leaves, for the texts that need none.

Rules of this file: the twin is only used where it is proved to answer the same, and the proof is
asked of each text: `text_for` returns None, and the reference answers. The twin shares the model
and costs no memory.

Why: the library keeps a table of positions for every normalized text, which costs a third of a
SentencePiece-BPE model's encode and a sixth of a byte-level one's, on text that does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer

from foreword.tokenizer.tokenizer_file import Section, TokenizerFile, flatten

_KEEP_ASCII = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
_READ_NORMALIZED_TEXT_ALONE = frozenset({"Split", "ByteLevel"})
"""Pre-tokenizers that ask nothing about the text before it was normalized."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwinWithoutNormalizer:
    """A tokenizer with the same ids for some texts, which it must be given normalized.

    `replaces` is the one character the normalizer writes for another (the latter first); None: it
    leaves ASCII as it is.
    """

    tokenizer: Tokenizer
    replaces: tuple[str, str] | None

    def text_for(self, text: str) -> str | None:
        """Return what the twin is to encode for `text`, or None: only the reference may."""
        if self.replaces is None:
            return text if text.isascii() else None
        before, after = self.replaces
        return None if after in text else text.replace(before, after)


def find_twin(tokenizer: Tokenizer, file: TokenizerFile) -> TwinWithoutNormalizer | None:
    """Return the twin of a tokenizer, or None where there is nothing to win or to prove.

    Two kinds of normalizer are known: Unicode's forms, which leave ASCII alone; and the
    replacement of one character by another, undone by nothing as long as a text does not hold the
    latter itself.
    """
    steps = flatten(file.normalizer)
    if not steps or tokenizer.encode_special_tokens:
        return None
    if all(step.get("type") in _KEEP_ASCII for step in steps):
        return _twin(tokenizer, file, replaces=None)
    replaces = _one_for_one(steps)
    if replaces is None or not _are_plain(file, replaces):
        return None
    return _twin(tokenizer, file, replaces=replaces)


def _one_for_one(steps: Sequence[Section]) -> tuple[str, str] | None:
    """Return the characters of a lone `Replace` of one by another."""
    if len(steps) != 1 or steps[0].get("type") != "Replace":
        return None
    pattern, after = steps[0].get("pattern"), steps[0].get("content")
    before = pattern.get("String") if isinstance(pattern, dict) else None
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    return (before, after) if len(before) == len(after) == 1 and before != after else None


def _are_plain(file: TokenizerFile, replaces: tuple[str, str]) -> bool:
    """Say whether the added tokens and the pre-tokenizer see no more than characters.

    Why: tokens are looked for before the normalizer runs, and a flag asks what is white space.
    """
    before, _ = replaces
    return all(
        not (token.normalized or token.lstrip or token.rstrip or token.single_word)
        and before not in token.content
        for token in file.added_tokens
    ) and all(
        step.get("type") in _READ_NORMALIZED_TEXT_ALONE for step in flatten(file.pre_tokenizer)
    )


def _twin(
    tokenizer: Tokenizer, file: TokenizerFile, *, replaces: tuple[str, str] | None
) -> TwinWithoutNormalizer | None:
    """Build the twin, or None when its added tokens would not be the tokenizer's."""
    by_id: dict[int, AddedToken] = tokenizer.get_added_tokens_decoder()
    if len(by_id) != len(file.added_tokens):
        return None  # one was added twice, with other flags
    tokens = [by_id[token_id] for token_id in sorted(by_id)]
    if replaces is None:
        if not all(_is_itself(tokenizer, token) for token in tokens):
            return None
    else:
        # No text that the twin is given holds the character: such a token can't occur in it.
        tokens = [token for token in tokens if replaces[1] not in token.content]
    twin = Tokenizer(tokenizer.model)
    if tokenizer.pre_tokenizer is not None:
        twin.pre_tokenizer = tokenizer.pre_tokenizer
    twin.add_tokens(tokens)
    if any(
        twin.token_to_id(token.content) != tokenizer.token_to_id(token.content) for token in tokens
    ):
        return None
    return TwinWithoutNormalizer(tokenizer=twin, replaces=replaces)


def _is_itself(tokenizer: Tokenizer, token: AddedToken) -> bool:
    """Say whether the normalizer leaves a token's text as it is, where it looks for that."""
    if not token.normalized:
        return True
    normalized: str = tokenizer.normalizer.normalize_str(token.content)
    return normalized == token.content
