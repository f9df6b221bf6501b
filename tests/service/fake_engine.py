"""A vLLM engine's side of the sockets, for tests: addresses in, tokens out, death when told.

Rules of this file: written from the wire format's tables alone; nothing of foreword is imported.
Requests are decoded as plain msgpack arrays and read by position. Its tokens follow from the
prompt, so that any mix-up between requests shows.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import zmq
import zmq.asyncio

ADD, ABORT, UTILITY = b"\x00", b"\x01", b"\x03"
# Positions in the array of an EngineCoreRequest.
REQUEST_ID, PROMPT, SAMPLING, CLIENT_INDEX, PRIORITY, EXTERNAL_ID = 0, 1, 3, 11, 13, 16
NUM_FIELDS = 22
STOP, LENGTH, ABORTED, ERROR = 0, 1, 2, 3
RAW_VIEW, FRAME_BYTES = 3, 256
"""Arrays of fewer bytes lie within the message, in an extension of this type."""
MORE_COLUMNS = 2
"""Columns of logprobs that other requests of the same step asked for."""


def answer_of(prompt: list[int], place: int) -> int:
    """The token at `place` of the answer to a prompt."""
    return (sum(prompt) * 31 + len(prompt) * 7 + place * 13) % 200


def score_of(token: int, rank: int) -> float:
    """The logprob of a token; those of rank 1 to 9 descend."""
    return -rank - token / 1024 if rank else float("-inf")


class Arrays:
    """Lays arrays out in the frames of one message."""

    def __init__(self) -> None:
        self.frames: list[bytes] = [b""]

    def add(self, dtype: str, shape: tuple[int, ...], values: list[Any]) -> list[Any]:
        data = array({"<i4": "i", "int64": "q", "<f4": "f", "float32": "f"}[dtype], values)
        if len(data.tobytes()) < FRAME_BYTES:
            return [dtype, shape, msgspec.msgpack.Ext(RAW_VIEW, data.tobytes())]
        self.frames.append(data.tobytes())
        return [dtype, shape, len(self.frames) - 1]

    def logprobs(self, tokens: list[int], width: int, *, is_prompt: bool) -> list[Any]:
        """What is told of positions where `tokens` stand: each is its rank's third."""
        integer, number = ("int64", "float32") if is_prompt else ("<i4", "<f4")
        rows = [
            [token, *((token + rank) % 200 for rank in range(-2, width - 3))] for token in tokens
        ]
        scores = [
            [score_of(row[0], 3), *(score_of(one, place + 1) for place, one in enumerate(row[1:]))]
            for row in rows
        ]
        shape = (len(tokens), width)
        return [
            self.add(integer, shape, [one for row in rows for one in row]),
            self.add(number, shape, [one for row in scores for one in row]),
            self.add(integer, (len(tokens),), [3] * len(tokens)),
            None,
        ]


class Running:
    """A request the engine works on."""

    def __init__(self, fields: list[Any]) -> None:
        self.fields = fields
        self.prompt: list[int] = fields[PROMPT]
        self.params: dict[str, Any] = fields[SAMPLING]
        self.num_given = 0

    def step(self) -> tuple[list[int], int | None, int | None]:
        """The next token, and why it is the last."""
        token = answer_of(self.prompt, self.num_given)
        self.num_given += 1
        if token == self.params.get("_eos_token_id"):
            return [token], STOP, None
        if token in self.params["stop_token_ids"]:
            return [token], STOP, token
        is_last = self.num_given >= self.params.get("max_tokens", 16)
        return [token], LENGTH if is_last else None, None


class FakeEngine:
    """One engine. `received` counts every request id; `aborted` are those it was told to stop."""

    def __init__(
        self,
        *,
        index: int = 0,
        version: str = "0.33.0",
        max_model_len: int = 4096,
        step_seconds: float = 0.0,
        max_running: int = 1000,
    ) -> None:
        self.index = index
        self.identity = index.to_bytes(2, "little")
        self.version = version
        self.max_model_len = max_model_len
        self.step_seconds = step_seconds
        self.max_running = max_running
        self.received: Counter[str] = Counter()
        self.requests: dict[str, Running] = {}
        self.aborted: list[str] = []
        self.calls: list[tuple[str, list[Any]]] = []
        self.handshakes: list[Any] = []
        self.running: dict[str, Running] = {}
        self.is_mute = False
        self.is_forgetful = False
        self.kv_answer: dict[str, Any] | None = None
        self.ec_answer: dict[str, Any] | None = None
        self.failure: list[Any] | None = None
        """Why every request fails; an older engine gives no reason."""
        self._context = zmq.asyncio.Context()
        self._tasks: list[asyncio.Task[None]] = []
        self._work = asyncio.Event()

    async def come(self, handshake: str) -> None:
        """Say HELLO, get the addresses, be ready."""
        socket = self._socket(zmq.DEALER, handshake)
        await socket.send(msgspec.msgpack.encode(self._status("HELLO")))
        told = msgspec.msgpack.decode(await asyncio.wait_for(socket.recv(), 10))
        self.handshakes.append(told)
        assert set(told) == {"addresses", "parallel_config"}, told
        await self.attach(told["addresses"]["inputs"][0], told["addresses"]["outputs"][0])
        await socket.send(msgspec.msgpack.encode(self._status("READY")))

    async def attach(self, input_address: str, output_address: str) -> None:
        """Connect to the two sockets and say what this is."""
        self.input = self._socket(zmq.DEALER, input_address)
        self.output = self._socket(zmq.PUSH, output_address)
        await self.input.send(
            msgspec.msgpack.encode(
                {
                    "max_model_len": self.max_model_len,
                    "num_gpu_blocks": 100,
                    "block_size": 16,
                    "vllm_version": self.version,
                    "some_later_key": None,
                }
            )
        )
        self._tasks = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._run())]

    async def die(self, *, last_word: bool = False) -> None:
        """End at once, with whatever was in hand."""
        if last_word:
            await self.output.send(b"ENGINE_CORE_DEAD")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._context.destroy(linger=100 if last_word else 0)

    def _status(self, status: str) -> dict[str, Any]:
        return {"status": status, "local": True, "headless": True}

    def _socket(self, kind: int, address: str) -> zmq.asyncio.Socket:
        made = self._context.socket(kind)
        if kind == zmq.DEALER:
            made.set(zmq.IDENTITY, self.identity)
        made.connect(address)
        return made

    async def _listen(self) -> None:
        while True:
            kind, *frames = await self.input.recv_multipart()
            value = msgspec.msgpack.decode(frames[0])
            if kind == ADD:
                assert len(value) == NUM_FIELDS
                self.received[value[REQUEST_ID]] += 1
                self.requests[value[REQUEST_ID]] = self.running[value[REQUEST_ID]] = Running(value)
                self._work.set()
            elif kind == ABORT:
                for request_id in value:
                    self.aborted.append(request_id)
                    if self.running.pop(request_id, None) is not None:
                        # The engine still says that it ended it.
                        await self._send([[request_id, [], None, None, None, ABORTED]])
            else:
                assert kind == UTILITY
                await self._answer_call(*value)

    async def _answer_call(self, client: int, call_id: int, method: str, args: list[Any]) -> None:
        self.calls.append((method, args))
        failure = None if method == "is_sleeping" else f"no method {method}"
        result = [None, False] if failure is None else None
        await self._send([], utility=[call_id, failure, result])

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self.running:
                await asyncio.sleep(self.step_seconds)
                await self._step()

    async def _step(self) -> None:
        outputs, arrays = [], Arrays()
        for request_id, running in list(self.running.items())[: self.max_running]:
            is_first = not running.num_given
            tokens, reason, stop = running.step()
            scores = prompt_scores = None
            if (number := running.params.get("logprobs")) is not None and not self.is_forgetful:
                scores = arrays.logprobs(tokens, number + 1 + MORE_COLUMNS, is_prompt=False)
            if (number := running.params.get("prompt_logprobs")) is not None and is_first:
                prompt_scores = arrays.logprobs(running.prompt[1:], number + 1, is_prompt=True)
            fields = [request_id, tokens, scores, prompt_scores, None, reason, stop, None]
            if reason is not None:
                fields += [self.kv_answer, self.ec_answer]
            outputs.append(fields)
            if self.failure is not None:
                outputs[-1] = [request_id, [], *[None] * 3, ERROR, *[None] * 7, 0]
                outputs[-1] += [*[None] * 4, *self.failure]
                reason = ERROR
            if reason is not None:
                del self.running[request_id]
        await self._send(outputs, frames=arrays.frames[1:])

    async def _send(
        self, outputs: list[Any], utility: Any = None, frames: Sequence[bytes] = ()
    ) -> None:
        if self.is_mute:
            return
        num_running = min(len(self.running), self.max_running)
        stats = {
            "num_running_reqs": num_running,
            "num_waiting_reqs": len(self.running) - num_running,
            "kv_cache_usage": 0.25,
        }
        message = [self.index, outputs, stats, time.monotonic(), utility]
        await self.output.send_multipart([msgspec.msgpack.encode(message), *frames])
