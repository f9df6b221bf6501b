"""Cut contexts: which two neighbouring characters a cut may stand between, as named places.

Rules of this file: a context is a claim about a place, never a promise; the tables of patterns,
pre-tokenizers and normalizers say which claims they keep. Classes are explicit ranges of
characters whose properties can't change with a newer Unicode, never whole categories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# Ideographs of Unicode 1.1, kana letters and Hangul syllables: letters, starters, and stable under
# NFC. Combining kana marks (U+3099, U+309A) and the middle dot (U+30FB) stay outside.
_CJK = "\u4e00-\u9fa5\u3041-\u3094\u30a1-\u30fa\uac00-\ud7a3"
# Letters of alphabets and consonants of abugidas, in ranges without gaps: no marks among them, and
# nothing that clings to a space before it.
_LETTERS = (
    "A-Za-z0-9\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a1\u03a3-\u03ce\u0400-\u0481"
    "\u048a-\u052f\u0531-\u0556\u0561-\u0586\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0915-\u0939"
    "\u0995-\u09a8\u0c15-\u0c28\u0c95-\u0ca8\u0d15-\u0d28\u0e01-\u0e2e\u10d0-\u10f0\u1780-\u17a2"
)
# Punctuation that no pattern of the table takes after a letter or digit. No apostrophes: they
# begin contractions; no slash: o200k takes it after newlines.
_ASCII_STOPS = r',.;:!?()\[\]{}"'
_CJK_STOPS = "\u3001\u3002\uff0c\uff1b\uff1a\uff1f\uff01\u300c\u300d\u300e\u300f\u3010\u3011"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A kind of place: what stands before it and what after it, as two regular expressions."""

    name: str
    behind: str
    ahead: str
    is_ascii: bool = False
    """All characters looked at are ASCII, and the one before is not whitespace unless a newline."""

    @property
    def expression(self) -> str:
        return f"(?<={self.behind})(?={self.ahead})"


SPACE: Final = Context(name="space", behind=r"\S", ahead=" ")
SPACE_PLAIN: Final = Context(
    name="space-plain",
    behind=f"[!-~{_LETTERS}]",
    ahead=f" [!-~{_LETTERS}]",
)
SPACE_ASCII: Final = Context(name="space-ascii", behind="[!-~]", ahead=" [!-~]", is_ascii=True)
SPACE_WORD: Final = Context(name="space-word", behind=r"\S", ahead=f" [{_LETTERS}]")
LINE: Final = Context(name="line", behind=r"\n", ahead="[!-.0-~]", is_ascii=True)
LINE_CJK: Final = Context(name="line-cjk", behind=r"\n", ahead=f"[{_CJK}]")
STOP: Final = Context(name="stop", behind="[A-Za-z0-9]", ahead=f"[{_ASCII_STOPS}]", is_ascii=True)
# Every letter of the ranges, to be tried one by one on a normalizer that is a table.
LETTERS: Final = tuple(c for c in map(chr, range(0x21, 0x1800)) if re.match(f"[{_LETTERS}]", c))
STOP_CJK: Final = Context(name="stop-cjk", behind=f"[{_CJK}]", ahead=f"[{_CJK_STOPS}]")

SPACES: Final = frozenset({SPACE, SPACE_PLAIN, SPACE_ASCII, SPACE_WORD})
EVERY: Final = SPACES | {LINE, LINE_CJK, STOP, STOP_CJK}
ASCII: Final = frozenset(c for c in EVERY if c.is_ascii)


_WIDER = (
    (SPACE, SPACE_PLAIN),
    (SPACE, SPACE_ASCII),
    (SPACE, SPACE_WORD),
    (SPACE_PLAIN, SPACE_ASCII),
)


def widest(contexts: Iterable[Context]) -> tuple[Context, ...]:
    """Return `contexts` by name, without those that a wider one of them contains."""
    named = {c.name: c for c in contexts}
    for wider, narrower in _WIDER:
        if wider.name in named:
            named.pop(narrower.name, None)
    return tuple(named[name] for name in sorted(named))


def compile_contexts(contexts: Iterable[Context]) -> re.Pattern[str] | None:
    """Return one zero-width expression that matches at every place of `contexts`."""
    expressions = [context.expression for context in contexts]
    return re.compile("|".join(expressions)) if expressions else None
