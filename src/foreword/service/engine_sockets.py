"""Addresses enter; bound ZMQ sockets, as vLLM's engines expect them of a front end, leave.

    engine DEALER ─▶ handshake ROUTER   HELLO, the addresses, READY   (not when given by hand)
    engine DEALER ◀▶ input ROUTER       the ready message; requests, aborts, calls
    engine PUSH   ─▶ output PULL        tokens, ends, answers to calls

Rules of this file: the front end binds, the engine connects. Nothing is sent here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from foreword.errors import InvalidRequest

Socket = zmq.asyncio.Socket
_NAMES = ("handshake", "input", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAddresses:
    """Where to bind. Without a handshake the engines were given the other two by hand."""

    handshake: str | None = None
    input: str | None = None
    output: str | None = None


def parse_addresses(texts: Iterable[str]) -> SocketAddresses:
    """Read `ADDRESS` (the handshake's), or `input=ADDRESS` and `output=ADDRESS`.

    Raises: `InvalidRequest` saying what is missing or wrong.
    """
    found: dict[str, str] = {}
    for text in texts:
        for one in text.split(","):
            name, separator, address = one.strip().partition("=")
            if not separator:
                name, address = "handshake", name
            if name not in _NAMES or name in found or "://" not in address:
                raise InvalidRequest(
                    f"engine_zmq has {one.strip()!r}; it must be an address such as"
                    " tcp://127.0.0.1:5570 where engines say hello, or input=ADDRESS and"
                    " output=ADDRESS, each once.",
                    param="engine_zmq",
                )
            found[name] = address
    if "handshake" not in found and not {"input", "output"} <= found.keys():
        raise InvalidRequest(
            "engine_zmq needs the handshake's address, or both input= and output=.",
            param="engine_zmq",
        )
    return SocketAddresses(**found)


class EngineSockets:
    """The bound sockets of one front end. `input_address` and `output_address` are for engines."""

    def __init__(self, addresses: SocketAddresses) -> None:
        self._context = zmq.asyncio.Context()
        try:
            self.handshake: Socket | None = None
            if addresses.handshake is not None:
                self.handshake, _ = self._bind(zmq.ROUTER, addresses.handshake, "handshake")
            self.input, self.input_address = self._bind(
                zmq.ROUTER, addresses.input or _beside(addresses.handshake), "input"
            )
            self.output, self.output_address = self._bind(
                zmq.PULL, addresses.output or _beside(addresses.handshake), "output"
            )
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._monitor: Any = self.input.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    async def disconnected(self) -> None:
        """Wait until some engine's connection ends; which one is not told."""
        await recv_monitor_message(self._monitor)

    def close(self) -> None:
        """Close all of them; what was sent a moment ago still goes out."""
        with contextlib.suppress(zmq.ZMQError):
            self.input.disable_monitor()
        self._context.destroy(linger=200)

    def _bind(self, kind: int, address: str, name: str) -> tuple[Socket, str]:
        made = self._context.socket(kind)
        # Requests in flight are bounded by the client; here nothing may be dropped, or block.
        made.set(zmq.SNDHWM, 0)
        made.set(zmq.RCVHWM, 0)
        if kind == zmq.ROUTER:
            made.set(zmq.ROUTER_MANDATORY, 1)  # an engine that is gone is an error, not silence
            made.set(zmq.ROUTER_HANDOVER, 1)  # a restarted engine has its predecessor's identity
        try:
            made.bind(address)
        except zmq.ZMQError as error:
            raise InvalidRequest(
                f"The engine's {name} socket can't be bound at {address}: {error.strerror}."
                " Choose another address with --engine-zmq.",
                param="engine_zmq",
            ) from None
        endpoint = made.get(zmq.LAST_ENDPOINT)
        assert isinstance(endpoint, bytes)
        return made, endpoint.rstrip(b"\0").decode()


def _beside(handshake: str | None) -> str:
    """Return where to bind the sockets nobody gave an address for: the same host, a free port."""
    assert handshake is not None
    if not handshake.startswith("tcp://"):
        return "ipc://*"
    host = handshake.removeprefix("tcp://").rpartition(":")[0]
    if host in ("*", "0.0.0.0", "[::]"):
        raise InvalidRequest(
            f"Engines cannot be told to connect to {host}. Give engine_zmq an address they can"
            " reach, or input= and output= as well.",
            param="engine_zmq",
        )
    return f"tcp://{host}:*"
