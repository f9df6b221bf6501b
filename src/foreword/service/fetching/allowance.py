"""What one request may still take: bytes and pixels come in, a refusal leaves when it is too much.

Rules of this file: one allowance a request, shared by its items on one event loop.
"""

from __future__ import annotations

from foreword.errors import MediaUnavailable
from foreword.service.fetching.policy import MediaPolicy


class Allowance:
    """The bytes and pixels left to the items of one request."""

    __slots__ = ("_num_bytes", "_num_pixels", "_policy")

    def __init__(self, policy: MediaPolicy) -> None:
        self._policy = policy
        self._num_bytes = 0
        self._num_pixels = 0

    def take_bytes(self, num_bytes: int, param: str | None) -> None:
        """Count bytes as they come.

        Raises: `MediaUnavailable` when the request's items together have too many.
        """
        self._num_bytes += num_bytes
        _check("bytes", self._num_bytes, self._policy.max_request_bytes, param)

    def take_pixels(self, num_pixels: int, param: str | None) -> None:
        """Count the pixels an image declares.

        Raises: `MediaUnavailable` when the request's images together have too many.
        """
        self._num_pixels += num_pixels
        _check("pixels", self._num_pixels, self._policy.max_request_pixels, param)


def _check(what: str, total: int, limit: int, param: str | None) -> None:
    if total > limit:
        raise MediaUnavailable(
            f"The media of this request have {total} {what} or more up to this item; at most"
            f" {limit} are taken in one request. Send fewer or smaller items.",
            param=param,
            details={f"num_{what}": total, f"max_request_{what}": limit},
        )
