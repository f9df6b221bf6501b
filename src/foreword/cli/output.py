"""Lines, warnings and errors enter; they leave on the stream they belong to.

Rules of this file: results go to stdout, everything else to stderr. UTF-8 always, whatever the
locale says. No import that takes time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from foreword.cli.colour import Style, style_for, visible
from foreword.errors import ForewordError, ModelError, ServiceError

MAX_WIDTH = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Where one command's words go, and how they look there."""

    out: TextIO
    err: TextIO
    style: Style
    err_style: Style
    is_json: bool = False
    is_quiet: bool = False
    width: int = 100

    @property
    def is_terminal(self) -> bool:
        return self.out.isatty()

    def say(self, line: str = "") -> None:
        """Print one line of the answer."""
        self.out.write(line + "\n")

    def warn(self, sentence: str) -> None:
        """Print a warning on stderr, unless the caller wants silence."""
        if not self.is_quiet:
            label = self.err_style.yellow("warning:")
            self.err.write(f"foreword: {label} {visible(sentence)}\n")

    def report(self, error: ForewordError) -> None:
        """Print an error on stderr: one JSON line, or a sentence."""
        if self.is_json:
            self.err.write(json.dumps(error_dict(error), ensure_ascii=False, default=str) + "\n")
            return
        sentence = self.err_style.red(visible(error.message))
        where = f" [{visible(error.param)}]" if error.param else ""
        self.err.write(f"foreword: {sentence}{self.err_style.dim(where)}\n")


def make_console(*, colour: str = "auto", is_json: bool = False, is_quiet: bool = False) -> Console:
    """Return the console of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    return Console(
        out=sys.stdout,
        err=sys.stderr,
        style=style_for(sys.stdout, colour),
        err_style=style_for(sys.stderr, colour),
        is_json=is_json,
        is_quiet=is_quiet,
        width=min(MAX_WIDTH, shutil.get_terminal_size((100, 24)).columns),
    )


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """Keep Python from complaining, at its end, of a reader that went away."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has no reader; it goes nowhere instead of failing once more.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def exit_code(error: ForewordError) -> int:
    """Return whose fault an error is, as an exit code."""
    if isinstance(error, ModelError):
        return 3
    return 4 if isinstance(error, ServiceError) else 2


def error_dict(error: ForewordError) -> dict[str, Any]:
    """Return an error as the JSON object that `--json` prints on stderr."""
    return {
        "code": error.code,
        "status": error.status,
        "message": error.message,
        "param": error.param,
        "details": error.details,
    }
