"""One request's way down the line, kept: every station's value, and how long each stage took.

Rules of this file: values only; what a person makes of them is `diagnosis`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from foreword.media.items import MediaItem
from foreword.params import TokenizeParams
from foreword.templating import CompiledTemplate
from foreword.types import Conversation, EngineInput, RenderedText, TokenSequence

Kind = Literal["chat", "completion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Every station of one prompt, in order; None where it joined the line later.

    `seconds` holds the duration of each stage by name.
    """

    kind: Kind
    params: TokenizeParams
    template: CompiledTemplate | None = None
    conversation: Conversation | None = None
    items: tuple[MediaItem, ...] = ()
    """What the conversation's media turned out to be, in reading order."""
    rendered: RenderedText | None = None
    unexpanded: TokenSequence | None = None
    """The tokens with one placeholder an item, where there are items."""
    tokens: TokenSequence
    engine_input: EngineInput
    seconds: Mapping[str, float] = field(default_factory=dict)


class Laps:
    """When a request arrived, and the durations of its consecutive stages, in seconds."""

    def __init__(self) -> None:
        self.arrival_time = time.time()
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now

    def sign(self, engine_input: EngineInput, cache_salt: str | None) -> EngineInput:
        """Return `engine_input` with the request's own marks: when it arrived, and its salt."""
        return replace(engine_input, cache_salt=cache_salt, arrival_time=self.arrival_time)
