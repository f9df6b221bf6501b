"""Token ids and whatever else decides a prompt's KV cache enter; the engine's block hashes leave.

Rules of this file: public names only.
"""

from foreword.blocks.hashing import (
    DEFAULT_SEED,
    Algorithm,
    BlockChain,
    BlockHasher,
    LoraKey,
    extend,
    external_hashes,
    hash_blocks,
    hash_function,
)
from foreword.blocks.memo import BlockHashes, BlockHashMemo

__all__ = [
    "DEFAULT_SEED",
    "Algorithm",
    "BlockChain",
    "BlockHashMemo",
    "BlockHasher",
    "BlockHashes",
    "LoraKey",
    "extend",
    "external_hashes",
    "hash_blocks",
    "hash_function",
]
