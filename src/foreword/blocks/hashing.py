"""Token ids and whatever else decides a prompt's KV cache enter; the engine's block hashes leave.

Rules of this file: what is hashed equals vLLM's to the last byte, so a router finds the engine's
own keys. A block is hashed when it is full; each hash covers everything before it. Nothing is
read from the environment: the engine's PYTHONHASHSEED is given as `seed`.
"""

from __future__ import annotations

import hashlib
import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count, repeat, takewhile
from struct import Struct
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.types import MediaSpan, TokenIds

Algorithm = Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]
ExtraKeys: TypeAlias = tuple[Any, ...] | None

DEFAULT_SEED = "vllm-none-hash"
ID_BYTES = 4
_PICKLE_PROTOCOL = 5  # stays when Python's highest grows: the engine's hashes are shared data


class LoraKey(NamedTuple):
    """An adapter as the prefix cache tells it from others."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHasher:
    """How one engine hashes its blocks.

    Shapes: `block_size` is the engine's hash block size (its ready message's `block_size`, times
    the decode context parallel size). `seed` is the engine's PYTHONHASHSEED; None where that is
    unset. `num_lookahead_tokens` is above 0 for drafters that look past a block's end.

    Raises: `InvalidRequest` for an unknown algorithm, a size out of range, and for xxhash without
    a seed (the engine then draws a random one); `UnsupportedFeature` when the algorithm's library
    is not installed.
    """

    block_size: int
    algorithm: Algorithm = "sha256"
    seed: str | None = None
    num_lookahead_tokens: int = 0
    none_hash: bytes = field(init=False, repr=False)
    """What stands before the first block."""

    def __post_init__(self) -> None:
        _check_hasher(self)
        seed = DEFAULT_SEED if self.seed is None else self.seed
        object.__setattr__(self, "none_hash", hash_function(self.algorithm)(seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChain:
    """The hashes of a prompt's full blocks, with what they were made from.

    Shapes: `media` is sorted by position; `id_bytes` are the token ids as native 32-bit integers.
    """

    hasher: BlockHasher
    media: tuple[MediaSpan, ...] = ()
    lora: LoraKey | None = None
    cache_salt: str | None = None
    id_bytes: bytes = field(default=b"", repr=False)
    hashes: tuple[bytes, ...] = ()


def hash_blocks(
    token_ids: TokenIds,
    *,
    hasher: BlockHasher,
    media: Iterable[MediaSpan] = (),
    lora: LoraKey | None = None,
    cache_salt: str | None = None,
) -> list[bytes]:
    """Return the hash of every full block of a prompt, in order.

    Source: vLLM 0.33 `get_request_block_hasher` and `generate_block_hash_extra_keys`. Prompt
    embeddings are not covered.
    """
    chain = BlockChain(hasher=hasher, lora=lora, cache_salt=cache_salt)
    return list(extend(chain, token_ids, media=media).hashes)


def extend(
    previous: BlockChain, token_ids: TokenIds, *, media: Iterable[MediaSpan] | None = None
) -> BlockChain:
    """Return the chain of a whole new prompt, hashing only what `previous` does not cover.

    Shapes: `token_ids` and `media` are those of the whole prompt; `media` None keeps the previous
    items. Hashes before the first changed token or media item are kept, so any prompt is right,
    and one that grew at its end is cheap.
    """
    hasher = previous.hasher
    spans = previous.media if media is None else tuple(sorted(media, key=lambda s: s.start))
    id_bytes = token_ids.tobytes()
    num_blocks = num_full_blocks(hasher, len(token_ids))
    num_kept = min(num_blocks, len(previous.hashes), _num_before_media_change(previous, spans))
    num_kept = _num_same_blocks(hasher, previous.id_bytes, id_bytes, num_kept)
    kept = previous.hashes[:num_kept]
    chain = replace(previous, media=spans, id_bytes=id_bytes, hashes=kept)
    parent = kept[-1] if kept else hasher.none_hash
    return replace(chain, hashes=(*kept, *hash_range(chain, num_kept, num_blocks, parent)))


def hash_range(chain: BlockChain, first: int, stop: int, parent: bytes) -> Iterator[bytes]:
    """Yield the hashes of the blocks from `first` to before `stop`; `parent` is the one before.

    Shapes: of `chain` the ids, media, adapter and salt are read. There are `num_full_blocks`.
    """
    digest = hash_function(chain.hasher.algorithm)
    # `iter_unpack` makes the tuples without a list of all ids in between.
    block = Struct(f"{chain.hasher.block_size}I")
    body = memoryview(chain.id_bytes)[first * block.size : stop * block.size]
    for token_ids, extra in zip(block.iter_unpack(body), _extra_keys(chain, first), strict=False):
        parent = digest((parent, token_ids, extra))
        yield parent


def num_full_blocks(hasher: BlockHasher, num_tokens: int) -> int:
    """Return how many blocks of a prompt have a hash."""
    return max(0, num_tokens - hasher.num_lookahead_tokens) // hasher.block_size


def external_hashes(hashes: Sequence[bytes]) -> list[int]:
    """Return the hashes as the 64-bit integers that KV events carry by default."""
    return [int.from_bytes(block_hash[-8:], "big") for block_hash in hashes]


@cache
def hash_function(algorithm: Algorithm) -> Callable[[object], bytes]:
    """Return the function that hashes a value made of tuples, integers, bytes, strings and None.

    Raises: `UnsupportedFeature` when the algorithm's library is not installed.
    """
    try:
        serialize = _cbor() if algorithm.endswith("cbor") else _pickle
        digest = _xxh3() if algorithm.startswith("xxhash") else _sha256
    except ImportError as error:
        raise UnsupportedFeature(
            feature=f"Hashing blocks with {algorithm}",
            remedy="Install its library with `pip install foreword[hashes]`, or use sha256.",
        ) from error
    return lambda value: digest(serialize(value))


def _pickle(value: object) -> bytes:
    return pickle.dumps(value, protocol=_PICKLE_PROTOCOL)


def _cbor() -> Callable[[object], bytes]:
    import cbor2

    return partial(cbor2.dumps, canonical=True)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _xxh3() -> Callable[[bytes], bytes]:
    import xxhash

    return xxhash.xxh3_128_digest


def _check_hasher(hasher: BlockHasher) -> None:
    if hasher.algorithm not in get_args(Algorithm):
        raise InvalidRequest(
            f"The block hash algorithm is {hasher.algorithm!r}; it must be one of"
            f" {', '.join(get_args(Algorithm))}.",
            param="algorithm",
        )
    for name, least in (("block_size", 1), ("num_lookahead_tokens", 0)):
        if getattr(hasher, name) < least:
            raise InvalidRequest(
                f"{name} is {getattr(hasher, name)}; it must be {least} or more.",
                param=name,
                details={name: getattr(hasher, name)},
            )
    if hasher.algorithm.startswith("xxhash") and hasher.seed is None:
        raise InvalidRequest(
            f"Block hashes with {hasher.algorithm} need a seed: without one every engine draws its"
            " own. Start the engine with PYTHONHASHSEED set, and give the same value as the seed.",
            param="seed",
        )


def _num_before_media_change(previous: BlockChain, spans: tuple[MediaSpan, ...]) -> int:
    """Return how many blocks lie wholly before the first media item that is not the same."""
    old = [(span.start, span.stop, span.identity) for span in previous.media]
    new = [(span.start, span.stop, span.identity) for span in spans]
    if old == new:
        return len(previous.hashes)
    pairs = zip(old, new, strict=False)
    num_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    first_changed = min(key[0] for key in old[num_same:][:1] + new[num_same:][:1])
    return num_full_blocks(previous.hasher, first_changed)


def _num_same_blocks(hasher: BlockHasher, old: bytes, new: bytes, most: int) -> int:
    """Return how many blocks, up to `most`, depend on the same token ids in both prompts."""

    def differs(num_blocks: int) -> bool:
        num_ids = num_blocks * hasher.block_size + hasher.num_lookahead_tokens
        return old[: num_ids * ID_BYTES] != new[: num_ids * ID_BYTES]

    if most == 0 or not differs(most):
        return most
    return bisect_left(range(1, most), True, key=differs)


def _extra_keys(chain: BlockChain, first: int) -> Iterator[ExtraKeys]:
    """Yield what each block's hash covers beside its tokens, from block `first` on, without end."""
    size, num_ahead = chain.hasher.block_size, chain.hasher.num_lookahead_tokens
    token_ids = memoryview(chain.id_bytes).cast("I")
    media = chain.media
    for start in count(first * size, size):
        stop = start + size + num_ahead
        while media and media[0].stop <= start:
            media = media[1:]
        if start and not (media or chain.lora or num_ahead):
            yield from repeat(None)
        keys = _keys_between(chain, media, start, stop)
        yield (keys, *token_ids[stop - num_ahead : stop]) if num_ahead else keys


def _keys_between(
    chain: BlockChain, media: tuple[MediaSpan, ...], start: int, stop: int
) -> ExtraKeys:
    keys: list[tuple[Any, ...]] = []
    if chain.lora is not None:
        keys.append(("lora", _as_received(chain.lora.name), _as_received(chain.lora.path)))
    for span in takewhile(lambda span: span.start < stop, media):
        keys.append(("mm", _as_received(span.identity), span.start - start))
    if start == 0 and chain.cache_salt:
        keys.append(("cache_salt", _as_received(chain.cache_salt)))
    return tuple(keys) or None


def _as_received(text: str) -> str:
    """Return the text as the engine holds it after decoding a request: a string of its own.

    Why: pickle writes the second occurrence of one object as a reference, and of an equal object
    in full. The engine decodes one object per media item (but shares one-letter strings).
    """
    return text.encode().decode()
