"""The cuts are tried at load, and an engine found out meanwhile leaves nothing behind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models
from faulty_engine import FaultyEngine, serving

from foreword import demo
from foreword.assets.load import load_assets
from foreword.tokenizer import segmented
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.normalized import TwinWithoutNormalizer
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.tokenizer.segments import CutRules, prove_file
from foreword.tokenizer.self_check import FAILED_SELF_CHECK, passes_self_check
from foreword.tokenizer.trusted import Admission
from foreword.types import TokenIds

TEXT = "the tokens of a chat grow by a turn, and the next one begins here. " * 200


@pytest.fixture(scope="module")
def reference() -> HuggingFaceTokenizer:
    tokenizer = get_tokenizer(load_assets(demo.model_folder()))
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return tokenizer


def test_sound_cuts_pass_and_leave_nothing_behind(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    assert tokenizer.rules.kind != "none"
    stats = tokenizer.state.stats()
    assert (stats.num_segments, stats.num_prefixes, stats.segment_misses) == (0, 0, 0)
    assert passes_self_check(tokenizer, reference)


def test_cuts_that_are_wrong_are_found_at_load(
    reference: HuggingFaceTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prove_wrongly(*args: Any, **options: Any) -> CutRules:
        inside_words = re.compile("(?<=[a-z])(?=[a-z])")
        return replace(prove_file(*args, **options), places=inside_words, vocabulary=None)

    monkeypatch.setattr(segmented, "prove_file", prove_wrongly)
    tokenizer = SegmentedTokenizer.over(reference)
    assert tokenizer.rules.kind == "none"
    assert tokenizer.cut_report["reasons"] == [FAILED_SELF_CHECK]
    assert not tokenizer.info.has_proved_cuts
    got = tokenizer.encode(TEXT, add_special_tokens=False).token_ids
    assert got == reference.encode(TEXT, add_special_tokens=False).token_ids


@pytest.mark.parametrize("is_accelerated", [False, True])
def test_a_wrong_twin_is_found_at_load(
    reference: HuggingFaceTokenizer, monkeypatch: pytest.MonkeyPatch, is_accelerated: bool
) -> None:
    """Also where a fast engine answers: the twin serves when that is found out."""

    def admit(*_: object) -> Admission:
        return Admission(FaultyEngine(reference.tokenizer, lambda _: False), None, "admitted")

    def find_wrongly(*_: object) -> TwinWithoutNormalizer:
        return TwinWithoutNormalizer(tokenizer=small_models.byte_level(), replaces=None)

    monkeypatch.setattr(segmented, "admit_fastokens", admit)
    monkeypatch.setattr(segmented, "find_twin", find_wrongly)
    tokenizer = SegmentedTokenizer.over(reference, is_accelerated=is_accelerated)
    assert tokenizer.twin is None
    got = tokenizer.encode(TEXT, add_special_tokens=False).token_ids
    assert got == reference.encode(TEXT, add_special_tokens=False).token_ids


class LateVerdict:
    """A wrong engine that another thread finds out while it answers."""

    name = "late"

    def __init__(self, wrong: FaultyEngine) -> None:
        self.wrong = wrong
        self.find_out: Callable[[], object] = list

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        answers = self.wrong.encode_batch(texts)
        self.find_out()
        return answers


@pytest.mark.parametrize("text", [TEXT, TEXT[:500]], ids=["long", "short"])
def test_an_answer_in_flight_when_its_engine_is_found_out_is_not_used(
    reference: HuggingFaceTokenizer, text: str
) -> None:
    plain = SegmentedTokenizer.over(reference)
    engine = LateVerdict(FaultyEngine(reference.tokenizer, lambda _: True))
    engine.find_out = partial(plain.state.put_in_quarantine, "found out by another thread")
    tokenizer = serving(plain, engine)
    want = reference.encode(text, add_special_tokens=False).token_ids
    for _ in range(2):
        assert tokenizer.encode(text, add_special_tokens=False).token_ids == want
