"""Counts enter; a line that tells them, rewritten in place, leaves on a terminal.

Rules of this file: nothing is drawn where nobody looks, and never more than ten times a second.
"""

from __future__ import annotations

import time
from typing import TextIO

from foreword.cli.colour import Style

_SECONDS_BETWEEN = 0.1
_WIDTH = 24


class Progress:
    """Counts lines done and failed; `total_bytes` None means that the end is not known."""

    def __init__(
        self, stream: TextIO, style: Style, *, is_shown: bool, total_bytes: int | None
    ) -> None:
        self._stream, self._style = stream, style
        self._is_shown = is_shown and stream.isatty()
        self._total_bytes = total_bytes
        self._began = time.monotonic()
        self._drawn = self._began - _SECONDS_BETWEEN
        self.num_done = self.num_failed = self._num_bytes = 0

    def add(self, num_bytes: int, *, failed: bool) -> None:
        """Count one line, and draw when it is time."""
        self.num_done += 1
        self.num_failed += failed
        self._num_bytes += num_bytes
        now = time.monotonic()
        if self._is_shown and now - self._drawn >= _SECONDS_BETWEEN:
            self._drawn = now
            self._stream.write(f"\r{self._line(now)}\x1b[K")
            self._stream.flush()

    def close(self) -> None:
        """Draw the final counts and leave the line."""
        if self._is_shown:
            self._stream.write(f"\r{self._line(time.monotonic())}\x1b[K\n")
            self._stream.flush()

    def _line(self, now: float) -> str:
        rate = self.num_done / max(now - self._began, 1e-6)
        words = f"{self.num_done:,} done · {rate:,.0f} a second"
        if self.num_failed:
            words += " · " + self._style.red(f"{self.num_failed:,} failed")
        if not self._total_bytes:
            return words
        share = min(1.0, self._num_bytes / self._total_bytes)
        return f"{bar(share, _WIDTH)} {share:4.0%}  {words}"


def bar(share: float, width: int) -> str:
    """Return a bar of `width` columns, filled to `share` in eighths."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, part = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(width)
