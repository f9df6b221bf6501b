"""A loaded tokenizer enters; a faster engine leaves, if it is there and answers the same.

Rules of this file: an engine is believed only after `admit`; what it is known to get wrong never
reaches it (`Guard`); what it answers in service is compared now and then (`should_shadow`,
`differs`). Pure: counters and quarantine are kept by `state`.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from tokenizers import Tokenizer

from foreword.tokenizer.admission_corpus import AdmissionText, admission_texts, long_texts
from foreword.tokenizer.panics import without_panic
from foreword.types import TokenIds

EncodeBatch = Callable[[Sequence[str]], list[TokenIds]]

_FOLDED = ("\u017f", "\u212a")
"""LATIN SMALL LETTER LONG S and KELVIN SIGN: `s` and `k` to a matcher that ignores case."""
_MAYBE_SPACE = ("\u180e",)
"""MONGOLIAN VOWEL SEPARATOR: white space before Unicode 6.3, and still to some matchers."""
_READ_OTHERWISE = re.compile(r"\\[bBhHwW]|\[:\^?[a-z]+:\]")
"""Classes with another meaning in the engine: `\\h` is a hex digit here and a space there."""


class FastEngine(Protocol):
    """Texts to ids, faster than the reference. Safe to share between threads."""

    @property
    def name(self) -> str: ...

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the ids of each text: added tokens matched, none added around it.

        Raises: whatever the engine raises (UnicodeError for a lone surrogate); the caller then
        asks the reference.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The engine to use, or None and the reason why there is none."""

    engine: FastEngine | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The characters whose texts only the reference may encode."""

    characters: tuple[str, ...]

    def refuses(self, text: str) -> bool:
        """Return whether the engine must not see `text`.

        Why: one memory scan a character, 0.01 ms at 128k tokens; a regular expression takes 10.
        """
        return any(character in text for character in self.characters)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FastokensEngine:
    """`fastokens` over one pipeline; it releases the GIL and uses every core."""

    tokenizer: Any
    splits_special_tokens: bool
    name: str

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the ids of each text. See `FastEngine`.

        Why one by one: a call with several texts hands them to threads whose caches are cold; at
        128k tokens that takes twice the processor time (in a new process six times) and is slower.
        """
        return [
            array(
                "I",
                without_panic(
                    self.tokenizer.encode_batch_flat,
                    [text],
                    split_special_tokens=self.splits_special_tokens,
                )[0],
            )
            for text in texts
        ]


def load_fastokens(tokenizer: Tokenizer) -> EngineChoice:
    """Build `fastokens` from the pipeline that `tokenizer` really runs.

    Takes seconds for a large vocabulary. What it cannot load (a Unigram model) or would read
    otherwise is declined with a reason and without an error: the reference serves.
    """
    try:
        fastokens = import_module("fastokens")
    except ImportError:
        return EngineChoice(engine=None, reason="fastokens is not installed (extra `fast`)")
    json_text = tokenizer.to_str()
    for pattern in _patterns(sections_of(tokenizer)):
        if found := _READ_OTHERWISE.search(pattern):
            return EngineChoice(
                engine=None,
                reason=f"the pre-tokenizer's pattern uses {found[0]}, which fastokens reads"
                " otherwise than the reference",
            )
    try:
        built = _build(fastokens, json_text)
    except Exception as error:  # a foreign library's any refusal means that the reference serves
        return EngineChoice(engine=None, reason=f"fastokens cannot load this tokenizer: {error}")
    engine = FastokensEngine(
        tokenizer=built,
        # The one property of a tokenizer that its JSON does not carry.
        splits_special_tokens=tokenizer.encode_special_tokens,
        name="fastokens",
    )
    return EngineChoice(engine=engine, reason="fastokens loaded this tokenizer")


def _build(fastokens: Any, json_text: str) -> Any:
    built = without_panic(fastokens.Tokenizer.from_json_str, json_text)
    built.no_truncation()
    built.no_padding()
    return built


def sections_of(tokenizer: Tokenizer) -> list[object]:
    """Return a loaded tokenizer's sections that may hold patterns, as `guard_for` wants them."""
    sections = (tokenizer.normalizer, tokenizer.pre_tokenizer)
    return [json.loads(section.__getstate__()) for section in sections if section is not None]


def guard_for(sections: Sequence[object]) -> Guard | None:
    """Return what texts the engine is known to get wrong under these sections of the file.

    `sections` are the normalizer and the pre-tokenizer, as tokenizer.json writes them.

    Source: fastokens 0.3.5. Where a pattern ignores case (`(?i:'s|'t|…)`: cl100k, Qwen, Llama 3,
    o200k, Kimi) the reference takes `'ſ` for `'s` and the engine does not; where a pattern is not
    one it has a scanner for, U+180E is white space to it.
    """
    patterns = _patterns(sections)
    characters: tuple[str, ...] = ()
    if any("(?i" in pattern for pattern in patterns):
        characters += _FOLDED
    if any("\\s" in pattern or "\\S" in pattern for pattern in patterns):
        characters += _MAYBE_SPACE
    return Guard(characters=characters) if characters else None


def _patterns(section: object) -> list[str]:
    if isinstance(section, dict):
        regex = section.get("Regex")
        found = [regex] if isinstance(regex, str) else []
        return found + [p for value in section.values() for p in _patterns(value)]
    if isinstance(section, list | tuple):
        return [pattern for value in section for pattern in _patterns(value)]
    return []


def admit(
    engine: FastEngine,
    reference: EncodeBatch,
    *,
    added_tokens: Sequence[str],
    guard: Guard | None = None,
) -> str | None:
    """Return None when `engine` answers the fixed corpus as `reference` does, else a sentence.

    `added_tokens` are the spellings of all added tokens. Texts that `guard` refuses are left out:
    the engine will never see them. The sentence names a category and numbers, never a text.
    """
    together = _admissible(admission_texts(added_tokens), guard)
    alone = _admissible(long_texts(), guard)
    cases = together + alone
    try:
        answers = engine.encode_batch([case.text for case in together])
        for case in alone:
            answers += engine.encode_batch([case.text])
    except Exception as error:  # an engine that fails on the corpus fails in service
        return f"{engine.name} failed on the admission corpus ({type(error).__name__})"
    if len(answers) != len(cases):
        return f"{engine.name} gave {len(answers)} answers to {len(cases)} texts"
    truth = reference([case.text for case in cases])
    wrong = [
        case.category
        for case, answer, true in zip(cases, answers, truth, strict=True)
        if differs(answer, true)
    ]
    if not wrong:
        return None
    return (
        f"{engine.name} differs from the reference on {len(wrong)} of {len(cases)} admission texts,"
        f" first in the category `{wrong[0]}`"
    )


def _admissible(cases: Sequence[AdmissionText], guard: Guard | None) -> list[AdmissionText]:
    return [case for case in cases if guard is None or not guard.refuses(case.text)]


def should_shadow(counter: int, every: int) -> bool:
    """Return whether the `counter`-th batch (from 1) is also given to the reference.

    The first is, and then one of every `every`; 0 shadows none.
    """
    return every > 0 and (counter - 1) % every == 0


def differs(engine_ids: TokenIds, reference_ids: TokenIds) -> bool:
    """Return whether the engine's ids of one text are not the reference's."""
    return engine_ids != reference_ids
