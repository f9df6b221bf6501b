"""What is proved about a tokenizer file: `CutRules`, and the question whether a place is a cut.

Rules of this file: a cut is decided by the characters around it alone, so the answer is the same
from the left, from the right and in the middle of a text that has grown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from foreword.tokenizer.segments.added_tokens import AddedTokens
from foreword.tokenizer.segments.vocabulary import Vocabulary

CutKind = Literal["none", "added-tokens", "segmentation", "vocabulary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRules:
    """Where a text may be cut so that the ids of its pieces are the ids of the whole.

    `kind` is the strongest kind of cut proved: `added-tokens` cuts only before added tokens,
    `segmentation` and `vocabulary` also between words; `none` encodes every text whole.
    """

    kind: CutKind
    contexts: tuple[str, ...] = ()
    """Names of the places between words at which cuts are proved."""
    reasons: tuple[str, ...] = ()
    """What could not be proved, and why."""
    places: re.Pattern[str] | None = None
    vocabulary: Vocabulary | None = None
    added_tokens: AddedTokens
    drops_space: bool = False
    """The piece after a cut at a space is encoded without it: the normalizer prepends it."""
    offsets_gap: str | None = None
    """Why the offsets of pieces are not those of the whole; None: they are, shifted."""

    def is_cut(self, text: str, place: int, *, is_open: bool = False) -> bool:
        """Say whether `text` may be cut at `place`.

        Shapes: `place` counts characters, 0 < place < len(text). With `is_open` the answer also
        holds for every text that begins with `text`.
        """
        return self.is_cut_between_words(text, place, is_open=is_open) or self.is_cut_at_token(
            text, place, is_open=is_open
        )

    def is_cut_between_words(self, text: str, place: int, *, is_open: bool = False) -> bool:
        if self.places is None or self.places.match(text, place) is None:
            return False
        return self.holds(text, place, is_open=is_open)

    def is_cut_at_token(self, text: str, place: int, *, is_open: bool = False) -> bool:
        tokens = self.added_tokens
        return (
            place > 0
            and tokens.starts(text, place)
            and not tokens.reach(text[place - 1], text[place])
            and not tokens.cross(text, place, is_open=is_open)
        )

    def holds(self, text: str, place: int, *, is_open: bool = False) -> bool:
        """Say whether a place that has the right neighbours is a cut."""
        before, after = text[place - 1], text[place]
        if self.vocabulary is not None and not self.vocabulary.parts(before, after):
            return False
        tokens = self.added_tokens
        if self.drops_space and before in tokens.last_chars:
            # Right after an added token the normalizer prepends to a space that stays.
            return False
        return (
            before + after not in tokens.refused
            and not tokens.reach(before, after)
            and not tokens.cross(text, place, is_open=is_open)
        )
