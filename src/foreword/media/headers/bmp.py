"""BMP headers: bytes in, an `ImageHeader` out.

Rules of this file: the size stands in one of seven info headers; a palette of greys is looked
for, since it decides the mode.
"""

from __future__ import annotations

import struct

from foreword.media.headers.header import Broken, ImageHeader

SIGNATURE = b"BM"

_INFO_HEADERS = (40, 52, 56, 64, 108, 124)
_RAW, _RLE8, _RLE4, _BITFIELDS = 0, 1, 2, 3
_ALPHA_MASKS = {
    (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
    (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
    (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
    (0xFF000000, 0xFF00, 0xFF, 0xFF0000),
    (0, 0, 0, 0),
}


def read(data: bytes) -> ImageHeader:
    """Return the size and mode, the height without its sign."""
    (size,) = struct.unpack_from("<L", data, 14)
    if size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression, num_colours, entry = _RAW, 0, 3
    elif size in _INFO_HEADERS:
        width, height, _, bits, compression = struct.unpack_from("<LlHHL", data, 18)
        (num_colours,) = struct.unpack_from("<L", data, 46)
        entry = 4
        height = abs(height)
    else:
        raise Broken(f"an info header of {size} bytes is not known")
    if bits not in (1, 4, 8, 16, 24, 32) or compression > _BITFIELDS:
        raise Broken(f"{bits} bits a pixel with compression {compression} is not known")
    mode = "RGB"
    if bits <= 8:
        num_colours = num_colours or 1 << bits
        if num_colours > 65536:
            raise Broken(f"it has a palette of {num_colours} colours")
        mode = _palette_mode(data, 14 + size, num_colours, entry)
    elif compression == _BITFIELDS and bits == 32 and size >= 56:
        masks = struct.unpack_from("<4L", data, 54)
        mode = "RGBA" if masks in _ALPHA_MASKS else "RGB"
    return ImageHeader(
        format="BMP", width=width, height=height, mode=mode, has_transparency=mode == "RGBA"
    )


def _palette_mode(data: bytes, at: int, num_colours: int, entry: int) -> str:
    greys = (0, 255) if num_colours == 2 else range(num_colours)
    for index, grey in enumerate(greys):
        colour = data[at + index * entry : at + index * entry + 3]
        if len(colour) < 3 or grey > 255 or colour != bytes((grey,)) * 3:
            return "P"
    return "1" if num_colours <= 2 else "L"
