"""What media cost in front of the engine: sizes and file headers in, microseconds out.

    scripts/bench media [--json] [--runs 2000]

Rules of this file: a count is timed over many sizes and its slowest median is held against the
target; a header is read from whole files in memory. Nothing is decoded, and nothing is cached by
size but the shapes of a family's own grids.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from foreword.errors import InvalidRequest
from foreword.media import FamilyConfig, MediaFiles, count_image, find_family
from foreword.media.headers import read_image_size

TARGET_COUNT_US = 50.0
TARGET_HEADER_US = 1000.0

SQUARE = {"height": 336, "width": 336}
MODELS: dict[str, dict[str, Any]] = {
    "qwen2_vl": {},
    "qwen3_vl": {"preprocessor": {"patch_size": 16}},
    "glm4v": {"preprocessor": {"size": {"shortest_edge": 12544, "longest_edge": 9633792}}},
    "gemma3": {"preprocessor": {"do_pan_and_scan": True}},
    "gemma4": {},
    "mistral3": {"processor": {"patch_size": 14, "spatial_merge_size": 2}},
    "internvl": {"preprocessor": {"size": {"height": 448, "width": 448}}},
    "kimi_k25": {
        "preprocessor": {
            "media_proc_cfg": {
                "in_patch_limit": 16384,
                "patch_limit_on_one_side": 512,
                "patch_size": 14,
                "merge_kernel_size": 2,
            }
        }
    },
    "llava_next": {
        "preprocessor": {
            "crop_size": SQUARE,
            "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
        },
        "processor": {"patch_size": 14},
    },
    "llava_onevision": {
        "preprocessor": {
            "image_grid_pinpoints": [[384 * r, 384 * c] for r in range(1, 7) for c in range(1, 7)]
        },
        "processor": {"num_image_tokens": 729},
    },
    "idefics3": {},
    "llama4": {},
    "phi4mm": {},
    "minicpmv4_6": {},
    "deepseek_ocr": {},
}


def config_of(model_type: str) -> FamilyConfig:
    return find_family(MediaFiles(config={"model_type": model_type}, **MODELS[model_type]))


def time_counts(config: FamilyConfig, num_runs: int) -> dict[str, float]:
    """Return the median and the 99th percentile of a count, in µs, over random sizes."""
    rng = random.Random(0)
    times = []
    while len(times) < num_runs:
        width, height = rng.randint(30, 5000), rng.randint(30, 5000)
        started = time.perf_counter()
        try:
            count_image(config, width, height)
        except InvalidRequest:
            continue
        times.append((time.perf_counter() - started) * 1e6)
    times.sort()
    return {
        "median": round(statistics.median(times), 2),
        "p99": round(times[int(len(times) * 0.99)], 2),
    }


def camera_jpeg() -> bytes:
    """Return 12 megapixels as a camera writes them: EXIF with a thumbnail, then 4 MB of scan."""
    entry = struct.pack("<HHLHH", 0x0112, 3, 1, 6, 0)
    exif = b"Exif\0\0II" + struct.pack("<HLH", 42, 8, 1) + entry + bytes(20_000)
    frame = struct.pack(">BHHB", 8, 3000, 4000, 3) + bytes(9)
    segments = [(0xE1, exif), *[(0xE2, bytes(60_000))] * 8, (0xDB, bytes(130)), (0xC0, frame)]
    head = b"".join(
        bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body
        for marker, body in segments
    )
    return b"\xff\xd8" + head + b"\xff\xda\x00\x0c" + bytes(4_000_000)


def time_header(data: bytes, num_runs: int) -> dict[str, float]:
    """Return the median and the 99th percentile of a header's reading, in µs."""
    read: Callable[[bytes], object] = read_image_size
    times = []
    for _ in range(num_runs):
        started = time.perf_counter()
        read(data)
        times.append((time.perf_counter() - started) * 1e6)
    times.sort()
    return {
        "median": round(statistics.median(times), 2),
        "p99": round(times[int(len(times) * 0.99)], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench media", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args()
    rows = {name: time_counts(config_of(name), options.runs) for name in MODELS}
    header = time_header(camera_jpeg(), options.runs)
    slow = [name for name, row in rows.items() if row["median"] >= TARGET_COUNT_US]
    if header["median"] >= TARGET_HEADER_US:
        slow.append("JPEG header")
    if options.json:
        print(json.dumps({"count_us": rows, "jpeg_12_megapixels_us": header, "missed": slow}))
    else:
        print(f"{'µs an image':<32}{'median':>10}{'p99':>10}")
        for name, row in {**rows, "header of a 12-megapixel JPEG": header}.items():
            print(f"{name:<32}{row['median']:>10.2f}{row['p99']:>10.2f}")
    if slow:
        targets = f"a count under {TARGET_COUNT_US} µs, a header under {TARGET_HEADER_US} µs"
        print(f"missed ({targets}): {', '.join(slow)}", file=sys.stderr)
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
