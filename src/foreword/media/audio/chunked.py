"""WAV, AIFF and AU headers: bytes in, an `AudioHeader` out.

Rules of this file: chunks are walked by their lengths; frames are what the sample data that is
there holds, whatever a stream's writer declared.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from foreword.media.audio.header import MAX_STEPS, AudioHeader, Broken


class _Chunk(NamedTuple):
    kind: bytes
    start: int
    declared: int


def read_wav(data: bytes) -> AudioHeader:
    """Read a WAV of PCM, floats, A-law or µ-law."""
    layout: tuple[int, int, int, int] | None = None
    for chunk in _chunks(data, "<"):
        if chunk.kind == b"fmt ":
            tag, channels, rate, _, block, _ = struct.unpack_from("<HHLLHH", data, chunk.start)
            if tag == 0xFFFE:
                (tag,) = struct.unpack_from("<H", data, chunk.start + 24)
            layout = tag, channels, rate, block
        elif chunk.kind == b"data":
            if layout is None:
                raise Broken("its samples come in front of their format")
            tag, channels, rate, block = layout
            if tag not in _WAV_TAGS:
                raise Broken(f"the WAV encoding {tag} is not read here")
            return _header("WAV", rate, channels, _there(data, chunk), block)
    raise Broken("it has no samples")


_WAV_TAGS = frozenset({1, 3, 6, 7})


def read_aiff(data: bytes) -> AudioHeader:
    """Read an AIFF, or an AIFC without compression or with A-law or µ-law."""
    layout: tuple[int, int, int] | None = None
    length: int | None = None
    for chunk in _chunks(data, ">"):
        if chunk.kind == b"COMM":
            channels, _, bits = struct.unpack_from(">HLH", data, chunk.start)
            rate = _extended_float(data[chunk.start + 8 : chunk.start + 18])
            width = -(-bits // 8)
            if data[8:12] == b"AIFC":
                encoding = data[chunk.start + 18 : chunk.start + 22]
                if encoding not in _AIFC_ENCODINGS:
                    raise Broken(f"the AIFC encoding {encoding!r} is not read here")
                width = _AIFC_ENCODINGS[encoding] or width
            layout = channels, rate, channels * width
        elif chunk.kind == b"SSND":
            length = max(0, _there(data, chunk) - 8)
        if layout is not None and length is not None:
            return _header("AIFF", layout[1], layout[0], length, layout[2])
    raise Broken("it has no format or no samples")


_AIFC_ENCODINGS = {
    name: width
    for names, width in (
        ((b"NONE", b"twos", b"sowt"), 0),
        ((b"raw ", b"alaw", b"ALAW", b"ulaw", b"ULAW"), 1),
        ((b"in24", b"42ni"), 3),
        ((b"in32", b"fl32", b"FL32"), 4),
        ((b"fl64", b"FL64"), 8),
    )
    for name in names
}
"""Bytes a sample; 0 where COMM's own bits say it."""


def read_au(data: bytes) -> AudioHeader:
    """Read an AU of PCM, floats, A-law or µ-law."""
    order = ">" if data.startswith(b".snd") else "<"
    start, declared, encoding, rate, channels = struct.unpack_from(order + "5L", data, 4)
    width = _AU_WIDTHS.get(encoding)
    if width is None:
        raise Broken(f"the AU encoding {encoding} is not read here")
    there = max(0, len(data) - start)
    length = there if declared == 0xFFFFFFFF else min(declared, there)
    return _header("AU", rate, channels, length, channels * width)


_AU_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}


def _chunks(data: bytes, order: str) -> Iterator[_Chunk]:
    at = 12
    for _ in range(MAX_STEPS):
        if at + 8 > len(data):
            return
        kind, length = struct.unpack_from(order + "4sL", data, at)
        yield _Chunk(kind, at + 8, length)
        at += 8 + length + (length & 1)


def _there(data: bytes, chunk: _Chunk) -> int:
    return min(chunk.declared, len(data) - chunk.start)


def _header(name: str, rate: int, channels: int, num_bytes: int, block: int) -> AudioHeader:
    if not rate or not channels or not block:
        raise Broken(f"it declares {channels} channels at {rate} Hz")
    return AudioHeader(
        format=name, sample_rate=rate, channels=channels, num_frames=num_bytes // block
    )


def _extended_float(raw: bytes) -> int:
    """Return an 80-bit float as a whole number of Hz."""
    sign_and_exponent, mantissa = struct.unpack(">HQ", raw)
    shift = (sign_and_exponent & 0x7FFF) - 16383 - 63
    if sign_and_exponent & 0x8000 or shift > 0 or shift < -63:
        raise Broken("its sampling rate is no rate")
    return int(mantissa >> -shift)
