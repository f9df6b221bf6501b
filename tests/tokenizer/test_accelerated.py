"""A fast engine is believed only where it answers like the reference: three nets, each tested."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
import small_models
from faulty_engine import ADDED, FaultyEngine, byte_level, reference_of

from foreword.tokenizer.accelerated import (
    FastEngine,
    Guard,
    admit,
    differs,
    guard_for,
    load_fastokens,
    sections_of,
    should_shadow,
)
from foreword.tokenizer.admission_corpus import admission_texts, long_texts


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return small_models.byte_level()


# -- admission ------------------------------------------------------------------------------------


def test_an_engine_that_answers_like_the_reference_is_admitted(tokenizer: Tokenizer) -> None:
    engine: FastEngine = FaultyEngine(tokenizer, lambda text: False)
    assert admit(engine, reference_of(tokenizer), added_tokens=ADDED) is None


@pytest.mark.parametrize(
    ("category", "is_wrong"),
    [
        ("contractions", lambda text: "'Re" in text and "\u017f" not in text),
        ("digits", lambda text: "３" in text),
        ("combining marks", lambda text: "A\u030a" in text),
        ("line ends", lambda text: text.endswith("\u2028")),
        ("runs", lambda text: len(text) == 401 and text[0] == " "),
        ("added tokens", lambda text: "<|end|><|end|>" in text),
        ("text in chunks", lambda text: len(text) > 16_384),
    ],
)
def test_a_fault_on_the_corpus_is_not_admitted(
    tokenizer: Tokenizer, category: str, is_wrong: Callable[[str], bool]
) -> None:
    refusal = admit(FaultyEngine(tokenizer, is_wrong), reference_of(tokenizer), added_tokens=ADDED)
    assert refusal is not None
    assert f"`{category}`" in refusal


def test_an_engine_that_remembers_the_text_before_wrongly_is_not_admitted(
    tokenizer: Tokenizer,
) -> None:
    before = [""]

    def is_wrong(text: str) -> bool:
        grew = len(text) > 4096 and text.startswith(before[0]) and text != before[0]
        grew = grew and len(before[0]) > 4096
        before[0] = text
        return grew

    refusal = admit(FaultyEngine(tokenizer, is_wrong), reference_of(tokenizer), added_tokens=ADDED)
    assert refusal is not None
    assert "`growing text`" in refusal


def test_the_refusal_has_numbers_and_no_text(tokenizer: Tokenizer) -> None:
    engine = FaultyEngine(tokenizer, lambda text: text == "a中文字符b")
    num_texts = len(admission_texts(ADDED)) + len(long_texts())
    assert admit(engine, reference_of(tokenizer), added_tokens=ADDED) == (
        f"faulty differs from the reference on 1 of {num_texts} admission texts,"
        " first in the category `cjk`"
    )


def test_an_engine_that_fails_is_not_admitted(tokenizer: Tokenizer) -> None:
    def fail(text: str) -> bool:
        raise ValueError(text)

    refusal = admit(FaultyEngine(tokenizer, fail), reference_of(tokenizer), added_tokens=ADDED)
    assert refusal == "faulty failed on the admission corpus (ValueError)"


def test_the_corpus_is_fixed_and_bounded() -> None:
    many = [f"<unused{number}>" for number in range(6000)]
    texts = admission_texts(many)
    assert texts == admission_texts(many)
    assert 3000 < len(texts) < 5000
    assert sum(len(text) for _, text in [*texts, *long_texts()]) < 300_000
    whole = "\n".join(text for category, text in texts if category == "added tokens")
    assert all(token in whole for token in many)


# -- guards ---------------------------------------------------------------------------------------


def test_a_fault_on_a_guarded_character_is_kept_from_the_engine() -> None:
    tokenizer = byte_level(r"(?i:'s|'t)|\p{L}+|\s+|[^\s\p{L}]+")
    engine = FaultyEngine(tokenizer, lambda text: "\u017f" in text or "\u212a" in text)
    guard = guard_for(sections_of(tokenizer))
    assert guard is not None
    assert guard.refuses("it'\u017f here")
    assert not guard.refuses("it's here")
    reference = reference_of(tokenizer)
    assert admit(engine, reference, added_tokens=ADDED) is not None
    assert admit(engine, reference, added_tokens=ADDED, guard=guard) is None


@pytest.mark.parametrize(
    ("pattern", "characters"),
    [
        (r"(?i:'s)|\p{L}+|\s+", ("\u017f", "\u212a", "\u180e")),
        (r"'s|\p{L}+|\s+(?!\S)|\s+", ("\u180e",)),
        (r"(?i:'s)|\p{L}+", ("\u017f", "\u212a")),
    ],
)
def test_the_guard_follows_from_the_pattern(pattern: str, characters: tuple[str, ...]) -> None:
    assert guard_for(sections_of(byte_level(pattern))) == Guard(characters=characters)


def test_no_pattern_no_guard() -> None:
    assert guard_for(sections_of(small_models.sentencepiece_bpe())) is None
    assert guard_for([]) is None


# -- shadow checks --------------------------------------------------------------------------------


def test_the_first_batch_and_every_nth_are_shadowed() -> None:
    assert [counter for counter in range(1, 12) if should_shadow(counter, 5)] == [1, 6, 11]
    assert all(should_shadow(counter, 1) for counter in range(1, 5))
    assert not any(should_shadow(counter, 0) for counter in range(1, 5))


def test_a_fault_on_rare_text_passes_admission_and_is_seen_by_the_shadow(
    tokenizer: Tokenizer,
) -> None:
    engine = FaultyEngine(tokenizer, lambda text: "quokka" in text)
    reference = reference_of(tokenizer)
    assert admit(engine, reference, added_tokens=ADDED) is None
    texts = ["a fox", "a quokka", ""]
    seen = zip(engine.encode_batch(texts), reference(texts), strict=True)
    assert [differs(ids, truth) for ids, truth in seen] == [False, True, False]


# -- loading --------------------------------------------------------------------------------------


def test_without_the_package_the_reason_says_so(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    choice = load_fastokens(tokenizer)
    assert choice.engine is None
    assert "not installed" in choice.reason
