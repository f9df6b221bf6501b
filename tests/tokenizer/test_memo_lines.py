"""A prompt that grows is one line of the memo, and what it is found by is dropped with it."""

from __future__ import annotations

import random
import string

import pytest

from foreword import demo
from foreword.assets.load import load_assets
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.tokenizer.segments import CutRules, next_token_cut
from foreword.tokenizer.state import TokenizerState
from foreword.types import Window


@pytest.fixture(scope="module")
def reference() -> HuggingFaceTokenizer:
    tokenizer = get_tokenizer(load_assets(demo.model_folder()))
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return tokenizer


def words(rng: random.Random, num_chars: int) -> str:
    text = ""
    while len(text) < num_chars:
        text += "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(1, 9))) + " "
    return text[:num_chars]


def index_size(state: TokenizerState) -> int:
    return len(state._index)


def test_a_chat_that_grows_stays_one_line(reference: HuggingFaceTokenizer) -> None:
    tokenizer, rng = SegmentedTokenizer.over(reference), random.Random(1)
    text, sizes = words(rng, 4000), []
    for _ in range(20):
        tokenizer.encode(text + "<|im_start|>assistant\n", add_special_tokens=False)
        sizes.append(tokenizer.state.stats().prefix_bytes)
        text += "<|im_start|>user\n" + words(rng, 700) + "<|im_end|>\n"
    stats = tokenizer.state.stats()
    assert stats.num_prefixes == 1
    assert stats.prefix_hits == 19
    assert sizes == sorted(sizes)
    assert sizes[-1] < 2 * sizes[0] * (len(text) / 4000)


def test_a_branch_is_a_line_of_its_own(reference: HuggingFaceTokenizer) -> None:
    tokenizer, rng = SegmentedTokenizer.over(reference), random.Random(2)
    common = words(rng, 5000) + "<|im_end|>\n"
    for _ in range(3):
        text = common + words(rng, 3000)
        got = tokenizer.encode(text, add_special_tokens=False)
        assert got.token_ids == reference.encode(text, add_special_tokens=False).token_ids
    assert tokenizer.state.stats().num_prefixes == 3


def test_what_a_dropped_line_was_found_by_is_dropped_too(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference, memo_bytes=200_000)
    rng = random.Random(3)
    for _ in range(60):
        tokenizer.encode(words(rng, 6000), add_special_tokens=False)
    stats = tokenizer.state.stats()
    assert stats.evictions > 0
    assert 0 < stats.num_prefixes < 60
    assert index_size(tokenizer.state) <= stats.num_prefixes * 6000 // 256


def test_quarantine_forgets_every_line(reference: HuggingFaceTokenizer) -> None:
    tokenizer, rng = SegmentedTokenizer.over(reference), random.Random(4)
    text = words(rng, 6000)
    tokenizer.encode(text, add_special_tokens=False)
    tokenizer.state.put_in_quarantine("a test")
    assert index_size(tokenizer.state) == 0
    longer = text + words(rng, 800)
    got = tokenizer.encode(longer, add_special_tokens=False)
    assert got.token_ids == reference.encode(longer, add_special_tokens=False).token_ids
    assert tokenizer.state.stats().prefix_hits == 0


def test_a_window_does_not_keep_the_text_it_did_not_read(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    text = words(random.Random(5), 300_000)
    window = Window(keep="head", num_tokens=4000)
    got = tokenizer.encode(text, add_special_tokens=False, window=window)
    assert not got.is_complete
    assert 0 < tokenizer.state.stats().prefix_bytes < len(text) // 2


@pytest.mark.parametrize("noise", ["<", "< ", "<|", "<|im_", "ab<c", "x"])
def test_the_first_token_is_found_among_what_only_begins_like_one(
    reference: HuggingFaceTokenizer, noise: str
) -> None:
    rules: CutRules = SegmentedTokenizer.over(reference).rules
    rng = random.Random(6)
    for _ in range(40):
        before = noise * rng.randrange(1, 50)
        text = before + "<|im_start|>" + noise * 5 + "<|im_end|>"
        start, stop = 1, len(text) - 1
        want = next((p for p in range(start, stop) if rules.is_cut_at_token(text, p)), None)
        assert next_token_cut(rules, text, start, stop) == want


def test_a_search_among_too_many_beginnings_is_given_up_but_finds_none_that_is_none(
    reference: HuggingFaceTokenizer,
) -> None:
    rules = SegmentedTokenizer.over(reference).rules
    text = "<" * 5000 + " <|im_start|>"
    place = next_token_cut(rules, text, 1, len(text))
    assert place == text.index("<|im_start|>")
    hidden = "<|" * 5000 + "<|im_start|>"
    place = next_token_cut(rules, hidden, 1, len(hidden))
    assert place is None or rules.is_cut_at_token(hidden, place)
