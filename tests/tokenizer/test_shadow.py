"""What a fast engine answered to a long text, compared at a bounded cost."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from faulty_engine import reference_of
from test_segmented import some_text

from foreword import demo
from foreword.assets.load import load_assets
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.tokenizer.segments import CutRules, no_cuts
from foreword.tokenizer.shadow import STRETCH_CHARS, agrees, choose_stretch
from foreword.types import TokenIds

TEXT = some_text(random.Random(21), 200_000)


@pytest.fixture(scope="module")
def tokenizer() -> SegmentedTokenizer:
    reference = get_tokenizer(load_assets(demo.model_folder()))
    assert isinstance(reference, HuggingFaceTokenizer)
    return SegmentedTokenizer.over(reference)


def ids_of(tokenizer: SegmentedTokenizer, text: str) -> TokenIds:
    return tokenizer.reference.encode(text, add_special_tokens=False).token_ids


@pytest.mark.parametrize("num_chars", [0, 1, 5000, 2 * STRETCH_CHARS, 50_000, 200_000])
def test_true_answers_agree_wherever_they_are_compared(
    tokenizer: SegmentedTokenizer, num_chars: int
) -> None:
    text = TEXT[:num_chars]
    ids, asked = ids_of(tokenizer, text), 0
    starts = set()

    def reference(texts: Sequence[str]) -> list[TokenIds]:
        nonlocal asked
        asked = max(asked, *map(len, texts))
        return reference_of(tokenizer.reference.tokenizer)(texts)

    for number in range(1, 4002, 100):
        assert agrees(tokenizer.rules, text, ids, reference, number)
        starts.add(choose_stretch(tokenizer.rules, text, number).start)
    assert asked <= 2 * STRETCH_CHARS
    assert len(starts) > 20 if num_chars == 200_000 else starts


@pytest.mark.parametrize("place", [0, 1, 0.25, 0.5, -2, -1])
def test_a_wrong_id_is_found_when_its_stretch_is_compared(
    tokenizer: SegmentedTokenizer, place: float
) -> None:
    reference = reference_of(tokenizer.reference.tokenizer)
    ids = ids_of(tokenizer, TEXT)
    at = int(place * len(ids)) if isinstance(place, float) else place
    ids[at] ^= 1
    verdicts = [agrees(tokenizer.rules, TEXT, ids, reference, n) for n in range(1, 20_002, 100)]
    assert 0 < verdicts.count(False) < 100


@pytest.mark.parametrize("change", ["one more", "one less"])
def test_an_answer_of_another_length_is_found(tokenizer: SegmentedTokenizer, change: str) -> None:
    reference = reference_of(tokenizer.reference.tokenizer)
    ids = ids_of(tokenizer, TEXT)
    ids = ids + array("I", [7]) if change == "one more" else ids[:-1]
    verdicts = [agrees(tokenizer.rules, TEXT, ids, reference, n) for n in range(1, 20_002, 100)]
    assert False in verdicts


@pytest.mark.parametrize("rules", [no_cuts("a test"), None], ids=["no cuts", "no cut there"])
def test_what_offers_no_cut_is_compared_whole(
    tokenizer: SegmentedTokenizer, rules: CutRules | None
) -> None:
    text = TEXT if rules is not None else "a" * 100_000
    for number in (1, 101, 3001):
        stretch = choose_stretch(rules or tokenizer.rules, text, number)
        assert stretch == (0, len(text))


def test_ids_are_compared_at_their_own_bounds(tokenizer: SegmentedTokenizer) -> None:
    """Bytes that fit across two ids are no match."""
    start, stop = choose_stretch(tokenizer.rules, TEXT, 101)
    assert 0 < start < stop < len(TEXT)
    wanted = array("I", [0x01010101] * 3)
    shifted = array("I")
    shifted.frombytes(b"\0" + wanted.tobytes() + b"\0" * 3)
    assert wanted.tobytes() in shifted.tobytes()
    assert agrees(tokenizer.rules, TEXT, wanted, lambda _: [wanted], 101)
    assert not agrees(tokenizer.rules, TEXT, shifted, lambda _: [wanted], 101)


def test_a_text_that_repeats_itself_is_compared_whole(tokenizer: SegmentedTokenizer) -> None:
    """Its stretches stand everywhere, also in an answer of which half is lost."""
    text = "The same sentence, once more and again. " * 4000
    reference = reference_of(tokenizer.reference.tokenizer)
    ids = ids_of(tokenizer, text)
    for number in range(1, 2002, 100):
        assert agrees(tokenizer.rules, text, ids, reference, number)
        assert not agrees(tokenizer.rules, text, ids[: len(ids) // 2], reference, number)
