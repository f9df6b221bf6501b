"""The meter of one rendering: steps and sizes go in, an error comes out when a limit is passed.

Rules of this file: one meter per rendering, never shared; it travels in the template's context,
so nothing here is global. Sizes are estimates that may be too high, never too low by more than a
small factor. No thread and no signal: whoever spends, checks.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, ItemsView, KeysView, ValuesView
from datetime import datetime
from typing import Any

from jinja2.utils import Namespace

from foreword.errors import DeadlineExceeded, TemplateRejected
from foreword.stopping import current_stop
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

SCALARS = frozenset({bool, type(None), int, float})
"""Types of values that are small, and done with when written out."""


class Meter:
    """Counts what a rendering does. `spans` collects the assistant's own text."""

    __slots__ = (
        "clock",
        "given_ids",
        "limits",
        "next_check",
        "num_chars",
        "signal",
        "spans",
        "stop_at",
        "tools",
        "work",
    )

    def __init__(
        self, limits: TemplateLimits, clock: Callable[[], datetime], tools: Any = None
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.work = 0
        self.next_check = 0
        self.num_chars = 0
        self.spans: list[Span] = []
        self.tools = tools
        self.given_ids: frozenset[int] | None = None
        self.signal = current_stop()  # a service's deadline, or its word that the client left
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
        if self.signal is not None:
            self.signal.check()
        self.next_check = min(self.work + CHECK_EVERY_STEPS, limits.max_work + 1)

    def allocate(self, num_chars: int) -> None:
        """Count a value of about `num_chars` characters that is about to be made."""
        if num_chars > self.limits.max_output_chars:
            self.refuse_size(num_chars)
        self.spend(1 + (num_chars >> CHARS_PER_STEP_BITS))

    def refuse_size(self, num_chars: int) -> None:
        """Raise TemplateRejected: a value would be larger than the output may be."""
        limit = self.limits.max_output_chars
        raise TemplateRejected(
            reason=f"it makes a text or value of {_count(num_chars)} characters; at most {limit}"
            " are allowed (the limit max_output_chars; in a service max_template_output_chars)."
            " Send a shorter conversation, or raise the limit.",
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
        if kind in SCALARS:
            return _scalar_chars(value)
        return self._walk(value)

    def is_given(self, value: Any) -> bool:
        """Return whether `value` is one of the request's tools, or a tool's outer parts.

        Why: what a request brings is a tree and no larger than its body, so it needs no
        measuring; tool schemas are most of what templates print as JSON.
        """
        if self.given_ids is None:
            level = [self.tools]
            given = level[:]
            for _ in range(3):
                level = [
                    part
                    for item in level
                    if type(item) is list or type(item) is dict
                    for part in (item.values() if type(item) is dict else item)
                ]
                given += level
            self.given_ids = frozenset(
                id(item) for item in given if type(item) is list or type(item) is dict
            )
        return id(value) in self.given_ids

    def _walk(self, root: Any) -> int:
        limit = self.limits.max_output_chars
        total = 0
        stack = [root]
        for num_containers in itertools.count(1):
            if not stack:
                break
            items = _items(stack.pop())
            total += 4 + 4 * len(items)
            for item in items:
                kind = type(item)
                if kind is str:
                    total += len(item)
                elif kind in SCALARS:
                    total += _scalar_chars(item)
                else:
                    stack.append(item)
            if total > limit:
                self.refuse_size(total)
            if not num_containers & 255:
                self.spend(32)
        self.spend(1 + (total >> CHARS_PER_STEP_BITS))
        return total


def _items(value: Any) -> Collection[Any]:
    """Return what writing `value` out writes out in turn; itself when that is all."""
    kind = type(value)
    if kind is dict:
        return [*value, *value.values()]
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    if isinstance(value, Namespace):
        return _items(object.__getattribute__(value, "_Namespace__attrs"))
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, ItemsView):
        return [part for pair in value for part in pair]
    if isinstance(value, list | tuple | set | frozenset | KeysView | ValuesView):
        return value
    return [str(value)] if isinstance(value, str) else ()


def _scalar_chars(value: Any) -> int:
    if type(value) is int and not -(10**8) < value < 10**8:
        return (value.bit_length() >> 1) + 2
    return CHARS_PER_ITEM


def _count(number: int) -> str:
    return str(number) if number < 10**18 else "more than 10**18"
