"""The header of a GGUF file: its pairs, never its tensors, and clear words for a broken one."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import AssetsInvalid
from foreword.gguf_header import read_gguf_header

sys.path.insert(0, str(Path(__file__).parent / "tokenizer"))
from vocabulary_makers import gguf_bytes

PAIRS: dict[str, Any] = {
    "general.architecture": "llama",
    "n": -3,
    "x": 0.5,
    "yes": True,
    "texts": ["a", "", "é"],
    "ids": [1, -2],
    "scores": [0.25, -1.0],
    "none": [],
}


def read(tmp_path: Path, data: bytes) -> dict[str, Any]:
    (tmp_path / "m.gguf").write_bytes(data)
    return dict(read_gguf_header(tmp_path / "m.gguf").values)


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, gguf_bytes(PAIRS)) == PAIRS
    assert read(tmp_path, gguf_bytes(PAIRS, version=2)) == PAIRS


def test_whole_numbers_of_every_size_are_read(tmp_path: Path) -> None:
    values = {0: ("B", 200), 1: ("b", -5), 2: ("H", 60000), 3: ("h", -6), 4: ("I", 2**32 - 1)} | {
        10: ("Q", 2**63),
        11: ("q", -(2**40)),
        12: ("d", 0.1),
    }
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values))
    for kind, (code, value) in values.items():
        data += struct.pack("<Q", 1) + b"%c" % (64 + kind) + struct.pack(f"<I{code}", kind, value)
    read_values = read(tmp_path, data)
    assert read_values == {chr(64 + kind): value for kind, (_, value) in values.items()}


def test_the_digest_is_the_headers_alone(tmp_path: Path) -> None:
    digests = []
    for pairs, tensors in ((PAIRS, b"1"), (PAIRS, b"2" * 999), ({**PAIRS, "n": 4}, b"1")):
        (tmp_path / "m.gguf").write_bytes(gguf_bytes(pairs, tensors=tensors))
        digests.append(read_gguf_header(tmp_path / "m.gguf").digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("stop", range(0, 150, 7))
def test_a_file_that_ends_early_is_described(tmp_path: Path, stop: int) -> None:
    data = gguf_bytes(PAIRS, tensors=b"")
    with pytest.raises(AssetsInvalid, match=r"m\.gguf: its header is broken: \d+ "):
        read(tmp_path, data[: min(stop, len(data) - 1)])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"PK\x03\x04" + bytes(40), "not a GGUF file"),
        (gguf_bytes(PAIRS, version=1), "version is 1; versions"),
        (gguf_bytes(PAIRS, version=0x03000000), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 10**9), "1000000000 pairs"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "bytes are announced"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<I", 99), "of type 99"),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 4, 2**40),
            "a list of 1099511627776 values",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 9, 0),
            "values of type 9",
        ),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"\xff" + bytes(8), "header is broken"),
    ],
)
def test_a_broken_header_is_described(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(AssetsInvalid, match=problem):
        read(tmp_path, data)


def test_an_absent_file_is_named_without_its_path(tmp_path: Path) -> None:
    with pytest.raises(AssetsInvalid, match=r"^no\.gguf: it cannot be read") as caught:
        read_gguf_header(tmp_path / "no.gguf")
    assert str(tmp_path) not in str(caught.value)
