"""What a video's header says, and how a reader says that it can't.

Rules of this file: a reader raises `Broken` with the reason; `read_video_header` turns it into the
caller's error. Sizes are as shown, the rotation applied.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_STEPS = 100_000
"""Most boxes (elements, entries) looked at in one file: a file made of nothing else is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoHeader:
    """A video's size, how many frames it has, and how many of them a second shows.

    `is_sampled` is set where the client chose the frames: all of them are shown.
    """

    format: str
    width: int
    height: int
    num_frames: int
    frame_rate: float
    is_sampled: bool = False


class Broken(ValueError):
    """The bytes are no video of this format, or say too little; the message says why."""
