"""Headers of rarer formats, by Pillow (extra `media`): bytes in, an `ImageHeader` out.

Rules of this file: Pillow is imported when first needed; only formats that engines decode are
tried; nothing is decoded, whatever Pillow raises is a reason.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from foreword.media.headers.header import Broken, ImageHeader, shown

# vLLM 0.33's formats without those read here and without ones that Pillow decodes on opening.
FORMATS = (
    *("AVIF", "BLP", "CUR", "DCX", "DDS", "DIB", "FITS", "FLI", "FTEX", "GBR", "ICNS", "ICO"),
    *("IM", "IMT", "IPTC", "JPEG2000", "MCIDAS", "MSP", "PCD", "PCX", "PIXAR", "PPM", "PSD"),
    *("QOI", "SGI", "SPIDER", "SUN", "TGA", "TIFF", "XBM", "XPM", "XVTHUMB"),
)

_ORIENTATION_TAG = 0x0112


def read(data: bytes) -> ImageHeader:
    """Return the header as Pillow reads it.

    Raises: `Broken` for what Pillow can't identify, or when it is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise Broken(
            "it is no PNG, JPEG, WebP, GIF or BMP; other formats need Pillow"
            " (install the extra `media`)"
        ) from None
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            return _header(image)
    except Exception as error:
        # Plugins raise whatever broken bytes make of them; a message may quote the file's text.
        raise Broken(f"no known format fits ({type(error).__name__})") from error


def _header(image: Any) -> ImageHeader:
    width, height = image.size
    orientation = 1
    if image.format == "TIFF":
        # Pillow gives a TIFF's size as shown already.
        orientation = _valid(image.tag_v2.get(_ORIENTATION_TAG))
    elif image.format == "AVIF":
        orientation = _valid(image.getexif().get(_ORIENTATION_TAG))
        width, height = shown(width, height, orientation)
    return ImageHeader(
        format=str(image.format),
        width=width,
        height=height,
        num_frames=None,
        orientation=orientation,
        mode=image.mode,
        has_transparency=image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info,
    )


def _valid(value: object) -> int:
    return value if isinstance(value, int) and 1 <= value <= 8 else 1
