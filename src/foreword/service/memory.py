"""What the process holds without using it is given back to the machine.

Rules of this file: where the C library has no such call, nothing happens.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress


def settle_memory() -> None:
    """Give back what loading needed, and keep the collector away from what stays.

    Why: building vocabularies leaves a third of the process as free pages that glibc keeps, and
    every full collection would walk the models again.
    """
    gc.collect()
    gc.freeze()
    give_back_pages()


def give_back_pages() -> None:
    """Give back the free pages between what is used; takes a few milliseconds.

    Why: eight prompts of 128k tokens at a time leave 60 MB of them, which nothing else returns.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
