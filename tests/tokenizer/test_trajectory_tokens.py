"""Mode alpamayo2_super: the tokens its code appends, and the ids its configuration expects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.errors import AssetsInvalid
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.trajectory_tokens import SPECIAL
from foreword.types import Tokenizer

SIZES = {"history_vocab_size": 3, "future_vocab_size": 2}


def load(
    config: dict[str, Any], special: tuple[str, ...] = ("<|end|>", "<|image_pad|>")
) -> Tokenizer:
    raw = small.byte_level(special=special)
    return get_tokenizer(small.assets(raw, config=config), mode="alpamayo2_super")


def test_steps_come_first_then_the_special_tokens_in_order() -> None:
    size = len(small.byte_level(special=("<|end|>", "<|image_pad|>")).get_vocab())
    tokenizer = load(SIZES)
    assert [tokenizer.token_to_id(f"<i{n}>") for n in range(5)] == list(range(size, size + 5))
    assert tokenizer.token_to_id("<i5>") is None
    new = [text for text in SPECIAL if text != "<|image_pad|>"]
    expected = list(range(size + 5, size + 5 + 28))
    assert [tokenizer.token_to_id(text) for text in new] == expected
    assert tokenizer.token_to_id("<|image_pad|>") == 1  # keeps the id it has
    assert len(SPECIAL) == 29
    assert tokenizer.info.max_token_id == size + 32


def test_they_are_found_in_text_and_only_special_ones_are_skipped() -> None:
    tokenizer = load(SIZES)
    made = tokenizer.encode("the<i1><|route_pad|>dog", add_special_tokens=False).token_ids
    assert {tokenizer.token_to_id("<i1>"), tokenizer.token_to_id("<|route_pad|>")} <= set(made)
    assert tokenizer.decode(list(made), skip_special_tokens=True) == "the<i1>dog"


def test_without_sizes_there_are_four_thousand_steps() -> None:
    tokenizer = load({})
    assert tokenizer.token_to_id("<i3999>") is not None
    assert tokenizer.token_to_id("<i4000>") is None


def test_ids_the_model_was_trained_with_must_be_those() -> None:
    size = len(small.byte_level(special=("<|end|>", "<|image_pad|>")).get_vocab())
    right = {"history_id0": size, "future_id0": size + 3, "history_start": size + 5 + 5}
    assert load({**SIZES, "traj_ids": right})
    with pytest.raises(AssetsInvalid, match=r"traj_ids\.future_id0 is 7, but <i3> has the id"):
        load({**SIZES, "traj_ids": {**right, "future_id0": 7}})


@pytest.mark.parametrize("count", ["3", -1, True, 2.0])
def test_a_size_that_is_no_count_is_named(count: object) -> None:
    with pytest.raises(AssetsInvalid, match="history_vocab_size"):
        load({"history_vocab_size": count})
