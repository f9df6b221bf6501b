"""Whatever a client sends, the answer is a request or a 400: never another exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.engines.vllm_generate import generate_request, to_json
from foreword.errors import RequestError
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.protocols.pooling import PoolingRequest
from foreword.protocols.tokenize import DetokenizeRequest, TokenizeRequest
from foreword.sampling import complete_sampling
from foreword.types import EngineInput, make_token_ids

TYPES: tuple[Any, ...] = (
    ChatCompletionRequest,
    CompletionRequest,
    TokenizeRequest,
    DetokenizeRequest,
    PoolingRequest,
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "none", "auto", "left", "1", "x\0", "\ud800", "json_object", "f"])
)
KEYS = st.sampled_from(["type", "function", "name", "json", "regex", "json_schema", "1", "\udc00"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def answer(raw: Any, kind: Any) -> None:
    error: RequestError | None = None
    try:
        request = decode_request(raw, kind, max_bytes=10_000)
        if kind is DetokenizeRequest:
            return
        request.tokenize_params(max_model_len=100)
        if kind in (ChatCompletionRequest, CompletionRequest):
            sampling = complete_sampling(request, {}, max_model_len=100, num_prompt_tokens=1)
            given_input = EngineInput(token_ids=make_token_ids([1]))
            to_json(generate_request(given_input, request, sampling, model=None))
        if kind is not CompletionRequest:
            request.chat_params()
            request.tool_dicts()
    except RequestError as refusal:
        error = refusal
    assert error is None or (error.status == 400 and error.message)


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=30, deadline=None)
@given(raw=st.binary(max_size=60))
def test_any_bytes(kind: Any, raw: bytes) -> None:
    answer(raw, kind)


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_value_of_any_field(kind: Any, data: st.DataObject) -> None:
    valid: dict[str, Any] = {
        ChatCompletionRequest: {"messages": [{"role": "user", "content": "x"}]},
        CompletionRequest: {"prompt": "x"},
        TokenizeRequest: {"prompt": "x"},
        DetokenizeRequest: {"tokens": [1]},
        PoolingRequest: {"input": "x"},
    }[kind]
    names = st.sampled_from(kind.__struct_fields__)
    body = {**valid, **data.draw(st.dictionaries(names, VALUES, max_size=2))}
    answer(body, kind)
    answer(json.dumps(body).encode(), kind)
