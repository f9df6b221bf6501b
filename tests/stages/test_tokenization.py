"""The tokenization stage with a tokenizer whose every answer is known: one token a character."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from foreword.errors import InvalidTokenIds, PromptTooManyChars
from foreword.params import TokenizeParams
from foreword.stages.tokenization import lower, tokenize_ids, tokenize_text
from foreword.types import Offsets, RenderedText, Span, TokenizerInfo, TokenSequence, Window

INFO = TokenizerInfo(
    mode="test",
    vocab_size=300,
    max_token_id=319,
    max_chars_per_token=2,
    char_gate_gap=None,
    truncation_side="left",
    special_tokens={},
    all_special_ids=frozenset({299}),
    all_special_tokens=("<bos>",),
)


@dataclass
class CharTokenizer:
    """Code points as ids, with <bos> in front; remembers the windows it was asked for."""

    info: TokenizerInfo = INFO
    windows: list[Window | None] = field(default_factory=list)
    literal_spans: tuple[Span, ...] = ()

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        with_offsets: bool = False,
        window: Window | None = None,
        scope: str = "",
        literal_spans: Sequence[Span] = (),
    ) -> TokenSequence:
        self.windows.append(window)
        self.literal_spans = tuple(literal_spans)
        prefix = 1 if add_special_tokens else 0
        ids = array("I", [299] * prefix + [ord(c) % 256 for c in text])
        starts = array("I", [0] * prefix + list(range(len(text))))
        stops = array("I", [0] * prefix + list(range(1, len(text) + 1)))
        offsets = Offsets(starts=starts, stops=stops) if with_offsets else None
        return TokenSequence(token_ids=ids, offsets=offsets, num_prefix_special=prefix)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, token_ids))

    def id_to_token(self, token_id: int) -> str | None:
        return chr(token_id)

    def token_to_id(self, token: str) -> int | None:
        return ord(token)


def params(limit: int | None = 4, **kwargs: object) -> TokenizeParams:
    return TokenizeParams(max_total_tokens=limit, max_output_tokens=None, **kwargs)  # type: ignore[arg-type]


def text(value: str) -> RenderedText:
    return RenderedText(text=value)


def test_gate_refuses_what_cannot_fit() -> None:
    assert len(tokenize_text(text("a" * 8), params(), CharTokenizer()).token_ids) == 9
    with pytest.raises(PromptTooManyChars) as caught:
        tokenize_text(text("a" * 9), params(), CharTokenizer())
    assert caught.value.details == {"num_chars": 9, "max_chars": 8, "max_tokens": 4}
    assert caught.value.param == "input_text"


def test_gate_is_silent_where_it_is_not_proved() -> None:
    tokenizer = CharTokenizer(replace(INFO, char_gate_gap="an unknown token swallows words"))
    assert tokenize_text(text("a" * 99), params(), tokenizer).num_chars == 99


@pytest.mark.parametrize(
    ("side", "kept", "first_offset"), [("left", "cdefghij", (2, 3)), ("right", "abcdefgh", (0, 1))]
)
def test_pre_cut_carries_the_removed_length_into_offsets(
    side: str, kept: str, first_offset: tuple[int, int]
) -> None:
    cut = params(truncate_prompt_tokens=2, truncation_side=side, return_token_offsets=True)
    tokens = tokenize_text(text("abcdefghij"), cut, CharTokenizer())
    offsets = list(tokens.offsets or ())
    assert "".join(map(chr, tokens.token_ids[1:])) == kept
    assert offsets[0] == (0, 0), "the special token the tokenizer added keeps (0, 0)"
    assert offsets[1] == first_offset
    assert not tokens.is_complete
    assert (tokens.num_chars, tokens.num_dropped_chars) == (10, 2)


def test_no_pre_cut_where_cuts_are_proved_or_no_side_is_given() -> None:
    proved = CharTokenizer(replace(INFO, has_proved_cuts=True))
    sided = params(truncate_prompt_tokens=2, truncation_side="left")
    assert len(tokenize_text(text("abcdefghij"), sided, proved).token_ids) == 11
    unsided = params(truncate_prompt_tokens=2)
    assert len(tokenize_text(text("abcdefghij"), unsided, CharTokenizer()).token_ids) == 11


@pytest.mark.parametrize(
    ("kwargs", "window"),
    [
        ({}, Window(num_tokens=5, keep="head")),
        ({"limit": None}, None),
        (
            {"truncate_prompt_tokens": 2, "truncation_side": "right"},
            Window(num_tokens=2, keep="head"),
        ),
        ({"truncate_prompt_tokens": 2}, Window(num_tokens=2, keep="tail")),
        (
            {"truncate_prompt_tokens": -1, "truncation_side": "left"},
            Window(num_tokens=3, keep="tail"),
        ),
    ],
)
def test_no_more_is_asked_for_than_the_budget_can_use(
    kwargs: dict[str, object], window: Window | None
) -> None:
    tokenizer = CharTokenizer()
    tokenize_text(text("ab"), params(**kwargs), tokenizer)  # type: ignore[arg-type]
    tokenize_text(text("ab"), params(**kwargs), tokenizer, count_in_full=True)  # type: ignore[arg-type]
    assert tokenizer.windows == [window, None]


def test_lower_casing_does_not_shift_offsets() -> None:
    # U+0130 lowers to two characters; everything after it would be off by one.
    lowered = tokenize_text(
        text("AİB"),
        params(limit=50, do_lower_case=True, return_token_offsets=True, add_special_tokens=False),
        CharTokenizer(),
    )
    assert list(lowered.offsets or ()) == [(0, 1), (1, 2), (1, 2), (2, 3)]


def test_literal_spans_move_with_what_lower_casing_moves() -> None:
    tokenizer = CharTokenizer()
    rendered = RenderedText(text="İAİB", literal_spans=((1, 2), (2, 4)))
    tokenize_text(rendered, params(limit=50, do_lower_case=True), tokenizer)
    assert tokenizer.literal_spans == ((2, 3), (3, 6))
    plain = RenderedText(text="ABC", literal_spans=((1, 2),))
    tokenize_text(plain, params(limit=50, do_lower_case=True), tokenizer)
    assert tokenizer.literal_spans == ((1, 2),)


def test_a_text_with_literal_spans_is_never_pre_cut() -> None:
    rendered = RenderedText(text="abcdefghij", literal_spans=((1, 9),))
    cut = params(limit=4, truncate_prompt_tokens=2, truncation_side="left")
    assert tokenize_text(rendered, cut, CharTokenizer()).num_dropped_chars == 0


def test_lower_says_where_characters_came_from() -> None:
    assert lower("ABC") == ("abc", None)
    lowered, origin = lower("xİy")
    assert lowered == "xi̇y"
    assert list(origin or ()) == [0, 1, 1, 2]


def test_given_ids_are_kept_as_they_are() -> None:
    assert tokenize_ids([116, 104, 101], INFO, param="prompt").token_ids.tolist() == [116, 104, 101]
    assert tokenize_ids([319], INFO, param="prompt").token_ids.tolist() == [319]


@pytest.mark.parametrize(
    ("ids", "bad", "position"),
    [
        ([97, 320], 320, 1),
        ([-1], -1, 0),
        ([5279552648203111001], 5279552648203111001, 0),
        ([1, True], True, 1),
        ([2**70], 2**70, 0),
        ([1, "2"], "2", 1),
        ([1.0], 1.0, 0),
    ],
)
def test_ids_outside_the_vocabulary_are_named(ids: list[int], bad: object, position: int) -> None:
    with pytest.raises(InvalidTokenIds) as caught:
        tokenize_ids(ids, INFO, param="prompt")
    assert caught.value.details["token_id"] == bad
    assert caught.value.details["position"] == position
    assert "319" in caught.value.message
