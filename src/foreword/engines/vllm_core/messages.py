"""Requests, aborts and calls enter; the frames an engine's input socket reads leave.

Rules of this file: the first frame is one byte saying what the message is, the second is msgpack,
further ones are raw buffers. The socket puts the engine's identity before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from foreword.engines.msgpack_frames import Frame, encode_frames
from foreword.engines.vllm_core.request import EngineCoreRequest


class RequestType(bytes, Enum):
    """What a message to the engine is."""

    ADD = b"\x00"
    ABORT = b"\x01"
    START_DP_WAVE = b"\x02"
    UTILITY = b"\x03"


def add_message(request: EngineCoreRequest) -> list[Frame]:
    """Return the frames that start a request."""
    return [RequestType.ADD.value, *encode_frames(request)]


def abort_message(request_ids: Sequence[str]) -> list[Frame]:
    """Return the frames that end requests; unknown and ended ones are ignored by the engine."""
    return [RequestType.ABORT.value, msgspec.msgpack.encode(request_ids)]


def start_wave_message(wave: int, *, excluded_engine_index: int) -> list[Frame]:
    """Return the frames that wake data-parallel engines, all but the one that is awake."""
    return [
        RequestType.START_DP_WAVE.value,
        msgspec.msgpack.encode((wave, excluded_engine_index)),
    ]


def utility_message(
    method: str, args: Sequence[Any] = (), *, call_id: int, client_index: int = 0
) -> list[Frame]:
    """Return the frames that call a method of the engine; its answer carries `call_id`."""
    return [
        RequestType.UTILITY.value,
        *encode_frames((client_index, call_id, method, tuple(args))),
    ]
