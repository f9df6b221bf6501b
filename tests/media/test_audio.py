"""Audio header readers on clips made by hand, and on bytes that are none."""

from __future__ import annotations

import random
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import MediaUnavailable
from foreword.media.audio import read_audio_duration


def wav(num_bytes: int, *, tag: int = 1, channels: int = 2, width: int = 2) -> bytes:
    block = channels * width
    layout = struct.pack("<HHLLHH", tag, channels, 16_000, 16_000 * block, block, 8 * width)
    chunks = b"fmt " + len(layout).to_bytes(4, "little") + layout
    chunks += b"LIST" + b"\3\0\0\0abc\0" + b"data" + num_bytes.to_bytes(4, "little")
    return b"RIFF" + bytes(4) + b"WAVE" + chunks + bytes(min(num_bytes, 64_000))


def extended(rate: int) -> bytes:
    shift = 64 - rate.bit_length()
    return struct.pack(">HQ", 16383 + 63 - shift, rate << shift)


def aiff(num_frames: int, encoding: bytes = b"", bits: int = 16) -> bytes:
    common = struct.pack(">HLH", 1, num_frames, bits) + extended(44_100) + encoding
    chunks = b"COMM" + len(common).to_bytes(4, "big") + common + bytes(len(common) & 1)
    width = 1 if encoding in (b"ulaw", b"alaw") else bits // 8
    sound = bytes(8 + num_frames * width)
    chunks += b"SSND" + len(sound).to_bytes(4, "big") + sound
    return b"FORM" + bytes(4) + (b"AIFC" if encoding else b"AIFF") + chunks


def au(num_bytes: int, encoding: int = 3) -> bytes:
    return b".snd" + struct.pack(">5L", 24, num_bytes, encoding, 8000, 1) + bytes(4000)


def flac(num_frames: int) -> bytes:
    packed = 48_000 << 44 | 1 << 41 | 15 << 36 | num_frames
    return b"fLaC\x80\0\0\x22" + bytes(10) + packed.to_bytes(8, "big") + bytes(16)


def page(position: int, body: bytes, serial: int = 5) -> bytes:
    head = struct.pack("<4sBBqLLLB", b"OggS", 0, 0, position, serial, 0, 0, 1)
    return head + bytes((len(body),)) + body


VORBIS = b"\x01vorbis" + struct.pack("<LBL", 0, 2, 44_100) + bytes(10)
OPUS = b"OpusHead\x01" + struct.pack("<BHL", 1, 312, 16_000) + bytes(3)


def mp3(num_frames: int, table: bytes = b"") -> bytes:
    # MPEG 1 layer III, 128 kbit/s, 44.1 kHz, mono: 417 bytes a frame.
    frame = b"\xff\xfb\x90\xc0" + bytes(413)
    first = frame[:21] + table + frame[21 + len(table) :] if table else b""
    return b"ID3\4\0\0\0\0\0\x0a" + bytes(10) + first + frame * num_frames


LAME = b"Info" + struct.pack(">LL", 1, 20) + b"LAME3.100" + bytes(12) + b"\x24\x04\x65"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (wav(4000), ("WAV", 16_000, 2, 1000)),
        (wav(4000, tag=6, width=1), ("WAV", 16_000, 2, 2000)),
        (wav(4000, tag=7, channels=1, width=1), ("WAV", 16_000, 1, 4000)),
        (wav(0xFFFFFFFF), ("WAV", 16_000, 2, 16_000)),
        (aiff(500), ("AIFF", 44_100, 1, 500)),
        (aiff(500, b"sowt", 24), ("AIFF", 44_100, 1, 500)),
        (aiff(500, b"ulaw"), ("AIFF", 44_100, 1, 500)),
        (au(0xFFFFFFFF), ("AU", 8000, 1, 2000)),
        (au(1000, 27), ("AU", 8000, 1, 1000)),
        (flac(123_456), ("FLAC", 48_000, 2, 123_456)),
        (page(0, VORBIS) + page(9999, b"x"), ("VORBIS", 44_100, 2, 9999)),
        (page(0, OPUS) + page(48_312, b"x") + page(7, b"", 6), ("OPUS", 16_000, 1, 16_000)),
        (mp3(10), ("MP3", 44_100, 1, 11_520)),
        (mp3(20, LAME), ("MP3", 44_100, 1, 20 * 1152 - 576 - 1125)),
    ],
)
def test_a_length_is_read(data: bytes, expected: tuple[str, int, int, int]) -> None:
    header = read_audio_duration(data)
    assert (header.format, header.sample_rate, header.channels, header.num_frames) == expected
    assert header.seconds == pytest.approx(expected[3] / expected[1])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\x1aE\xdf\xa3webm", "no WAV"),
        (wav(4000, tag=17), "encoding 17"),
        (wav(4000)[:30], "cut off|no samples"),
        (wav(0), "empty"),
        (wav(400, channels=0), "0 channels"),
        (aiff(500, b"ima4"), "ima4"),
        (au(10, 23), "encoding 23"),
        (flac(0), "how long"),
        (page(0, b"Speex   "), "neither"),
        (page(-1, VORBIS), "how long"),
        (mp3(0), "no MPEG"),
        (flac(48_000 * 601), "601"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MediaUnavailable, match=reason):
        read_audio_duration(data)


SEEDS = [wav(40), aiff(9, b"ulaw"), au(9), flac(9), page(0, OPUS) + page(99, b"x"), mp3(3, LAME)]


def outcome(data: bytes) -> None:
    try:
        header = read_audio_duration(data)
    except MediaUnavailable:
        return
    assert header.num_frames > 0
    assert header.seconds > 0


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed[:4].hex())
def test_no_damage_makes_another_error(seed: bytes) -> None:
    rng = random.Random(0)
    for length in range(min(len(seed), 150)):
        outcome(seed[:length])
    for _ in range(2000):
        damaged = bytearray(seed)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(min(len(damaged), 100))] = rng.randrange(256)
        outcome(bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        wav(4)[:36] + b"junk\0\0\0\0" * 500_000,
        b"ID3\4\0\0\0\0\0\0" * 500_000,
        b"\xff\xe3\x18\xc4" * 1_000_000,
        b"\xff\xf3\x14\xc4" + b"\xff\xf3\x14\xc4" * 1_000_000,
        page(-1, VORBIS) * 100_000,
    ],
    ids=["chunks", "tags", "no frames", "frames", "pages"],
)
def test_no_file_takes_long(data: bytes) -> None:
    started = time.process_time()
    outcome(data)
    assert time.process_time() - started < 0.5


@given(st.sampled_from([b"", *(seed[:20] for seed in SEEDS)]), st.binary(max_size=80))
def test_no_bytes_make_another_error(head: bytes, tail: bytes) -> None:
    outcome(head + tail)
