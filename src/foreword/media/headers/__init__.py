"""An image's size from its first bytes: encoded bytes in, an `ImageHeader` or a refusal out.

Rules of this package: no pixel is decoded, and no bytes make anything but a header or
`MediaUnavailable`. A header can be right where the pixels are cut off: the engine finds that out.
"""

from __future__ import annotations

import contextlib
import struct
from typing import NoReturn

from foreword.errors import MediaUnavailable
from foreword.media.headers import bmp, gif, jpeg, other, png, webp
from foreword.media.headers.header import Broken, ImageHeader

__all__ = ["MAX_PIXELS", "ImageHeader", "read_image_size", "warm_up"]

MAX_PIXELS = 178_956_970
"""Most pixels an image may declare; Pillow and vLLM 0.33 refuse more."""


def read_image_size(
    data: bytes, *, max_pixels: int = MAX_PIXELS, param: str | None = None
) -> ImageHeader:
    """Return what the header of an image says, orientation applied.

    Raises: `MediaUnavailable` for bytes that are no image of a known format, or broken, or
    declare more than `max_pixels`.
    """
    try:
        header = _read(data)
    except Broken as broken:
        _refuse(f"The image can't be read: {broken}.", data, param)
    except (struct.error, IndexError):
        _refuse("The image can't be read: its header is cut off.", data, param)
    if header.width < 1 or header.height < 1:
        size = f"{header.width}x{header.height}"
        _refuse(f"The image declares {size} pixels, which is no picture.", data, param)
    num_pixels = header.width * header.height
    if num_pixels > max_pixels:
        raise MediaUnavailable(
            f"The image declares {header.width}x{header.height} pixels, {num_pixels} in all;"
            f" at most {max_pixels} are taken. Send a smaller one.",
            param=param,
            details={"num_pixels": num_pixels, "max_pixels": max_pixels},
        )
    return header


def warm_up() -> None:
    """Import what rarer formats need, so that no request waits for it; nothing without Pillow."""
    with contextlib.suppress(ImportError):
        other.load_plugins()


def _read(data: bytes) -> ImageHeader:
    if data.startswith(jpeg.SIGNATURE):
        return jpeg.read(data)
    if data.startswith(png.SIGNATURE):
        return png.read(data)
    if webp.is_webp(data):
        return webp.read(data)
    if data.startswith(gif.SIGNATURES):
        return gif.read(data)
    if data.startswith(bmp.SIGNATURE):
        return bmp.read(data)
    if not data:
        raise Broken("it is empty")
    return other.read(data)


def _refuse(sentence: str, data: bytes, param: str | None) -> NoReturn:
    raise MediaUnavailable(
        f"{sentence} Send it again as a whole PNG, JPEG or WebP file.",
        param=param,
        details={"num_bytes": len(data)},
    ) from None
