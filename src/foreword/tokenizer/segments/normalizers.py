"""What a normalizer leaves provable: the contexts across which it neither composes nor deletes.

What enters: the file's normalizer. What leaves: `NormalizerFacts`.

Rules of this file: a context survives when the normal form of left + right is the normal form of
left followed by that of right, and both neighbours stay what the context says they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain

import msgspec
import tokenizers

from foreword.tokenizer.segments.contexts import (
    ASCII,
    EVERY,
    LETTERS,
    SPACE_ASCII,
    SPACE_PLAIN,
    STOP,
    STOP_CJK,
    Context,
)
from foreword.tokenizer.tokenizer_file import Section, flatten


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizerFacts:
    """Where a normalizer acts on each side of a cut by itself, and what it does to ASCII."""

    contexts: frozenset[Context] = EVERY
    is_identity: bool = True
    is_plain: bool = True
    """Nothing is changed but spaces, and what is prepended."""
    keeps_ascii: bool = True
    """Printable ASCII and the space come out as they went in, or lower-cased."""
    lowers_ascii: bool = False
    space: str = " "
    """What U+0020 becomes."""
    prepend: str = ""
    """What is put before every section between added tokens."""
    reasons: tuple[str, ...] = ()

    def decline(self, reason: str) -> NormalizerFacts:
        return replace(
            self,
            contexts=frozenset(),
            is_identity=False,
            is_plain=False,
            keeps_ascii=False,
            reasons=(*self.reasons, reason),
        )

    def keep(self, contexts: frozenset[Context]) -> NormalizerFacts:
        return replace(self, contexts=self.contexts & contexts, is_identity=False, is_plain=False)


_PLAIN_SPACES = frozenset({SPACE_PLAIN, SPACE_ASCII})
# All right neighbours of the contexts are starters that compose with nothing before them, and a
# non-space never becomes a space canonically. NFD tears kana into a letter and a mark, so that
# a letter is no longer what stands before the stop; NFKC reaches most symbols, but no ASCII, and
# makes letters of letters.
_SURVIVORS: dict[str, frozenset[Context]] = {
    "NFC": EVERY,
    "NFD": EVERY - {STOP_CJK},
    "NFKC": ASCII | {SPACE_PLAIN},
    "NFKD": ASCII | {SPACE_PLAIN},
    "Lowercase": EVERY,
    "StripAccents": ASCII | {SPACE_PLAIN},
    # Newlines become spaces.
    "BertNormalizer": _PLAIN_SPACES | {STOP},
    # Works on grapheme clusters: one ends before a space, and one begins at a space before a plain
    # character. What the map does to these is tried out below, one character after the other.
    "Precompiled": _PLAIN_SPACES | {STOP},
}
_LOWERING = frozenset({"Lowercase", "BertNormalizer", "Precompiled"})


def normalizer_facts(normalizer: Section | None) -> NormalizerFacts:
    """Say which contexts survive `normalizer`, and how it treats the space and ASCII."""
    facts = reduce(_apply, flatten(normalizer), NormalizerFacts())
    if facts.prepend and facts.prepend != facts.space:
        return facts.decline(f"the normalizer prepends {facts.prepend!r}, which is not its space")
    if facts.is_identity or not facts.contexts:
        return facts
    return _try_characters(facts, normalizer)


def _apply(facts: NormalizerFacts, step: Section) -> NormalizerFacts:
    kind = step["type"]
    if kind == "Replace":
        return _replace(facts, step)
    if kind == "Prepend":
        if facts.prepend:
            return facts.decline("the normalizer prepends twice")
        return replace(facts, prepend=step["prepend"], is_identity=False)
    if kind == "Strip" and not (step.get("strip_left") or step.get("strip_right")):
        return facts
    if kind not in _SURVIVORS:
        return facts.decline(f"the normalizer {kind} acts on the ends of a piece, or is not known")
    if facts.prepend or facts.space != " ":
        return facts.decline(f"the normalizer {kind} follows a replaced space")
    facts = facts.keep(_SURVIVORS[kind])
    return replace(facts, lowers_ascii=facts.lowers_ascii or kind in _LOWERING)


def _replace(facts: NormalizerFacts, step: Section) -> NormalizerFacts:
    pattern, content = step["pattern"], step["content"]
    literal = pattern.get("String")
    if literal == " " and facts.space != " ":
        return facts  # None is left.
    if literal == " " and len(content) == 1 and not content.isspace():
        return replace(facts, space=content, is_identity=False)
    if pattern.get("Regex") == " {2,}" and content == " ":
        # A run of spaces lies wholly right of the cut, and the one space before a word stays.
        return facts.keep(_PLAIN_SPACES)
    if literal and content and content.isascii() and not re.search(r"\s", literal + content):
        # Touches neither a space nor what decides that the character before it is none.
        return facts.keep(_PLAIN_SPACES)
    return facts.decline(f"the normalizer replaces {pattern!r}, which is not known to stay local")


def _try_characters(facts: NormalizerFacts, normalizer: Section | None) -> NormalizerFacts:
    """Try the normalizer on every printable ASCII character and plain letter by itself."""
    normalize = _load(normalizer)
    letters = LETTERS if SPACE_PLAIN in facts.contexts else ()
    for char in chain(map(chr, range(0x20, 0x7F)), letters):
        seen = normalize(char).removeprefix(facts.prepend)
        wanted = facts.space if char == " " else char
        if seen == wanted or (facts.lowers_ascii and seen == wanted.lower()):
            continue
        if not seen or char == " " or any(map(str.isspace, seen)):
            return facts.decline(f"the normalizer turns U+{ord(char):04X} into a space or nothing")
        if char.isascii():
            facts = replace(facts, keeps_ascii=False, contexts=facts.contexts - {STOP})
    return facts


def _load(normalizer: Section | None) -> Callable[[str], str]:
    file: dict[str, object] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    loaded = tokenizers.Tokenizer.from_str(msgspec.json.encode(file).decode()).normalizer
    return lambda text: str(loaded.normalize_str(text))
