"""A reference whose URL is data: enters; its bytes leave.

Rules of this file: base64 is taken exactly as the standard writes it, without spaces or line
breaks, and its size is judged before bytes are made of it.
"""

from __future__ import annotations

import binascii

from foreword.errors import MediaUnavailable, UnsupportedFeature
from foreword.types import MediaReference

MAX_BYTES = 64 * 2**20
_FRAMES = "data:video/jpeg;base64,"


def holds_frames(reference: MediaReference) -> bool:
    """Say whether an item is a video sent as JPEG frames, in base64 and joined by commas."""
    is_video, url = reference.modality == "video", reference.url or ""
    return is_video and url[: len(_FRAMES)].lower() == _FRAMES


def decode_data_url(reference: MediaReference, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a base64 data: URL; of a video sent as frames, its base64 itself.

    Raises: `MediaUnavailable` for base64 that is not exact, or stands for more than `max_bytes`;
    `UnsupportedFeature` for a data: URL that is not base64.
    """
    url, param = reference.url or "", reference.path
    comma = url.find(",")
    if comma < 0:
        raise MediaUnavailable(
            "The data: URL has no comma between its type and its data. Write it as"
            " data:image/png;base64,… .",
            param=param,
        )
    if not url[:comma].lower().endswith(";base64"):
        raise UnsupportedFeature(
            feature="A data: URL that is not base64",
            remedy="Write it as data:image/png;base64,… .",
            param=param,
        )
    num_chars = len(url) - comma - 1
    check_size(num_chars // 4 * 3 - url[-2:].count("="), max_bytes, param)
    if holds_frames(reference):
        return url[comma + 1 :].encode("ascii", "replace")
    if "," in url[comma + 1 :]:
        raise UnsupportedFeature(
            feature="A data: URL of several frames, but for video/jpeg,",
            remedy="Send the frames as data:video/jpeg;base64,…,… or as images.",
            param=param,
        )
    try:
        # Strict mode alone lets a whole text be followed by padding.
        if num_chars % 4 == 0:
            return binascii.a2b_base64(url[comma + 1 :].encode("ascii"), strict_mode=True)
    except ValueError:
        pass
    raise MediaUnavailable(
        "The data: URL is not valid base64: the alphabet is A-Z a-z 0-9 + /, padded with ="
        " to a multiple of four, without spaces or line breaks.",
        param=param,
        details={"num_chars": num_chars},
    )


def check_size(num_bytes: int, max_bytes: int, param: str | None) -> None:
    """Refuse an item over the limit.

    Raises: `MediaUnavailable` with the numbers.
    """
    if num_bytes > max_bytes:
        raise MediaUnavailable(
            f"The item has {num_bytes} bytes; at most {max_bytes} are taken. Send a smaller one.",
            param=param,
            details={"num_bytes": num_bytes, "max_bytes": max_bytes},
        )
