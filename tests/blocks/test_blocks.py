"""Prefix block hashes against golden values, and chains against hashing from the start."""

from __future__ import annotations

import builtins
import hashlib
import pickle
import random
from array import array
from dataclasses import replace
from typing import Any

import pytest

from foreword.blocks import (
    BlockChain,
    BlockHasher,
    LoraKey,
    extend,
    external_hashes,
    hash_blocks,
    hashing,
)
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.types import MediaSpan

IDS = array("I", range(32))
ALGORITHMS = ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")

# What vLLM 0.33 gives for blocks of 16 tokens, 0..15 and 16..31, without PYTHONHASHSEED.
GOLDEN = {
    "sha256": {
        "none": "066b1e8987e027138e98701c46128929378935f9b6cd1549105ae6b4f0d71198",
        "first": "fe8fa5dda3210d0ca2031e37cbe3b001186773cd1c710beb2d45fcb51d434798",
        "second": "8be7aaa33831156d316f1f463ae57e643deb63f42e633e2d631df88815cc4629",
        "salt": "23bb70ca91a3697ed579080cc3a4d36b53c7348f3a8a63c7b5b67491d85e237d",
        "media": "199f7c6fe1fa93e894f3f1b7290d2ef0171dc91a8039aafc680f77af897e4cf4",
        "lora": "240fb9f501dd4159d5a2b9f046f6cd01bced6a0dd05eeb676c02fdc0269586bf",
        "integer": 3262291359910021016,
    },
    "sha256_cbor": {
        "none": "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0",
        "first": "dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749",
        "second": "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c",
        "salt": "67e9f72522b34138a0f4be0e3a68d9d49b1e50aea0af7762f6170ad7eebbdeaf",
        "media": "188b2f5bcd196c37e50037f493cc534eccde6753e822e6360e67ec722e53da6c",
        "lora": "2091c737e8aed0b63f27a3260baadcfe8c1da93e278ab64ee8a6b2c2a8d7759e",
        "integer": 2233398808101521225,
    },
}


def hasher(algorithm: Any = "sha256", **fields: Any) -> BlockHasher:
    seed = "0" if algorithm.startswith("xxhash") else None
    return BlockHasher(**{"algorithm": algorithm, "seed": seed, "block_size": 16, **fields})


def span(start: int, stop: int, identity: str = "abc") -> MediaSpan:
    return MediaSpan(modality="image", index=0, start=start, stop=stop, identity=identity)


def first_block(extra: Any) -> bytes:
    """The default hash of block 0..15 with given extra keys, by the rule itself."""
    value = (bytes.fromhex(GOLDEN["sha256"]["none"]), tuple(range(16)), extra)
    return hashlib.sha256(pickle.dumps(value, protocol=5)).digest()


@pytest.mark.parametrize("algorithm", GOLDEN)
def test_golden_values(algorithm: str) -> None:
    golden, how = GOLDEN[algorithm], hasher(algorithm)
    assert how.none_hash.hex() == golden["none"]
    plain = hash_blocks(IDS, hasher=how)
    assert [block.hex() for block in plain] == [golden["first"], golden["second"]]
    assert external_hashes(plain)[0] == golden["integer"]
    salted = hash_blocks(IDS, hasher=how, cache_salt="s")
    assert salted[0].hex() == golden["salt"]
    assert hash_blocks(IDS, hasher=how, media=[span(3, 5)])[0].hex() == golden["media"]
    adapted = hash_blocks(IDS, hasher=how, lora=LoraKey("n", "/p"))
    assert adapted[0].hex() == golden["lora"]
    assert len({plain[1], salted[1], adapted[1]}) == 3


def test_xxhash_digests_the_same_bytes() -> None:
    xxhash = pytest.importorskip("xxhash", reason="needs the extra hashes")
    cbor2 = pytest.importorskip("cbor2", reason="needs the extra hashes")
    for algorithm, dumps in (
        ("xxhash", lambda value: pickle.dumps(value, protocol=5)),
        ("xxhash_cbor", lambda value: cbor2.dumps(value, canonical=True)),
    ):
        none = xxhash.xxh3_128_digest(dumps("0"))
        expected = xxhash.xxh3_128_digest(dumps((none, tuple(range(16)), None)))
        assert hash_blocks(IDS, hasher=hasher(algorithm))[0] == expected
        assert len(expected) == 16


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (15, 0), (16, 1), (31, 1), (32, 2)])
def test_only_full_blocks_are_hashed(num_tokens: int, num_blocks: int) -> None:
    assert len(hash_blocks(IDS[:num_tokens], hasher=hasher())) == num_blocks


def test_extra_keys_stand_in_the_engines_order() -> None:
    media = [span(12, 40, "second"), span(2, 4, "first")]
    got = hash_blocks(
        IDS, hasher=hasher(), media=media, lora=LoraKey("name", "/path"), cache_salt="salt"
    )
    keys = (
        ("lora", "name", "/path"),
        ("mm", "first", 2),
        ("mm", "second", 12),
        ("cache_salt", "salt"),
    )
    assert got[0] == first_block(keys)
    # The item reaches into the next block, where its offset is negative; the salt does not.
    value = (got[0], tuple(range(16, 32)), (("lora", "name", "/path"), ("mm", "second", -4)))
    assert got[1] == hashlib.sha256(pickle.dumps(value, protocol=5)).digest()


def test_an_item_twice_in_a_block_is_two_strings_as_in_the_engine() -> None:
    name = "same identity"
    got = hash_blocks(IDS[:16], hasher=hasher(), media=[span(1, 3, name), span(5, 7, name)])
    decoded = [name.encode().decode() for _ in range(2)]
    assert got == [first_block((("mm", decoded[0], 1), ("mm", decoded[1], 5)))]
    assert got != [first_block((("mm", name, 1), ("mm", name, 5)))]


def test_media_ending_at_a_block_border_stays_out_of_the_next_block() -> None:
    plain = (first_block((("mm", "abc", 4),)), tuple(range(16, 32)), None)
    expected = hashlib.sha256(pickle.dumps(plain, protocol=5)).digest()
    assert hash_blocks(IDS, hasher=hasher(), media=[span(4, 16)])[1] == expected


def test_lookahead_covers_the_tokens_after_the_block() -> None:
    ahead = hasher(num_lookahead_tokens=2)
    assert hash_blocks(IDS[:17], hasher=ahead) == []
    got = hash_blocks(IDS[:18], hasher=ahead, media=[span(17, 18)])
    assert got == [first_block(((("mm", "abc", 17),), 16, 17))]
    assert hash_blocks(IDS[:18], hasher=ahead) == [first_block((None, 16, 17))]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_large_and_small_ids_and_other_seeds(algorithm: str) -> None:
    ids = array("I", [0, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1] * 2)
    one, other = (hasher(algorithm, seed=seed) for seed in ("1", "2"))
    assert hash_blocks(ids, hasher=one) != hash_blocks(ids, hasher=other)
    assert hash_blocks(ids, hasher=one) == hash_blocks(ids, hasher=one)


def test_every_path_to_a_chain_gives_the_same_hashes() -> None:
    rng = random.Random(5)
    for _ in range(200):
        how = hasher(
            block_size=rng.choice([1, 2, 4, 7]), num_lookahead_tokens=rng.choice([0, 0, 2])
        )
        lora = rng.choice([None, LoraKey("n", "/p")])
        salt = rng.choice([None, "salt"])
        chain = BlockChain(hasher=how, lora=lora, cache_salt=salt)
        ids, media = array("I"), []
        for _ in range(6):
            if rng.random() < 0.3:  # a template that rewrote earlier turns
                ids = ids[: rng.randrange(len(ids) + 1)]
                media = [item for item in media if item.stop <= len(ids)]
            if media and rng.random() < 0.2:
                media[rng.randrange(len(media))] = replace(media[-1], identity=rng.choice("xyz"))
                media.sort(key=lambda item: item.start)
            start = len(ids)
            ids = ids + array("I", [rng.randrange(3) for _ in range(rng.randrange(20))])
            if len(ids) > start and rng.random() < 0.5:
                media.append(span(start, rng.randrange(start, len(ids)) + 1, rng.choice("ab")))
            chain = extend(chain, ids, media=media)
            assert list(chain.hashes) == hash_blocks(
                ids, hasher=how, media=media, lora=lora, cache_salt=salt
            )


def test_a_growing_chat_hashes_its_new_blocks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = array("I", range(160))
    chain = extend(BlockChain(hasher=hasher()), ids[:100])
    assert len(chain.hashes) == 6
    hashed: list[object] = []
    real = hashing.hash_function("sha256")

    def counting(value: object) -> bytes:
        hashed.append(value)
        return real(value)

    monkeypatch.setattr(hashing, "hash_function", lambda algorithm: counting)
    assert extend(chain, ids[:111]).hashes == chain.hashes
    assert hashed == []
    longer = extend(chain, ids)
    assert len(longer.hashes) == 10
    assert len(hashed) == 4
    changed = array("I", ids)
    changed[70] = 9
    hashed.clear()
    extend(longer, changed)
    assert len(hashed) == 6  # blocks 4 to 9


def test_hashers_and_chains_pickle() -> None:
    chain = extend(BlockChain(hasher=hasher(), cache_salt="s"), IDS)
    assert pickle.loads(pickle.dumps(chain)) == chain


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"algorithm": "md5"}, "algorithm"),
        ({"block_size": 0}, "block_size"),
        ({"num_lookahead_tokens": -1}, "num_lookahead_tokens"),
        ({"algorithm": "xxhash", "seed": None}, "seed"),
        ({"algorithm": "xxhash_cbor", "seed": None}, "seed"),
    ],
)
def test_settings_no_engine_has_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        hasher(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(("algorithm", "library"), [("xxhash", "xxhash"), ("sha256_cbor", "cbor2")])
def test_a_missing_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, library: str
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == library:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    hashing.hash_function.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    try:
        with pytest.raises(UnsupportedFeature, match=r"foreword\[hashes\]"):
            hasher(algorithm)
        hasher("sha256")
    finally:
        hashing.hash_function.cache_clear()
