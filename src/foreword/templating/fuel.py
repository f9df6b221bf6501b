"""The meter of one rendering: steps and sizes go in, an error comes out when a limit is passed.

Rules of this file: one meter per rendering, never shared; it travels in the template's context,
so nothing here is global. Sizes are estimates that may be too high, never too low by more than a
small factor. No thread and no signal: whoever spends, checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from datetime import datetime
from typing import Any

from jinja2.utils import Namespace

from foreword.errors import DeadlineExceeded, TemplateRejected
from foreword.templating.limits import TemplateLimits
from foreword.types import Span

CHARS_PER_STEP_BITS = 10
"""1024 characters cost one step: copying them takes about as long as a turn of a loop."""

CHARS_PER_ITEM = 8
"""What an element of a list counts: a pointer is eight bytes."""

CHECK_EVERY_STEPS = 64
"""How often the clock is read: a step is short, reading the clock is not free."""

MAX_INT_BITS = 1 << 16
"""No prompt needs an integer of more bits; Python itself prints no more than 4300 digits."""

_SCALARS = frozenset({bool, type(None), float})
_CONTAINERS = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)


class Meter:
    """Counts what a rendering does. `spans` collects the assistant's own text."""

    __slots__ = ("clock", "limits", "next_check", "num_chars", "spans", "stop_at", "work")

    def __init__(self, limits: TemplateLimits, clock: Callable[[], datetime]) -> None:
        self.limits = limits
        self.clock = clock
        self.work = 0
        self.next_check = 0
        self.num_chars = 0
        self.spans: list[Span] = []
        self.stop_at: float | None = None
        if limits.deadline_seconds is not None:
            self.stop_at = time.monotonic() + limits.deadline_seconds

    def spend(self, steps: int) -> None:
        """Count `steps`.

        Raises: TemplateRejected past the work limit; DeadlineExceeded past the deadline.
        """
        self.work += steps
        if self.work >= self.next_check:
            self.check()

    def check(self) -> None:
        """Compare work and time with their limits now."""
        limits = self.limits
        if self.work > limits.max_work:
            raise TemplateRejected(
                reason=f"rendering it takes more than {limits.max_work} steps"
                " (the limit max_work). Send a shorter conversation, or raise the limit.",
                details={"limit": "max_work", "max_work": limits.max_work},
            )
        if self.stop_at is not None and time.monotonic() >= self.stop_at:
            raise DeadlineExceeded(
                f"Rendering the chat template took longer than {limits.deadline_seconds} s and"
                " was stopped. Send a shorter conversation, or raise the render deadline.",
                details={"deadline_seconds": limits.deadline_seconds},
            )
        self.next_check = min(self.work + CHECK_EVERY_STEPS, limits.max_work + 1)

    def allocate(self, num_chars: int) -> None:
        """Count a value of about `num_chars` characters that is about to be made."""
        if num_chars > self.limits.max_output_chars:
            self.refuse_size(num_chars)
        self.spend(1 + (num_chars >> CHARS_PER_STEP_BITS))

    def emit(self, num_chars: int) -> None:
        """Count characters of the output itself."""
        self.num_chars += num_chars
        if self.num_chars > self.limits.max_output_chars:
            self.refuse_size(self.num_chars)
        self.spend(num_chars >> CHARS_PER_STEP_BITS)

    def refuse_size(self, num_chars: int) -> None:
        """Raise TemplateRejected: a value would be larger than the output may be."""
        limit = self.limits.max_output_chars
        raise TemplateRejected(
            reason=f"it makes a text or value of {_count(num_chars)} characters; at most {limit}"
            " are allowed (the limit max_output_chars). Send a shorter conversation, or raise"
            " the limit.",
            details={"limit": "max_output_chars", "max_output_chars": limit},
        )

    def measure(self, value: Any) -> int:
        """Count, and return, about how many characters `value` has when written out.

        Why: one container referenced twice by the next, thirty times over, is small in memory
        and endless when printed, compared or hashed, all of which happens at a stroke.
        """
        kind = type(value)
        if kind is str:
            size = len(value)
            self.spend(size >> CHARS_PER_STEP_BITS)
            return size
        if kind in _SCALARS:
            return CHARS_PER_ITEM
        if kind is int:
            return _int_chars(value)
        return self._walk(value)

    def _walk(self, root: Any) -> int:
        limit = self.limits.max_output_chars
        total = 0
        num_nodes = 0
        stack = [root]
        while stack:
            value = stack.pop()
            kind = type(value)
            total += len(value) + 4 if kind is str else 4
            num_nodes += 1
            if kind is dict:
                stack.extend(value)
                stack.extend(value.values())
            elif kind is list or kind is tuple:
                stack.extend(value)
            elif kind is int:
                total += _int_chars(value)
            elif kind is not str and kind not in _SCALARS:
                total += _push_rare(value, stack)
            if total > limit:
                self.refuse_size(total)
            if not num_nodes & 1023:
                self.spend(128)
        self.spend((num_nodes >> 3) + (total >> CHARS_PER_STEP_BITS))
        return total


def _push_rare(value: Any, stack: list[Any]) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Namespace):
        stack.append(object.__getattribute__(value, "_Namespace__attrs"))
    elif isinstance(value, dict):
        stack.extend(value)
        stack.extend(value.values())
    elif isinstance(value, _CONTAINERS):
        stack.extend(value)
    return CHARS_PER_ITEM * 4


def _int_chars(value: int) -> int:
    return (value.bit_length() >> 1) + 2 if value > 10**8 or value < -(10**8) else 10


def _count(number: int) -> str:
    return str(number) if number < 10**18 else "more than 10**18"
