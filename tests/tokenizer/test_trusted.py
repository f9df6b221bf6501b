"""A fast engine in service: guarded, watched, and dismissed at its first wrong answer."""

from __future__ import annotations

import logging
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models
from faulty_engine import FaultyEngine, reference_of
from tokenizers import Tokenizer

from foreword.tokenizer.accelerated import Guard
from foreword.tokenizer.segments import no_cuts
from foreword.tokenizer.state import Piece, TokenizerState
from foreword.tokenizer.trusted import TrustedEngine
from foreword.types import TokenIds


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return small_models.byte_level()


def trusted(
    tokenizer: Tokenizer,
    is_wrong: Callable[[str], bool] = lambda text: False,
    *,
    guard: Guard | None = None,
    every: int = 1,
) -> TrustedEngine:
    return TrustedEngine(
        engine=FaultyEngine(tokenizer, is_wrong),
        guard=guard,
        encode_reference=reference_of(tokenizer),
        rules=no_cuts("a test"),
        state=TokenizerState(),
        shadow_every=every,
    )


def test_a_right_engine_serves(tokenizer: Tokenizer) -> None:
    engine = trusted(tokenizer)
    for _ in range(3):
        assert engine.encode_batch(["a b", "c"]) == reference_of(tokenizer)(["a b", "c"])
    stats = engine.state.stats()
    assert (stats.engine_batches, stats.shadow_checks, stats.quarantine) == (3, 3, None)


def test_what_the_guard_refuses_goes_to_the_reference(tokenizer: Tokenizer) -> None:
    engine = trusted(tokenizer, lambda text: "ſ" in text, guard=Guard(characters=("ſ",)), every=1)
    texts = ["plain", "long ſ", "again", "ſ"]
    assert engine.encode_batch(texts) == reference_of(tokenizer)(texts)
    assert engine.state.quarantine is None


def test_the_first_wrong_sample_ends_its_service(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    engine = trusted(tokenizer, lambda text: text == "rare")
    engine.state.remember_segments([(("", False, "x"), Piece(array("I", [1]), None))], epoch=0)
    with caplog.at_level(logging.ERROR):
        assert engine.encode_batch(["rare"]) == reference_of(tokenizer)(["rare"])
    stats = engine.state.stats()
    assert stats.quarantine == "faulty differed from the reference in batch 1"
    assert stats.num_segments == 0, "what it may have answered is forgotten"
    assert "quarantined" in caplog.text
    assert "rare" not in caplog.text, "no prompt text in a log"
    batches = stats.engine_batches
    engine.encode_batch(["more"])
    assert engine.state.stats().engine_batches == batches, "never asked again"


def test_samples_reach_every_place_of_a_batch(tokenizer: Tokenizer) -> None:
    engine = trusted(tokenizer, lambda text: text == "rare", every=2)
    for _ in range(8):
        engine.encode_batch(["one", "two", "rare"])
    assert engine.state.quarantine is not None


@pytest.mark.parametrize("kind", ["raises", "short"])
def test_an_engine_that_breaks_is_dismissed(tokenizer: Tokenizer, kind: str) -> None:
    class Broken:
        name = "broken"

        def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
            if kind == "raises":
                raise RuntimeError("the engine panicked")
            return []

    engine = TrustedEngine(
        engine=Broken(),
        guard=None,
        encode_reference=reference_of(tokenizer),
        rules=no_cuts("a test"),
        state=TokenizerState(),
    )
    assert engine.encode_batch(["a b"]) == reference_of(tokenizer)(["a b"])
    assert engine.state.quarantine is not None


def test_text_that_is_none_is_not_its_fault(tokenizer: Tokenizer) -> None:
    class Strict:
        name = "strict"

        def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    engine = TrustedEngine(
        engine=Strict(),
        guard=None,
        encode_reference=reference_of(tokenizer),
        rules=no_cuts("a test"),
        state=TokenizerState(),
    )
    with pytest.raises(TypeError):
        engine.encode_batch(["\ud800"])
    assert engine.state.quarantine is None
