"""FLAC, Ogg (Vorbis, Opus) and MP3 headers: bytes in, an `AudioHeader` out.

Rules of this file: nothing is decoded. A length stands in the first block (FLAC), on the last
page (Ogg), in the first frame's table or else in all frames' headers (MP3).
"""

from __future__ import annotations

import struct

from foreword.media.audio.header import MAX_STEPS, AudioHeader, Broken


def read_flac(data: bytes) -> AudioHeader:
    """Read the STREAMINFO block."""
    if len(data) < 42 or data[4] & 0x7F:
        raise Broken("it does not begin with STREAMINFO")
    packed = int.from_bytes(data[18:26], "big")
    rate, channels = packed >> 44, (packed >> 41 & 7) + 1
    num_frames = packed & (1 << 36) - 1
    if not rate or not num_frames:
        raise Broken("it does not say how long it is")
    return AudioHeader(format="FLAC", sample_rate=rate, channels=channels, num_frames=num_frames)


def read_ogg(data: bytes) -> AudioHeader:
    """Read the first packet's format and the last page's position."""
    body = 27 + data[26]
    serial = data[14:18]
    skipped = 0
    if data.startswith(b"\x01vorbis", body):
        name = "VORBIS"
        channels, rate = struct.unpack_from("<BL", data, body + 11)
    elif data.startswith(b"OpusHead", body):
        name = "OPUS"
        channels, skipped, rate = struct.unpack_from("<BHL", data, body + 9)
        rate = rate if rate in _OPUS_RATES else 48_000
    else:
        raise Broken("its stream is neither Vorbis nor Opus")
    if not rate or not channels:
        raise Broken(f"it declares {channels} channels at {rate} Hz")
    num_frames = max(0, _last_position(data, serial) - skipped)
    if name == "OPUS":
        # Positions count at 48 kHz; decoders give the rate the encoder was fed, where Opus has it.
        num_frames = num_frames * rate // 48_000
    return AudioHeader(format=name, sample_rate=rate, channels=channels, num_frames=num_frames)


def _last_position(data: bytes, serial: bytes) -> int:
    at = len(data)
    for _ in range(MAX_STEPS):
        at = data.rfind(b"OggS", 0, at)
        if at < 0:
            break
        if data[at + 14 : at + 18] == serial:
            (position,) = struct.unpack_from("<q", data, at + 6)
            if position >= 0:
                return int(position)
    raise Broken("no page says how long it is")


_OPUS_RATES = frozenset({8_000, 12_000, 16_000, 24_000, 48_000})

_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KBITS = {
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_MAX_JUNK_BYTES = 1 << 16
_MAX_ID3_TAGS = 16


def read_mp3(data: bytes) -> AudioHeader:
    """Read the first frame and its table, or count all frames.

    The encoder's delay and padding are left out where a LAME table states them.
    """
    start = _after_id3(data)
    at = _first_frame(data, start)
    frame = _frame(data, at)
    if frame is None:
        raise Broken("it has no MPEG audio frame")
    rate, channels, _, per_frame = frame
    num_frames = _from_table(data, at, per_frame)
    if num_frames is None:
        num_frames = _count_frames(data, at) * per_frame
    return AudioHeader(format="MP3", sample_rate=rate, channels=channels, num_frames=num_frames)


def _after_id3(data: bytes) -> int:
    at = 0
    for _ in range(_MAX_ID3_TAGS):
        if not data.startswith(b"ID3", at) or at + 10 > len(data):
            break
        size = 0
        for byte in data[at + 6 : at + 10]:
            size = size << 7 | byte & 0x7F
        at += 10 + size + (10 if data[at + 5] & 0x10 else 0)
    return at


def _first_frame(data: bytes, start: int) -> int:
    """Return where the first frame is that another frame (or the end) follows."""
    at = start
    while (at := data.find(b"\xff", at, start + _MAX_JUNK_BYTES)) >= 0:
        frame = _frame(data, at)
        if frame is not None:
            following = at + frame[2]
            if following >= len(data) or _frame(data, following) is not None:
                return at
        at += 1
    raise Broken("it has no MPEG audio frame")


def _frame(data: bytes, at: int) -> tuple[int, int, int, int] | None:
    """Return a frame's sampling rate, channels, size in bytes and samples; None for no frame."""
    if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] & 0xE0 != 0xE0:
        return None
    second, third = data[at + 1], data[at + 2]
    version, layer = second >> 3 & 3, 4 - (second >> 1 & 3)
    bits, rate_index = third >> 4, third >> 2 & 3
    if version == 1 or layer == 4 or rate_index == 3 or bits in (0, 15):
        return None
    rate = _RATES[version][rate_index]
    kbits = _KBITS[(version == 3, layer)][bits]
    padding = third >> 1 & 1
    if layer == 1:
        size, samples = (12_000 * kbits // rate + padding) * 4, 384
    else:
        samples = 1152 if layer == 2 or version == 3 else 576
        size = samples // 8 * 1000 * kbits // rate + padding
    return rate, 1 if data[at + 3] >> 6 == 3 else 2, size, samples


def _from_table(data: bytes, at: int, per_frame: int) -> int | None:
    if data.startswith(b"VBRI", at + 36):
        return int.from_bytes(data[at + 50 : at + 54], "big") * per_frame
    for offset in (36, 21, 13):
        if data[at + offset : at + offset + 4] not in (b"Xing", b"Info"):
            continue
        table = at + offset
        flags = int.from_bytes(data[table + 4 : table + 8], "big")
        if not flags & 1:
            return None
        num_samples = int.from_bytes(data[table + 8 : table + 12], "big") * per_frame
        lame = table + 12 + 4 * (flags >> 1 & 1) + 100 * (flags >> 2 & 1) + 4 * (flags >> 3 & 1)
        if data[lame : lame + 4] in (b"LAME", b"Lavc", b"Lavf"):
            packed = int.from_bytes(data[lame + 21 : lame + 24], "big")
            num_samples -= (packed >> 12) + (packed & 0xFFF)
        return max(0, num_samples)
    return None


def _count_frames(data: bytes, at: int) -> int:
    count = 0
    while (frame := _frame(data, at)) is not None:
        if at + frame[2] > len(data):
            break
        count += 1
        at += frame[2]
        if count > MAX_STEPS:
            raise Broken(f"it has over {MAX_STEPS} frames")
    return count
