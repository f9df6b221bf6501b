"""What engines say enters, and requests; which engine gets which, and who waits for what, leaves.

Rules of this file: state without sockets, changed on the event loop only. An answer is owed by one
engine at a time, and what an engine owes when it is lost fails, once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from foreword.engines.msgpack_frames import Frame
from foreword.engines.vllm_core import EngineCoreOutputs, VllmCore, decode_ready
from foreword.errors import ForewordError, Overloaded, ServiceError
from foreword.service.engine_choice import least_loaded
from foreword.service.engine_peer import EnginePeer, PeerCondition
from foreword.service.engine_stream import EngineStream
from foreword.service.logs import log
from foreword.service.refusals import shutting_down


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineClientOptions:
    """How a front end treats its engines.

    Shapes: `silence_seconds` 0 never takes silence for death. `client_index` is this front end's
    place among the `num_clients` that the engines serve.
    """

    num_engines: int = 1
    client_index: int = 0
    num_clients: int = 1
    max_requests: int = 1024
    silence_seconds: float = 300.0
    allow_unknown_version: bool = False
    structured_outputs_backend: str = "auto"


class EngineFleet:
    """The engines of one front end, and the answers they owe it."""

    def __init__(self, options: EngineClientOptions) -> None:
        self.options = options
        self.peers: dict[int, EnginePeer] = {}
        self.num_dropped = 0
        self.num_lost = 0
        self._owners: dict[str, EnginePeer] = {}
        self._refusal: ForewordError | None = None
        self._next_first = options.client_index

    # -- what others may ask ------------------------------------------------------------------

    @property
    def condition(self) -> str:
        """`ready` as soon as every engine was there once and one is there now."""
        num_ready = len(self.ready_peers())
        if num_ready and len(self.peers) >= self.options.num_engines:
            return "ready"
        if self._refusal is not None:
            return f"engine refused: {self._refusal.message}"
        return f"waiting for engines: {num_ready} of {self.options.num_engines} are there"

    @property
    def max_model_len(self) -> int | None:
        """The least context length the engines told."""
        return min((peer.ready.max_model_len for peer in self.peers.values()), default=None)

    @property
    def num_in_flight(self) -> int:
        """Answers that are owed."""
        return len(self._owners)

    def ready_peers(self) -> list[EnginePeer]:
        """Return the engines that take requests, by index."""
        found = (peer for peer in self.peers.values() if peer.condition == "ready")
        return sorted(found, key=lambda peer: peer.index)

    # -- requests -----------------------------------------------------------------------------

    def choose(self) -> EnginePeer:
        """Return the engine that gets the next request.

        Raises: `Overloaded` when no engine is ready or too many requests are in flight.
        """
        peers = self.ready_peers()
        if not peers or self.condition != "ready":
            raise Overloaded(
                f"No engine takes requests now ({self.condition}). Retry in 1 s.",
                details={"retry_after_seconds": 1},
            )
        limit = self.options.max_requests
        if len(self._owners) >= limit:
            raise Overloaded(
                f"The engines have {len(self._owners)} requests of this front end, at most {limit}"
                " are allowed (max_engine_requests). Retry in 1 s, or add engines.",
                details={"num_in_flight": len(self._owners), "retry_after_seconds": 1},
            )
        place = least_loaded(
            [peer.load for peer in peers],
            first=self._next_first % len(peers),
            num_clients=self.options.num_clients,
        )
        self._next_first += 1
        return peers[place]

    def expect(self, peer: EnginePeer, stream: EngineStream) -> None:
        """Note that an engine owes an answer."""
        peer.expect(stream)
        # Until the engine tells its load again, the request counts as waiting there.
        peer.load.num_waiting += self.options.num_clients
        self._owners[stream.request_id] = peer

    def forget(self, request_id: str) -> EnginePeer | None:
        """Note that an answer is not owed any more; return the engine that owed it."""
        peer = self._owners.pop(request_id, None)
        return peer if peer is not None and peer.forget(request_id) else None

    # -- what engines say ---------------------------------------------------------------------

    def welcome(self, index: int, payload: bytes) -> None:
        """Take in an engine that says what it has become; a second time, it was restarted.

        Raises: `UnsupportedFeature` for a version that is not known, `ServiceError` for no engine.
        """
        try:
            ready = decode_ready(payload)
            if ready is None:
                raise ServiceError("An engine did not say what it is; its version is not known.")
            allow = self.options.allow_unknown_version
            core = VllmCore(
                version=ready.vllm_version,
                allow_unknown_version=allow,
                structured_outputs_backend=self.options.structured_outputs_backend,
            )
        except ForewordError as error:
            self._refusal = error
            raise
        previous = self.peers.get(index)
        if previous is not None:
            self.lose(previous, "dead", "was restarted")
        self.peers[index] = EnginePeer(index, ready, core)
        self._refusal = None
        log(
            logging.INFO, "engine ready", index=index, version=ready.vllm_version,
            max_model_len=ready.max_model_len, block_size=ready.block_size,
        )  # fmt: skip

    def take(self, outputs: EngineCoreOutputs, frames: Sequence[Frame] = ()) -> None:
        """Pass on what one step of an engine gave; `frames` is the message it came in."""
        peer = self.peers.get(outputs.engine_index)
        if peer is not None:
            peer.heard_at = time.monotonic()
            if peer.condition == "silent":
                peer.condition = "ready"
            if outputs.scheduler_stats is not None:
                peer.take_stats(outputs.scheduler_stats)
            if outputs.utility_output is not None:
                peer.take_call_answer(outputs.utility_output)
        for output in outputs.outputs:
            owner = self._owners.get(output.request_id)
            if owner is None or not owner.take_output(output, frames):
                self.num_dropped += 1
            elif output.finish_reason is not None:
                self._owners.pop(output.request_id, None)

    # -- losses -------------------------------------------------------------------------------

    def lose(self, peer: EnginePeer, condition: PeerCondition, why: str) -> list[str]:
        """Fail what an engine owes; return the requests' ids."""
        if peer.condition == condition and not peer.streams:
            return []
        self.num_lost += peer.condition == "ready"
        request_ids = peer.lose(condition, lambda: _lost(peer.index, why))
        for request_id in request_ids:
            self._owners.pop(request_id, None)
        log(logging.ERROR, "engine lost", index=peer.index, why=why, num_failed=len(request_ids))
        return request_ids

    def leave(self) -> list[tuple[EnginePeer, list[str]]]:
        """Fail everything, since this front end ends; return what each engine is to stop."""
        self._owners.clear()
        return [(peer, peer.lose("dead", shutting_down)) for peer in self.ready_peers()]

    def silent_peers(self, now: float) -> list[EnginePeer]:
        """Return the engines that owe an answer and have not said a word for too long."""
        limit = self.options.silence_seconds
        busy = (peer for peer in self.ready_peers() if peer.streams)
        return [peer for peer in busy if 0 < limit < now - peer.heard_at]


def _lost(index: int, why: str) -> ServiceError:
    return ServiceError(
        f"Engine {index} {why} before the answer was complete. Send the request again.",
        details={"engine_index": index, "retry_after_seconds": 1},
    )
