"""fastokens itself, where it is installed: loaded, guarded, admitted, equal to the reference."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

import pytest
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
import small_models
from faulty_engine import ADDED, byte_level, reference_of

from foreword.tokenizer.accelerated import (
    FastEngine,
    admit,
    guard_for,
    load_fastokens,
    sections_of,
)

pytest.importorskip("fastokens", reason="fastokens is not installed (extra `fast`)")

MODELS = Path(__file__).parents[3] / "shared" / "data" / "models"
KNOWN_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def engine_of(tokenizer: Tokenizer) -> FastEngine:
    choice = load_fastokens(tokenizer)
    assert choice.engine is not None, choice.reason
    return choice.engine


@pytest.mark.parametrize("pattern", [KNOWN_PATTERN, small_models.SPLIT, r"(?i:'s)|\p{L}+|\s+"])
def test_fastokens_is_admitted_with_its_guard(pattern: str) -> None:
    tokenizer = byte_level(pattern)
    guard = guard_for(sections_of(tokenizer))
    assert guard is not None
    fault = admit(engine_of(tokenizer), reference_of(tokenizer), added_tokens=ADDED, guard=guard)
    assert fault is None


def test_answers_are_arrays_of_each_text() -> None:
    tokenizer = small_models.byte_level()
    engine = engine_of(tokenizer)
    texts = ["the fox", "", "<|end|>a 1\n", "über straße"]
    answers = engine.encode_batch(texts)
    assert answers == reference_of(tokenizer)(texts)
    assert all(ids.typecode == "I" for ids in answers)
    assert engine.encode_batch(["the fox"]) == answers[:1]
    assert engine.encode_batch([]) == []
    assert isinstance(answers[1], array)


def test_special_tokens_taken_as_text_stay_text() -> None:
    tokenizer = small_models.byte_level()
    tokenizer.encode_special_tokens = True
    texts = ["a<|end|>b", "<|end|>"]
    truth = reference_of(tokenizer)(texts)
    assert len(truth[1]) > 1
    assert engine_of(tokenizer).encode_batch(texts) == truth


def test_the_files_truncation_and_padding_are_not_run() -> None:
    tokenizer = small_models.byte_level()
    plain = engine_of(tokenizer).encode_batch(["the quick brown fox", "a"])
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    assert engine_of(tokenizer).encode_batch(["the quick brown fox", "a"]) == plain


def test_a_lone_surrogate_is_the_texts_fault() -> None:
    with pytest.raises(UnicodeError):
        engine_of(small_models.byte_level()).encode_batch(["a\ud800"])


def test_what_it_cannot_load_is_declined_with_the_reason() -> None:
    choice = load_fastokens(small_models.unigram())
    assert choice.engine is None
    assert choice.reason.startswith("fastokens cannot load this tokenizer")


@pytest.mark.parametrize("pattern", [r"\w+|\s+", r"\h+|[^\h]+", r"[[:punct:]]|\s+|[^\s]"])
def test_classes_it_reads_otherwise_are_declined(pattern: str) -> None:
    choice = load_fastokens(byte_level(pattern))
    assert choice.engine is None
    assert "reads otherwise" in choice.reason


@pytest.mark.golden
def test_a_real_model_is_admitted_and_its_guard_is_needed() -> None:
    file = MODELS / "gptoss" / "tokenizer.json"
    if not file.exists():
        pytest.skip("the private data folder is not beside the checkout")
    tokenizer = Tokenizer.from_file(str(file))
    engine, reference = engine_of(tokenizer), reference_of(tokenizer)
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    guard = guard_for(sections_of(tokenizer))
    assert guard is not None
    assert admit(engine, reference, added_tokens=added, guard=guard) is None
    # The o200k pattern ends words with contractions: here it takes `'ſ` for one.
    text = "x'\u017f'Res"
    assert guard.refuses(text)
    assert engine.encode_batch([text]) != reference([text])
    unguarded = admit(engine, reference, added_tokens=added)
    assert unguarded is not None
    assert "`case folding`" in unguarded
