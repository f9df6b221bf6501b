"""Pieces of text enter, ids leave: from the fast engine while it is trusted, else the reference.

Rules of this file: three nets, each enough by itself: the engine was admitted, what it is known to
get wrong never reaches it, and a sample of what it answers is compared. One difference ends its
service, and everything remembered since is forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from foreword.tokenizer.accelerated import (
    EncodeBatch,
    FastEngine,
    Guard,
    admit,
    guard_for,
    load_fastokens,
    sections_of,
    should_shadow,
)
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.segments import CutRules
from foreword.tokenizer.shadow import agrees
from foreword.tokenizer.state import TokenizerState
from foreword.types import TokenIds

DEFAULT_SHADOW_EVERY = 100
"""Of so many batches, one has a piece compared with the reference."""

_LOG = logging.getLogger(__name__)


class Admission(NamedTuple):
    """The engine that may serve (None: the reference alone), its guard, and why."""

    engine: FastEngine | None
    guard: Guard | None
    reason: str


def admit_fastokens(reference: HuggingFaceTokenizer, encode: EncodeBatch) -> Admission:
    """Load fastokens for a tokenizer, and admit it only if it answers as the reference does.

    Takes from a third of a second to a few: for a service, not for one command.
    """
    choice = load_fastokens(reference.tokenizer)
    if choice.engine is None:
        return Admission(None, None, choice.reason)
    guard = guard_for(sections_of(reference.tokenizer))
    added = [token.content for token in reference.file.added_tokens]
    refusal = admit(choice.engine, encode, added_tokens=added, guard=guard)
    if refusal is not None:
        return Admission(None, None, refusal)
    return Admission(choice.engine, guard, f"{choice.engine.name} was admitted")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrustedEngine:
    """A fast engine in service, watched."""

    engine: FastEngine
    guard: Guard | None
    encode_reference: EncodeBatch
    rules: CutRules
    state: TokenizerState
    shadow_every: int = DEFAULT_SHADOW_EVERY

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the ids of each text; the reference's, or proved to be them by sample.

        Raises: what the reference raises for text that is none.
        """
        refused = [self.guard is not None and self.guard.refuses(text) for text in texts]
        if self.state.quarantine is not None or all(refused):
            return self.encode_reference(texts)
        fast = [text for text, is_refused in zip(texts, refused, strict=True) if not is_refused]
        slow = [text for text, is_refused in zip(texts, refused, strict=True) if is_refused]
        answers = self._ask(fast)
        if answers is None:
            return self.encode_reference(texts)
        if not slow:
            return answers
        from_engine, from_reference = iter(answers), iter(self.encode_reference(slow))
        return [next(from_reference if is_refused else from_engine) for is_refused in refused]

    def _ask(self, texts: Sequence[str]) -> list[TokenIds] | None:
        """Return the engine's answers, or None when it must not be believed."""
        try:
            answers = self.engine.encode_batch(texts)
        except UnicodeError:
            return None  # the text is at fault, and the reference says so
        except Exception as error:
            self._distrust(f"{self.engine.name} failed ({type(error).__name__})")
            return None
        number = self.state.count_engine_batch()
        if len(answers) != len(texts):
            self._distrust(f"{self.engine.name} gave {len(answers)} answers to {len(texts)} texts")
            return None
        if should_shadow(number, self.shadow_every):
            place = (number // max(self.shadow_every, 1)) % len(texts)
            self.state.count_shadow_check()
            text, ids = texts[place], answers[place]
            if not agrees(self.rules, text, ids, self.encode_reference, number):
                self._distrust(f"{self.engine.name} differed from the reference in batch {number}")
                return None
        return answers

    def _distrust(self, reason: str) -> None:
        _LOG.error("tokenizer engine quarantined: %s", reason)
        self.state.put_in_quarantine(reason)
