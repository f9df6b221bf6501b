"""A data: URL enters; its bytes leave.

Rules of this file: base64 is taken exactly as the standard writes it, without spaces or line
breaks, and its size is judged before bytes are made of it.
"""

from __future__ import annotations

import binascii

from foreword.errors import MediaUnavailable, UnsupportedFeature

MAX_BYTES = 64 * 2**20


def decode_data_url(url: str, *, max_bytes: int = MAX_BYTES, param: str | None = None) -> bytes:
    """Return the bytes of a base64 data: URL.

    Raises: `MediaUnavailable` for base64 that is not exact, or stands for more than `max_bytes`;
    `UnsupportedFeature` for a data: URL that is not base64.
    """
    comma = url.find(",")
    if comma < 0 or not url[:comma].lower().endswith(";base64"):
        raise UnsupportedFeature(
            feature="A data: URL that is not base64",
            remedy="Write it as data:image/png;base64,… .",
            param=param,
        )
    num_chars = len(url) - comma - 1
    num_bytes = num_chars // 4 * 3 - url[-2:].count("=")
    if num_bytes > max_bytes:
        raise MediaUnavailable(
            f"The item has {num_bytes} bytes; at most {max_bytes} are taken. Send a smaller one.",
            param=param,
            details={"num_bytes": num_bytes, "max_bytes": max_bytes},
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
