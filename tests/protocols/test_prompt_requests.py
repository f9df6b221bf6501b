"""Completion, pooling, tokenize and detokenize bodies."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest

from foreword.errors import (
    ForewordError,
    InvalidRequest,
    MalformedRequest,
    PromptTooLong,
    UnsupportedFeature,
)
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.protocols.error_body import error_body
from foreword.protocols.pooling import PoolingRequest
from foreword.protocols.tokenize import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)


def complete(**fields: Any) -> CompletionRequest:
    return decode_request(json.dumps(fields), CompletionRequest, max_bytes=None)


def pool(**fields: Any) -> PoolingRequest:
    return decode_request(json.dumps(fields), PoolingRequest, max_bytes=None)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        (["1", "2"], ("1", "2")),
        ([1, 2], (array("I", [1, 2]),)),
        ([[1, 2], [3]], (array("I", [1, 2]), array("I", [3]))),
        ([2**32 - 1], (array("I", [2**32 - 1]),)),
        # Refused where the vocabulary is known, with its own bound.
        ([1, 2**32], ([1, 2**32],)),
        ([[1], [2**64]], (array("I", [1]), [2**64])),
    ],
)
def test_the_four_forms_of_a_prompt(prompt: Any, prompts: Any) -> None:
    request = complete(prompt=prompt)
    assert request.prompts == prompts
    assert request.num_prompts == len(prompts)
    assert pool(input=prompt).prompts == prompts


@pytest.mark.parametrize(
    ("prompt", "kind", "param"),
    [
        (None, InvalidRequest, "prompt"),
        ("", InvalidRequest, "prompt"),
        ([], InvalidRequest, "prompt"),
        ([[1], []], InvalidRequest, "prompt[1]"),
        (["a"] * 1025, InvalidRequest, "prompt"),
        (5, MalformedRequest, "prompt"),
        ({"a": 1}, MalformedRequest, "prompt"),
        ([1.5, 2], MalformedRequest, "prompt[0]"),
        ([1, 2.0], MalformedRequest, "prompt[1]"),
        ([-1, 2], MalformedRequest, "prompt[0]"),
        ([True, 2], MalformedRequest, "prompt[0]"),
        ([True], MalformedRequest, "prompt[0]"),
        ([1, "2"], MalformedRequest, "prompt[1]"),
        (["a", [1, 2]], MalformedRequest, "prompt[0]"),
        ([None], MalformedRequest, "prompt[0]"),
        ([[1], [2, "3"]], MalformedRequest, "prompt[1][1]"),
        ([[1, False]], MalformedRequest, "prompt[0][1]"),
        ([-1, 2**64], MalformedRequest, "prompt[0]"),
    ],
)
def test_prompts_that_are_none(prompt: Any, kind: type[ForewordError], param: str) -> None:
    with pytest.raises(kind) as caught:
        complete(prompt=prompt)
    assert type(caught.value) is kind
    assert caught.value.param == param


def test_ids_may_come_as_an_array_and_are_copied() -> None:
    ids = array("I", [1, 2])
    request = decode_request({"prompt": ids}, CompletionRequest, max_bytes=None)
    ids[0] = 9
    assert request.prompts == (array("I", [1, 2]),)


def test_what_completions_do_not_support() -> None:
    with pytest.raises(UnsupportedFeature) as embeds:
        complete(prompt="a", prompt_embeds="QUJD")
    assert embeds.value.param == "prompt_embeds"
    with pytest.raises(InvalidRequest) as suffix:
        complete(prompt="a", suffix="b", echo=True)
    assert suffix.value.param == "suffix"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": -2}, "logprobs"),
        ({"logprob_token_ids": [1]}, "logprob_token_ids"),
        (
            {"logprob_token_ids": [1], "logprobs": 1, "echo": True, "max_tokens": 0},
            "logprob_token_ids",
        ),
        ({"use_beam_search": True}, None),
        ({"stream_options": {}}, "stream_options"),
    ],
)
def test_contradictions(fields: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        complete(prompt="a", **fields)
    assert caught.value.param == param


def test_the_default_of_sixteen_tokens() -> None:
    assert complete(prompt="a").max_output_tokens == 16
    assert complete(prompt="a", max_tokens=None).max_output_tokens == 16
    assert complete(prompt="a", max_tokens=0).max_output_tokens == 0


def test_scoring_a_prompt_costs_one_token() -> None:
    request = complete(prompt="a", max_tokens=0, echo=True)
    assert request.max_output_tokens == 1
    # The prompt itself may still fill the context.
    assert request.tokenize_params(max_model_len=10).max_truncation_tokens == 10


def test_tokenize_params_of_a_completion() -> None:
    params = complete(prompt="a").tokenize_params(max_model_len=100)
    assert params.add_special_tokens is True
    assert params.max_output_tokens == 16
    assert params.needs_detokenization is False
    with pytest.raises(InvalidRequest, match="context length 15") as caught:
        complete(prompt="a").tokenize_params(max_model_len=15)
    assert caught.value.param == "max_tokens"


def test_tokenize_bodies() -> None:
    prompt = decode_request({"prompt": "a"}, TokenizeRequest, max_bytes=None)
    chat = decode_request({"messages": [], "tools": []}, TokenizeRequest, max_bytes=None)
    assert (prompt.add_special_tokens, chat.add_special_tokens) == (True, False)
    assert prompt.tokenize_params(max_model_len=5).max_total_tokens is None
    assert chat.tool_dicts() is None
    assert chat.chat_params().add_generation_prompt is True


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, MalformedRequest),
        ({"prompt": "a", "messages": []}, MalformedRequest),
        ({"prompt": ["a"]}, MalformedRequest),
        ({"messages": [], "continue_final_message": True}, InvalidRequest),
    ],
)
def test_tokenize_bodies_that_are_none(fields: dict[str, Any], kind: type[ForewordError]) -> None:
    with pytest.raises(kind) as caught:
        decode_request(fields, TokenizeRequest, max_bytes=None)
    assert caught.value.param == ("prompt" if kind is MalformedRequest else None)


@pytest.mark.parametrize(
    ("tokens", "kind", "param"),
    [
        ([-5], MalformedRequest, "tokens[0]"),
        ([1, True], MalformedRequest, "tokens[1]"),
        (["5"], MalformedRequest, "tokens[0]"),
        ("5", MalformedRequest, "tokens"),
        ({"a": 1}, MalformedRequest, "tokens"),
        ([2**64, -1], MalformedRequest, "tokens[1]"),
    ],
)
def test_detokenize_refuses_what_is_no_id(
    tokens: Any, kind: type[ForewordError], param: str
) -> None:
    with pytest.raises(kind) as caught:
        decode_request(json.dumps({"tokens": tokens}), DetokenizeRequest, max_bytes=None)
    assert caught.value.param == param


def test_detokenize_takes_ids() -> None:
    request = decode_request(b'{"tokens":[1,2]}', DetokenizeRequest, max_bytes=None)
    assert request.tokens == array("I", [1, 2])
    empty = decode_request(b'{"tokens":[]}', DetokenizeRequest, max_bytes=None)
    assert empty.tokens == array("I")


def test_answers_of_tokenize_and_detokenize() -> None:
    answer = TokenizeResponse(count=2, max_model_len=8, tokens=array("I", [1, 2]))
    assert json.loads(answer.to_json()) == {
        "count": 2, "max_model_len": 8, "tokens": [1, 2], "token_strs": None,
    }  # fmt: skip
    assert DetokenizeResponse(prompt="ä").to_json() == '{"prompt":"ä"}'.encode()


def test_pooling_defaults() -> None:
    text, chat = pool(input="a"), pool(messages=[{"role": "user"}])
    assert (text.add_special_tokens, chat.add_special_tokens) == (True, False)
    assert (chat.add_generation_prompt, chat.prompts) == (False, ())
    params = text.tokenize_params(max_model_len=10)
    assert (params.max_output_tokens, params.max_truncation_tokens) == (0, 10)
    assert params.pad_prompt_tokens is None


@pytest.mark.parametrize(
    ("fields", "pad"),
    [
        ({"padding": "max_length"}, -1),
        ({"padding": "do_not_pad", "pad_prompt_tokens": 4}, None),
        ({"pad_prompt_tokens": 4}, 4),
        ({"padding": None}, None),
    ],
)
def test_padding(fields: dict[str, Any], pad: int | None) -> None:
    assert pool(input="a", **fields).tokenize_params(max_model_len=10).pad_prompt_tokens == pad


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": "a", "messages": []}, "input"),
        ({"input": "a", "padding": "longest"}, "padding"),
        ({"input": "a", "truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
        ({"input": "a", "cache_salt": "@"}, "cache_salt"),
    ],
)
def test_pooling_bodies_that_are_none(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        pool(**fields)
    assert caught.value.param == param


def test_an_error_body_has_four_keys() -> None:
    error = PromptTooLong(num_tokens=9, max_tokens=8)
    assert error_body(error) == {
        "error": {
            "message": error.message,
            "type": "BadRequestError",
            "param": "input_tokens",
            "code": 400,
        }
    }
