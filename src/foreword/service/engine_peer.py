"""One engine as its front end knows it: what it is, how busy, and the answers that it owes.

Rules of this file: no sockets. An engine that ends fails everything it owed, once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from foreword.engines.msgpack_frames import Frame
from foreword.engines.vllm_core import (
    EngineCoreOutput,
    EngineReady,
    FinishReason,
    VllmCore,
    logprob_rows,
)
from foreword.engines.vllm_core.outputs import Logprobs, SchedulerStats, UtilityOutput
from foreword.errors import EngineFailed, ForewordError, InvalidRequest, ServiceError
from foreword.service.engine_choice import EngineLoad
from foreword.service.engine_stream import EngineStream, EngineUpdate, TokenScores

_CONSTRAINT = "structured_outputs"
PeerCondition = Literal["ready", "gone", "silent", "dead"]
"""A dead engine comes back as a new one; one that is gone may only have lost its connection."""


class EnginePeer:
    """An engine that has told what it is."""

    def __init__(self, index: int, ready: EngineReady, core: VllmCore) -> None:
        self.index = index
        self.ready = ready
        self.core = core
        self.condition: PeerCondition = "ready"
        self.load = EngineLoad()
        self.streams: dict[str, EngineStream] = {}
        self.calls: dict[int, asyncio.Future[Any]] = {}
        self.untold_aborts: list[str] = []
        """Requests that failed here while it could not be told to stop them."""
        self.heard_at = time.monotonic()

    def expect(self, stream: EngineStream) -> None:
        """Owe an answer."""
        if not self.streams:
            self.heard_at = time.monotonic()  # silence is counted from when it has work
        self.streams[stream.request_id] = stream
        self.load.num_in_flight += 1

    def forget(self, request_id: str) -> bool:
        """Owe it no longer; return whether it was owed."""
        if self.streams.pop(request_id, None) is None:
            return False
        self.load.num_in_flight -= 1
        return True

    def take_output(self, output: EngineCoreOutput, frames: Sequence[Frame] = ()) -> bool:
        """Pass on what a request got; return whether anybody waited for it.

        Shapes: `frames` is the message, which arrays in the output refer to.
        """
        stream = self.streams.get(output.request_id)
        if stream is None:
            return False
        reason = output.finish_reason
        if reason is not None:
            self.forget(output.request_id)
        if reason == FinishReason.ERROR:
            stream.fail(_request_failed(output, stream.constraint))
            return True
        stats = output.prefill_stats
        try:
            scores = _scores(output.new_logprobs, frames)
            prompt_scores = _scores(output.new_prompt_logprobs, frames)
        except ServiceError as error:
            stream.fail(error)
            return True
        return stream.push(
            EngineUpdate(
                token_ids=output.new_token_ids,
                finish_reason=None if reason is None else reason.name.lower(),
                stop_reason=output.stop_reason,
                num_cached_tokens=None if stats is None else stats.num_cached_tokens,
                scores=scores,
                prompt_scores=prompt_scores,
                kv_transfer_params=output.kv_transfer_params,
                ec_transfer_params=output.ec_transfer_params,
            )
        )

    def take_stats(self, stats: SchedulerStats) -> None:
        """Note how busy it says it is."""
        self.load.num_running = stats.num_running_reqs
        self.load.num_waiting = stats.num_waiting_reqs
        self.load.kv_cache_usage = stats.kv_cache_usage

    def take_call_answer(self, output: UtilityOutput) -> None:
        """Pass on what a call gave."""
        waiting = self.calls.pop(output.call_id, None)
        if waiting is None or waiting.done():
            return
        if output.failure_message is not None:
            waiting.set_exception(
                ServiceError(f"The engine could not do the call: {output.failure_message}.")
            )
        else:
            waiting.set_result(None if output.result is None else output.result.value)

    def lose(self, condition: PeerCondition, make_error: Callable[[], ForewordError]) -> list[str]:
        """End all it owed, each with an error of its own; return the requests' ids."""
        self.condition = condition
        streams, self.streams = list(self.streams.values()), {}
        calls, self.calls = list(self.calls.values()), {}
        self.load = EngineLoad()
        for stream in streams:
            stream.fail(make_error())
        for call in calls:
            if not call.done():
                call.set_exception(make_error())
        request_ids = [stream.request_id for stream in streams]
        if condition == "gone":
            self.untold_aborts += request_ids
        return request_ids


def _scores(logprobs: Logprobs | None, frames: Sequence[Frame]) -> list[TokenScores]:
    if logprobs is None:
        return []
    return [
        TokenScores(token_ids, values, [rank, *range(1, len(token_ids))])
        for token_ids, values, rank in logprob_rows(logprobs, frames)
    ]


def _request_failed(output: EngineCoreOutput, constraint: str | None) -> ForewordError:
    error = output.error
    if error is not None:
        text = f"The engine gave the request up ({error.code}): {error.message}"
        if error.code == "validation_error":
            return InvalidRequest(text, param=_CONSTRAINT if constraint else None)
        return ServiceError(text) if error.retryable else EngineFailed(text)
    if output.mm_cache_miss_hashes:
        return ServiceError(
            "The engine no longer holds a media item of the request. Send the request again."
        )
    text = "The engine gave the request up without a reason; its own log has one."
    if constraint is not None:
        # vLLM 0.32 says no more of a constraint that does not compile.
        text += f" Likely it can't make a grammar of {_CONSTRAINT}.{constraint}: check that first."
    return EngineFailed(text)
