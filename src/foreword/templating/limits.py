"""What one rendering may cost, and what it gives back.

Rules of this file: values only.
"""

from __future__ import annotations

from dataclasses import dataclass

from foreword.types import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLimits:
    """The most that one rendering may do.

    Shapes: `max_work` counts steps: one for every turn of a loop and call of a macro, one for
    every 1024 characters that are made or looked at. `max_output_chars` bounds the output, and
    every single value on the way to it. `deadline_seconds` counts from the start of the
    rendering; None sets no deadline.

    Why: a chat of 1000 messages and 300 tools takes 50 of 53 real templates under 110,000
    steps; one that appends each message to a growing text, a million.
    """

    max_work: int = 4_000_000
    max_output_chars: int = 32 * 1024 * 1024
    deadline_seconds: float | None = 30.0


DEFAULT_LIMITS = TemplateLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedTemplate:
    """A template's output; `assistant_spans` are sorted, disjoint, and lie inside `text`."""

    text: str
    assistant_spans: tuple[Span, ...] = ()
