"""A deadline that others can move: whoever waits sets it, a running stage asks whether to go on.

Rules of this file: one signal for each request, made by whoever runs it, found through the context
of the running thread. Reading it costs a tenth of a microsecond, so a loop may ask often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from foreword.errors import DeadlineExceeded

_NEVER = float("inf")


class StopSignal:
    """When the work of one request must stop.

    Shapes: `stop_at` is a time of `time.monotonic`; `deadline_seconds` is what it was made of.
    """

    __slots__ = ("deadline_seconds", "stop_at")

    def __init__(self) -> None:
        self.stop_at = _NEVER
        self.deadline_seconds = 0.0

    def start(self, deadline_seconds: float) -> None:
        """Start the clock; 0 or less sets no deadline. A cancelled signal stays cancelled."""
        if deadline_seconds > 0 and self.stop_at == _NEVER:
            self.deadline_seconds = deadline_seconds
            self.stop_at = time.monotonic() + deadline_seconds

    def cancel(self) -> None:
        """Make the work stop at its next look at the signal; nobody waits for its result."""
        self.stop_at = 0.0

    def check(self) -> None:
        """Return when the work may go on.

        Raises: `DeadlineExceeded` when its time is over, or it was cancelled.
        """
        if time.monotonic() >= self.stop_at:
            raise DeadlineExceeded(
                f"Rendering took longer than {self.deadline_seconds:g} s and was stopped."
                " Send a shorter request, or raise the render deadline.",
                details={"stage": "render", "deadline_seconds": self.deadline_seconds},
            )


_CURRENT: ContextVar[StopSignal | None] = ContextVar("foreword_stop", default=None)


def current_stop() -> StopSignal | None:
    """Return the signal of the request this thread works on; None outside a service."""
    return _CURRENT.get()


def check_stop() -> None:
    """Raise `DeadlineExceeded` when the request this thread works on should stop."""
    signal = _CURRENT.get()
    if signal is not None:
        signal.check()


@contextmanager
def stopping(signal: StopSignal) -> Iterator[None]:
    """Make `signal` the current one inside the block."""
    token = _CURRENT.set(signal)
    try:
        yield
    finally:
        _CURRENT.reset(token)
