"""What a long prompt costs on its way to the engine: token ids in, milliseconds out.

    scripts/bench engine_encode [--json] [--num-tokens 131072] [--runs 31]

Rules of this file: every way of encoding is timed in the same run and must give the same ids back;
the least and the median of all runs are shown. Block hashes are shown beside, having no target.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any

import msgspec

from foreword.blocks import BlockChain, BlockHasher, BlockHashMemo, extend, hash_blocks
from foreword.engines.msgpack_ids import raw_token_ids
from foreword.engines.vllm_core import VllmCore, add_message
from foreword.sampling import SamplingParams
from foreword.types import EngineInput, TokenIds

TARGET_MS = 1.0
ENCODE = "foreword: a whole request"


def timed(call: Callable[[], object], num_runs: int) -> dict[str, float]:
    """Return the least and the median time of a call, after one call that does not count."""
    call()
    times = []
    for _ in range(num_runs):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return {"min": round(min(times), 3), "median": round(statistics.median(times), 3)}


def encoders(token_ids: TokenIds) -> dict[str, Callable[[], Any]]:
    """Return the ways to encode a request, by name."""
    core = VllmCore(version="0.33.0")
    prompt = EngineInput(token_ids=token_ids)
    params = SamplingParams(max_tokens=100)
    as_list = token_ids.tolist()

    def request(raw: object) -> bytes:
        fields = core.request(EngineInput(token_ids=array("I")), request_id="r", params=params)
        values = [getattr(fields, name) for name in fields.__struct_fields__]
        values[1] = raw
        return msgspec.msgpack.encode(values)

    return {
        ENCODE: lambda: add_message(core.request(prompt, request_id="r", params=params))[1],
        "foreword: its ids alone": lambda: bytes(raw_token_ids(token_ids)),
        "msgspec: a list made of the array": lambda: request(token_ids.tolist()),
        "msgspec: a list that is there already": lambda: request(as_list),
    }


def hashers(token_ids: TokenIds) -> dict[str, Callable[[], Any]]:
    """Return the ways to hash the prompt's blocks, by name."""
    calls: dict[str, Callable[[], Any]] = {}
    for algorithm in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"):
        hasher = BlockHasher(algorithm=algorithm, seed="0", block_size=16)  # type: ignore[arg-type]
        chain = extend(BlockChain(hasher=hasher), token_ids[:-1024])
        calls[f"blocks of 16, {algorithm}"] = lambda h=hasher: hash_blocks(token_ids, hasher=h)
        calls[f"  grown by 1024, {algorithm}"] = lambda c=chain: extend(c, token_ids)
        memo = BlockHashMemo(hasher)
        memo.hashes(token_ids[:-1024])
        calls[f"  the same, found by the memo, {algorithm}"] = lambda m=memo: m.hashes(token_ids)
    return calls


def check(calls: dict[str, Callable[[], Any]], token_ids: TokenIds) -> None:
    for name, call in calls.items():
        decoded = msgspec.msgpack.decode(call())
        ids = decoded if name.endswith("alone") else decoded[1]
        if ids != token_ids.tolist():
            sys.exit(f"{name} gives other ids back")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench engine_encode", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--num-tokens", type=int, default=131072)
    parser.add_argument("--runs", type=int, default=31)
    options = parser.parse_args()
    rng = random.Random(0)
    token_ids = array("I", (rng.randrange(151_936) for _ in range(options.num_tokens)))
    encode = encoders(token_ids)
    check(encode, token_ids)
    times = {name: timed(call, options.runs) for name, call in encode.items()}
    for name, call in hashers(token_ids).items():
        times[name] = timed(call, max(3, options.runs // 6))
    missed = times[ENCODE]["median"] >= TARGET_MS and options.num_tokens <= 131072
    if options.json:
        print(json.dumps({"num_tokens": options.num_tokens, "ms": times, "missed": missed}))
    else:
        print(f"{options.num_tokens} tokens, ms{'min':>32}{'median':>10}")
        for name, row in times.items():
            print(f"{name:<40}{row['min']:>10.3f}{row['median']:>10.3f}")
    if missed:
        print(f"missed: a request under {TARGET_MS} ms", file=sys.stderr)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
