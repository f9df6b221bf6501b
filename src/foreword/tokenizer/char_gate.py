"""A tokenizer's file and vocabulary enter; why its character gate can fail, or None, leaves.

The gate: C characters need at least C / max_chars_per_token tokens, so a text longer than the
budget times max_chars_per_token can be refused before it is tokenized.

Rules of this file: None means proved, from the file alone. What is not proved has a gap, and the
gap is a sentence. Proofs bound the characters of the original text, not of the normalized one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable

from tokenizers import Tokenizer

from foreword.tokenizer.tokenizer_file import Section, TokenizerFile, flatten

# Each yields at least one character for every character it takes.
_GROWING_NORMALIZERS = frozenset({"NFD", "Lowercase", "Prepend", "ByteLevel"})
_KEEPING_PRE_TOKENIZERS = frozenset(
    {"ByteLevel", "Metaspace", "Digits", "UnicodeScripts", "Split", "Punctuation"}
)
# Bytes that no UTF-8 text contains.
_NEVER_IN_UTF8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


def char_gate_gap(tokenizer: Tokenizer, file: TokenizerFile, vocab: Collection[str]) -> str | None:
    """Say why a token can stand for more characters than the longest vocabulary string.

    Returns None when that is excluded for every text.
    """
    longest = max(map(len, vocab))
    return (
        _model_gap(file, vocab)
        or _pre_tokenizer_gap(file.pre_tokenizer)
        or _normalizer_gap(file, vocab, longest)
        or _added_token_gap(tokenizer, longest)
    )


def _model_gap(file: TokenizerFile, vocab: Collection[str]) -> str | None:
    model = file.model
    if model.type != "BPE":
        return f"a {model.type} model's unknown token can stand for a word of any length"
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return "sub-word prefixes or suffixes can make a character of the vocabulary unknown"
    if is_byte_level(file):
        missing = [c for b, c in _byte_alphabet().items() if c not in vocab and _in_utf8(b)]
        what = f"{len(missing)} byte symbols are" if missing else ""
    elif model.byte_fallback:
        missing = [b for b in _fallback_tokens() if b not in vocab]
        what = f"{len(missing)} byte tokens are" if missing else ""
    else:
        what = "characters can be"
    if not what:
        return None
    if model.unk_token is None:
        return f"{what} missing from the vocabulary, and unknown characters are dropped"
    if model.fuse_unk:
        return f"{what} missing from the vocabulary, and unknown characters fuse into one token"
    return None


def _pre_tokenizer_gap(section: Section | None) -> str | None:
    for step in flatten(section):
        kind = str(step.get("type"))
        if kind not in _KEEPING_PRE_TOKENIZERS:
            return f"the pre-tokenizer {kind} can delete text"
        if step.get("behavior") == "Removed":
            return f"the pre-tokenizer {kind} removes what it matches"
    return None


def _normalizer_gap(file: TokenizerFile, vocab: Iterable[str], longest: int) -> str | None:
    steps = flatten(file.normalizer)
    for place, step in enumerate(steps):
        kind = str(step.get("type"))
        if kind == "NFC" and place == len(steps) - 1:
            covers = _byte_level_cover if is_byte_level(file) else _decomposed_length
            # No token stands for more than 1.5 characters a byte, so short ones need no look.
            doubtful = (token for token in vocab if 4 * len(token) > longest)
            if any(covers(token) > longest for token in doubtful):
                return "composition (NFC) can put more characters into a token than its string has"
        elif kind == "Replace":
            pattern = step.get("pattern") or {}
            shortest = str(step.get("content", ""))
            if "String" not in pattern or len(shortest) < len(pattern["String"]):
                return "the normalizer Replace can shorten the text"
        elif kind not in _GROWING_NORMALIZERS:
            return f"the normalizer {kind} can delete or shorten text"
    return None


def _added_token_gap(tokenizer: Tokenizer, longest: int) -> str | None:
    normalizer = tokenizer.normalizer
    for token in tokenizer.get_added_tokens_decoder().values():
        if token.lstrip or token.rstrip:
            return f"the added token {token.content!r} swallows the spaces beside it"
        if token.normalized and normalizer is not None:
            written = normalizer.normalize_str(token.content)
            if _decomposed_length(written) > longest:
                return f"the added token {token.content!r} matches longer texts once normalized"
    return None


def is_byte_level(file: TokenizerFile) -> bool:
    """Tell whether the model's symbols are bytes, written in the byte-level alphabet."""
    steps = [*flatten(file.normalizer), *flatten(file.pre_tokenizer)]
    return any(step.get("type") == "ByteLevel" for step in steps)


def _decomposed_length(text: str) -> int:
    """Return the most characters that compose (NFC) to `text`: decomposing never shortens."""
    return len(unicodedata.normalize("NFD", text))


def _byte_level_cover(token: str) -> float:
    """Bound the characters that compose into these bytes.

    Why: a whole character counts as what it decomposes to; a byte of a character that a
    neighbouring token shares counts 1.5, the most over all of Unicode (U+01D5: 2 bytes, 3
    characters; a test counts them all).
    """
    if not _BYTE_OF_SYMBOL.keys() >= set(token):
        return _decomposed_length(token)  # an added token: its string is its text
    text = bytes(_BYTE_OF_SYMBOL[s] for s in token).decode("utf-8", "surrogateescape")
    shared = sum("\udc80" <= character <= "\udcff" for character in text)
    return _decomposed_length(text) - shared + 1.5 * shared


def _byte_alphabet() -> dict[int, str]:
    """Return the byte-level alphabet: every byte and the character that writes it."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    alphabet = {byte: chr(byte) for byte in plain}
    alphabet.update({byte: chr(256 + place) for place, byte in enumerate(others)})
    return alphabet


_BYTE_OF_SYMBOL = {symbol: byte for byte, symbol in _byte_alphabet().items()}


def _fallback_tokens() -> list[str]:
    return [f"<0x{byte:02X}>" for byte in range(256) if _in_utf8(byte)]


def _in_utf8(byte: int) -> bool:
    return byte not in _NEVER_IN_UTF8
