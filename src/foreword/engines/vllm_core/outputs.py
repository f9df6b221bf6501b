"""Frames from an engine's output socket enter; tokens, ends and answers to calls leave.

Rules of this file: fields come by position, and a shorter or longer array is fine: what is
missing has its default, what is new is ignored. Arrays stay in their frames until asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from foreword.engines.msgpack_frames import Frame, ReceivedArray, array_values
from foreword.errors import ServiceError

ENGINE_DEAD = b"ENGINE_CORE_DEAD"


class FinishReason(IntEnum):
    """Why a request ended."""

    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3
    REPETITION = 4


class EventType(IntEnum):
    """What happened to a request inside the engine."""

    QUEUED = 1
    SCHEDULED = 2
    PREEMPTED = 3


class EngineCoreEvent(msgspec.Struct, frozen=True):
    """When something happened, by the engine's own monotonic clock."""

    type: EventType
    timestamp: float


class Logprobs(msgspec.Struct, array_like=True, frozen=True):
    """Logprobs of some positions: arrays of shape (positions, ranks), and the chosen ids' ranks."""

    token_ids: ReceivedArray
    logprobs: ReceivedArray
    ranks: ReceivedArray
    cu_num_generated_tokens: list[int] | None = None
    cu_num_generated_tokens_tensor: ReceivedArray | None = None


class PrefillStats(msgspec.Struct, frozen=True, kw_only=True):
    """Where the prompt's KV cache came from, in tokens."""

    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0
    num_cache_creation_tokens: int = 0


class EngineRequestError(msgspec.Struct, frozen=True, kw_only=True):
    """Why the engine gave a request up, the engine itself being well."""

    code: str
    message: str
    retryable: bool = False


class EngineCoreOutput(msgspec.Struct, array_like=True, frozen=True):
    """What one step gave one request. The last one of a request has a `finish_reason`."""

    request_id: str
    new_token_ids: list[int]
    new_logprobs: Logprobs | None = None
    new_prompt_logprobs: Logprobs | None = None
    pooling_output: ReceivedArray | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    events: list[EngineCoreEvent] | None = None
    kv_transfer_params: Mapping[str, Any] | None = None
    ec_transfer_params: Mapping[str, Any] | None = None
    trace_headers: Mapping[str, str] | None = None
    prefill_stats: PrefillStats | None = None
    routed_experts: ReceivedArray | None = None
    num_nans_in_logits: int = 0
    mm_cache_miss_hashes: list[str] | None = None
    new_sampling_mask: Any = None
    spec_decode_metrics: Any = None
    prompt_token_id_logprobs: ReceivedArray | None = None
    error: EngineRequestError | None = None


class SchedulerStats(msgspec.Struct, frozen=True, kw_only=True):
    """How busy the engine is: what choosing among several engines needs."""

    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    kv_cache_usage: float = 0.0
    step_counter: int = 0
    current_wave: int = 0


class UtilityResult(NamedTuple):
    """A call's value; `type_info` is None unless the engine allows insecure serialization."""

    type_info: Any
    value: Any


class UtilityOutput(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a call: a result, or the reason it failed."""

    call_id: int
    failure_message: str | None = None
    result: UtilityResult | None = None


class EngineCoreOutputs(msgspec.Struct, array_like=True, frozen=True):
    """What one step of the engine gave."""

    engine_index: int = 0
    outputs: list[EngineCoreOutput] = []
    scheduler_stats: SchedulerStats | None = None
    timestamp: float = 0.0
    utility_output: UtilityOutput | None = None
    finished_requests: frozenset[str] | None = None
    wave_complete: int | None = None
    start_wave: int | None = None
    weight_version: str | None = None


_DECODER = msgspec.msgpack.Decoder(EngineCoreOutputs)


def logprob_rows(
    logprobs: Logprobs, frames: Sequence[Frame]
) -> list[tuple[list[int], list[float], int]]:
    """Return each position's token ids, their logprobs, and the rank of the first of them.

    Shapes: the first is the token that stands there; the others are the likeliest, in order.

    Raises: `ServiceError` when the arrays do not fit each other, or their frames.
    """
    try:
        num_rows, width = logprobs.token_ids.shape
        ids, values = (array_values(one, frames) for one in (logprobs.token_ids, logprobs.logprobs))
        ranks = array_values(logprobs.ranks, frames).tolist()
        if logprobs.logprobs.shape != (num_rows, width) or len(ranks) != num_rows or not width:
            raise ValueError("arrays of different shapes")  # noqa: TRY301
    except (ValueError, IndexError, TypeError) as error:
        raise ServiceError(
            "The engine sent logprobs that cannot be read; is its version the one it stated?",
            details={"reason": str(error)},
        ) from error
    starts = range(0, num_rows * width, width)
    return [
        (ids[at : at + width].tolist(), [float(one) for one in values[at : at + width]], rank)
        for at, rank in zip(starts, ranks, strict=True)
    ]


def is_engine_dead(frames: Sequence[Frame]) -> bool:
    """Tell the engine's last word from a message."""
    return len(frames) == 1 and bytes(frames[0]) == ENGINE_DEAD


def decode_outputs(frames: Sequence[Frame]) -> EngineCoreOutputs:
    """Return what a message from the engine says; arrays in it refer to `frames`.

    Raises: `ServiceError` when the message is none.
    """
    try:
        return _DECODER.decode(frames[0])
    except msgspec.MsgspecError as error:
        raise ServiceError(
            "The engine sent an output that cannot be read; is its version the one it stated?",
            details={"num_bytes": len(frames[0])},
        ) from error
