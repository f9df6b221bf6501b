"""An engine's greetings enter as bytes; what it is and what it must be told leaves.

Rules of this file: an engine says HELLO, gets the addresses, says on its input socket what it has
become, then READY. Engines given their addresses otherwise only do the third. Unknown keys pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from foreword.errors import ServiceError

_T = TypeVar("_T")


class EngineGreeting(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says on the handshake socket, first (HELLO) and last (READY)."""

    status: Literal["HELLO", "READY"]
    local: bool
    headless: bool
    parallel_config_hash: str | None = None
    coord_store_port: int | None = None


class EngineAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """The sockets an engine shall connect to: one input and one output of every front end."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    coordinator_input: str | None = None
    coordinator_output: str | None = None
    frontend_stats_publish_address: str | None = None


class EngineHandshakeMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to HELLO. `parallel_config` is empty but for coordinated data parallelism."""

    addresses: EngineAddresses
    parallel_config: Mapping[str, int | str | Sequence[int]] = {}


class EngineReady(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine has become: its limits are what holds, whatever was configured."""

    max_model_len: int
    block_size: int
    vllm_version: str
    num_gpu_blocks: int | None = None
    dp_stats_address: str | None = None
    dtype: str | None = None
    world_size: int = 1
    data_parallel_size: int = 1
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    data_parallel_rank: int = 0
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    instance_id: str | None = None
    supports_lora: bool = False
    max_loras: int = 0
    mamba_block_size: int | None = None
    kv_cache_size_tokens: int | None = None
    kv_cache_max_concurrency: float | None = None
    kv_events_config: Mapping[str, Any] | None = None
    weight_transfer_backend: str | None = None
    enable_sleep_mode: bool = False
    supports_draft_weight_updates: bool = False
    effective_attention_block_size: int | None = None
    coord_store_port: int = 0
    coordinator_input_address: str | None = None
    coordinator_output_address: str | None = None

    @property
    def hash_block_size(self) -> int:
        """Tokens in a hashed block, for a model with one kind of KV cache."""
        return self.block_size * self.decode_context_parallel_size


def engine_identity(engine_index: int) -> bytes:
    """Return the socket identity of an engine."""
    return engine_index.to_bytes(2, "little")


def engine_index(identity: bytes) -> int:
    """Return which engine has a socket identity."""
    return int.from_bytes(identity, "little")


def encode_handshake(metadata: EngineHandshakeMetadata) -> bytes:
    """Return the answer to an engine's HELLO."""
    return msgspec.msgpack.encode(metadata)


def decode_greeting(data: bytes) -> EngineGreeting:
    """Return what an engine said on the handshake socket.

    Raises: `ServiceError` when it is no greeting.
    """
    return _decode(data, EngineGreeting, "greeting")


def decode_ready(data: bytes) -> EngineReady | None:
    """Return what an engine said on its input socket; None where it said nothing of itself.

    Raises: `ServiceError` when it is something else.
    """
    return _decode(data, EngineReady, "ready message") if data else None


def _decode(data: bytes, kind: type[_T], what: str) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ServiceError(
            f"An engine's {what} cannot be read: {error}. Is it a vLLM engine?",
            details={"num_bytes": len(data)},
        ) from error
