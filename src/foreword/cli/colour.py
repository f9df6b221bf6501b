"""A word and what it means enter; the word with a terminal's codes around it leaves, or as it is.

Rules of this file: colours say what position and words say as well. What could steer a terminal
is made visible before it is printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_RESET = "\x1b[0m"
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class Style:
    """Paints words, or leaves them alone."""

    is_on: bool = False

    def paint(self, text: str, *codes: str) -> str:
        if not self.is_on or not text:
            return text
        return f"\x1b[{';'.join(codes)}m{text}{_RESET}"

    def bold(self, text: str) -> str:
        return self.paint(text, "1")

    def dim(self, text: str) -> str:
        return self.paint(text, "2")

    def red(self, text: str) -> str:
        return self.paint(text, "31")

    def yellow(self, text: str) -> str:
        return self.paint(text, "33")

    def green(self, text: str) -> str:
        return self.paint(text, "32")

    def cyan(self, text: str) -> str:
        return self.paint(text, "36")

    def title(self, text: str) -> str:
        return self.paint(text, "1", "36")


def style_for(stream: TextIO, choice: str, environ: Mapping[str, str] = os.environ) -> Style:
    """Return the style for a stream: `always`, `never`, or `auto`, which asks the terminal.

    `auto` honours NO_COLOR (https://no-color.org) and a terminal that calls itself dumb.
    """
    if choice == "auto":
        is_plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        return Style(stream.isatty() and not is_plain)
    return Style(choice == "always")


def visible(text: str) -> str:
    """Return `text` with characters that steer a terminal written out, as `\\x1b`.

    Why: prompts and error reasons hold what strangers wrote; an escape sequence in them must not
    reach the reader's terminal. Newlines and tabs stay.
    """
    return _STEERING.sub(_write_out, text)


def _write_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
