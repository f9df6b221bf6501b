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
    is_space: bool = False
    """The character after the place is U+0020."""
    is_ascii: bool = False
    """All characters looked at are ASCII, and the one before is not whitespace unless a newline."""

    @property
    def expression(self) -> str:
        return f"(?<={self.behind})(?={self.ahead})"


SPACE: Final = Context(name="space", behind=r"\S", ahead=" ", is_space=True)
SPACE_ASCII: Final = Context(
    name="space-ascii", behind="[!-~]", ahead=" [!-~]", is_space=True, is_ascii=True
)
SPACE_WORD: Final = Context(
    name="space-word", behind="[!-~]", ahead=" [A-Za-z0-9]", is_space=True, is_ascii=True
)
LINE: Final = Context(name="line", behind=r"\n", ahead="[!-.0-~]", is_ascii=True)
LINE_CJK: Final = Context(name="line-cjk", behind=r"\n", ahead=f"[{_CJK}]")
STOP: Final = Context(name="stop", behind="[A-Za-z0-9]", ahead=f"[{_ASCII_STOPS}]", is_ascii=True)
STOP_CJK: Final = Context(name="stop-cjk", behind=f"[{_CJK}]", ahead=f"[{_CJK_STOPS}]")

SPACES: Final = frozenset({SPACE, SPACE_ASCII, SPACE_WORD})
EVERY: Final = SPACES | {LINE, LINE_CJK, STOP, STOP_CJK}
ASCII: Final = frozenset(c for c in EVERY if c.is_ascii)


def compile_contexts(contexts: Iterable[Context]) -> re.Pattern[str] | None:
    """Return one zero-width expression that matches at every place of `contexts`."""
    names = {c.name: c for c in contexts}
    for wider, narrower in (("space", "space-ascii"), ("space-ascii", "space-word")):
        if wider in names:
            names.pop(narrower, None)
    if "space" in names:
        names.pop("space-word", None)
    if not names:
        return None
    return re.compile("|".join(names[name].expression for name in sorted(names)))
