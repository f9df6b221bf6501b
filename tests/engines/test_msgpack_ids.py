"""Token ids laid out as msgpack, read back by msgpack itself."""

from __future__ import annotations

import random
import tracemalloc
from array import array

import msgspec
import pytest

from foreword.engines.msgpack_ids import raw_token_ids

CASES = [
    [],
    [0],
    [0, 127, 128, 255, 256, 65535, 65536, 151_935],
    [2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1],
    [random.Random(1).randrange(2**32) for _ in range(1000)],
    [random.Random(2).randrange(2**17) for _ in range(2 * 16384)],
    [random.Random(3).randrange(2**17) for _ in range(70_000)] + [2**32 - 1],
]


@pytest.mark.parametrize("ids", CASES, ids=lambda ids: str(len(ids)))
def test_ids_come_back(ids: list[int]) -> None:
    message = msgspec.msgpack.encode(["before", raw_token_ids(array("I", ids)), "after"])
    assert msgspec.msgpack.decode(message) == ["before", ids, "after"]
    typed = msgspec.msgpack.decode(message, type=tuple[str, list[int] | None, str])
    assert typed[1] == ids


def test_every_id_takes_five_bytes() -> None:
    raw = bytes(raw_token_ids(array("I", [1, 2**24])))
    assert raw == b"\xdd\0\0\0\x02\xce\0\0\0\x01\xce\x01\0\0\0"


def test_the_array_is_left_as_it_was() -> None:
    ids = array("I", [7, 8])
    raw_token_ids(ids)
    assert ids == array("I", [7, 8])


def test_no_list_of_ids_is_made_on_the_way() -> None:
    ids = array("I", range(100_000))
    tracemalloc.start()
    try:
        raw = raw_token_ids(ids)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < len(bytes(raw)) + 300_000  # a list would take 3.6 MB more
