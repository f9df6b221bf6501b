"""PNG headers: bytes in, an `ImageHeader` out.

Rules of this file: chunks are walked by their lengths, pixel data is never read; metadata behind
it counts, as a decoder would see it. Checksums are verified in front of the pixels.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from foreword.media.headers.exif import read_orientation
from foreword.media.headers.header import MAX_STEPS, Broken, ImageHeader, shown

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MAX_TEXT_BYTES = 1 << 20
_MAX_FRAMES = 1 << 31

_MODES = {
    (1, 0): "1",
    (2, 0): "L",
    (4, 0): "L",
    (8, 0): "L",
    (16, 0): "I;16",
    (8, 2): "RGB",
    (16, 2): "RGB",
    (1, 3): "P",
    (2, 3): "P",
    (4, 3): "P",
    (8, 3): "P",
    (8, 4): "LA",
    (16, 4): "RGBA",
    (8, 6): "RGBA",
    (16, 6): "RGBA",
}


@dataclass(slots=True)
class _Found:
    num_frames: int = 1
    default_is_frame: bool = False
    transparent: bool = False
    exif: bytes | None = None
    # Texts, and whether they are packed: only the last of each is ever unpacked.
    profile: tuple[bytes, bool] | None = None
    xmp: tuple[bytes, bool] | None = None


def read(data: bytes) -> ImageHeader:
    """Return what the chunks around the pixel data say."""
    if data[12:16] != b"IHDR" or len(data) < 33:
        raise Broken("it does not begin with an IHDR chunk")
    width = int.from_bytes(data[16:20], "big")
    height = int.from_bytes(data[20:24], "big")
    mode = _MODES.get((data[24], data[25]))
    if mode is None:
        raise Broken(f"bit depth {data[24]} with colour type {data[25]} is no PNG")
    found = _walk(data)
    orientation = _orientation(found)
    width, height = shown(width, height, orientation)
    return ImageHeader(
        format="PNG",
        width=width,
        height=height,
        # A picture in front of the animation's own frames is one more.
        num_frames=found.num_frames + (found.num_frames > 1 and not found.default_is_frame),
        orientation=orientation,
        mode=mode,
        has_transparency=found.transparent or mode in ("RGBA", "LA"),
    )


def _walk(data: bytes) -> _Found:
    found, at, in_front = _Found(), len(SIGNATURE), True
    for _ in range(MAX_STEPS):
        if at + 8 > len(data):
            break
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = at + 8
        if body + length + 4 > len(data):
            # Pixels that are cut off are the decoder's to judge: vLLM 0.33 shows what is there.
            if in_front and kind != b"IDAT":
                raise Broken(f"it ends within the chunk {kind!r}")
            return found
        if kind in (b"IDAT", b"IEND"):
            if in_front and kind == b"IEND":
                raise Broken("it has no pixel data")
            in_front = False
            if kind == b"IEND":
                break
        elif in_front:
            checksum = int.from_bytes(data[body + length : body + length + 4], "big")
            if zlib.crc32(data[at + 4 : body + length]) != checksum:
                raise Broken(f"the checksum of the chunk {kind!r} is wrong")
        _take(found, kind, data[body : body + length] if kind in _TAKEN else b"", in_front)
        at = body + length + 4
    else:
        raise Broken(f"it has over {MAX_STEPS} chunks")
    if in_front:
        raise Broken("it has no pixel data")
    return found


_TAKEN = frozenset({b"tRNS", b"acTL", b"eXIf", b"iTXt", b"tEXt", b"zTXt"})


def _take(found: _Found, kind: bytes, body: bytes, in_front: bool) -> None:
    if kind == b"tRNS" and in_front:
        found.transparent = True
    elif kind == b"fcTL" and in_front:
        found.default_is_frame = True
    elif kind == b"acTL" and in_front and len(body) >= 8:
        declared = int.from_bytes(body[:4], "big")
        found.num_frames = declared if 0 < declared <= _MAX_FRAMES else 1
    elif kind == b"eXIf":
        found.exif = body
    elif kind in (b"iTXt", b"tEXt", b"zTXt"):
        _take_text(found, kind, body)


def _take_text(found: _Found, kind: bytes, body: bytes) -> None:
    key, _, rest = body.partition(b"\0")
    if kind == b"iTXt" and key == b"XML:com.adobe.xmp" and len(rest) >= 2:
        value = rest[2:].split(b"\0", 2)[-1]
        found.xmp = value, bool(rest[0])
    elif kind != b"iTXt" and key == b"Raw profile type exif":
        found.profile = (rest[1:], True) if kind == b"zTXt" else (rest, False)


def _orientation(found: _Found) -> int:
    exif = found.exif
    if exif is None and found.profile is not None:
        lines = _unpacked(*found.profile).split(b"\n")
        try:
            exif = bytes.fromhex(b"".join(lines[3:]).decode("ascii"))
        except ValueError:
            return 1
    return read_orientation(exif, None if found.xmp is None else _unpacked(*found.xmp))


def _unpacked(value: bytes, is_packed: bool) -> bytes:
    if not is_packed:
        return value
    try:
        return zlib.decompressobj().decompress(value, _MAX_TEXT_BYTES)
    except zlib.error:
        return b""
