"""Token ids enter; the bytes of their JSON array leave, those of known blocks reused.

Rules of this file: an id array is written in blocks of fixed size, and a block's bytes are kept
under its content. A chat that grew finds all its earlier blocks, whoever sent them before; nothing
is compared that is not equal. Safe under threads: every step on the shared dict is atomic.
"""

from __future__ import annotations

from array import array
from itertools import islice

import msgspec

from foreword.types import TokenIds

BLOCK_IDS = 2048
_BLOCK_BYTES = BLOCK_IDS * array("I").itemsize
_KEPT_BYTES = 22_000
"""What a block takes with the JSON of its ids, about. A digest in place of the content would take a
third less, and cost a fifth of a grown chat's time: it gives up the interpreter at every block."""


class TokenIdsWriter:
    """Writes id arrays as JSON, with a bounded memory of what it wrote.

    Shapes: `max_bytes` bounds the memory, in blocks of 2048 ids; 0 remembers nothing.
    Why: at 128k ids, writing them anew costs milliseconds, looking them up a tenth of that.
    """

    def __init__(self, *, max_bytes: int = 8 * 2**20) -> None:
        self._max_blocks = max_bytes // _KEPT_BYTES
        self._blocks: dict[bytes, bytes] = {}

    def write(self, token_ids: TokenIds) -> bytes:
        """Return `token_ids` as a JSON array."""
        if len(token_ids) < BLOCK_IDS:
            return msgspec.json.encode(token_ids.tolist())
        content = memoryview(token_ids).cast("B")
        num_full = len(content) // _BLOCK_BYTES * _BLOCK_BYTES
        parts = [
            self._block(content[start : start + _BLOCK_BYTES])
            for start in range(0, num_full, _BLOCK_BYTES)
        ]
        rest = token_ids[num_full // token_ids.itemsize :]
        if rest:
            parts.append(_inside(rest))
        parts[0] = b"[" + parts[0]  # so that the whole is copied once
        parts[-1] += b"]"
        return b",".join(parts)

    def _block(self, content: memoryview) -> bytes:
        blocks, key = self._blocks, bytes(content)
        written = blocks.pop(key, None)  # put back at the end: the least used comes first
        if written is None:
            written = _inside(array("I", key))
        blocks[key] = written
        if len(blocks) > self._max_blocks:
            self._forget()
        return written

    def _forget(self) -> None:
        try:
            # Another thread may have forgotten enough in the meantime.
            oldest = list(islice(self._blocks, max(0, len(self._blocks) - self._max_blocks)))
        except RuntimeError:  # another thread changed it meanwhile, and forgets as well
            return
        for key in oldest:
            self._blocks.pop(key, None)


def _inside(token_ids: TokenIds) -> bytes:
    return msgspec.json.encode(token_ids.tolist())[1:-1]
