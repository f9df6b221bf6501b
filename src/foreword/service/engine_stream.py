"""What an engine says of one request enters, as it comes; whoever answers the client takes it out.

Rules of this file: a request has exactly one end: its finish, an error, or being given up. What
comes after the end is dropped. Updates that nobody took yet are one update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from foreword.errors import ForewordError
from foreword.service.metric_readings import Reading

if TYPE_CHECKING:
    from foreword.service.input_processor import EngineRequest


class TokenScores(NamedTuple):
    """What an engine says of one position: of the token that stands there, then of candidates.

    Shapes: the three are parallel; a rank is 1 for the likeliest token, None where nobody knows.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    ranks: Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUpdate:
    """New tokens of one request; the last update has a `finish_reason`.

    Shapes: `finish_reason` is `stop`, `length`, `abort`, `error` or `repetition`. With `stop` the
    last token is the one that ended it, and `stop_reason` its id, or None for the primary end.
    `scores` has one entry a token where logprobs are asked for, `prompt_scores` one for each of
    the prompt's tokens but the first. The transfer parameters are what another engine needs to go
    on.
    """

    token_ids: Sequence[int] = ()
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    num_cached_tokens: int | None = None
    scores: Sequence[TokenScores] = ()
    prompt_scores: Sequence[TokenScores] = ()
    kv_transfer_params: Mapping[str, Any] | None = None
    ec_transfer_params: Mapping[str, Any] | None = None


class EngineStream:
    """The answer to one request while it comes: an asynchronous iterator of updates.

    `close` gives it up: the engine is told to stop, unless the answer is complete. `constraint` is
    the kind of the constraint on the output, where there is one.
    """

    __slots__ = ("_error", "_give_up", "_is_over", "_news", "_pending", "constraint", "request_id")

    def __init__(
        self,
        request_id: str,
        give_up: Callable[[EngineStream], None],
        *,
        constraint: str | None = None,
    ) -> None:
        self.request_id = request_id
        self.constraint = constraint
        self._give_up = give_up
        self._pending: EngineUpdate | None = None
        self._error: ForewordError | None = None
        self._is_over = False
        self._news = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the engine's part has ended, in whatever way."""
        return self._is_over

    def push(self, update: EngineUpdate) -> bool:
        """Take an update in; return whether it was still wanted."""
        if self._is_over:
            return False
        self._is_over = update.finish_reason is not None
        self._pending = update if self._pending is None else _joined(self._pending, update)
        self._news.set()
        return True

    def fail(self, error: ForewordError) -> None:
        """End the answer with an error; what came before is still given out."""
        if not self._is_over:
            self._is_over, self._error = True, error
            self._news.set()

    def close(self) -> None:
        """Give the answer up. Safe to call at any time, and again."""
        if not self._is_over:
            self._is_over = True
            self._give_up(self)
        self._news.set()

    def __aiter__(self) -> EngineStream:
        return self

    async def __anext__(self) -> EngineUpdate:
        """Return all that came since the last call.

        Raises: what the answer failed with.
        """
        while self._pending is None:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        update, self._pending = self._pending, None
        return update


def _joined(first: EngineUpdate, second: EngineUpdate) -> EngineUpdate:
    cached = second.num_cached_tokens
    return EngineUpdate(
        token_ids=[*first.token_ids, *second.token_ids],
        finish_reason=second.finish_reason,
        stop_reason=second.stop_reason,
        num_cached_tokens=first.num_cached_tokens if cached is None else cached,
        scores=(*first.scores, *second.scores),
        prompt_scores=(*first.prompt_scores, *second.prompt_scores),
        kv_transfer_params=second.kv_transfer_params or first.kv_transfer_params,
        ec_transfer_params=second.ec_transfer_params or first.ec_transfer_params,
    )


class EngineClient(Protocol):
    """The way to one or more engines that serve the same model."""

    @property
    def condition(self) -> str:
        """`ready`, or in a few words why nothing can be sent."""
        ...

    @property
    def max_model_len(self) -> int | None:
        """The least context length of the engines, where they told it."""
        ...

    @property
    def num_in_flight(self) -> int: ...

    @property
    def num_dropped(self) -> int:
        """Outputs that came when nobody waited for them any more."""
        ...

    @property
    def num_lost(self) -> int:
        """Times an engine, or the connection to it, was lost."""
        ...

    async def start(self) -> None:
        """Open what is needed; does not wait for an engine."""
        ...

    async def submit(self, request: EngineRequest) -> EngineStream:
        """Send a request.

        Raises: `Overloaded` when no engine is ready, or too many requests are in flight.
        """
        ...

    async def close(self) -> None:
        """Give up what is in flight, and close what was opened."""
        ...


def engine_readings(engine: EngineClient) -> Iterator[Reading]:
    """Give what a client of engines counts."""
    is_ready = engine.condition == "ready"
    for name, text, value in (
        ("engine_in_flight", "Answers the engines work on", engine.num_in_flight),
        ("engine_ready", "1 when the engines take requests", is_ready),
    ):
        yield Reading(name=name, help=text, kind="gauge", value=float(value))
    for name, text, value in (
        ("engine_lost", "Times an engine was lost", engine.num_lost),
        ("engine_dropped_outputs", "Outputs nobody waited for any more", engine.num_dropped),
    ):
        yield Reading(name=name, help=text, kind="counter", value=float(value))
