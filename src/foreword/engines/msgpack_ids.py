"""Token ids enter; the same ids as one msgpack array, ready to be spliced into a message, leave.

Rules of this file: no Python integer per id is ever made; every id becomes a 32-bit msgpack
integer, whatever its size, which every msgpack reader accepts.
"""

from __future__ import annotations

import sys

import msgspec

from foreword.types import TokenIds

_UINT32 = b"\xce\0\0\0\0"
_ARRAY32 = b"\xdd"
_HIGH_TO_LOW = (3, 2, 1, 0) if sys.byteorder == "little" else (0, 1, 2, 3)
"""Where the bytes of a native 32-bit integer lie, most significant first."""
_NUM_AT_ONCE = 16384


def raw_token_ids(token_ids: TokenIds) -> msgspec.Raw:
    """Return `token_ids` as raw msgpack, which an encoder copies into its message as it is.

    Shapes: five bytes an id, and five for the array's head.

    Why: a list of 128k integers takes longer to make than to encode. Ids are copied a part at a
    time, as large short-lived buffers make the allocator give memory back to the system and take
    it again on every call, which doubles the time.
    """
    num_ids = len(token_ids)
    packed = bytearray(_UINT32) * (num_ids + 1)
    packed[:5] = _ARRAY32 + num_ids.to_bytes(4, "big")
    for first in range(0, num_ids, _NUM_AT_ONCE):
        native = token_ids[first : first + _NUM_AT_ONCE].tobytes()
        num_here = len(native) // 4
        start, stop = 5 * (first + 1), 5 * (first + 1 + num_here)
        for place, plane in enumerate(_HIGH_TO_LOW, start=1):
            values = native[plane::4]
            # No vocabulary reaches 2**24, so the highest byte is zero, as it already is here.
            if place > 1 or values.count(0) != num_here:
                packed[start + place : stop : 5] = values
    return msgspec.Raw(packed)
