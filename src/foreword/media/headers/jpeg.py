"""JPEG headers: bytes in, an `ImageHeader` out.

Rules of this file: segments are walked up to the first scan, as Pillow walks them; the last frame
header in front of it counts. Cost follows the number of segments, not the file's size.
"""

from __future__ import annotations

from foreword.media.headers.exif import read_orientation
from foreword.media.headers.header import MAX_STEPS, Broken, ImageHeader, shown

SIGNATURE = b"\xff\xd8\xff"

_FRAMES = frozenset({*range(0xC0, 0xD0), 0xDE}) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset({0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)})
_WITH_LENGTH = frozenset({0xC4, 0xCC, *range(0xDB, 0xE0), *range(0xE0, 0xF0), 0xFE})
_SCAN, _APP1 = 0xDA, 0xE1
_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_XMP = b"http://ns.adobe.com/xap/1.0/\0"


def read(data: bytes) -> ImageHeader:
    """Return what the segments in front of the picture say."""
    at, frame = 2, b""
    exif: list[bytes] = []
    xmp = b""
    for _ in range(MAX_STEPS):
        at = data.find(b"\xff", at)
        if at < 0 or at + 1 >= len(data):
            raise Broken("it ends in front of the picture data")
        marker = data[at + 1]
        if marker in (0x00, 0xFF):
            at += 1 if marker else 2
            continue
        if marker == _SCAN:
            break
        if marker in _WITHOUT_LENGTH:
            at += 2
            continue
        if marker not in _FRAMES and marker not in _WITH_LENGTH:
            raise Broken(f"there is no segment FF{marker:02X}")
        # A length too short to count itself is an empty segment to decoders.
        length = max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
        if at + 2 + length > len(data):
            raise Broken(f"it ends within the segment FF{marker:02X}")
        if marker in _FRAMES:
            frame = data[at + 4 : at + 2 + length]
        elif marker == _APP1 and data.startswith(b"Exif\0\0", at + 4):
            exif.append(data[at + 4 + (6 if exif else 0) : at + 2 + length])
        elif marker == _APP1 and data.startswith(_XMP, at + 4):
            xmp = data[at + 4 : at + 2 + length]
        at += 2 + length
    else:
        raise Broken(f"it has over {MAX_STEPS} segments")
    return _header(frame, read_orientation(b"".join(exif), xmp))


def _header(frame: bytes, orientation: int) -> ImageHeader:
    if len(frame) < 6:
        raise Broken("it has no frame header")
    if frame[0] != 8:
        raise Broken(f"it has {frame[0]} bits a sample, and decoders take 8")
    mode = _MODES.get(frame[5])
    if mode is None:
        raise Broken(f"it has {frame[5]} components")
    width, height = int.from_bytes(frame[3:5], "big"), int.from_bytes(frame[1:3], "big")
    width, height = shown(width, height, orientation)
    return ImageHeader(
        format="JPEG", width=width, height=height, orientation=orientation, mode=mode
    )
