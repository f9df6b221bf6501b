"""Names of files and `-` enter; the bytes or text they hold leave, checked and bounded.

Rules of this file: a file that cannot be read is the caller's fault, told by the name the caller
used. Nothing larger than what a request may be is read into memory.
"""

from __future__ import annotations

import os
import sys
from typing import IO

from foreword.errors import InvalidRequest

STDIN = "-"
MAX_BODY_BYTES = 32 * 2**20
"""The largest request read; the renderer is told the same."""


def read_request(name: str, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the bytes of a request file, or of standard input for `-`.

    Raises: `InvalidRequest` when there is no such file, it cannot be read, or it is too large.
    """
    if name == STDIN:
        body = sys.stdin.buffer.read(max_bytes + 1)
        if len(body) > max_bytes:
            raise _too_large("standard input", f"more than {max_bytes}", max_bytes)
        return body
    with open_file(name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise _too_large(name, str(size), max_bytes)
        body = file.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise _too_large(name, f"more than {max_bytes}", max_bytes)
    return body


def read_text(name: str, max_bytes: int = MAX_BODY_BYTES) -> str:
    """Return the text of a file, or of standard input for `-`, to the last newline.

    Raises: `InvalidRequest`, also when it is not UTF-8.
    """
    body = read_request(name, max_bytes)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        shown = "standard input" if name == STDIN else name
        raise InvalidRequest(
            f"{shown} is not UTF-8: byte 0x{body[error.start]:02x} at position {error.start}."
            " Convert it to UTF-8."
        ) from None


def open_file(name: str) -> IO[bytes]:
    """Open a file the caller named, for reading bytes.

    Raises: `InvalidRequest` in the words of the system.
    """
    try:
        return open(name, "rb")
    except IsADirectoryError:
        raise InvalidRequest(f"{name} is a folder, not a file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidRequest(f"{name} cannot be read: {reason}.") from None


def _too_large(name: str, num_bytes: str, max_bytes: int) -> InvalidRequest:
    return InvalidRequest(
        f"{name} has {num_bytes} bytes; at most {max_bytes} are accepted. Send a shorter request.",
        details={"max_bytes": max_bytes},
    )
