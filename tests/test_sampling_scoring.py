"""Ids to score in a prompt, and ids to replay: their ranges, and what excludes them."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest

from foreword.engines.vllm_generate import GenerateRequest
from foreword.errors import InvalidRequest, InvalidTokenIds
from foreword.sampling import (
    RepetitionDetection,
    SamplingParams,
    StructuredOutputs,
    check_limits,
    check_prompt_fields,
)

ROWS = ((1, 2), (3,), (-1, 4))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt_logprob_start": 1}, "prompt_logprob_start"),
        ({"prompt_logprob_token_ids": ROWS, "prompt_logprob_start": -1}, "prompt_logprob_start"),
        ({"prompt_logprob_token_ids": ()}, "prompt_logprob_token_ids"),
        ({"prompt_logprob_token_ids": ((), ())}, "prompt_logprob_token_ids"),
        ({"prompt_logprob_token_ids": ((1,), (-2,))}, "prompt_logprob_token_ids"),
        ({"prompt_logprob_token_ids": ((1.0,),)}, "prompt_logprob_token_ids"),
        ({"trace_decode_token_ids": ()}, "trace_decode_token_ids"),
        ({"trace_decode_token_ids": (1, -1)}, "trace_decode_token_ids"),
        ({"trace_decode_token_ids": (1,), "n": 2}, "n"),
        ({"trace_decode_token_ids": (1,), "prompt_logprobs": 0}, "trace_decode_token_ids"),
        (
            {"trace_decode_token_ids": (1,), "prompt_logprob_token_ids": ROWS},
            "trace_decode_token_ids",
        ),
        (
            {"trace_decode_token_ids": (1,), "structured_outputs": StructuredOutputs(regex="x")},
            "trace_decode_token_ids",
        ),
        (
            {"trace_decode_token_ids": (1,), "repetition_detection": RepetitionDetection()},
            "trace_decode_token_ids",
        ),
        ({"trace_decode_token_ids": (1,), "thinking_token_budget": 5}, "trace_decode_token_ids"),
        ({"trace_decode_token_ids": (1,), "bad_words": ("x",)}, "trace_decode_token_ids"),
    ],
)
def test_what_an_engine_refuses(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(**fields)
    assert caught.value.param == param


def test_scoring_a_prompt_reads_no_cache() -> None:
    assert SamplingParams(prompt_logprob_token_ids=ROWS).skip_reading_prefix_cache is True
    assert SamplingParams().skip_reading_prefix_cache is False


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"prompt_logprob_token_ids": ((1, 2, 3),)}, InvalidRequest),
        ({"prompt_logprob_token_ids": ((1,), (100,))}, InvalidTokenIds),
        ({"trace_decode_token_ids": (1, 100)}, InvalidTokenIds),
    ],
)
def test_limits_of_the_engine(fields: dict[str, Any], error: type[InvalidRequest]) -> None:
    (name,) = fields
    with pytest.raises(error) as caught:
        check_limits(SamplingParams(**fields), max_token_id=99, max_logprobs=2)
    assert caught.value.param == name


def test_ids_that_are_none_are_allowed() -> None:
    check_limits(SamplingParams(prompt_logprob_token_ids=ROWS), max_token_id=4, max_logprobs=2)


@pytest.mark.parametrize(
    ("fields", "num_prompt_tokens", "is_right"),
    [
        ({"prompt_logprob_token_ids": ROWS}, 4, True),
        ({"prompt_logprob_token_ids": ROWS}, 3, False),
        ({"prompt_logprob_token_ids": ROWS, "prompt_logprob_start": 2}, 6, True),
        ({"prompt_logprob_token_ids": ROWS, "prompt_logprob_start": 2}, 4, False),
        ({"routed_experts_prompt_start": 4}, 4, True),
        ({"routed_experts_prompt_start": 5}, 4, False),
    ],
)
def test_what_must_fit_the_prompt(
    fields: dict[str, Any], num_prompt_tokens: int, is_right: bool
) -> None:
    params = SamplingParams(**fields)
    if is_right:
        check_prompt_fields(params, num_prompt_tokens=num_prompt_tokens)
        return
    with pytest.raises(InvalidRequest) as caught:
        check_prompt_fields(params, num_prompt_tokens=num_prompt_tokens)
    assert caught.value.param == next(iter(fields))


def test_rows_are_lists_on_the_wire() -> None:
    request = GenerateRequest(
        request_id="r",
        token_ids=array("I", [1, 2]),
        sampling_params=SamplingParams(prompt_logprob_token_ids=ROWS),
    )
    told = request.to_dict()["sampling_params"]["prompt_logprob_token_ids"]
    assert told == [[1, 2], [3], [-1, 4]]
    assert json.loads(request.to_json())["sampling_params"]["prompt_logprob_token_ids"] == told
