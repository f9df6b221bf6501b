"""Frames that a client sampled: JPEG pictures in base64, joined by commas, in; a header out.

Rules of this file: what counts is what the engine shows: at most `MAX_FRAMES`, one a second, all of
one size.

Source: vLLM 0.33 `VideoMediaIO.load_base64` with its defaults, for `data:video/jpeg;base64,…`.
"""

from __future__ import annotations

import binascii

from foreword.errors import MediaUnavailable
from foreword.media.headers import read_image_size
from foreword.media.video.header import Broken, VideoHeader

MAX_FRAMES = 32
"""Frames that are shown; later ones are left out."""
FRAMES_PER_SECOND = 1.0


def read(data: bytes, max_pixels: int) -> VideoHeader:
    """Read the sizes of a sequence of pictures."""
    pieces = data.split(b",", MAX_FRAMES)[:MAX_FRAMES]
    sizes = {_size(piece, place, max_pixels) for place, piece in enumerate(pieces)}
    if len(sizes) > 1:
        raise Broken(f"its frames have {len(sizes)} different sizes")
    ((width, height),) = sizes
    return VideoHeader(
        format="JPEG",
        width=width,
        height=height,
        num_frames=len(pieces),
        frame_rate=FRAMES_PER_SECOND,
        is_sampled=True,
    )


def _size(piece: bytes, place: int, max_pixels: int) -> tuple[int, int]:
    try:
        picture = binascii.a2b_base64(piece, strict_mode=True)
    except ValueError:
        picture = b""
    # Strict mode alone lets a whole text be followed by padding.
    if not picture or len(piece) % 4:
        raise Broken(f"its frame {place} is not valid base64")
    try:
        header = read_image_size(picture, max_pixels=max_pixels)
    except MediaUnavailable:
        raise Broken(f"its frame {place} is no picture that can be read") from None
    return header.width, header.height
