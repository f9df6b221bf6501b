"""Ids as JSON: the bytes of a plain encoding, whatever was written before, in bounded memory."""

from __future__ import annotations

import random
import threading
from array import array

import msgspec
import pytest

from foreword.service.token_json import BLOCK_IDS, TokenIdsWriter


def plain(ids: array[int]) -> bytes:
    return msgspec.json.encode(ids.tolist())


@pytest.mark.parametrize(
    "size", [0, 1, BLOCK_IDS - 1, BLOCK_IDS, BLOCK_IDS + 1, 3 * BLOCK_IDS, 3 * BLOCK_IDS + 7]
)
def test_the_bytes_are_those_of_a_plain_encoding(size: int) -> None:
    chance = random.Random(size)
    ids = array("I", [chance.randrange(2**32) for _ in range(size)])
    writer = TokenIdsWriter()
    assert writer.write(ids) == plain(ids)
    assert writer.write(ids) == plain(ids)
    grown = ids + array("I", [5, 6])
    assert writer.write(grown) == plain(grown)
    if size:
        grown[size // 2] ^= 1
        assert writer.write(grown) == plain(grown)


def test_memory_is_bounded_and_the_newest_stay() -> None:
    writer = TokenIdsWriter(max_bytes=4 * 22_000)
    blocks = [array("I", [number] * BLOCK_IDS) for number in range(10)]
    for block in blocks:
        writer.write(block)
    assert list(writer._blocks) == [block.tobytes() for block in blocks[-4:]]


def test_without_memory_nothing_is_kept() -> None:
    writer, ids = TokenIdsWriter(max_bytes=0), array("I", range(3 * BLOCK_IDS))
    assert writer.write(ids) == plain(ids)
    assert not writer._blocks


def test_many_threads_at_once() -> None:
    writer, faults = TokenIdsWriter(max_bytes=8 * 22_000), []

    def write(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            ids = array("I", [chance.randrange(6)] * (3 * BLOCK_IDS))
            if writer.write(ids) != plain(ids):
                faults.append(seed)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert len(writer._blocks) <= 8 + 4


def test_who_finds_enough_forgotten_forgets_nothing() -> None:
    writer = TokenIdsWriter(max_bytes=8 * 22_000)
    writer._forget()  # another thread was faster
    assert not writer._blocks
