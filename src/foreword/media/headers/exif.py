"""The orientation an image's metadata asks for: EXIF or XMP bytes in, 1 to 8 out.

Rules of this file: EXIF wins where it names an orientation; metadata that can't be read means
upright, as engines do. Only the first directory is read.

Source: Pillow 13 `Image.getexif` and `ImageOps.exif_transpose`.
"""

from __future__ import annotations

import re
import struct

_ORIENTATION_TAG = 0x0112
_SIZES = {1: "B", 3: "H", 4: "L", 6: "b", 8: "h", 9: "l"}
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(="|>)([0-9])')
_MAX_ENTRIES = 4096


def read_orientation(exif: bytes | None, xmp: bytes | None = None) -> int:
    """Return the orientation, 1 when there is none."""
    value: int | None = None
    if exif:
        try:
            value = _first_directory(exif)
        except (struct.error, IndexError, ValueError):
            return 1
    if value is None and xmp:
        match = _XMP_ORIENTATION.search(xmp)
        value = int(match[2]) if match else None
    return value if value is not None and 1 <= value <= 8 else 1


def _first_directory(exif: bytes) -> int | None:
    while exif.startswith(b"Exif\0\0"):
        exif = exif[6:]
    if not exif:
        return None
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or struct.unpack_from(order + "H", exif, 2)[0] != 42:
        raise ValueError("no TIFF header")
    (start,) = struct.unpack_from(order + "L", exif, 4)
    (num_entries,) = struct.unpack_from(order + "H", exif, start)
    value: int | None = None
    for index in range(min(num_entries, _MAX_ENTRIES)):
        at = start + 2 + 12 * index
        if at + 12 > len(exif):
            break
        tag, kind, count = struct.unpack_from(order + "HHL", exif, at)
        if tag == _ORIENTATION_TAG and count == 1 and kind in _SIZES:
            (value,) = struct.unpack_from(order + _SIZES[kind], exif, at + 8)
    return value
