"""A clip's length from its headers: encoded bytes in, an `AudioHeader` or a refusal out.

Rules of this package: no sample is decoded, and no bytes make anything but a header or
`MediaUnavailable`.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from foreword.errors import MediaUnavailable
from foreword.media.audio import chunked, compressed
from foreword.media.audio.header import AudioHeader, Broken

__all__ = ["MAX_SECONDS", "AudioHeader", "read_audio_duration"]

MAX_SECONDS = 600.0
"""Longest clip taken; vLLM 0.33 takes no longer one."""


def read_audio_duration(
    data: bytes, *, max_seconds: float = MAX_SECONDS, param: str | None = None
) -> AudioHeader:
    """Return what the headers of a WAV, AIFF, AU, FLAC, Ogg or MP3 file say.

    Raises: `MediaUnavailable` for bytes that are none of these, or broken, or longer than
    `max_seconds`.
    """
    try:
        header = _read(data)
    except Broken as broken:
        _refuse(f"The audio can't be read: {broken}.", data, param)
    except (struct.error, IndexError):
        _refuse("The audio can't be read: its header is cut off.", data, param)
    if not header.num_frames:
        _refuse("The audio is empty.", data, param)
    if header.seconds > max_seconds:
        raise MediaUnavailable(
            f"The audio lasts {header.seconds:.1f} seconds; at most {max_seconds:g} are taken."
            " Send a shorter clip.",
            param=param,
            details={"seconds": header.seconds, "max_seconds": max_seconds},
        )
    return header


def _read(data: bytes) -> AudioHeader:
    head, kind = data[:4], data[8:12]
    if head == b"RIFF" and kind == b"WAVE":
        return chunked.read_wav(data)
    if head == b"FORM" and kind in (b"AIFF", b"AIFC"):
        return chunked.read_aiff(data)
    if head in (b".snd", b"dns."):
        return chunked.read_au(data)
    if head == b"fLaC":
        return compressed.read_flac(data)
    if head == b"OggS":
        return compressed.read_ogg(data)
    if head[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:2] >= b"\xe0"):
        return compressed.read_mp3(data)
    raise Broken("it is no WAV, AIFF, AU, FLAC, Ogg or MP3 file" if data else "it is empty")


def _refuse(sentence: str, data: bytes, param: str | None) -> NoReturn:
    raise MediaUnavailable(
        f"{sentence} Send it again as a whole WAV, FLAC or MP3 file.",
        param=param,
        details={"num_bytes": len(data)},
    ) from None
