"""What a pre-tokenizer leaves provable: the contexts in which it always breaks.

What enters: the file's pre-tokenizer and what its normalizer does to a space. What leaves:
`PreTokenizerFacts`.

Rules of this file: a sequence breaks in a context when one of its steps always does and every
other step sees no further than the two neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from foreword.tokenizer.segments.contexts import (
    EVERY,
    LINE,
    SPACES,
    STOP,
    Context,
)
from foreword.tokenizer.segments.patterns import BREAKS, GPT2, NEUTRAL
from foreword.tokenizer.tokenizer_file import Section, flatten


@dataclass(frozen=True, slots=True, kw_only=True)
class PreTokenizerFacts:
    """Where a pre-tokenizer always breaks; or that it never does."""

    neutral: frozenset[Context] = EVERY
    broken: frozenset[Context] = frozenset()
    is_one_word: bool = True
    """A whole section between added tokens is one word of the model."""
    space: str = " "
    adds_prefix: bool = False
    """A section that does not begin with a space is given one (Metaspace, `add_prefix_space`)."""
    is_closed: bool = False
    """A step has rewritten the text: nothing may follow."""
    reasons: tuple[str, ...] = ()

    @property
    def contexts(self) -> frozenset[Context]:
        return self.neutral & self.broken

    def decline(self, reason: str) -> PreTokenizerFacts:
        return replace(
            self, neutral=frozenset(), is_one_word=False, reasons=(*self.reasons, reason)
        )

    def split(
        self, breaks: frozenset[Context], neutral: frozenset[Context] = frozenset()
    ) -> PreTokenizerFacts:
        return replace(
            self,
            neutral=self.neutral & (breaks | neutral),
            broken=self.broken | breaks,
            is_one_word=False,
        )


# Steps that drop whitespace break at any; punctuation and digits are taken character by
# character, joined at most with a neighbour.
_WORDS = SPACES | {LINE}
_STEPS: dict[str, tuple[frozenset[Context], frozenset[Context]]] = {
    "WhitespaceSplit": (_WORDS, EVERY),
    "Whitespace": (_WORDS | {STOP}, frozenset()),
    "BertPreTokenizer": (_WORDS | {STOP}, frozenset()),
    "Digits": (frozenset(), EVERY),
    "Punctuation": (frozenset(), SPACES | {LINE}),
}


def pretokenizer_facts(pre_tokenizer: Section | None, *, space: str) -> PreTokenizerFacts:
    """Say where `pre_tokenizer` always breaks a text whose spaces the normalizer made `space`."""
    facts = PreTokenizerFacts(space=space)
    for step in flatten(pre_tokenizer):
        if facts.is_closed:
            return facts.decline(f"the pre-tokenizer {step['type']} follows one that rewrites")
        facts = _apply(facts, step)
    if facts.space != " " and facts.broken and not facts.is_closed:
        return facts.decline("the normalizer replaces spaces before the pattern sees them")
    return facts


def _apply(facts: PreTokenizerFacts, step: Section) -> PreTokenizerFacts:
    kind = step["type"]
    if kind == "Split":
        return _split(facts, step)
    if kind == "ByteLevel":
        return _byte_level(facts, step)
    if kind == "Metaspace":
        return _metaspace(facts, step)
    if kind in _STEPS:
        return facts.split(*_STEPS[kind])
    return facts.decline(f"the pre-tokenizer {kind} is not known")


def _split(facts: PreTokenizerFacts, step: Section) -> PreTokenizerFacts:
    pattern = step["pattern"]
    if pattern.get("String") == " " and facts.space != " ":
        return facts  # The normalizer has left no space to split at.
    form = (step.get("behavior"), bool(step.get("invert")))
    if form not in {("Isolated", False), ("Removed", True)}:
        return facts.decline(f"a Split pre-tokenizer with behavior {form[0]} is not known")
    expression = pattern.get("Regex")
    if expression in BREAKS:
        return facts.split(BREAKS[expression])
    if expression in NEUTRAL and form == ("Isolated", False):
        return facts.split(frozenset(), NEUTRAL[expression])
    return facts.decline("the pre-tokenizer's pattern is not one of those that are known")


def _byte_level(facts: PreTokenizerFacts, step: Section) -> PreTokenizerFacts:
    if step.get("use_regex", True):
        facts = facts.split(BREAKS[GPT2])
    return replace(
        facts,
        is_closed=True,
        adds_prefix=facts.adds_prefix or bool(step.get("add_prefix_space", True)),
        is_one_word=False,
    )


def _metaspace(facts: PreTokenizerFacts, step: Section) -> PreTokenizerFacts:
    old_spelling = "always" if step.get("add_prefix_space", True) else "never"
    scheme = step.get("prepend_scheme", old_spelling)
    if facts.space not in (" ", step["replacement"]):
        return facts.decline("Metaspace and the normalizer spell the space differently")
    facts = replace(
        facts,
        space=step["replacement"],
        adds_prefix=facts.adds_prefix or scheme != "never",
        is_closed=True,
    )
    if not step.get("split", True):
        return facts
    return facts.split(SPACES, SPACES | {STOP, LINE})
