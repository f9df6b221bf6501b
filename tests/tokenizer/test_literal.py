"""Text that must stay text: literal spans, by the reference and by the fast way."""

from __future__ import annotations

import json
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from small_models import as_dict, assets, byte_level, sentencepiece_bpe, word_piece

from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.literal import literal_rules, stretches
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.types import Span, TokenSequence

SPECIAL = ("<|end|>", "<|start|>", "<|st")
END, START = "<|end|>", "<|start|>"


def load(tokenizer: Any = None) -> SegmentedTokenizer:
    made = assets(tokenizer or byte_level(special=SPECIAL))
    return SegmentedTokenizer.over(HuggingFaceTokenizer.from_assets(made))


@pytest.fixture(scope="module")
def fast() -> SegmentedTokenizer:
    return load()


def expected(fast: SegmentedTokenizer, text: str, spans: list[Span]) -> list[int]:
    """Every stretch encoded by itself; literal ones without added tokens in the file."""
    plain = as_dict(fast.reference.tokenizer)
    plain["added_tokens"] = []
    bare = Tokenizer.from_buffer(json.dumps(plain).encode())
    ids: list[int] = []
    for start, stop, is_literal in stretches(len(text), spans):
        tokenizer = bare if is_literal else fast.reference.tokenizer
        ids += tokenizer.encode_batch([text[start:stop]], add_special_tokens=False)[0].ids
    return ids


def check(fast: SegmentedTokenizer, text: str, spans: list[Span]) -> TokenSequence:
    want = expected(fast, text, spans)
    for tokenizer in (fast, fast.reference):
        for with_offsets in (False, True):
            got = tokenizer.encode(
                text, add_special_tokens=False, with_offsets=with_offsets, literal_spans=spans
            )
            assert list(got.token_ids) == want
            if got.offsets is not None:
                assert len(got.offsets) == len(want)
                assert all(0 <= start <= stop <= len(text) for start, stop in got.offsets)
    return got


def test_a_control_token_in_literal_text_is_text(fast: SegmentedTokenizer) -> None:
    text = f"{START}the {END} fox{END}"
    got = check(fast, text, [(9, 24)])
    end_id = fast.token_to_id(END)
    assert list(got.token_ids).count(end_id) == 1
    free = fast.encode(text, add_special_tokens=False)
    assert list(free.token_ids).count(end_id) == 2
    assert fast.decode(got.token_ids) == text


def test_spans_that_touch_are_apart(fast: SegmentedTokenizer) -> None:
    assert len(check(fast, "the", [(0, 3)]).token_ids) < len(
        check(fast, "the", [(0, 1), (1, 3)]).token_ids
    )


def test_a_token_across_the_border_of_a_span_is_none(fast: SegmentedTokenizer) -> None:
    check(fast, "<|end|>", [(0, 3)])
    check(fast, "a<|st" + "art|>", [(0, 5)])
    check(fast, f"<|e{END}", [(0, 3)])
    check(fast, "", [])
    check(fast, "fox", [(0, 0), (3, 3)])


@pytest.mark.parametrize("seed", range(30))
def test_random_texts(fast: SegmentedTokenizer, seed: int) -> None:
    rng = random.Random(seed)
    pieces = [END, START, "<|st", "<|e", "nd|>", " the", "fox ", "\n\n", "jumps 12", "é", " "]
    text, spans = "", []
    for _ in range(rng.randint(1, 12)):
        said = "".join(rng.choices(pieces, k=rng.randint(1, 6))) * rng.choice((1, 1, 1, 400))
        if rng.random() < 0.6:
            spans.append((len(text), len(text) + len(said)))
        text += said + (rng.choice((END, START)) if rng.random() < 0.7 else "")
    check(fast, text, spans)


@pytest.mark.parametrize("make", [word_piece, sentencepiece_bpe])
def test_tokenizers_that_begin_a_text_in_their_own_way(make: Any) -> None:
    fast = load(make())
    check(fast, "the fox the dogs", [(4, 7), (7, 11)])
    assert literal_rules(fast.reference.file, splits_special_tokens=False).added_tokens is None


def test_special_tokens_around_the_whole() -> None:
    fast = load(word_piece())
    for tokenizer in (fast, fast.reference):
        got = tokenizer.encode("the fox", add_special_tokens=True, literal_spans=[(0, 3)])
        inner = tokenizer.encode("the fox", add_special_tokens=False, literal_spans=[(0, 3)])
        plain = tokenizer.encode("the fox", add_special_tokens=True)
        assert (got.num_prefix_special, got.num_suffix_special) == (
            plain.num_prefix_special,
            plain.num_suffix_special,
        )
        assert list(got.token_ids)[1:-1] == list(inner.token_ids)
        assert (got.token_ids[0], got.token_ids[-1]) == (plain.token_ids[0], plain.token_ids[-1])


def test_the_plan_needs_no_piece_of_its_own_where_tokens_part_the_text(
    fast: SegmentedTokenizer,
) -> None:
    text = f"{START}the fox{END}{START}the dog{END}"
    spans = [(9, 16), (32, 39)]
    assert fast.literal.plan(text, spans) == [(0, len(text), False)]
    text = f"{START}the fox{END}{START}a{END}b{END}"
    planned = fast.literal.plan(text, [(9, 16), (32, 41)])
    assert planned == [(0, 32, False), (32, 41, True), (41, 48, False)]


def test_pickled_ones_agree(fast: SegmentedTokenizer) -> None:
    copy = pickle.loads(pickle.dumps(fast.reference))
    text, spans = f"a {END} b", [(0, 11)]
    assert copy.encode(text, add_special_tokens=False, literal_spans=spans) == (
        fast.reference.encode(text, add_special_tokens=False, literal_spans=spans)
    )
