"""What a chat request may say, and what it turns into."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.errors import InvalidRequest, MalformedRequest
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.decode import decode_request

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}


def chat(**fields: Any) -> ChatCompletionRequest:
    body = {"messages": [{"role": "user", "content": "x"}], **fields}
    return decode_request(body, ChatCompletionRequest, max_bytes=None)


def test_tool_choice_follows_the_tools() -> None:
    assert chat().tool_choice == "none"
    assert chat(tools=[TOOL]).tool_choice == "auto"
    assert chat(tools=[TOOL], tool_choice="none").tool_choice == "none"
    assert chat(tools=[TOOL], tool_choice=None).tool_choice is None
    assert chat(tools=[TOOL], tool_choice="required").tool_choice == "required"
    named = {"type": "function", "function": {"name": "f"}}
    assert chat(tools=[TOOL], tool_choice=named).tool_choice == named


def test_empty_tools_count_as_none_only_when_nothing_is_to_be_called() -> None:
    assert chat(tools=[], tool_choice="none").tools is None
    assert chat(tools=None).tools is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": []}, "tools"),
        ({"tools": [], "tool_choice": "auto"}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"function": "f"}}, "tool_choice.function"),
        ({"tools": [TOOL], "tool_choice": {"function": {}}}, "tool_choice.function.name"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -2}, "top_logprobs"),
        ({"logprob_token_ids": [1]}, "logprob_token_ids"),
        ({"stream": True, "prompt_logprobs": 1}, "prompt_logprobs"),
        ({"prompt_logprobs": -2}, "prompt_logprobs"),
        ({"use_beam_search": True}, None),
        ({"add_generation_prompt": True, "continue_final_message": True}, None),
        ({"continue_final_message": True}, None),
        ({"cache_salt": ""}, "cache_salt"),
        ({"cache_salt": "a" * 129}, "cache_salt"),
        ({"cache_salt": "a@b"}, "cache_salt"),
        ({"cache_salt": "a\\b"}, "cache_salt"),
        ({"cache_salt": "a/b"}, "cache_salt"),
        ({"cache_salt": "a\0b"}, "cache_salt"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        (
            {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
            "structured_outputs",
        ),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"function": {"name": "f"}},
                "structured_outputs": {"regex": "a"},
            },
            "structured_outputs",
        ),
    ],
)
def test_contradictions(fields: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    assert caught.value.param == param
    assert not isinstance(caught.value, MalformedRequest)


def test_a_cache_salt_of_the_greatest_length() -> None:
    assert chat(cache_salt="ä" * 128).cache_salt == "ä" * 128


def test_tools_are_shown_in_a_fixed_order_and_their_parameters_as_sent() -> None:
    tool = {
        "extra": 1,
        "function": {"strict": True, "parameters": {"b": 1, "a": 2}, "name": "f", "x": 1},
        "type": "function",
    }
    request = chat(tools=[tool, {"function": {"name": "g"}, "defer_loading": True}])
    first, second = request.tool_dicts() or ()
    assert list(first) == ["type", "function"]
    assert list(first["function"].items()) == [
        ("name", "f"),
        ("description", None),
        ("parameters", {"b": 1, "a": 2}),
        ("strict", True),
    ]
    assert list(first["function"]["parameters"]) == ["b", "a"]
    assert second == {
        "type": "function",
        "function": {"name": "g", "description": None, "parameters": None, "defer_loading": True},
        "defer_loading": True,
    }


def test_tools_can_be_hidden_when_none_is_to_be_called() -> None:
    request = chat(tools=[TOOL], tool_choice="none")
    assert len(request.tool_dicts() or ()) == 1
    assert request.tool_dicts(exclude_when_none=True) is None
    assert chat(tools=[TOOL]).tool_dicts(exclude_when_none=True) is not None


def test_tokenize_params_of_a_chat() -> None:
    params = chat().tokenize_params(max_model_len=100)
    assert (params.max_total_tokens, params.max_output_tokens) == (100, None)
    assert params.add_special_tokens is False
    assert params.max_truncation_tokens == 99
    params = chat(
        max_tokens=7, max_completion_tokens=9, truncate_prompt_tokens=-1, truncation_side="left",
        add_special_tokens=True, echo=True, return_token_offsets=True,
    ).tokenize_params(max_model_len=100, do_lower_case=True)  # fmt: skip
    assert (params.max_output_tokens, params.max_output_tokens_param) == (
        9,
        "max_completion_tokens",
    )
    assert (params.truncate_prompt_tokens, params.truncation_side) == (-1, "left")
    assert params.add_special_tokens
    assert params.needs_detokenization
    assert params.return_token_offsets
    assert params.do_lower_case


def test_more_output_than_context_names_the_field_that_asked() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        with pytest.raises(InvalidRequest) as caught:
            chat(**{name: 101}).tokenize_params(max_model_len=100)
        assert caught.value.param == name


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({}, {}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low", "enable_thinking": True}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        (
            {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
            {"reasoning_effort": "high", "enable_thinking": False},
        ),
        (
            {"documents": [{"title": "t", "text": "d"}]},
            {"documents": [{"title": "t", "text": "d"}]},
        ),
        ({"chat_template_kwargs": {"tokenize": True, "a": None}}, {"a": None}),
        ({"chat_template_kwargs": {"add_generation_prompt": False}}, {}),
    ],
)
def test_template_kwargs(fields: dict[str, Any], kwargs: dict[str, Any]) -> None:
    params = chat(**fields).chat_params()
    assert params.chat_template_kwargs == kwargs
    assert params.add_generation_prompt is True
    assert params.continue_final_message is False


@pytest.mark.parametrize(
    "fields", [{"chat_template": "{{ 1 }}"}, {"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}]
)
def test_a_template_of_the_request_needs_trust(fields: dict[str, Any]) -> None:
    request = chat(**fields)
    with pytest.raises(InvalidRequest) as caught:
        request.chat_params()
    assert (caught.value.param, caught.value.wire_type) == (None, "BadRequestError")
    trusted = request.chat_params(trust_request_template=True)
    assert trusted.chat_template == "{{ 1 }}"
    assert "chat_template" not in trusted.chat_template_kwargs


def test_the_parse_context_counts_earlier_calls() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}] * 2
    messages = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "user", "content": "x", "tool_calls": calls},
        {"role": "assistant", "tool_calls": None},
    ]
    assert chat(messages=messages).parse_context()["history_tool_call_cnt"] == 2
