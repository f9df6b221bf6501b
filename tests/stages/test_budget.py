"""The budget stage against values worked out by hand."""

from __future__ import annotations

from array import array

import pytest

from foreword.errors import InvalidRequest, MediaWouldBeCut, PromptTooLong
from foreword.params import TokenizeParams
from foreword.stages.budget import apply_budget
from foreword.types import MediaSpan, Offsets, TokenizerInfo, TokenSequence

BOS, SEP, PAD = 100, 101, 102


def info(side: str = "left", pad: int | None = PAD) -> TokenizerInfo:
    return TokenizerInfo(
        mode="hf",
        vocab_size=200,
        max_token_id=199,
        max_chars_per_token=4,
        char_gate_gap=None,
        truncation_side=side,  # type: ignore[arg-type]
        special_tokens={},
        all_special_ids=frozenset({BOS, SEP, PAD}),
        all_special_tokens=(),
        pad_token_id=pad,
    )


def sequence(
    *ids: int,
    prefix: int = 0,
    suffix: int = 0,
    spans: tuple[MediaSpan, ...] = (),
    complete: bool = True,
) -> TokenSequence:
    token_ids = array("I", ids)
    starts = array("I", range(len(ids)))
    return TokenSequence(
        token_ids=token_ids,
        offsets=Offsets(starts=starts, stops=array("I", range(1, len(ids) + 1))),
        num_prefix_special=prefix,
        num_suffix_special=suffix,
        spans=spans,
        is_complete=complete,
    )


def params(limit: int | None = 50, output: int | None = None, **kwargs: object) -> TokenizeParams:
    return TokenizeParams(
        max_total_tokens=limit,
        max_output_tokens=output,
        **kwargs,  # type: ignore[arg-type]
    )


def span(start: int, stop: int) -> MediaSpan:
    return MediaSpan(modality="image", index=0, start=start, stop=stop, identity="x")


def test_nothing_is_cut_without_truncation() -> None:
    result = apply_budget(sequence(1, 2, 3), params(), info())
    assert result.token_ids.tolist() == [1, 2, 3]
    assert (result.num_prompt_tokens, result.num_truncated, result.truncated_side) == (3, 0, None)


@pytest.mark.parametrize(
    ("side", "size", "expected"),
    [
        ("left", 1, [8]),
        ("right", 3, [1, 2, 3]),
        ("left", 8, [1, 2, 3, 4, 5, 6, 7, 8]),
        ("right", 9, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_a_given_side_is_a_plain_slice(side: str, size: int, expected: list[int]) -> None:
    result = apply_budget(
        sequence(1, 2, 3, 4, 5, 6, 7, 8),
        params(truncate_prompt_tokens=size, truncation_side=side),
        info(),
    )
    assert result.token_ids.tolist() == expected
    assert [start for start, _ in result.offsets or ()] == [i - 1 for i in expected]
    assert result.num_truncated == 8 - len(expected)
    assert result.truncated_side == (side if len(expected) < 8 else None)


def test_a_given_side_cuts_special_tokens_too() -> None:
    tokens = sequence(BOS, 1, 2, 3, prefix=1)
    cut = params(truncate_prompt_tokens=3, truncation_side="left")
    assert apply_budget(tokens, cut, info()).token_ids.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("runner_side", "size", "expected"),
    [
        ("left", 3, [BOS, 3, 4]),
        ("right", 3, [BOS, 1, 2]),
        ("left", 1, [BOS]),
        ("left", 0, []),
    ],
)
def test_the_tokenizers_own_rule_keeps_what_it_adds(
    runner_side: str, size: int, expected: list[int]
) -> None:
    tokens = sequence(BOS, 1, 2, 3, 4, prefix=1)
    result = apply_budget(tokens, params(truncate_prompt_tokens=size), info(runner_side))
    assert result.token_ids.tolist() == expected


def test_the_own_rule_keeps_both_ends() -> None:
    tokens = sequence(BOS, 1, 2, 3, 4, SEP, prefix=1, suffix=1)
    result = apply_budget(tokens, params(truncate_prompt_tokens=4), info("right"))
    assert result.token_ids.tolist() == [BOS, 1, 2, SEP]
    assert [tuple(o) for o in result.offsets or ()] == [(0, 1), (1, 2), (2, 3), (5, 6)]


def test_a_size_below_the_special_tokens_is_a_plain_slice() -> None:
    tokens = sequence(BOS, 1, 2, SEP, prefix=1, suffix=1)
    result = apply_budget(tokens, params(truncate_prompt_tokens=1), info("left"))
    assert result.token_ids.tolist() == [SEP]


def test_minus_one_leaves_a_generation_room_for_one_token() -> None:
    ids = list(range(10))
    generation = params(limit=5, truncate_prompt_tokens=-1)
    pooling = params(limit=5, output=0, truncate_prompt_tokens=-1)
    assert apply_budget(sequence(*ids), generation, info()).token_ids.tolist() == ids[-4:]
    assert apply_budget(sequence(*ids), pooling, info("right")).token_ids.tolist() == ids[:5]


def test_exactly_full_is_valid_for_pooling_and_refused_for_generation() -> None:
    ids = range(5)
    assert len(apply_budget(sequence(*ids), params(limit=5, output=0), info()).token_ids) == 5
    with pytest.raises(PromptTooLong) as caught:
        apply_budget(sequence(*ids), params(limit=5), info())
    assert caught.value.details["num_tokens"] == 5
    assert caught.value.details["max_tokens"] == 4
    assert caught.value.param == "input_tokens"


def test_a_count_that_stopped_early_says_so() -> None:
    with pytest.raises(PromptTooLong, match="at least 6 tokens"):
        apply_budget(sequence(*range(6), complete=False), params(limit=5), info())
    cut = params(limit=50, truncate_prompt_tokens=6, truncation_side="right")
    result = apply_budget(sequence(*range(6), complete=False), cut, info())
    assert result.num_prompt_tokens_is_lower_bound
    assert result.truncated_side == "right"


def test_truncate_then_pad_keeps_the_prompt() -> None:
    both = params(output=0, truncate_prompt_tokens=2, truncation_side="left", pad_prompt_tokens=4)
    result = apply_budget(sequence(1, 2, 3), both, info())
    assert result.token_ids.tolist() == [2, 3, PAD, PAD]
    assert len(result.offsets or ()) == 4
    assert (result.num_truncated, result.num_padded) == (1, 2)


def test_negative_padding_fills_the_context() -> None:
    result = apply_budget(sequence(1), params(limit=3, output=0, pad_prompt_tokens=-1), info())
    assert result.token_ids.tolist() == [1, PAD, PAD]


def test_padding_needs_a_pad_token() -> None:
    with pytest.raises(InvalidRequest, match="no pad token") as caught:
        apply_budget(sequence(1), params(output=0, pad_prompt_tokens=3), info(pad=None))
    assert caught.value.param == "pad_prompt_tokens"


def test_media_moves_with_the_cut() -> None:
    tokens = sequence(1, 2, 9, 9, 9, 3, spans=(span(2, 5),))
    cut = params(truncate_prompt_tokens=4, truncation_side="left")
    (moved,) = apply_budget(tokens, cut, info()).media_features
    assert (moved.start, moved.stop) == (0, 3)


@pytest.mark.parametrize(("side", "size"), [("left", 3), ("right", 4), ("right", 2)])
def test_media_is_never_cut_or_dropped(side: str, size: int) -> None:
    tokens = sequence(1, 2, 9, 9, 9, 3, spans=(span(2, 5),))
    with pytest.raises(MediaWouldBeCut) as caught:
        apply_budget(tokens, params(truncate_prompt_tokens=size, truncation_side=side), info())
    assert caught.value.param == "truncate_prompt_tokens"
    assert (caught.value.details["start"], caught.value.details["stop"]) == (2, 5)


def test_assistant_mask_is_cut_with_the_ids() -> None:
    tokens = sequence(1, 2, 3, 4, 5)
    cut = params(truncate_prompt_tokens=3, truncation_side="left")
    result = apply_budget(tokens, cut, info(), assistant_spans=((1, 3), (4, 5)))
    assert list(result.assistant_mask or b"") == [1, 0, 1]


@pytest.mark.parametrize(
    ("kwargs", "param"),
    [
        ({"truncation_side": "middle"}, "truncation_side"),
        ({"output": 51}, "max_tokens"),
        ({"truncate_prompt_tokens": 51}, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"pad_prompt_tokens": -2}, "pad_prompt_tokens"),
        ({"pad_prompt_tokens": 51}, "pad_prompt_tokens"),
        ({"pad_prompt_tokens": 2**62}, "pad_prompt_tokens"),
    ],
)
def test_parameters_check_themselves(kwargs: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        params(**kwargs)  # type: ignore[arg-type]
    assert caught.value.param == param


def test_the_three_budgets() -> None:
    generation = params(limit=100, output=20)
    assert generation.max_input_tokens == 100
    assert generation.max_truncation_tokens == 99
    assert generation.max_input_chars(7) == 700
    assert params(limit=100, output=0).max_truncation_tokens == 100
    assert params(limit=None).max_input_chars(7) is None


def test_a_cut_that_leaves_no_room_blames_its_size() -> None:
    with pytest.raises(InvalidRequest, match="Use 4, or -1") as caught:
        apply_budget(sequence(*range(9)), params(limit=5, truncate_prompt_tokens=5), info())
    assert caught.value.param == "truncate_prompt_tokens"
    # A shorter prompt is not cut, and has its room.
    short = apply_budget(sequence(*range(4)), params(limit=5, truncate_prompt_tokens=5), info())
    assert short.num_truncated == 0
