"""Headers of rarer formats, by Pillow (extra `media`): bytes in, an `ImageHeader` out.

Rules of this file: Pillow is imported when first needed, and only its plugins for formats that
engines decode; nothing is decoded; whatever Pillow raises is a reason.
"""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any

from foreword.media.headers.header import Broken, ImageHeader, shown

# vLLM 0.33's formats without those read here, without those that Pillow decodes on opening (ICO
# among them), and without those whose size only decoding tells (ICNS, IPTC).
_PLUGINS = {
    "DIB": "Bmp",
    "PPM": "Ppm",
    "AVIF": "Avif",
    "BLP": "Blp",
    "CUR": "Cur",
    "DCX": "Dcx",
    "DDS": "Dds",
    "FITS": "Fits",
    "FLI": "Fli",
    "FTEX": "Ftex",
    "GBR": "Gbr",
    "IM": "Im",
    "IMT": "Imt",
    "JPEG2000": "Jpeg2K",
    "MCIDAS": "McIdas",
    "MSP": "Msp",
    "PCD": "Pcd",
    "PCX": "Pcx",
    "PIXAR": "Pixar",
    "PSD": "Psd",
    "QOI": "Qoi",
    "SGI": "Sgi",
    "SPIDER": "Spider",
    "SUN": "Sun",
    "TGA": "Tga",
    "TIFF": "Tiff",
    "XBM": "Xbm",
    "XPM": "Xpm",
    "XVTHUMB": "XVThumb",
}
FORMATS = tuple(_PLUGINS)
"""What is tried, in Pillow's order."""

_ICONS = ((b"\0\0\1\0", "ICO"), (b"icns", "ICNS"))

# What a plugin raises for a file that is of another format: Pillow's own list.
_OTHER_FORMAT = (SyntaxError, IndexError, TypeError, KeyError, EOFError, struct.error)

_NUM_PREFIX_BYTES = 16
_ORIENTATION_TAG = 0x0112


def read(data: bytes) -> ImageHeader:
    """Return the header as Pillow reads it.

    Raises: `Broken` for what Pillow can't identify, or when it is not installed.
    """
    for signature, name in _ICONS:
        if data.startswith(signature):
            raise Broken(f"it is an icon file ({name}), whose size only decoding would tell")
    try:
        openers = load_plugins()
    except ImportError:
        raise Broken(
            "it is no PNG, JPEG, WebP, GIF or BMP; other formats need Pillow"
            " (install the extra `media`)"
        ) from None
    try:
        with _open(data, openers) as image:
            return _header(image)
    except Exception as error:
        # Plugins raise whatever broken bytes make of them; a message may quote the file's text.
        raise Broken(f"no known format fits ({type(error).__name__})") from error


@cache
def load_plugins() -> tuple[tuple[Any, Any], ...]:
    """Import Pillow's plugins for these formats, once, and return what opens each.

    Why: the first image of a rarer format would wait for it (over 100 ms). `Image.open` imports
    forty more, for formats that are never tried.

    Raises: `ImportError` without Pillow.
    """
    from PIL import Image

    for module in _PLUGINS.values():
        import_module(f"PIL.{module}ImagePlugin")
    return tuple(Image.OPEN[name] for name in FORMATS if name in Image.OPEN)


def _open(data: bytes, openers: tuple[tuple[Any, Any], ...]) -> Any:
    prefix = data[:_NUM_PREFIX_BYTES]
    for make, accepts in openers:
        answer = accepts is None or accepts(prefix)
        # A plugin may also answer why it can't read the file, in words.
        if not answer or isinstance(answer, str):
            continue
        try:
            return make(BytesIO(data), "")
        except _OTHER_FORMAT:
            continue
    raise SyntaxError("no plugin takes it")


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
