"""Videos by their headers: what OpenCV's FFmpeg says of the same files, or a refusal.

The files in `videos/` are FFmpeg's own (through PyAV 18.1), 64x48 pixels, of one colour a frame;
sizes, frames and rates are what OpenCV 5.0 reads of them, as vLLM asks it.
"""

from __future__ import annotations

import base64
import struct
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from media_models import jpeg

from foreword.errors import MediaUnavailable
from foreword.media.frame_sampling import spread_evenly, step_evenly
from foreword.media.video import read_video_header

VIDEOS = Path(__file__).parent / "videos"
ONE = 1 << 16


def video(name: str) -> bytes:
    return (VIDEOS / name).read_bytes()


def frames(*sizes: tuple[int, int]) -> bytes:
    return b",".join(base64.b64encode(jpeg(*size)) for size in sizes)


@pytest.mark.witness(
    family=("media:qwen2_vl", "media:qwen3_vl"),
    what="sizes, frames and rates of video files",
    against="what OpenCV 5.0 reads of them",
)
@pytest.mark.parametrize(
    ("name", "num_frames", "rate"),
    [
        ("b_frames_and_sound.mp4", 17, 30000 / 1001),
        ("film.mov", 17, 24000 / 1001),
        ("plain.webm", 17, 30.0),
        ("with_sound.webm", 17, 30.0),  # a quarter of a second longer than its frames
        ("ninety.mkv", 90, 30000 / 1001),
    ],
)
def test_a_header_is_read(name: str, num_frames: int, rate: float) -> None:
    header = read_video_header(video(name))
    assert (header.width, header.height) == (64, 48)
    assert (header.num_frames, header.frame_rate, header.is_sampled) == (num_frames, rate, False)


@pytest.mark.parametrize(
    ("matrix", "size"),
    [
        ((0, ONE, 0, -ONE, 0), (48, 64)),
        ((-ONE, 0, 0, 0, -ONE), (64, 48)),
        ((0, -ONE, 0, ONE, 0), (48, 64)),
    ],
)
def test_a_turned_video_is_measured_as_shown(
    matrix: tuple[int, ...], size: tuple[int, int]
) -> None:
    header = read_video_header(turned(matrix))
    assert (header.width, header.height) == size


def turned(matrix: tuple[int, ...]) -> bytes:
    data = video("b_frames_and_sound.mp4")
    at = data.index(b"tkhd") + 4 + 40
    return data[:at] + struct.pack(">5i", *matrix) + data[at + 20 :]


def shortened(name: str) -> bytes:
    """Return a WebM that says it lasts half as long."""
    data = video(name)
    at = data.index(b"\x44\x89\x88") + 3
    (lasts,) = struct.unpack_from(">d", data, at)
    return data[:at] + struct.pack(">d", lasts / 2) + data[at + 8 :]


def trimmed(begins: int, lasts: int) -> bytes:
    """Return the film with another edit: `begins` in its own time, `lasts` in the movie's."""
    data = video("b_frames_and_sound.mp4")
    at = data.index(b"elst") + 4
    edit = struct.pack(">IIIiI", 0, 1, lasts, begins, ONE)
    return data[:at] + edit + data[at + len(edit) :]


def test_an_edit_that_shows_all_of_it_hides_nothing() -> None:
    (whole,) = struct.unpack_from(">i", video("film.mov"), video("film.mov").index(b"elst") + 16)
    assert read_video_header(video("film.mov")).num_frames == 17
    assert whole == 0
    assert read_video_header(trimmed(1001, 0)).num_frames == 17


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"RIFF0000AVI ", "it is no MP4"),
        (video("fragmented.mp4"), "it is fragmented"),
        (video("varying.mp4"), "its frame rate varies"),
        (video("a_frame_of_sound.webm"), "its duration says 18"),
        (shortened("plain.webm"), "its duration says 8"),
        (trimmed(60_000, 0), "edit list"),
        (trimmed(0, 300), "edit list"),
        (trimmed(-1, 0), "edit list"),
        (turned((-ONE, 0, 0, 0, ONE)), "mirrored"),
        (turned((ONE // 2, 0, 0, 0, ONE)), "scaled"),
        (video("film.mov").replace(b"vide", b"soun"), "no video track"),
        (video("film.mov").replace(b"stsz", b"stsX"), "no stsz box"),
        (video("plain.webm").replace(b"\x23\xe3\x83", b"\x23\xe3\x84"), "does not tell its frame"),
        (video("plain.webm")[:-1], "cut off"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MediaUnavailable, match=reason) as refusal:
        read_video_header(data, param="messages[0]")
    assert refusal.value.param == "messages[0]"


def test_the_pixel_limit_can_be_set() -> None:
    with pytest.raises(MediaUnavailable, match="64x48 pixels, 3072"):
        read_video_header(video("film.mov"), max_pixels=3071)


@pytest.mark.parametrize(
    "name", ["b_frames_and_sound.mp4", "film.mov", "plain.webm", "varying.mp4"]
)
def test_no_damage_makes_another_error(name: str) -> None:
    data = video(name)
    for at in range(len(data)):
        for damaged in (
            data[:at],
            data[:at] + b"\xff" + data[at + 1 :],
            data[:at] + data[at + 1 :],
        ):
            try:
                read_video_header(damaged)
            except MediaUnavailable:
                continue


@settings(max_examples=200, deadline=None)
@given(
    head=st.sampled_from([b"\0\0\0\x08ftyp", b"\x1aE\xdf\xa3", b"\0\0\0\0moov", b""]),
    tail=st.binary(max_size=200),
    is_frames=st.booleans(),
)
def test_no_bytes_make_another_error(head: bytes, tail: bytes, is_frames: bool) -> None:
    with pytest.raises(MediaUnavailable):
        read_video_header(head + tail, is_frames=is_frames)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x08free" * 1_000_000,
        b"\0\0\0\x01free" + struct.pack(">Q", 1 << 62),
        b"\x1aE\xdf\xa3\x80" + b"\x18\x53\x80\x67\x08\xff\xff\xff\xff" + b"\xec\x80" * 1_000_000,
        b"\x1aE\xdf\xa3\x80" * 1_000_000,
    ],
)
def test_no_file_takes_long(data: bytes) -> None:
    started = time.process_time()
    with pytest.raises(MediaUnavailable):
        read_video_header(data)
    assert time.process_time() - started < 0.5


# ---------------------------------------------------------------------------------------------
# Frames that the client sampled.


def test_frames_are_shown_as_they_were_sent() -> None:
    header = read_video_header(frames((64, 48), (64, 48), (64, 48)), is_frames=True)
    assert (header.width, header.height, header.num_frames) == (64, 48, 3)
    assert (header.frame_rate, header.is_sampled) == (1.0, True)


def test_frames_beyond_what_the_engine_takes_are_left_out() -> None:
    many = frames(*[(64, 48)] * 33)
    assert read_video_header(many, is_frames=True).num_frames == 32
    assert read_video_header(many + b",broken", is_frames=True).num_frames == 32


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (frames((64, 48), (48, 64)), "2 different sizes"),
        (frames((64, 48)) + b",", "frame 1 is not valid base64"),
        (frames((64, 48)) + b",A BC", "frame 1 is not valid base64"),
        (b"AAAA", "frame 0 is no picture"),
    ],
)
def test_frames_that_the_engine_would_not_take(data: bytes, reason: str) -> None:
    with pytest.raises(MediaUnavailable, match=reason):
        read_video_header(data, is_frames=True)


# ---------------------------------------------------------------------------------------------
# Which frames are shown.

QWEN3 = {"fps": 2, "min_frames": 4, "max_frames": 768}


@pytest.mark.parametrize(
    ("num_frames", "rate", "places"),
    [
        (90, 30.0, [0, 18, 36, 53, 71, 89]),  # 3 seconds: six frames, 17.8 apart
        (17, 30.0, [0, 5, 11, 16]),  # one frame would do, four are the least
        (3, 30.0, [0, 1, 2]),
        (1, 30.0, [0]),
        (10, 1.0, list(range(10))),  # twenty are wanted, there are ten
    ],
)
def test_frames_are_spread_from_the_first_to_the_last(
    num_frames: int, rate: float, places: list[int]
) -> None:
    assert spread_evenly(num_frames, rate, QWEN3) == tuple(place / rate for place in places)


def test_no_more_than_the_loader_takes() -> None:
    times = spread_evenly(100_000, 30.0, QWEN3)
    assert (len(times), times[0], times[-1]) == (768, 0.0, 99_999 / 30.0)
    assert len(step_evenly(100_000, 30.0, {})) == 768


def test_the_processor_samples_again_where_the_loader_took_all() -> None:
    fewer = {**QWEN3, "fps": 1}
    assert len(spread_evenly(20, 2.0, fewer)) == 10
    assert len(spread_evenly(21, 3.0, fewer)) == 14  # the loader took fourteen, not all


@pytest.mark.parametrize(
    ("num_frames", "rate", "shown"),
    [(90, 30.0, 6), (17, 30.0, 4), (5, 1.0, 4), (3, 30.0, 2), (1, 30.0, 0), (103, 30.0, 6)],
)
def test_frames_come_in_pairs(num_frames: int, rate: float, shown: int) -> None:
    assert len(step_evenly(num_frames, rate, {})) == shown
