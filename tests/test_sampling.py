"""Sampling parameters: defaults, ranges, completion from the model, and the room for output."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from foreword.errors import AssetsInvalid, InvalidRequest, InvalidTokenIds, PromptTooLong
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.sampling import (
    OutputKind,
    RepetitionDetection,
    SamplingParams,
    StructuredOutputs,
    complete_sampling,
    default_sampling_params,
    get_max_tokens,
    with_bad_words,
    with_generation_config,
)
from foreword.types import TokenSequence, make_token_ids


def chat(**fields: Any) -> ChatCompletionRequest:
    body = {"messages": [{"role": "user", "content": "x"}], **fields}
    return decode_request(body, ChatCompletionRequest, max_bytes=None)


def completion(**fields: Any) -> CompletionRequest:
    return decode_request({"prompt": "x", **fields}, CompletionRequest, max_bytes=None)


def complete(
    request: Any, defaults: Any = None, *, room: int = 90, **kwargs: Any
) -> SamplingParams:
    return complete_sampling(
        request, defaults or {}, max_model_len=100, num_prompt_tokens=100 - room, **kwargs
    )


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("n", [1, 16384], [0, 16385]),
        ("presence_penalty", [-2.0, 2.0], [-2.1, 2.1, math.nan]),
        ("frequency_penalty", [-2.0, 2.0], [-2.1, 2.1, math.nan]),
        ("repetition_penalty", [0.1, 5.0], [0.0, -1.0, math.inf, math.nan]),
        ("temperature", [0.0, 2.0], [-0.1, 2.1, math.nan, math.inf]),
        ("top_p", [0.01, 1.0], [0.0, 1.01, math.nan]),
        ("top_k", [-1, 0, 7], [-2]),
        ("min_p", [0.0, 1.0], [-0.1, 1.1]),
        ("max_tokens", [1, None], [0, -1]),
        ("min_tokens", [0, 16], [-1]),
        ("logprobs", [-1, 0, 5], [-2]),
        ("prompt_logprobs", [-1, 0, 5], [-2]),
        ("stream_interval", [1], [-1]),
        ("thinking_token_budget", [0, 5], [-2]),
        ("stop", [("a",)], [("a", "")]),
        ("bad_words", [("a",)], [("",)]),
    ],
)
def test_ranges(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(SamplingParams(**{field: value}), field) == value
    for value in bad:
        with pytest.raises(InvalidRequest) as caught:
            SamplingParams(**{field: value})
        assert caught.value.param == field


def test_more_tokens_demanded_than_allowed() -> None:
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(max_tokens=3, min_tokens=5)
    assert caught.value.param is None
    assert caught.value.details == {"min_tokens": 5, "max_tokens": 3}


def test_greedy_needs_one_sequence_and_no_filters() -> None:
    params = SamplingParams(temperature=0.0, top_p=0.5, top_k=5, min_p=0.5)
    assert (params.top_p, params.top_k, params.min_p, params.is_greedy) == (1.0, 0, 0.0, True)
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(temperature=0.0, n=2)
    assert caught.value.param == "n"


def test_normalization() -> None:
    params = SamplingParams(
        temperature=0.001,
        seed=-1,
        stop="END",  # type: ignore[arg-type]
        stop_token_ids=(5, 3, 5),
        bad_words=("b", "a", "b"),
        thinking_token_budget=-1,
        prompt_logprobs=True,
    )
    assert params.temperature == 0.01
    assert params.seed is None
    assert params.stop == ("END",)
    assert params.stop_token_ids == (5, 3)
    assert params.all_stop_token_ids == {3, 5}
    assert params.bad_words == ("b", "a")
    assert params.thinking_token_budget is None
    assert params.prompt_logprobs == 1
    assert params.skip_reading_prefix_cache is True
    assert SamplingParams().skip_reading_prefix_cache is False
    assert pickle.loads(pickle.dumps(params)) == params


def test_text_held_back_for_stop_strings() -> None:
    assert SamplingParams().output_text_buffer_length == 0
    assert SamplingParams(stop=("END", "\n\n")).output_text_buffer_length == 2
    included = SamplingParams(stop=("END",), include_stop_str_in_output=True)
    assert included.output_text_buffer_length == 0


def test_integers_beyond_64_bits_never_reach_the_engine() -> None:
    SamplingParams(extra_args={"a": [{"b": 2**64 - 1}, -(2**63)]})
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(InvalidRequest):
            SamplingParams(extra_args={"a": [{"b": value}]})


@pytest.mark.parametrize(
    "values", [{"max_pattern_size": -1}, {"min_pattern_size": 2}, {"max_pattern_size": 2}]
)
def test_repetition_detection_that_detects_nothing(values: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        RepetitionDetection(**values)


# -- defaults ------------------------------------------------------------------------------------


def test_defaults_come_from_generation_config_and_the_operator() -> None:
    config = {
        "temperature": 0.6,
        "top_k": 20,
        "eos_token_id": 1,
        "max_new_tokens": 50,
        "top_p": None,
    }
    assert default_sampling_params(config) == {"temperature": 0.6, "top_k": 20, "max_tokens": 50}
    overridden = default_sampling_params(config, {"temperature": 0.1, "min_p": 0.2})
    assert (overridden["temperature"], overridden["min_p"]) == (0.1, 0.2)
    assert default_sampling_params({}) == {}


UNFIT_DEFAULTS = [
    ("temperature", "hot", "must be a number, not a string"),
    ("temperature", -1, "is -1; it must be from 0 to 2"),
    ("temperature", True, "must be a number, not a boolean"),
    ("temperature", math.nan, "is nan; it must be from 0 to 2"),
    ("top_p", [1], "must be a number, not an array"),
    ("top_p", 0, "is 0; it must be above 0 and at most 1"),
    ("top_k", "x", "must be an integer, not a string"),
    ("top_k", 1.5, "must be an integer, not a fraction"),
    ("min_p", 2, "is 2; it must be from 0 to 1"),
    ("repetition_penalty", 0, "is 0; it must be finite, above 0"),
    ("max_new_tokens", "x", "must be an integer, not a string"),
    ("max_new_tokens", 0, "is 0; it must be 1 or more"),
    ("skip_special_tokens", 1, "must be true or false, not a number"),
]


@pytest.mark.parametrize(("key", "value", "problem"), UNFIT_DEFAULTS)
def test_a_default_that_fails_every_request_is_refused_and_blamed_on_who_wrote_it(
    key: str, value: Any, problem: str
) -> None:
    with pytest.raises(AssetsInvalid, match=rf"^generation_config\.json: {key} {problem}"):
        default_sampling_params({key: value})
    with pytest.raises(InvalidRequest, match=f"^{key} {problem}") as caught:
        default_sampling_params({}, {key: value})
    assert caught.value.param == f"generation_config.{key}"
    good = {"skip_special_tokens": True}.get(key, 1)
    assert default_sampling_params({key: value}, {key: good}) == {
        {"max_new_tokens": "max_tokens"}.get(key, key): good
    }


@pytest.mark.parametrize("eos", ["x", [1, "x"], -1, True, {"a": 1}])
def test_end_tokens_that_are_no_ids_are_refused(eos: Any) -> None:
    with pytest.raises(AssetsInvalid, match=r"^generation_config\.json: eos_token_id"):
        default_sampling_params({"eos_token_id": eos})


def test_a_request_wins_over_the_model_and_the_model_over_the_protocol() -> None:
    defaults = {"temperature": 0.6, "top_k": 20, "skip_special_tokens": False}
    params = complete(chat(temperature=0.2), defaults)
    assert (params.temperature, params.top_k, params.top_p) == (0.2, 20, 1.0)
    assert params.skip_special_tokens is False
    assert complete(chat(skip_special_tokens=True), defaults).skip_special_tokens is True
    assert complete(chat(top_k=0), defaults).top_k == 0


def test_stop_tokens_of_the_request_come_first() -> None:
    params = complete(chat(stop_token_ids=[9, 1]), {"stop_token_ids": [1, 2]})
    assert params.stop_token_ids == (9, 1, 2)


# -- room ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 90),
        ({"max_tokens": 7}, 7),
        ({"max_tokens": 95}, 90),
        ({"default_max_tokens": 8}, 8),
        ({"max_tokens": 9, "default_max_tokens": 8}, 9),
        ({"max_tokens": 9, "override_max_tokens": 5}, 5),
        ({"override_max_tokens": 500}, 90),
    ],
)
def test_get_max_tokens(limits: dict[str, int], expected: int) -> None:
    assert get_max_tokens(max_model_len=100, num_prompt_tokens=10, **limits) == expected


def test_get_max_tokens_of_a_full_and_an_overfull_context() -> None:
    assert get_max_tokens(max_model_len=100, num_prompt_tokens=100) == 0
    with pytest.raises(PromptTooLong) as caught:
        get_max_tokens(max_model_len=100, num_prompt_tokens=101)
    assert caught.value.details["num_tokens"] == 101


@pytest.mark.parametrize("refuse", [False, True])
def test_prompt_and_output_share_the_context(refuse: bool) -> None:
    for asked in (None, 1, 89, 90):
        params = complete(chat(max_tokens=asked), room=90, refuse_overflow=refuse)
        assert params.max_tokens == (asked or 90)
    with pytest.raises(PromptTooLong) as caught:
        complete(chat(), room=0, refuse_overflow=refuse)
    assert (caught.value.details["num_tokens"], caught.value.details["max_tokens"]) == (100, 99)


def test_output_that_does_not_fit_is_lowered_or_refused() -> None:
    assert complete(chat(max_tokens=91), room=90).max_tokens == 90
    with pytest.raises(PromptTooLong) as caught:
        complete(chat(max_completion_tokens=91), room=90, refuse_overflow=True)
    error = caught.value
    assert error.param == "max_completion_tokens"
    assert error.details == {
        "num_tokens": 10,
        "max_tokens": 9,
        "is_lower_bound": False,
        "max_output_tokens": 91,
        "max_model_len": 100,
    }


def test_truncation_never_makes_the_prompt_seem_shorter_than_it_is() -> None:
    request = chat(truncate_prompt_tokens=3)
    assert complete(request, room=90).max_tokens == 90


@pytest.mark.parametrize("asked", [0, -1])
@pytest.mark.parametrize(
    ("make", "field"),
    [(chat, "max_tokens"), (chat, "max_completion_tokens"), (completion, "max_tokens")],
)
def test_no_output_asked_of_a_generation(asked: int, make: Any, field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field} is {asked};") as caught:
        complete(make(**{field: asked}))
    assert caught.value.param == field


def test_less_than_no_output_is_refused_before_anything_is_completed() -> None:
    for make, field in ((chat, "max_completion_tokens"), (completion, "max_tokens")):
        with pytest.raises(InvalidRequest) as caught:
            make(**{field: -5})
        assert caught.value.param == field


def test_scoring_a_prompt() -> None:
    params = complete(completion(max_tokens=0, echo=True, logprobs=3))
    assert (params.max_tokens, params.prompt_logprobs, params.logprobs) == (1, 3, 3)


# -- the rest of a request -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "logprobs", "prompt_logprobs"),
    [
        (chat(), None, None),
        (chat(logprobs=True), 0, None),
        (chat(logprobs=True, top_logprobs=3), 3, None),
        (chat(logprobs=True, top_logprobs=3, logprob_token_ids=[4]), None, None),
        (chat(echo=True), None, 0),
        (chat(echo=True, prompt_logprobs=2), None, 2),
        (completion(), None, None),
        (completion(logprobs=2), 2, None),
        (completion(logprobs=2, echo=True), 2, 2),
        (completion(echo=True), None, None),
    ],
)
def test_logprobs(request_: Any, logprobs: int | None, prompt_logprobs: int | None) -> None:
    params = complete(request_)
    assert (params.logprobs, params.prompt_logprobs) == (logprobs, prompt_logprobs)


def test_output_kind() -> None:
    assert complete(chat()).output_kind is OutputKind.FINAL_ONLY
    assert complete(chat(stream=True)).output_kind is OutputKind.DELTA


def test_logit_bias_is_by_id_and_bounded() -> None:
    assert complete(chat(logit_bias={"13": -500, "42": 5.5})).logit_bias == {13: -100.0, 42: 5.5}
    with pytest.raises(InvalidRequest) as caught:
        complete(chat(logit_bias={"word": 1}))
    assert caught.value.param == "logit_bias"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, StructuredOutputs(json_object=True)),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "p", "schema": {"type": "object"}},
                }
            },
            StructuredOutputs(json={"type": "object"}),
        ),
        (
            {"response_format": {"type": "structural_tag", "format": {"a": 1}}},
            StructuredOutputs(structural_tag='{"type": "structural_tag", "format": {"a": 1}}'),
        ),
        ({"structured_outputs": {"choice": ["a"]}}, StructuredOutputs(choice=["a"])),
        (
            {
                "response_format": {"type": "json_object"},
                "structured_outputs": {"json_object": True, "disable_any_whitespace": True},
            },
            StructuredOutputs(json_object=True, disable_any_whitespace=True),
        ),
    ],
)
def test_constraints(fields: dict[str, Any], expected: StructuredOutputs | None) -> None:
    assert complete(chat(**fields)).structured_outputs == expected


def test_transfer_parameters_stay_out_of_the_sampler() -> None:
    params = complete(chat(vllm_xargs={"a": [1, "b"]}, kv_transfer_params={"c": 1}))
    assert params.extra_args == {"a": [1, "b"]}


# -- the model's own tokens ----------------------------------------------------------------------


def test_end_tokens_of_the_generation_config() -> None:
    params = SamplingParams(stop_token_ids=(7,))
    ended = with_generation_config(params, {"eos_token_id": [3, 1, 2]}, eos_token_id=1)
    assert ended.eos_token_id == 1
    assert ended.stop_token_ids == (7, 2, 3)
    assert ended.all_stop_token_ids == {1, 2, 3, 7}
    assert params.eos_token_id is None


def test_end_tokens_that_are_ignored_still_count_for_min_tokens() -> None:
    ended = with_generation_config(
        SamplingParams(ignore_eos=True), {"eos_token_id": 2}, eos_token_id=1
    )
    assert (ended.eos_token_id, ended.stop_token_ids) == (None, ())
    assert ended.all_stop_token_ids == {1, 2}


class LetterTokenizer:
    """One id a letter; a space joins the letter after it, and '!' has no token."""

    def encode(self, text: str, *, add_special_tokens: bool) -> TokenSequence:
        assert not add_special_tokens
        ids: Sequence[int] = [ord(c) for c in text.replace("!", "").replace(" a", "A") if c != " "]
        return TokenSequence(token_ids=make_token_ids(ids))


def test_bad_words_are_also_forbidden_after_a_space() -> None:
    params = with_bad_words(
        SamplingParams(bad_words=("ab", "  ba")),
        LetterTokenizer(),  # type: ignore[arg-type]
    )
    assert params.bad_words_token_ids == ((97, 98), (65, 98), (98, 97))
    untouched = SamplingParams()
    assert with_bad_words(untouched, LetterTokenizer()) is untouched  # type: ignore[arg-type]


def test_bad_words_have_tokens_and_a_limit() -> None:
    with pytest.raises(InvalidRequest) as caught:
        with_bad_words(SamplingParams(bad_words=("a", "!")), LetterTokenizer())  # type: ignore[arg-type]
    assert caught.value.param == "bad_words[1]"
    many = tuple("b" * length for length in range(1, 130))
    with pytest.raises(InvalidRequest, match="129 token sequences; at most 128"):
        with_bad_words(SamplingParams(bad_words=many), LetterTokenizer())  # type: ignore[arg-type]


# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["1_0", " 7 ", "٣", "-4", "+4", "07", "1.0", "", "1" * 24])
def test_a_key_of_logit_bias_is_an_id_in_plain_digits(key: str) -> None:
    with pytest.raises(InvalidRequest, match="is no token id") as caught:
        complete(chat(logit_bias={key: 1}))
    assert caught.value.param == "logit_bias"


@pytest.mark.parametrize("bias", ["nan", "inf", "-inf"])
def test_a_bias_is_finite(bias: str) -> None:
    with pytest.raises(InvalidRequest, match=f"of token 5 is {bias}") as caught:
        complete(chat(logit_bias={"5": bias}))
    assert caught.value.param == "logit_bias"


def test_a_bias_is_clamped_as_the_reference_does() -> None:
    assert complete(chat(logit_bias={"5": 1e9, "0": -101, "10": 2})).logit_bias == {
        5: 100.0,
        0: -100.0,
        10: 2.0,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logit_bias", {"3": 1, "10": 1}),
        ("allowed_token_ids", [3, 10]),
        ("stop_token_ids", [3, -1]),
        ("stop_token_ids", [3, 10]),
    ],
)
def test_ids_are_those_of_the_vocabulary(field: str, value: Any) -> None:
    wrong = [int(token_id) for token_id in value][1]
    with pytest.raises(InvalidTokenIds) as caught:
        complete(chat(**{field: value}), max_token_id=9)
    assert caught.value.param == field
    assert caught.value.details == {"token_id": wrong, "position": 1, "max_token_id": 9}
    if wrong > 0:
        complete(chat(**{field: value}), max_token_id=10)
        complete(chat(**{field: value}))


def test_no_allowed_token_at_all_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="allowed_token_ids is empty") as caught:
        complete(chat(allowed_token_ids=[]))
    assert caught.value.param == "allowed_token_ids"


def test_changed_parameters_are_checked_as_new_ones_are() -> None:
    params = SamplingParams(temperature=0.5, stop=("a", "b"))
    changed = params.replace(stop=("b",), temperature=0.7)
    assert (changed.stop, changed.temperature) == (("b",), 0.7)
    assert params.stop == ("a", "b")
    with pytest.raises(InvalidRequest, match="temperature is 3"):
        params.replace(temperature=3)
