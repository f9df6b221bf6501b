"""A video's size and frames from its headers: encoded bytes in, a `VideoHeader` or a refusal out.

Rules of this package: no frame is decoded. Only what every reader of the file would say alike is
taken: a varying rate, a trim or a fragmented file is refused, for engines sample these by decoding.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from foreword.errors import MediaUnavailable
from foreword.media.headers import MAX_PIXELS
from foreword.media.video import frames, matroska, mp4
from foreword.media.video.header import Broken, VideoHeader

__all__ = ["VideoHeader", "read_video_header"]


def read_video_header(
    data: bytes,
    *,
    is_frames: bool = False,
    max_pixels: int = MAX_PIXELS,
    param: str | None = None,
) -> VideoHeader:
    """Return what the header of an MP4, QuickTime, WebM or Matroska file says.

    Shapes: with `is_frames` the bytes are what a data: URL of `video/jpeg` holds: JPEG pictures in
    base64, joined by commas. `max_pixels` is for one frame.

    Raises: `MediaUnavailable` for bytes that are none of these, or whose frames the header alone
    does not tell.
    """
    try:
        header = frames.read(data, max_pixels) if is_frames else _read(data)
    except Broken as broken:
        _refuse(f"The video can't be read: {broken}.", data, param)
    except (struct.error, IndexError):
        _refuse("The video can't be read: its header is cut off.", data, param)
    if header.width < 1 or header.height < 1 or header.num_frames < 1:
        size = f"{header.num_frames} frames of {header.width}x{header.height}"
        _refuse(f"The video declares {size} pixels, which is no picture.", data, param)
    num_pixels = header.width * header.height
    if num_pixels > max_pixels:
        raise MediaUnavailable(
            f"The video declares frames of {header.width}x{header.height} pixels, {num_pixels} in"
            f" all; at most {max_pixels} are taken. Send a smaller one.",
            param=param,
            details={"num_pixels": num_pixels, "max_pixels": max_pixels},
        )
    return header


def _read(data: bytes) -> VideoHeader:
    if data[4:8] in mp4.FIRST_BOXES:
        return mp4.read(data)
    if data.startswith(matroska.SIGNATURE):
        return matroska.read(data)
    raise Broken("it is no MP4, QuickTime, WebM or Matroska file" if data else "it is empty")


def _refuse(sentence: str, data: bytes, param: str | None) -> NoReturn:
    raise MediaUnavailable(
        f"{sentence} Send a whole MP4 of one frame rate, or its frames as images.",
        param=param,
        details={"num_bytes": len(data)},
    ) from None
