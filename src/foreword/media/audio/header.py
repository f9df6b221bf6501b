"""What an audio header says, and how a reader says that it can't.

Rules of this file: a frame is one sample of every channel; a reader raises `Broken`.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_STEPS = 100_000
"""Most chunks (frames, pages) looked at in one file: a file made of nothing else is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioHeader:
    """A clip's length: `num_frames` at `sample_rate`."""

    format: str
    sample_rate: int
    channels: int
    num_frames: int

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.num_frames / self.sample_rate


class Broken(ValueError):
    """The bytes are no audio of this format, or end too soon; the message says where."""
