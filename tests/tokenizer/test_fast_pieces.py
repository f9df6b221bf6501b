"""What a fast engine is given: long pieces, cut once more where one is too long for a call."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from faulty_engine import reference_of, serving
from test_segmented import some_text

from foreword import demo
from foreword.assets.load import load_assets
from foreword.errors import InvalidRequest
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.types import TokenIds, Window


@dataclass(frozen=True)
class Recorder:
    """The reference as a fast engine, which keeps what it was asked."""

    reference: HuggingFaceTokenizer
    asked: list[str] = field(default_factory=list)
    name: str = "recorder"

    def encode_batch(self, texts: Sequence[str]) -> list[TokenIds]:
        self.asked.extend(texts)
        return reference_of(self.reference.tokenizer)(texts)


@pytest.fixture(scope="module")
def reference() -> HuggingFaceTokenizer:
    tokenizer = get_tokenizer(load_assets(demo.model_folder()))
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return tokenizer


def over(
    reference: HuggingFaceTokenizer, *, max_uncut_chars: int | None = None
) -> tuple[SegmentedTokenizer, list[str]]:
    plain = SegmentedTokenizer.over(reference, max_uncut_chars=max_uncut_chars)
    recorder = Recorder(reference)
    return serving(plain, recorder), recorder.asked


def test_a_long_text_is_a_few_long_pieces_and_grows_by_what_is_new(
    reference: HuggingFaceTokenizer,
) -> None:
    tokenizer, asked = over(reference)
    text = some_text(random.Random(1), 250_000)
    for grown in (text, text + "<|im_start|>" + some_text(random.Random(2), 700)):
        got = tokenizer.encode(grown, add_special_tokens=False).token_ids
        assert got == reference.encode(grown, add_special_tokens=False).token_ids
    assert len(asked) <= 6
    assert sum(map(len, asked)) < 250_000 + 3 * 700
    stats = tokenizer.state.stats()
    assert (stats.num_segments, stats.num_prefixes) == (0, 1), "what is known is kept once"
    asked.clear()
    tokenizer.encode(grown, add_special_tokens=False)
    assert sum(map(len, asked)) <= 2048


def test_a_long_last_piece_is_remembered_by_itself(reference: HuggingFaceTokenizer) -> None:
    """Nothing else would: a prompt is known up to where its last piece begins."""
    tokenizer, asked = over(reference)
    text = some_text(random.Random(3), 3000) + "a" * 150_000
    for _ in range(2):
        got = tokenizer.encode(text, add_special_tokens=False).token_ids
        assert got == reference.encode(text, add_special_tokens=False).token_ids
    assert sum(map(len, asked)) == len(text)


@pytest.mark.parametrize("limit", [3200, 5000, 200_000])
def test_a_piece_beyond_the_limit_is_cut_once_more(
    reference: HuggingFaceTokenizer, limit: int
) -> None:
    tokenizer, asked = over(reference, max_uncut_chars=limit)
    # Where the engine would like to be cut there is no place: a run of 3,000 letters.
    text = some_text(random.Random(4), 4000) + "a" * 3000 + some_text(random.Random(5), 90_000)
    got = tokenizer.encode(text, add_special_tokens=False).token_ids
    assert got == reference.encode(text, add_special_tokens=False).token_ids
    assert max(map(len, asked)) <= limit
    with pytest.raises(InvalidRequest, match="characters"):
        tokenizer.encode(text + "a" * (limit + 1), add_special_tokens=False)


@pytest.mark.parametrize("limit", [1500, 20_000])
def test_a_tail_is_cut_within_the_limit(reference: HuggingFaceTokenizer, limit: int) -> None:
    tokenizer, asked = over(reference, max_uncut_chars=limit)
    text = some_text(random.Random(8), 120_000)
    full = reference.encode(text, add_special_tokens=False).token_ids
    got = tokenizer.encode(
        text, add_special_tokens=False, window=Window(num_tokens=20_000, keep="tail")
    )
    assert len(got.token_ids) >= 20_000
    assert got.token_ids == full[-len(got.token_ids) :]
    assert max(map(len, asked)) <= limit


@pytest.mark.parametrize("keep", ["head", "tail"])
def test_a_window_does_not_ask_for_a_long_piece(reference: HuggingFaceTokenizer, keep: str) -> None:
    tokenizer, asked = over(reference)
    text = some_text(random.Random(6), 250_000)
    full = reference.encode(text, add_special_tokens=False).token_ids
    window = Window(num_tokens=100, keep=keep)  # type: ignore[arg-type]
    got = tokenizer.encode(text, add_special_tokens=False, window=window)
    size = len(got.token_ids)
    assert got.token_ids == (full[:size] if keep == "head" else full[-size:])
    assert size >= 100
    assert sum(map(len, asked)) < 10_000


@pytest.mark.parametrize("is_fast", [False, True])
@pytest.mark.parametrize("keep", [None, "head", "tail"])
def test_stretches_below_the_limit_are_found_wherever_they_lie(
    reference: HuggingFaceTokenizer, is_fast: bool, keep: str | None
) -> None:
    """Files in base64, say: a look here and there meets none of the few cuts between them."""
    tokenizer, _ = over(reference, max_uncut_chars=9000)
    tokenizer = tokenizer if is_fast else replace(tokenizer, fast=None)
    rng = random.Random(9)
    blobs = ["".join(rng.choices("abcdefghij", k=8000)) for _ in range(40)]
    text = "\n\n".join(f"File {place} of the upload:\n{blob}" for place, blob in enumerate(blobs))
    full = reference.encode(text, add_special_tokens=False).token_ids
    window = None if keep is None else Window(num_tokens=9000, keep=keep)  # type: ignore[arg-type]
    got = tokenizer.encode(text, add_special_tokens=False, window=window).token_ids
    assert len(got) >= min(9000, len(full))
    assert got == (full[-len(got) :] if keep == "tail" else full[: len(got)])


def test_a_short_text_is_cut_too_before_it_is_refused(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference, max_uncut_chars=600)
    text = some_text(random.Random(10), 1500)
    got = tokenizer.encode(text, add_special_tokens=False).token_ids
    assert got == reference.encode(text, add_special_tokens=False).token_ids
    with pytest.raises(InvalidRequest, match="max_uncut_chars"):
        tokenizer.encode("a" * 1500, add_special_tokens=False)


def test_a_copy_keeps_its_sampling_and_a_verdict(reference: HuggingFaceTokenizer) -> None:
    tokenizer, _ = over(reference)
    assert tokenizer.__reduce__()[1][-2:] == (True, 0)
    tokenizer.state.put_in_quarantine("found out")
    assert tokenizer.__reduce__()[1][-2:] == (False, 0)
