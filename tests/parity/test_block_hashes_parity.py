"""Prefix block hashes against vLLM's own functions, on random prompts.

Where vLLM is: its own environment, or that of `scripts/engine_env`, which tests/engine/ runs it in;
there the Python files of another version, first on PYTHONPATH, are compared as well.
"""

from __future__ import annotations

import inspect
import random
from array import array
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from foreword.blocks import (
    BlockChain,
    BlockHasher,
    BlockHashMemo,
    LoraKey,
    extend,
    external_hashes,
    memo,
)
from foreword.types import MediaSpan

pytest.importorskip("vllm", reason="needs vLLM itself (0.32 or 0.33), with torch")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

NUM_PROMPTS = 1000
SEED = "0"
WORDS = ("a", "é", "☃", "abc", "mm", "lora", "cache_salt", "0f" * 32)


def random_media(rng: random.Random, num_tokens: int) -> list[tuple[str, int, int]]:
    """Items (identity, start, length) without overlap, some identities more than once."""
    items = []
    start = 0
    identities = rng.choices(WORDS, k=3)
    while rng.random() < 0.9:
        start += rng.choice([0, 1, 3, rng.randrange(40)])
        length = rng.choice([1, 2, rng.randrange(1, 60)])
        if start + length > num_tokens:
            break
        items.append((rng.choice(identities), start, length))
        start += length
    return items


def engines_request(ids: list[int], media: Any, lora: Any, salt: Any) -> Any:
    """What the engine holds: every string a new one, as decoding a message makes it."""
    media, lora, salt = msgspec.msgpack.decode(msgspec.msgpack.encode((media, lora, salt)))
    return SimpleNamespace(
        num_tokens=len(ids),
        all_token_ids=ids,
        block_hashes=[],
        prompt_embeds=None,
        cache_salt=salt,
        lora_request=SimpleNamespace(lora_name=lora[0], lora_path=lora[1]) if lora else None,
        mm_features=[
            SimpleNamespace(
                identifier=identity, mm_position=SimpleNamespace(offset=start, length=length)
            )
            for identity, start, length in media
        ],
    )


@pytest.mark.witness(
    family="engine:vLLM, block hashes",
    what="names of the blocks of random prompts, each algorithm",
    against="vLLM's own functions",
    needs="vLLM 0.32 or 0.33, with torch",
)
@pytest.mark.parametrize("num_ahead", [0, 2])
@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"])
def test_random_prompts(algorithm: Any, num_ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils

    monkeypatch.setenv("PYTHONHASHSEED", SEED)
    monkeypatch.setattr(memo, "_STRETCH_IDS", 64)  # so that these prompts are several stretches
    make = kv_cache_utils.get_request_block_hasher
    if num_ahead and len(inspect.signature(make).parameters) == 2:
        pytest.skip("this vLLM looks past no block's end (0.33 does)")
    theirs = get_hash_fn_by_name(algorithm)
    kv_cache_utils.init_none_hash(theirs)
    rng = random.Random(f"{algorithm} {num_ahead}")
    num_hashes, memos = 0, dict[BlockHasher, BlockHashMemo]()
    for _ in range(NUM_PROMPTS):
        ids = [
            rng.choice([rng.randrange(300), rng.randrange(2**32)])
            for _ in range(rng.randrange(300))
        ]
        block_size = rng.choice([1, 4, 16, 16, 128])
        media = random_media(rng, len(ids))
        lora = rng.choice([None, (rng.choice(WORDS), "/" + rng.choice(WORDS))])
        salt = rng.choice([None, "", rng.choice(WORDS)])
        request = engines_request(ids, media, lora, salt)
        expected = make(block_size, theirs, *([num_ahead] if num_ahead else []))(request)
        hasher = BlockHasher(
            algorithm=algorithm, seed=SEED, block_size=block_size, num_lookahead_tokens=num_ahead
        )
        chain = BlockChain(hasher=hasher, lora=LoraKey(*lora) if lora else None, cache_salt=salt)
        spans = [
            MediaSpan(modality="image", index=0, start=start, stop=start + length, identity=name)
            for name, start, length in media
        ]
        cut = rng.randrange(len(ids) + 1)
        chain = extend(chain, array("I", ids[:cut]), media=[s for s in spans if s.stop <= cut])
        chain = extend(chain, array("I", ids), media=spans)
        assert list(chain.hashes) == expected
        kept = memos.setdefault(hasher, BlockHashMemo(hasher))
        told = kept.hashes(array("I", ids), media=spans, lora=chain.lora, cache_salt=salt)
        assert told.to_hex() == [block.hex() for block in expected]
        external = [kv_cache_utils.maybe_convert_block_hash(block) for block in expected]
        assert external_hashes(chain.hashes) == external
        num_hashes += len(expected)
    assert num_hashes > 10 * NUM_PROMPTS
