"""Remembered stretches against hashing from the start, and against the rule written out again."""

from __future__ import annotations

import hashlib
import pickle
import random
import threading
from array import array
from typing import Any

import pytest

from foreword.blocks import BlockHasher, BlockHashMemo, LoraKey, hash_blocks, memo
from foreword.types import MediaSpan, TokenIds


def cbor(value: Any) -> bytes:
    """Canonical CBOR of the few kinds there are, from RFC 8949."""

    def head(major: int, number: int) -> bytes:
        if number < 24:
            return bytes([major << 5 | number])
        size = next(size for size in (0, 1, 2, 3) if number < 1 << (8 << size))
        return bytes([major << 5 | 24 + size]) + number.to_bytes(1 << size, "big")

    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    return head(4, len(value)) + b"".join(map(cbor, value))


def by_the_rule(
    ids: TokenIds, size: int, algorithm: str, media: list[MediaSpan], lora: Any, salt: str | None
) -> list[str]:
    """Every block's hash, from the rule and nothing of the code under test."""

    def digest(value: Any) -> bytes:
        dump = cbor(value) if algorithm.endswith("cbor") else pickle.dumps(value, protocol=5)
        return hashlib.sha256(dump).digest()

    hashes, parent = [], digest("seed")
    for start in range(0, len(ids) // size * size, size):
        keys: list[Any] = [("lora", *lora)] if lora else []
        keys += [
            ("mm", "".join(list(item.identity)), item.start - start)
            for item in sorted(media, key=lambda item: item.start)
            if item.start < start + size and item.stop > start
        ]
        keys += [("cache_salt", salt)] if salt and start == 0 else []
        parent = digest((parent, tuple(ids[start : start + size]), tuple(keys) or None))
        hashes.append(parent.hex())
    return hashes


def span(start: int, stop: int, identity: str) -> MediaSpan:
    return MediaSpan(modality="image", index=0, start=start, stop=stop, identity=identity)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the blocks that are hashed."""
    counts: list[int] = []
    real = memo.hash_range

    def counting(chain: Any, first: int, stop: int, parent: bytes) -> Any:
        counts.append(stop - first)
        return real(chain, first, stop, parent)

    monkeypatch.setattr(memo, "hash_range", counting)
    return counts


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
@pytest.mark.parametrize("size", [16, 100, 1000])
def test_hashes_are_those_of_the_rule(algorithm: Any, size: int) -> None:
    pytest.importorskip("cbor2", reason="needs the extra hashes")
    rng = random.Random(size)
    hasher = BlockHasher(block_size=size, algorithm=algorithm, seed="seed")
    kept = BlockHashMemo(hasher)
    for _ in range(4):
        ids = array("I", [rng.choice([7, 2**32 - 1, 200]) for _ in range(9000)])
        for lora in (None, LoraKey("adapter", "/p")):
            for salt in (None, "tenant"):
                media = [span(40, 90, "image-1"), span(2040, 2060, "two"), span(4100, 8000, "2")]
                expected = by_the_rule(ids, size, algorithm, media, lora, salt)
                for _ in range(2):
                    got = kept.hashes(ids, media=reversed(media), lora=lora, cache_salt=salt)
                    assert got.to_hex() == [one.hex() for one in got] == expected
                    assert len(got) == 9000 // size
    assert kept.hashes(array("I", [1] * (size - 1))).to_hex() == []


def test_any_history_gives_the_same_hashes() -> None:
    rng = random.Random(2)
    for _ in range(30):
        hasher = BlockHasher(
            block_size=rng.choice([64, 256, 3000]), num_lookahead_tokens=rng.choice([0, 3])
        )
        kept = BlockHashMemo(hasher, max_bytes=rng.choice([0, 20_000, 10**7]))
        ids, media = array("I"), []
        for _ in range(8):
            if rng.random() < 0.3:
                ids = ids[: rng.randrange(len(ids) + 1)]
                media = [item for item in media if item.stop <= len(ids)]
            start = len(ids)
            ids = ids + array("I", [rng.randrange(2) for _ in range(rng.randrange(4000))])
            if len(ids) > start and rng.random() < 0.5:
                media.append(span(start, rng.randrange(start, len(ids)) + 1, rng.choice("ab")))
            facts: dict[str, Any] = {
                "media": media,
                "lora": rng.choice([None, LoraKey("n", "/p")]),
                "cache_salt": rng.choice([None, "salt"]),
            }
            got = kept.hashes(ids, **facts)
            assert list(got) == hash_blocks(ids, hasher=hasher, **facts)


def test_a_chat_that_grew_costs_what_is_new(hashed: list[int]) -> None:
    kept = BlockHashMemo(BlockHasher(block_size=16))
    rng = random.Random(3)
    ids = array("I", [rng.randrange(99) for _ in range(100_000)])
    kept.hashes(ids)
    assert sum(hashed) == 100_000 // 16
    hashed.clear()
    kept.hashes(ids + ids[:300])
    assert sum(hashed) < 2 * 128  # what is new, and the stretch that was not full
    hashed.clear()
    other = array("I", ids)
    other[50_000] += 1
    kept.hashes(other)
    assert 3000 < sum(hashed) < 3400  # all that stands after the change


@pytest.mark.parametrize(
    "facts", [{"cache_salt": "a"}, {"lora": LoraKey("n", "/p")}, {"media": [span(3, 5, "i")]}]
)
def test_what_decides_the_cache_shares_nothing(hashed: list[int], facts: dict[str, Any]) -> None:
    kept = BlockHashMemo(BlockHasher(block_size=16))
    ids = array("I", range(4096))
    plain = kept.hashes(ids)
    hashed.clear()
    assert not set(kept.hashes(ids, **facts)) & set(plain)
    assert sum(hashed) == 256


def test_memory_is_bounded_and_the_least_used_goes(hashed: list[int]) -> None:
    kept = BlockHashMemo(BlockHasher(block_size=16), max_bytes=200_000)
    often = array("I", [1] * 4096)
    kept.hashes(often)
    for number in range(2, 300):
        kept.hashes(array("I", [number]) * 4096)
        hashed.clear()
        kept.hashes(often)
        assert hashed == []
    held = sum(len(key[1]) + len(value) for key, value in kept._known.items())
    assert 100_000 < held < 200_000


def test_the_same_ids_with_media_elsewhere_are_another_prompt() -> None:
    hasher = BlockHasher(block_size=16)
    kept, ids = BlockHashMemo(hasher), array("I", [5] * 4096)
    for media in (
        [span(20, 30, "a")], [span(21, 30, "a")], [span(20, 40, "a")], [span(20, 30, "b")],
        [span(20, 25, "a"), span(25, 30, "a")], [span(2000, 2100, "a")], [span(2100, 2200, "a")],
    ):  # fmt: skip
        assert list(kept.hashes(ids, media=media)) == hash_blocks(ids, hasher=hasher, media=media)


def test_what_a_block_looks_ahead_to_counts() -> None:
    hasher = BlockHasher(block_size=16, num_lookahead_tokens=2)
    kept = BlockHashMemo(hasher)
    for after in ([1, 2], [1, 3], [2, 2]):
        ids = array("I", [5] * 2048 + after + [5] * 2048)
        assert list(kept.hashes(ids)) == hash_blocks(ids, hasher=hasher)
        media = [span(2049, 2050, f"{after}")]
        expected = hash_blocks(ids, hasher=hasher, media=media)
        assert list(kept.hashes(ids, media=media)) == expected


def test_threads_share_it() -> None:
    kept = BlockHashMemo(BlockHasher(block_size=16), max_bytes=100_000)
    prompts = [array("I", [number]) * 8192 for number in range(6)]
    expected = [hash_blocks(ids, hasher=kept.hasher) for ids in prompts]
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(40):
                place = rng.randrange(6)
                assert list(kept.hashes(prompts[place])) == expected[place]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(kept) <= 12


def test_a_copy_elsewhere_starts_empty() -> None:
    kept = BlockHashMemo(BlockHasher(block_size=4, seed="1"), max_bytes=10**6)
    ids = array("I", range(4096))
    copied = pickle.loads(pickle.dumps(kept))
    assert len(copied) == 0
    assert copied.hashes(ids) == kept.hashes(ids)
