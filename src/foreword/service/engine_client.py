"""Engine requests enter; their tokens leave as they come: the front end of vLLM engines over ZMQ.

    submit ─▶ least loaded engine ─▶ ADD      outputs ─▶ the stream that waits for them
    stream closed early ─▶ ABORT              engine dead, silent, replaced ─▶ its streams fail

Rules of this file: everything runs on one event loop; no thread of its own. What is written on the
wire is decided in `engines/vllm_core`, which engine owes what in `engine_fleet`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import zmq

from foreword.engines.msgpack_frames import Frame
from foreword.engines.vllm_core import (
    EngineAddresses,
    EngineHandshakeMetadata,
    abort_message,
    add_message,
    decode_greeting,
    decode_outputs,
    encode_handshake,
    engine_identity,
    engine_index,
    is_engine_dead,
    utility_message,
)
from foreword.errors import DeadlineExceeded, ForewordError, ServiceError
from foreword.service.engine_fleet import EngineClientOptions, EngineFleet
from foreword.service.engine_peer import EnginePeer
from foreword.service.engine_sockets import EngineSockets, SocketAddresses
from foreword.service.engine_stream import EngineStream
from foreword.service.input_processor import EngineRequest
from foreword.service.logs import log
from foreword.service.refusals import shutting_down

WATCH_SECONDS = 0.25
"""Between two looks at engines that are lost, or might be."""
SUSPICION_SECONDS = 2.0
"""How long after a lost connection every engine is asked whether it is still there."""


class ZmqEngineClient:
    """The engines behind one set of sockets. Belongs to one event loop; `start` opens it."""

    def __init__(
        self, addresses: SocketAddresses, options: EngineClientOptions | None = None
    ) -> None:
        self.options = options or EngineClientOptions()
        self.fleet = EngineFleet(self.options)
        self._addresses = addresses
        self._sockets: EngineSockets | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._suspect_until = 0.0
        self._is_closed = False

    # -- what others may ask ------------------------------------------------------------------

    @property
    def condition(self) -> str:
        """`ready` as soon as every engine was there once and one is there now."""
        return self.fleet.condition

    @property
    def max_model_len(self) -> int | None:
        """The least context length the engines told."""
        return self.fleet.max_model_len

    @property
    def num_in_flight(self) -> int:
        """Requests that an engine works on for this front end."""
        return self.fleet.num_in_flight

    @property
    def num_dropped(self) -> int:
        """Outputs nobody waited for: of requests that were given up a moment before."""
        return self.fleet.num_dropped

    @property
    def num_lost(self) -> int:
        """Times an engine was lost."""
        return self.fleet.num_lost

    @property
    def addresses(self) -> EngineAddresses:
        """Where engines connect to; what the handshake tells them."""
        sockets = self._open_sockets
        return EngineAddresses(inputs=[sockets.input_address], outputs=[sockets.output_address])

    @property
    def _open_sockets(self) -> EngineSockets:
        if self._sockets is None:
            raise shutting_down() if self._is_closed else ServiceError("Not started yet.")
        return self._sockets

    # -- opening and closing ------------------------------------------------------------------

    async def start(self) -> None:
        """Bind the sockets and listen; engines may come at any time.

        Raises: `InvalidRequest` for an address that can't be bound.
        """
        self._sockets = sockets = EngineSockets(self._addresses)
        if sockets.handshake is not None:
            self._spawn(self._greet())
        for listener in (self._hear_ready(), self._hear_outputs(), self._hear_losses()):
            self._spawn(listener)
        self._spawn(self._watch())

    async def close(self) -> None:
        """Abort what is in flight and close the sockets. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        for peer, request_ids in self.fleet.leave():
            if request_ids:
                await self._tell(peer, abort_message(request_ids))
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._is_closed:
            # Nobody listens any more, so no engine can be used.
            log(logging.ERROR, "engine client failed", error=f"{type(error).__name__}: {error}")
            for peer in self.fleet.peers.values():
                self.fleet.lose(peer, "dead", "cannot be heard any more")

    # -- requests -----------------------------------------------------------------------------

    async def submit(self, request: EngineRequest) -> EngineStream:
        """Send a request to the least loaded engine.

        Raises: `Overloaded` when no engine is ready or too many requests are in flight.
        """
        while True:
            if self._is_closed:
                raise shutting_down()
            peer = self.fleet.choose()
            wire = peer.core.request(
                request.engine_input,
                request_id=request.request_id,
                params=request.sampling_with_transfer(),
                client_index=self.options.client_index,
                priority=request.priority,
                trace_headers=request.trace_headers,
                external_req_id=request.external_id,
            )
            stream = EngineStream(request.request_id, self._give_up, constraint=request.constraint)
            self.fleet.expect(peer, stream)
            try:
                is_sent = await self._tell(peer, add_message(wire))
            except BaseException:
                stream.close()
                raise
            if is_sent:
                return stream
            # Nothing reached the engine, so another one may have the request.
            self.fleet.forget(request.request_id)
            self.fleet.lose(peer, "gone", "disconnected")

    async def call(
        self, method: str, *args: Any, index: int | None = None, timeout_seconds: float = 60.0
    ) -> Any:
        """Call a method of one engine (`index`), or of the first there is; return its result.

        Raises: `ServiceError` when the engine says no or is lost; `DeadlineExceeded` when it says
        nothing for `timeout_seconds`.
        """
        peers = [peer for peer in self.fleet.ready_peers() if index in (None, peer.index)]
        if not peers:
            raise ServiceError("The engine to call is not there.", details={"index": index})
        peer, call_id = peers[0], secrets.randbits(63)
        waiting = peer.calls[call_id] = asyncio.get_running_loop().create_future()
        frames = utility_message(
            method, args, call_id=call_id, client_index=self.options.client_index
        )
        try:
            if not await self._tell(peer, frames):
                self.fleet.lose(peer, "gone", "disconnected")
            return await asyncio.wait_for(waiting, timeout_seconds)
        except TimeoutError:
            raise DeadlineExceeded(
                f"The engine did not answer the call {method} within {timeout_seconds:g} s.",
                details={"deadline_seconds": timeout_seconds},
            ) from None
        finally:
            peer.calls.pop(call_id, None)

    def _give_up(self, stream: EngineStream) -> None:
        peer = self.fleet.forget(stream.request_id)
        if peer is not None and not self._is_closed:
            self._spawn(self._abort(peer, [stream.request_id]))

    async def _abort(self, peer: EnginePeer, request_ids: Sequence[str]) -> None:
        await self._tell(peer, abort_message(request_ids))

    async def _tell(self, peer: EnginePeer, frames: Sequence[Frame]) -> bool:
        """Send frames to an engine; return whether it is connected."""
        try:
            await self._open_sockets.input.send_multipart([engine_identity(peer.index), *frames])
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True

    # -- listening ----------------------------------------------------------------------------

    async def _greet(self) -> None:
        """Answer every HELLO with the addresses, whoever says it and whenever."""
        handshake = self._open_sockets.handshake
        assert handshake is not None
        answer = encode_handshake(EngineHandshakeMetadata(addresses=self.addresses))
        while True:
            identity, *payload = await handshake.recv_multipart()
            with _logged("an engine's greeting is ignored"):
                greeting = decode_greeting(payload[-1] if payload else b"")
                log(logging.INFO, "engine says", status=greeting.status, index=_index(identity))
                if greeting.status == "HELLO":
                    with contextlib.suppress(zmq.ZMQError):  # it has left again
                        await handshake.send_multipart([identity, answer])

    async def _hear_ready(self) -> None:
        while True:
            identity, *payload = await self._open_sockets.input.recv_multipart()
            with _logged("an engine is refused"):
                self.fleet.welcome(_index(identity), payload[-1] if payload else b"")

    async def _hear_outputs(self) -> None:
        while True:
            frames = await self._open_sockets.output.recv_multipart()
            if is_engine_dead(frames):
                self._on_last_word()
                continue
            with _logged("an engine's output is ignored"):
                self.fleet.take(decode_outputs(frames), frames)

    # -- losses -------------------------------------------------------------------------------

    def _on_last_word(self) -> None:
        """An engine said that it is dead; with several, who it was shows in its connection."""
        self._suspect_until = time.monotonic() + SUSPICION_SECONDS
        peers = self.fleet.ready_peers()
        if len(peers) == 1:
            self.fleet.lose(peers[0], "dead", "died")

    async def _hear_losses(self) -> None:
        while True:
            await self._open_sockets.disconnected()
            self._suspect_until = time.monotonic() + SUSPICION_SECONDS
            await self._look()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self._look()

    async def _look(self) -> None:
        """Find out who is gone, who is back, and who has not said a word for too long."""
        now = time.monotonic()
        for peer in list(self.fleet.peers.values()):
            if peer.condition != "gone" and now >= self._suspect_until:
                continue
            # Only a connected engine can be sent an abort, and one of nothing changes nothing.
            is_there = await self._tell(peer, abort_message(peer.untold_aborts))
            if not is_there:
                self.fleet.lose(peer, "gone", "disconnected")
            elif peer.condition == "gone":
                peer.condition = "ready"
                peer.untold_aborts.clear()
                log(logging.INFO, "engine is back", index=peer.index)
        for peer in self.fleet.silent_peers(now):
            why = f"said nothing for {self.options.silence_seconds:g} s"
            await self._tell(peer, abort_message(self.fleet.lose(peer, "silent", why)))


def _index(identity: bytes) -> int:
    if len(identity) != 2:
        raise ServiceError(
            f"An engine's identity has {len(identity)} bytes, not the two of a vLLM engine."
        )
    return engine_index(identity)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log a message that makes no sense, and listen on."""
    try:
        yield
    except ForewordError as error:
        log(logging.ERROR, what, reason=error.message)
