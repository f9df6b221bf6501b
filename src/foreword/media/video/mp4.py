"""MP4 and QuickTime headers: bytes in, a `VideoHeader` out.

Rules of this file: boxes are walked by their lengths, the first video track counts. A frame is a
sample; each lasts equally long, but for the last one, and the edit list hides none.

Source: ISO/IEC 14496-12; rates and rotations as FFmpeg, through OpenCV, tells them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from foreword.media.video.header import MAX_STEPS, Broken, VideoHeader

FIRST_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot"})


class _Box(NamedTuple):
    kind: bytes
    start: int
    stop: int


class _Timing(NamedTuple):
    num_frames: int
    delta: int
    duration: int


def read(data: bytes) -> VideoHeader:
    """Read the first video track of a file that is not fragmented."""
    moov = _only(data, 0, len(data), b"moov")
    if moov is None:
        raise Broken("it has no moov box")
    if _only(data, moov.start, moov.stop, b"mvex") is not None:
        raise Broken("it is fragmented, so its header does not tell its frames")
    track = _video_track(data, moov)
    timescale = _timescale(data, _needed(data, track, b"mdia", b"mdhd"))
    table = _needed(data, track, b"mdia", b"minf", b"stbl")
    timing = _timing(data, _needed(data, table, b"stts"))
    (num_sizes,) = struct.unpack_from(">I", data, _needed(data, table, b"stsz").start + 8)
    if num_sizes != timing.num_frames:
        raise Broken(f"it has {num_sizes} samples but times for {timing.num_frames}")
    if not timescale:
        raise Broken("its time has no scale")
    _check_edits(data, moov, track, table, timing, timescale)
    width, height = _size(data, _needed(data, table, b"stsd"))
    if _is_turned(data, _needed(data, track, b"tkhd")):
        width, height = height, width
    return VideoHeader(
        format="MP4",
        width=width,
        height=height,
        num_frames=timing.num_frames,
        frame_rate=timescale / timing.delta,
    )


def _boxes(data: bytes, start: int, stop: int) -> Iterator[_Box]:
    at = start
    for _ in range(MAX_STEPS):
        if at + 8 > stop:
            return
        length, kind = struct.unpack_from(">I4s", data, at)
        head = 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, at + 8)
            head = 16
        elif length == 0:
            length = stop - at
        if length < head:
            raise Broken("one of its boxes is shorter than its own head")
        yield _Box(kind, at + head, min(at + length, stop))
        at += length
    raise Broken("it has too many boxes")


def _only(data: bytes, start: int, stop: int, kind: bytes) -> _Box | None:
    return next((box for box in _boxes(data, start, stop) if box.kind == kind), None)


def _needed(data: bytes, box: _Box, *kinds: bytes) -> _Box:
    for kind in kinds:
        found = _only(data, box.start, box.stop, kind)
        if found is None:
            raise Broken(f"it has no {kind.decode('latin-1')} box")
        box = found
    return box


def _video_track(data: bytes, moov: _Box) -> _Box:
    for box in _boxes(data, moov.start, moov.stop):
        if box.kind == b"trak":
            handler = _needed(data, box, b"mdia", b"hdlr")
            if data[handler.start + 8 : handler.start + 12] == b"vide":
                return box
    raise Broken("it has no video track")


def _timescale(data: bytes, box: _Box) -> int:
    """Return the units a second of an mdhd or mvhd box."""
    (scale,) = struct.unpack_from(">I", data, box.start + (20 if data[box.start] else 12))
    return int(scale)


def _timing(data: bytes, box: _Box) -> _Timing:
    (num_entries,) = struct.unpack_from(">I", data, box.start + 4)
    if not 0 < num_entries <= MAX_STEPS:
        raise Broken(f"it has {num_entries} entries of times")
    num_frames = duration = delta = 0
    for number in range(num_entries):
        count, lasts = struct.unpack_from(">II", data, box.start + 8 + 8 * number)
        is_last_frame = number == num_entries - 1 and count == 1
        if number and lasts != delta and not (is_last_frame and number == 1):
            raise Broken("its frame rate varies")
        if not number:
            delta = lasts
        num_frames += count
        duration += count * lasts
    if not delta:
        raise Broken("its frames last no time")
    return _Timing(num_frames, delta, duration)


def _check_edits(
    data: bytes, moov: _Box, track: _Box, table: _Box, timing: _Timing, timescale: int
) -> None:
    edts = _only(data, track.start, track.stop, b"edts")
    box = None if edts is None else _only(data, edts.start, edts.stop, b"elst")
    if box is None:
        return
    (num_entries,) = struct.unpack_from(">I", data, box.start + 4)
    layout = ">QqI" if data[box.start] else ">IiI"
    if not num_entries:
        return
    lasts, begins, rate = struct.unpack_from(layout, data, box.start + 8)
    movie_scale = _timescale(data, _needed(data, moov, b"mvhd"))
    shown = lasts * timescale / movie_scale if movie_scale and lasts else timing.duration
    if (
        num_entries != 1
        or rate != 1 << 16
        or not 0 <= begins <= _first_offset(data, table)
        or shown + timing.delta < timing.duration
    ):
        raise Broken("its edit list shows less than all of it")


def _first_offset(data: bytes, table: _Box) -> int:
    """Return when the first frame is shown after it is decoded."""
    box = _only(data, table.start, table.stop, b"ctts")
    if box is None:
        return 0
    (num_entries,) = struct.unpack_from(">I", data, box.start + 4)
    return struct.unpack_from(">i", data, box.start + 12)[0] if num_entries else 0


def _size(data: bytes, box: _Box) -> tuple[int, int]:
    entry = next(_boxes(data, box.start + 8, box.stop), None)
    if entry is None:
        raise Broken("it does not describe its frames")
    width, height = struct.unpack_from(">HH", data, entry.start + 24)
    return width, height


def _is_turned(data: bytes, box: _Box) -> bool:
    at = box.start + (52 if data[box.start] else 40)
    a, b, _, c, d = struct.unpack_from(">5i", data, at)
    one = 1 << 16
    if (a, b, c, d) in ((one, 0, 0, one), (-one, 0, 0, -one)):
        return False
    if (a, b, c, d) in ((0, one, -one, 0), (0, -one, one, 0)):
        return True
    raise Broken("its frames are shown scaled, mirrored or slanted")
