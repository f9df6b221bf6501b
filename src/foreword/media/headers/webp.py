"""WebP headers: bytes in, an `ImageHeader` out.

Rules of this file: chunks are walked by their lengths; a canvas size wins over a picture's.
"""

from __future__ import annotations

from foreword.media.headers.exif import read_orientation
from foreword.media.headers.header import MAX_STEPS, Broken, ImageHeader, shown

_ANIMATED, _ALPHA = 0x02, 0x10


def is_webp(data: bytes) -> bool:
    """Return whether the bytes begin like a WebP file."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def read(data: bytes) -> ImageHeader:
    """Return what the chunks say."""
    declared = int.from_bytes(data[4:8], "little") + 8
    if declared > len(data):
        raise Broken(f"it declares {declared} bytes and has {len(data)}")
    first = data[12:16]
    if first == b"VP8X":
        return _extended(data, declared)
    width, height, alpha = _picture(data, 12)
    mode = "RGBA" if alpha else "RGB"
    return ImageHeader(format="WEBP", width=width, height=height, mode=mode, has_transparency=alpha)


def _picture(data: bytes, at: int) -> tuple[int, int, bool]:
    kind, body = data[at : at + 4], at + 8
    if kind == b"VP8 ":
        if data[body + 3 : body + 6] != b"\x9d\x01\x2a" or body + 10 > len(data):
            raise Broken("its VP8 frame has no start code")
        width = int.from_bytes(data[body + 6 : body + 8], "little") & 0x3FFF
        height = int.from_bytes(data[body + 8 : body + 10], "little") & 0x3FFF
        return width, height, False
    if kind == b"VP8L":
        if data[body : body + 1] != b"\x2f" or body + 5 > len(data):
            raise Broken("its VP8L frame has no signature")
        bits = int.from_bytes(data[body + 1 : body + 5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bool(bits >> 28 & 1)
    raise Broken(f"its first chunk is {kind!r}")


def _extended(data: bytes, declared: int) -> ImageHeader:
    if len(data) < 30:
        raise Broken("it ends within the chunk b'VP8X'")
    flags = data[20]
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    alpha, num_frames, has_picture = bool(flags & _ALPHA), 0, False
    exif: bytes | None = None
    xmp: bytes | None = None
    at = 12
    for _ in range(MAX_STEPS):
        if at + 8 > declared:
            break
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        body = data[at + 8 : at + 8 + length] if kind in (b"EXIF", b"XMP ") else b""
        if kind == b"ANMF":
            num_frames += 1
        elif kind == b"ALPH":
            alpha = alpha or not flags & _ANIMATED
        elif kind in (b"VP8 ", b"VP8L") and not flags & _ANIMATED and not has_picture:
            has_picture = True
            alpha = _picture(data, at)[2] if kind == b"VP8L" else alpha
        elif kind == b"EXIF" and exif is None:
            exif = body
        elif kind == b"XMP " and xmp is None:
            xmp = body
        at += 8 + length + (length & 1)
    else:
        raise Broken(f"it has over {MAX_STEPS} chunks")
    if not has_picture and not num_frames:
        raise Broken("it has no picture")
    orientation = read_orientation(exif, xmp)
    width, height = shown(width, height, orientation)
    return ImageHeader(
        format="WEBP",
        width=width,
        height=height,
        num_frames=num_frames or 1,
        orientation=orientation,
        mode="RGBA" if alpha else "RGB",
        has_transparency=alpha,
    )
