"""WebM and Matroska headers: bytes in, a `VideoHeader` out.

Rules of this file: the first video track counts, and its blocks are counted, since no header tells
their number. Engines go by the duration, so where that misleads them the file is refused.

Source: RFC 9559; rates as FFmpeg, through OpenCV, tells them, and vLLM 0.33 corrects them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from foreword.media.video.header import MAX_STEPS, Broken, VideoHeader

SIGNATURE = b"\x1aE\xdf\xa3"

_SEGMENT, _INFO, _TRACKS, _CLUSTER = 0x18538067, 0x1549A966, 0x1654AE6B, 0x1F43B675
_SCALE, _DURATION = 0x2AD7B1, 0x4489
_ENTRY, _NUMBER, _KIND, _LASTS, _VIDEO = 0xAE, 0xD7, 0x83, 0x23E383, 0xE0
_WIDTH, _HEIGHT = 0xB0, 0xBA
_CROPS = frozenset({0x54AA, 0x54BB, 0x54CC, 0x54DD})
_BLOCK, _GROUP, _GROUPED = 0xA3, 0xA0, 0xA1
_VIDEO_KIND = 1
_MAX_SECONDS = 1e9
_LARGEST_PART = 30_000
"""FFmpeg keeps a rate as a fraction of numbers up to this."""


class _Element(NamedTuple):
    name: int
    start: int
    stop: int


class _Track(NamedTuple):
    number: int
    width: int
    height: int
    rate: Fraction


def read(data: bytes) -> VideoHeader:
    """Read the first video track of a file whose parts tell their sizes."""
    segment = _find(data, _Element(0, 0, len(data)), _SEGMENT)
    seconds: float | None = None
    track: _Track | None = None
    num_frames = num_steps = 0
    for part in _elements(data, segment.start, segment.stop):
        num_steps += 1
        if part.name == _INFO:
            seconds = _seconds(data, part)
        elif part.name == _TRACKS and track is None:
            track = _track(data, part)
        elif part.name == _CLUSTER:
            if track is None:
                raise Broken("its frames come in front of their description")
            for block in _blocks(data, part):
                num_frames += _number(data, block.start)[0] == track.number
                num_steps += 1
        if num_steps > MAX_STEPS:
            raise Broken("it has too many parts")
    if track is None or seconds is None:
        raise Broken("it tells no duration, or has no video track")
    declared = math.floor(seconds * float(track.rate) + 0.5)
    # Sound may last longer: engines see that, unless it is by a frame.
    if declared < num_frames or declared == num_frames + 1:
        raise Broken(f"it has {num_frames} frames, and its duration says {declared}")
    return VideoHeader(
        format="WebM",
        width=track.width,
        height=track.height,
        num_frames=num_frames,
        frame_rate=float(track.rate),
    )


def _seconds(data: bytes, info: _Element) -> float | None:
    scale, duration = 1_000_000, None
    for one in _elements(data, info.start, info.stop):
        if one.name == _SCALE:
            scale = _unsigned(data, one)
        elif one.name == _DURATION:
            layout = {4: ">f", 8: ">d"}.get(one.stop - one.start)
            if layout is None:
                raise Broken("its duration is no number")
            (duration,) = struct.unpack_from(layout, data, one.start)
    if duration is None or not 0 < duration * scale / 1e9 < _MAX_SECONDS:
        return None
    return float(duration * scale / 1e9)


def _track(data: bytes, tracks: _Element) -> _Track | None:
    for entry in _elements(data, tracks.start, tracks.stop):
        if entry.name != _ENTRY:
            continue
        found = {one.name: one for one in _elements(data, entry.start, entry.stop)}
        if _KIND not in found or _unsigned(data, found[_KIND]) != _VIDEO_KIND:
            continue
        if not {_NUMBER, _VIDEO} <= found.keys():
            raise Broken("its video track has no number or no size")
        lasts = _unsigned(data, found[_LASTS]) if _LASTS in found else 0
        if not lasts:
            raise Broken("it does not tell its frame rate")
        width, height = _size(data, found[_VIDEO])
        rate = 1 / max(
            Fraction(lasts, 10**9).limit_denominator(_LARGEST_PART), Fraction(1, _LARGEST_PART)
        )
        return _Track(_unsigned(data, found[_NUMBER]), width, height, rate)
    return None


def _size(data: bytes, video: _Element) -> tuple[int, int]:
    found = {one.name: _unsigned(data, one) for one in _elements(data, video.start, video.stop)
             if one.stop - one.start <= 8}  # fmt: skip
    if any(found.get(crop) for crop in _CROPS):
        raise Broken("its frames are shown cropped")
    return found.get(_WIDTH, 0), found.get(_HEIGHT, 0)


def _blocks(data: bytes, cluster: _Element) -> Iterator[_Element]:
    for one in _elements(data, cluster.start, cluster.stop):
        if one.name == _BLOCK:
            yield one
        elif one.name == _GROUP:
            yield _find(data, one, _GROUPED)


def _find(data: bytes, parent: _Element, name: int) -> _Element:
    for one in _elements(data, parent.start, parent.stop):
        if one.name == name:
            return one
    raise Broken("one of its parts is missing")


def _elements(data: bytes, start: int, stop: int) -> Iterator[_Element]:
    at = start
    for _ in range(MAX_STEPS):
        if at >= stop:
            return
        name, width = _number(data, at, keeps_marker=True)
        length, more = _number(data, at + width)
        if length == (1 << 7 * more) - 1:
            raise Broken("one of its parts does not tell its size")
        begin = at + width + more
        if begin + length > len(data):
            raise Broken("it is cut off")
        yield _Element(name, begin, begin + length)
        at = begin + length
    raise Broken("it has too many parts")


def _number(data: bytes, at: int, *, keeps_marker: bool = False) -> tuple[int, int]:
    """Return a number of variable width, and its width."""
    first = data[at]
    width = 9 - first.bit_length()
    if width > 8 or at + width > len(data):
        raise Broken("one of its sizes is no number")
    value = int.from_bytes(data[at : at + width], "big")
    return value if keeps_marker else value & ((1 << 7 * width) - 1), width


def _unsigned(data: bytes, element: _Element) -> int:
    if element.stop - element.start > 8:
        raise Broken("one of its numbers is too long")
    return int.from_bytes(data[element.start : element.stop], "big")
