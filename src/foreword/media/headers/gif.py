"""GIF headers: bytes in, an `ImageHeader` out.

Rules of this file: read up to the first frame's extent, which may enlarge the screen; the other
frames are not counted.
"""

from __future__ import annotations

import struct

from foreword.media.headers.header import Broken, ImageHeader

SIGNATURES = (b"GIF87a", b"GIF89a")
_MAX_FRONT_BYTES = 1 << 18


def read(data: bytes) -> ImageHeader:
    """Return the screen, enlarged by the first frame, and whether it has a transparent colour."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13
    has_palette = False
    if flags & 0x80:
        num_bytes = 3 << (flags & 7) + 1
        has_palette = _needs_palette(data[at : at + num_bytes])
        at += num_bytes
    transparent = False
    front = data[:_MAX_FRONT_BYTES]
    while True:
        if at >= len(front):
            raise Broken(f"it has no frame within {len(front)} bytes")
        kind = data[at]
        if kind == 0x2C:
            break
        if kind == 0x3B:
            raise Broken("it has no frame")
        if kind == 0x21:
            if data[at + 1] == 0xF9 and data[at + 2] >= 4:
                transparent = bool(data[at + 3] & 1)
            at = _after_extension(front, at + 1)
        else:
            at += 1
    left, top, frame_width, frame_height, flags = struct.unpack_from("<HHHHB", data, at + 1)
    if flags & 0x80:
        num_bytes = 3 << (flags & 7) + 1
        has_palette = _needs_palette(data[at + 10 : at + 10 + num_bytes])
        at += num_bytes
    if at + 10 >= len(data):
        raise Broken("it ends within the first frame")
    return ImageHeader(
        format="GIF",
        width=max(width, left + frame_width),
        height=max(height, top + frame_height),
        num_frames=None,
        mode="P" if has_palette else "L",
        has_transparency=transparent,
    )


def _after_extension(data: bytes, at: int) -> int:
    """Return where an extension ends, as Pillow finds it.

    Why: it reads one block (two of a loop count) before it looks for the empty one that ends them.
    """
    kind, block = data[at], at + 1
    if kind == 0xFE:
        return _after_blocks(data, block)
    is_loop = kind == 0xFF and data.startswith(b"NETSCAPE2.0", block + 1) and data[block] >= 11
    for _ in range(2 if is_loop else 1):
        block += 1 + data[block]
    return _after_blocks(data, block)


def _after_blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += 1 + data[at]
    return at + 1


def _needs_palette(palette: bytes) -> bool:
    """Return whether the colours are anything but greys that equal their number."""
    return any(
        not i // 3 == palette[i] == palette[i + 1] == palette[i + 2]
        for i in range(0, len(palette) - 2, 3)
    )
