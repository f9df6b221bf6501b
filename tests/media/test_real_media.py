"""Every real file of the private data: the size Pillow (soundfile) reads, or a refusal."""

from __future__ import annotations

import contextlib
import importlib
import time
import tracemalloc
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import MediaUnavailable
from foreword.media.audio import read_audio_duration
from foreword.media.headers import read_image_size

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
IMAGES = sorted(DATA.glob("images/*"))
CLIPS = sorted(DATA.glob("audio/*"))

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not DATA.is_dir(), reason="no ../shared/data beside the checkout"),
]

MAX_SECONDS, MAX_BYTES = 0.05, 50 << 20

# Files that Pillow fails on although their header is right: the engine finds that out.
HEADER_ONLY = {"apng_chunk_no_fctl.png", "broken_data_stream.png", "fli_overrun.bin"}
HEADER_ONLY |= {"truncated_jpeg.jpg", "truncated_end_chunk.png"}
# Files that can't be read at all, or declare a bomb.
REFUSED = {"LICENSE.Pillow", "decompression_bomb.gif", "decompression_bomb.ico"}
REFUSED |= {"hopper_unknown_pixel_mode.tif", "hopper.ico"}


def measured(read: Any, data: bytes) -> Any:
    with contextlib.suppress(MediaUnavailable):
        read(data)  # imports Pillow, where it is needed
    tracemalloc.start()
    try:
        started = time.perf_counter()
        return read(data)
    finally:
        elapsed = time.perf_counter() - started
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert elapsed < MAX_SECONDS
        assert peak < MAX_BYTES


def size_by_pillow(data: bytes) -> tuple[int, int]:
    image = importlib.import_module("PIL.Image")
    ops = importlib.import_module("PIL.ImageOps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with image.open(BytesIO(data)) as opened:
            size: tuple[int, int] = ops.exif_transpose(opened).size
            return size


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_an_images_size_is_pillows(path: Path) -> None:
    pytest.importorskip("PIL")
    data = path.read_bytes()
    if path.name in REFUSED:
        with pytest.raises(MediaUnavailable, match=r"The image (can't be read|declares)"):
            measured(read_image_size, data)
        return
    header = measured(read_image_size, data)
    if path.name not in HEADER_ONLY:
        assert (header.width, header.height) == size_by_pillow(data)


# What soundfile 0.14 reads, (sampling rate, channels, frames), by the file's beginning.
LENGTHS = {"pluck-": (11_025, 2, 3307), "llamacpp_test-2": (44_100, 1, 769_089)}


@pytest.mark.parametrize("path", CLIPS, ids=lambda path: path.name)
def test_a_clips_length_is_soundfiles(path: Path) -> None:
    header = measured(read_audio_duration, path.read_bytes())
    (expected,) = (value for name, value in LENGTHS.items() if path.name.startswith(name))
    assert (header.sample_rate, header.channels, header.num_frames) == expected
