"""What a header says, and how a reader says that it can't.

Rules of this file: a reader raises `Broken` with the reason; `read_image_size` turns it into the
caller's error. Sizes are as shown, the orientation applied.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_STEPS = 1 << 16
"""Most chunks (segments, blocks) looked at in one file: a file made of nothing else is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHeader:
    """An image's size and what its header tells beside.

    `num_frames` is None where counting them would mean reading the whole file. `orientation` is
    the EXIF value (1: upright), already applied to `width` and `height`. `mode` is Pillow's name
    of the pixel layout; `has_transparency` is set by an alpha channel or a transparent colour.
    """

    format: str
    width: int
    height: int
    num_frames: int | None = 1
    orientation: int = 1
    mode: str = "RGB"
    has_transparency: bool = False


class Broken(ValueError):
    """The bytes are no image of this format, or end too soon; the message says where."""


def shown(width: int, height: int, orientation: int) -> tuple[int, int]:
    """Return the size after the orientation is applied: 5 to 8 turn by a quarter."""
    return (height, width) if 5 <= orientation <= 8 else (width, height)
