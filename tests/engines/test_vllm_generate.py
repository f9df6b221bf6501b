"""The request vLLM's generate side reads."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest

from foreword.engines.vllm_generate import (
    GenerateRequest,
    generate_request,
    sampling_to_dict,
    to_dict,
    to_json,
)
from foreword.errors import InvalidRequest
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.sampling import OutputKind, RepetitionDetection, SamplingParams, StructuredOutputs
from foreword.types import EngineInput, MediaSpan, Offsets

IDS = array("I", [5, 2**32 - 1])


def generate(
    fields: dict[str, Any] | None = None, *, engine_input: EngineInput | None = None, **kwargs: Any
) -> GenerateRequest:
    body = {"messages": [{"role": "user", "content": "x"}], **(fields or {})}
    request = decode_request(body, ChatCompletionRequest, max_bytes=None)
    given = engine_input or EngineInput(token_ids=IDS)
    return generate_request(given, request, SamplingParams(), model="m", **kwargs)


def test_the_whole_object_of_a_plain_chat() -> None:
    assert to_dict(generate({"request_id": "r"})) == {
        "request_id": "chatcmpl-r",
        "token_ids": [5, 2**32 - 1],
        "token_offsets": None,
        "features": None,
        "content_parts": None,
        "sampling_params": {
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_p": 1.0,
            "min_p": 0.0,
            "stop": [],
            "stop_token_ids": [],
            "max_tokens": 16,
            "bad_words": [],
            "skip_reading_prefix_cache": False,
        },
        "model": "m",
        "reasoning_ended": None,
        "reasoning_parser_kwargs": None,
        "return_token_ids": None,
        "output_mode": "tokens",
        "parse_context": {
            "tools": None,
            "tool_choice": "none",
            "parallel_tool_calls": True,
            "include_reasoning": True,
            "chat_template_kwargs": {
                "cohere_format": "cmd4",
                "add_generation_prompt": True,
                "continue_final_message": False,
            },
            "history_tool_call_cnt": 0,
        },
        "stream": False,
        "stream_options": None,
        "cache_salt": None,
        "priority": 0,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }


def test_json_is_the_dict() -> None:
    given = EngineInput(
        token_ids=IDS, offsets=Offsets(starts=array("I", [0, 3]), stops=array("I", [3, 4]))
    )
    request = generate({"stream": True, "stream_options": {}}, engine_input=given)
    assert json.loads(to_json(request)) == to_dict(request)
    assert to_dict(request)["token_offsets"] == [[0, 3], [3, 4]]
    assert to_dict(request)["stream_options"] == {
        "include_usage": False,
        "continuous_usage_stats": False,
    }


def test_request_ids() -> None:
    assert generate({"request_id": "r"}, request_id="header").request_id == "chatcmpl-header"
    first, second = generate(), generate()
    assert first.request_id != second.request_id
    completion = decode_request({"prompt": ["a", "b"]}, CompletionRequest, max_bytes=None)
    given = EngineInput(token_ids=IDS)
    made = generate_request(
        given, completion, SamplingParams(), model=None, request_id="r", index=1
    )
    assert made.request_id == "cmpl-r-1"
    assert made.parse_context is None
    assert made.reasoning_ended is None


def test_what_the_request_asked_for_is_passed_on() -> None:
    made = generate(
        {
            "priority": -3,
            "cache_salt": "pepper",
            "return_token_ids": True,
            "kv_transfer_params": {"a": 1},
            "ec_transfer_params": {},
        }
    )
    assert (made.priority, made.cache_salt, made.return_token_ids) == (-3, "pepper", True)
    assert (made.kv_transfer_params, made.ec_transfer_params) == ({"a": 1}, None)


def test_the_parse_context_has_the_template_kwargs_that_count() -> None:
    made = generate(
        {"chat_template_kwargs": {"a": None, "b": "auto", "c": [1], "tokenize": True}},
        default_chat_template_kwargs={"a": 1, "c": 2, "d": 3},
    )
    assert made.parse_context is not None
    assert made.parse_context["chat_template_kwargs"] == {
        "cohere_format": "cmd4",
        "a": 1,
        "c": [1],
        "d": 3,
        "tokenize": True,
        "add_generation_prompt": True,
        "continue_final_message": False,
    }


def test_the_clients_tool_choice_is_kept() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    made = generate({"tools": [tool], "tool_choice": "required"})
    assert made.parse_context is not None
    assert made.parse_context["tool_choice"] == "required"
    assert made.parse_context["tools"][0]["function"]["name"] == "f"


def test_without_reasoning_constraints_hold_from_the_start() -> None:
    assert generate({"include_reasoning": False}).reasoning_ended is True


def test_harmony_gives_its_template_kwargs_to_the_reasoning_parser() -> None:
    made = generate(is_harmony=True)
    assert made.reasoning_ended is True
    assert made.reasoning_parser_kwargs is not None
    assert made.reasoning_parser_kwargs["chat_template_kwargs"]["cohere_format"] == "cmd4"
    assert made.parse_context is not None
    assert made.parse_context["chat_template_kwargs"] == {}


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        generate(engine_input=EngineInput(token_ids=array("I")))
    assert caught.value.param is None


def test_media_is_named_and_placed() -> None:
    spans = tuple(
        MediaSpan(modality=modality, index=index, start=start, stop=start + 4, identity=identity)
        for index, (modality, start, identity) in enumerate(
            [("image", 0, "h0"), ("audio", 4, "h1"), ("image", 9, "h2")]
        )
    )
    made = generate(engine_input=EngineInput(token_ids=IDS, media_features=spans))
    assert made.features == {
        "mm_hashes": {"image": ["h0", "h2"], "audio": ["h1"]},
        "mm_placeholders": {
            "image": [{"offset": 0, "length": 4}, {"offset": 9, "length": 4}],
            "audio": [{"offset": 4, "length": 4}],
        },
        "kwargs_data": None,
        "mm_metadata": None,
    }


def test_sampling_on_the_wire() -> None:
    params = SamplingParams(
        n=2,
        stop=("END",),
        max_tokens=None,
        logprob_token_ids=(1,),
        output_kind=OutputKind.DELTA,
        skip_clone=True,
        logit_bias={13: -1.0},
        eos_token_id=4,
        bad_words_token_ids=((1,),),
        repetition_detection=RepetitionDetection(max_pattern_size=2, min_count=3),
        structured_outputs=StructuredOutputs(regex="a"),
    )
    wire = json.loads(json.dumps(sampling_to_dict(params)))
    assert wire["n"] == 2
    assert wire["max_tokens"] is None
    assert wire["output_kind"] == 1
    assert wire["output_text_buffer_length"] == 2
    assert wire["logprob_token_ids"] == [1]
    assert wire["logit_bias"] == {"13": -1.0}
    assert wire["repetition_detection"] == {
        "max_pattern_size": 2,
        "min_pattern_size": 0,
        "min_count": 3,
    }
    assert wire["structured_outputs"]["regex"] == "a"
    assert wire["structured_outputs"]["json"] is None
    # What the generate side computes for itself is not sent.
    assert not wire.keys() & {"eos_token_id", "all_stop_token_ids", "bad_words_token_ids"}
