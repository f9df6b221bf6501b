"""Prompts enter; the hashes of their blocks leave, those of stretches seen before found again.

Rules of this file: a stretch is a fixed number of blocks, and the key of its hashes is all that
they are made of (the hash before it, ids, media, adapter, salt); so an entry is never wrong or
stale. Safe under threads without a lock: every step on the shared dict is atomic.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, TypeAlias

from foreword.blocks.hashing import (
    Algorithm,
    BlockChain,
    BlockHasher,
    LoraKey,
    hash_range,
    num_full_blocks,
)
from foreword.types import MediaSpan, TokenIds

DEFAULT_HASH_MEMO_BYTES = 32 * 2**20
_STRETCH_IDS = 2048
_ID_BYTES = array("I").itemsize
_ENTRY_BYTES = 400
"""What an entry takes beside its ids and hashes, about."""
_Key: TypeAlias = tuple[bytes, bytes, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHashes:
    """The hashes of a prompt's full blocks, in order.

    Shapes: `joined` holds them one after the other, each `hash_bytes` long.
    """

    block_size: int
    algorithm: Algorithm
    hash_bytes: int
    joined: bytes

    def __len__(self) -> int:
        return len(self.joined) // self.hash_bytes

    def __iter__(self) -> Iterator[bytes]:
        size = self.hash_bytes
        return (self.joined[at : at + size] for at in range(0, len(self.joined), size))

    def to_hex(self) -> list[str]:
        """Return the hashes as hexadecimal digits."""
        return self.joined.hex(",", self.hash_bytes).split(",") if self.joined else []


class BlockHashMemo:
    """Hashes prompts for one engine, with a bounded memory of what it hashed.

    Why: the hash of a block stands for all that is before it, so what is known of a stretch holds
    for every prompt that has it in this place: a chat that grew pays for what is new, and chats
    with one beginning pay for it once. A prompt with a `cache_salt` shares nothing with others.
    """

    def __init__(self, hasher: BlockHasher, *, max_bytes: int = DEFAULT_HASH_MEMO_BYTES) -> None:
        self.hasher = hasher
        self._max_bytes = max_bytes
        self._num_blocks = max(1, _STRETCH_IDS // hasher.block_size)
        num_ids = self._num_blocks * hasher.block_size + hasher.num_lookahead_tokens
        size = num_ids * _ID_BYTES + self._num_blocks * len(hasher.none_hash) + _ENTRY_BYTES
        self._max_entries = max_bytes // size
        self._known: dict[_Key, bytes] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process starts with nothing remembered.
        return _make_memo, (self.hasher, self._max_bytes)

    def __len__(self) -> int:
        return len(self._known)

    def hashes(
        self,
        token_ids: TokenIds,
        *,
        media: Iterable[MediaSpan] = (),
        lora: LoraKey | None = None,
        cache_salt: str | None = None,
    ) -> BlockHashes:
        """Return the hash of every full block of a prompt: what `hash_blocks` returns."""
        hasher = self.hasher
        spans = tuple(sorted(media, key=lambda span: span.start))
        id_bytes = token_ids.tobytes()
        num_blocks = num_full_blocks(hasher, len(token_ids))
        parent, parts = hasher.none_hash, []
        for first in range(0, num_blocks, self._num_blocks):
            stop = min(first + self._num_blocks, num_blocks)
            chain = BlockChain(
                hasher=hasher,
                media=_between(hasher, spans, first, stop),
                lora=lora,
                cache_salt=cache_salt,
                id_bytes=id_bytes,
            )
            made = self._stretch(chain, first, stop, parent)
            parts.append(made)
            parent = made[-len(parent) :]
        return BlockHashes(
            block_size=hasher.block_size,
            algorithm=hasher.algorithm,
            hash_bytes=len(hasher.none_hash),
            joined=b"".join(parts),
        )

    def _stretch(self, chain: BlockChain, first: int, stop: int, parent: bytes) -> bytes:
        if stop - first < self._num_blocks or not self._max_entries:
            return b"".join(hash_range(chain, first, stop, parent))
        key, known = _key(chain, first, stop, parent), self._known
        made = known.pop(key, None)  # put back at the end: the least used comes first
        if made is None:
            made = b"".join(hash_range(chain, first, stop, parent))
        known[key] = made
        if len(known) > self._max_entries:
            self._forget()
        return made

    def _forget(self) -> None:
        try:
            oldest = list(islice(self._known, len(self._known) - self._max_entries))
        except RuntimeError:  # another thread changed it meanwhile, and forgets as well
            return
        for key in oldest:
            self._known.pop(key, None)


def _make_memo(hasher: BlockHasher, max_bytes: int) -> BlockHashMemo:
    return BlockHashMemo(hasher, max_bytes=max_bytes)


def _between(
    hasher: BlockHasher, spans: tuple[MediaSpan, ...], first: int, stop: int
) -> tuple[MediaSpan, ...]:
    """Return the items that a block from `first` to before `stop` overlaps."""
    start = first * hasher.block_size
    end = stop * hasher.block_size + hasher.num_lookahead_tokens
    return tuple(
        span for span in takewhile(lambda span: span.start < end, spans) if span.stop > start
    )


def _key(chain: BlockChain, first: int, stop: int, parent: bytes) -> _Key:
    size, start = chain.hasher.block_size, first * chain.hasher.block_size
    end = stop * size + chain.hasher.num_lookahead_tokens
    extra: Any = None
    if chain.media or chain.lora or (chain.cache_salt and not first):
        places = tuple((s.start - start, s.stop - start, s.identity) for s in chain.media)
        extra = (chain.lora, chain.cache_salt, places)
    return parent, chain.id_bytes[start * _ID_BYTES : end * _ID_BYTES], extra
