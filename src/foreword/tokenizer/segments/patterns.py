"""The pre-tokenizer patterns that are known, each with the contexts in which it always breaks.

Rules of this file: a pattern is known by its exact text. "Breaks" means: whatever the text, its
pieces of left + right are its pieces of left followed by its pieces of right. The argument for
each context stands beside the table; a pattern that is not listed proves nothing.
"""

from __future__ import annotations

from typing import Final

from foreword.tokenizer.segments.contexts import EVERY, LINE, LINE_CJK, Context

# Why a context breaks. No pattern here looks behind, and none looks further ahead than the one
# character after a run of whitespace, so matching from the cut on never depends on what is left
# of it. What remains to show, for each context, is that (1) no match holds both neighbours of the
# cut, and (2) what ends at the cut ends there too when the text ends there.
#
#   space     Every alternative that takes U+0020 after another character takes only whitespace
#             before it, so no match holds a non-space and then a space. The run of whitespace
#             that `\s+(?!\S)` judges ends at or before the non-space, which is left of the cut.
#   line      `\s*[\r\n]+` stands before `\s+(?!\S)` and takes a run of whitespace up to its last
#             newline, which is the same newline when the text ends there; punctuation takes
#             newlines after it, and o200k's also `/`, which the context excludes. GPT-2 has no
#             such alternative: `x\n\n|bar` breaks into `\n`, `\n`, while `x\n\n` alone does not.
#   stop      Letters, marks and digits are taken in runs that punctuation ends, exactly as the end
#             of the text does; only an apostrophe can follow letters in one match.
#
# Not contexts, on purpose: `12|3` (digits group from the left), `}|\n` and letter|newline
# (punctuation takes newlines, and NFC may turn a letter into a letter and a mark).

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SYMBOLS_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_NO_HAN = r"&&[^\p{Han}]"


def _cl100k(digits: str) -> str:
    return "|".join((_CONTRACTIONS, _LETTERS, digits, _SYMBOLS, _SPACES))


def _cased(upper: str, lower: str, tail: str) -> str:
    start = r"[^\r\n\p{L}\p{N}]?"
    return f"{start}[{upper}]*[{lower}]+{tail}|{start}[{upper}]+[{lower}]*{tail}"


GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN: Final = _cl100k(r"\p{N}")
LLAMA3: Final = _cl100k(r"\p{N}{1,3}")
O200K: Final = "|".join(
    (_cased(_UPPER, _LOWER, _CONTRACTIONS + "?"), r"\p{N}{1,3}", _SYMBOLS_SLASH, _SPACES)
)
TEKKEN: Final = "|".join((_cased(_UPPER, _LOWER, ""), r"\p{N}", _SYMBOLS_SLASH, _SPACES))
KIMI: Final = "|".join(
    (
        r"[\p{Han}]+",
        _cased(_UPPER + _NO_HAN, _LOWER + _NO_HAN, _CONTRACTIONS + "?"),
        r"\p{N}{1,3}",
        _SYMBOLS,
        _SPACES,
    )
)
# tiktoken's own spelling of cl100k: possessive where the others backtrack, otherwise the same.
CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
DEEPSEEK_WORDS: Final = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"
    "\r\n"
    r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+["
    "\r\n"
    r"]*|\s*["
    "\r\n"
    r"]+|\s+(?!\S)|\s+"
).replace(r"\"", '"')
DEEPSEEK_DIGITS: Final = r"\p{N}{1,3}"
DEEPSEEK_CJK: Final = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"

_ALL = frozenset(EVERY)
_NO_LINES = _ALL - {LINE, LINE_CJK}

BREAKS: Final[dict[str, frozenset[Context]]] = {
    GPT2: _NO_LINES,
    QWEN: _ALL,
    LLAMA3: _ALL,
    # `\s*[\r\n]` takes one newline, the last of the run after backtracking: the same argument.
    CL100K: _ALL,
    O200K: _ALL,
    TEKKEN: _ALL,
    KIMI: _ALL,
    DEEPSEEK_WORDS: _ALL,
}
"""Contexts in which a pattern always breaks, whatever came before it in a sequence."""

# A neutral stage either breaks at the place or keeps both neighbours in one piece; in both cases
# its pieces of the two halves are its pieces of the whole, but for that one joint. Digits group
# from the left of a run and no context has digits on both sides; of ideographs the same.
NEUTRAL: Final[dict[str, frozenset[Context]]] = {
    DEEPSEEK_DIGITS: _ALL,
    DEEPSEEK_CJK: _ALL,
    r"\p{N}": _ALL,
}
"""Contexts at which a pattern may break or not, but never sees more than the place itself."""
