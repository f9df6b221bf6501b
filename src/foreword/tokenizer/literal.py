"""A text and its literal spans enter; what is encoded apart, and how, leaves.

Rules of this file: a literal span is encoded by itself, by a twin of the tokenizer that has no
added tokens. The twin shares the model, so it costs nothing; neither is ever changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tokenizers import Tokenizer

from foreword.tokenizer.tokenizer_file import TokenizerFile, flatten
from foreword.types import Span


class Stretch(NamedTuple):
    """Characters `[start, stop)` of a text, which are encoded by themselves."""

    start: int
    stop: int
    is_literal: bool


def stretches(num_chars: int, literal_spans: Sequence[Span]) -> Iterator[Stretch]:
    """Yield the literal spans and what lies between them, without empty ones.

    Shapes: spans are sorted and disjoint; spans that touch stay apart.
    """
    place = 0
    for start, stop in literal_spans:
        if place < start:
            yield Stretch(place, start, False)
        if start < stop:
            yield Stretch(start, stop, True)
        place = max(place, stop)
    if place < num_chars:
        yield Stretch(place, num_chars, False)


def twin_without_added_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with the same model and pipeline that takes no added token for one."""
    twin = Tokenizer(tokenizer.model)
    if tokenizer.normalizer is not None:
        twin.normalizer = tokenizer.normalizer
    if tokenizer.pre_tokenizer is not None:
        twin.pre_tokenizer = tokenizer.pre_tokenizer
    return twin


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralRules:
    """Which pieces of a text with literal spans may be encoded as ever, and which by the twin.

    `added_tokens` finds added tokens as the library does, leftmost and longest; None where the
    library may see them elsewhere, or where a text's beginning is encoded in a way of its own.
    """

    added_tokens: re.Pattern[str] | None

    def plan(self, text: str, literal_spans: Sequence[Span]) -> list[Stretch]:
        """Return the fewest pieces that, each encoded by itself, give the ids of the stretches.

        Shapes: a piece that is literal is the twin's; the others are encoded as any text is.
        """
        pieces: list[Stretch] = []
        group: list[Span] = []
        start = 0
        for span in literal_spans:
            if self._spells_token(text, span):
                pieces += self._plan_group(text, start, span[0], group)
                pieces.append(Stretch(*span, True))
                group, start = [], span[1]
                continue
            if group and group[-1][1] == span[0]:
                pieces += self._plan_group(text, start, span[0], group)
                group, start = [], span[0]
            group.append(span)
        return pieces + self._plan_group(text, start, len(text), group)

    def _plan_group(self, text: str, start: int, stop: int, spans: list[Span]) -> list[Stretch]:
        if start == stop:
            return []
        inside = [(first - start, last - start) for first, last in spans]
        if self._follows_from_whole(text[start:stop], inside):
            return [Stretch(start, stop, False)]
        return [
            Stretch(start + part.start, start + part.stop, False)
            for part in stretches(stop - start, inside)
        ]

    def _spells_token(self, text: str, span: Span) -> bool:
        found = self.added_tokens
        return found is None or found.search(text, *span) is not None

    def _follows_from_whole(self, text: str, literal_spans: Sequence[Span]) -> bool:
        """Say whether the ids of the stretches are the ids of the whole text.

        Why: added tokens part a text. Where every literal span lies between two of them, or a
        text's end, and none lies in a span, the library encodes it by itself and ordinarily.
        """
        if self.added_tokens is None:
            return not literal_spans
        matches = [found.span() for found in self.added_tokens.finditer(text)]
        starts = {start for start, _ in matches} | {len(text)}
        stops = {stop for _, stop in matches} | {0}
        at, num_matches = 0, len(matches)
        for start, stop in literal_spans:
            if start not in stops or stop not in starts:
                return False
            while at < num_matches and matches[at][1] <= start:
                at += 1
            if at < num_matches and matches[at][0] < stop:
                return False
        return True


def literal_rules(file: TokenizerFile, *, splits_special_tokens: bool) -> LiteralRules:
    """Read from a tokenizer's file when literal spans need no care.

    `splits_special_tokens`: the library finds special tokens and gives them up.
    """
    tokens = [token for token in file.added_tokens if token.content]
    has_flags = any(token.lstrip or token.rstrip or token.single_word for token in tokens)
    begins_alike = all(
        step.get("type") != "Metaspace" and not step.get("add_prefix_space")
        for step in flatten(file.pre_tokenizer)
    )
    is_plain = not has_flags and file.normalizer is None and not splits_special_tokens
    if not is_plain or not begins_alike or not tokens:
        return LiteralRules(added_tokens=None)
    contents = sorted((token.content for token in tokens), key=len, reverse=True)
    return LiteralRules(added_tokens=re.compile("|".join(map(re.escape, contents))))
