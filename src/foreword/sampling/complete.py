"""A request, the model's defaults and the prompt's length enter; complete `SamplingParams` leave.

Rules of this file: the request wins over the model's defaults, they win over the protocol's. A
prompt and its output never exceed the context together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from foreword.errors import InvalidRequest, PromptTooLong
from foreword.sampling.constraints import merge_constraints
from foreword.sampling.fields import GenerationFields
from foreword.sampling.limits import check_token_ids
from foreword.sampling.params import OutputKind, SamplingParams
from foreword.types import MAX_TOKEN_ID

_PROTOCOL_DEFAULTS: Mapping[str, float | int] = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
}
_TAKEN_AS_THEY_ARE = (
    "watermarking",
    "seed",
    "ignore_eos",
    "min_tokens",
    "spaces_between_special_tokens",
    "include_stop_str_in_output",
    "stream_interval",
    "thinking_token_budget",
    "repetition_detection",
    "routed_experts_prompt_start",
)
_MAX_BIAS = 100.0
_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")


def get_max_tokens(
    *,
    max_model_len: int,
    num_prompt_tokens: int,
    max_tokens: int | None = None,
    default_max_tokens: int | None = None,
    override_max_tokens: int | None = None,
) -> int:
    """Return how many tokens may be generated: the least of the limits that are given.

    Shapes: `num_prompt_tokens` counts the prompt as the engine sees it, after truncation.
    `override_max_tokens` is an operator's limit that a request cannot raise. 0 when the prompt
    fills the context.

    Raises: `PromptTooLong` when the prompt alone exceeds the context.
    """
    if num_prompt_tokens > max_model_len:
        raise PromptTooLong(
            num_tokens=num_prompt_tokens, max_tokens=max_model_len, max_model_len=max_model_len
        )
    asked = max_tokens if max_tokens is not None else default_max_tokens
    limits = (max_model_len - num_prompt_tokens, asked, override_max_tokens)
    return min(limit for limit in limits if limit is not None)


def complete_sampling(
    request: GenerationFields,
    defaults: Mapping[str, Any],
    *,
    max_model_len: int,
    num_prompt_tokens: int,
    override_max_tokens: int | None = None,
    refuse_overflow: bool = False,
    max_token_id: int = MAX_TOKEN_ID,
) -> SamplingParams:
    """Return the sampling parameters of a request whose prompt is known.

    Shapes: `defaults` as `default_sampling_params` gives them, and `stop_token_ids` that are
    added to the request's. With `refuse_overflow` a number of output tokens that does not fit
    beside the prompt is refused; else it is lowered to what fits.

    Raises: `PromptTooLong` when nothing, or not what was asked, fits beside the prompt;
    `InvalidRequest` for values out of range; `InvalidTokenIds` for ids above the last.

    Source: vLLM 0.33 `to_sampling_params` and `get_max_tokens`.
    """
    _check_output(request)
    _check_room(request, max_model_len, num_prompt_tokens, refuse_overflow)
    max_tokens = get_max_tokens(
        max_model_len=max_model_len,
        num_prompt_tokens=num_prompt_tokens,
        max_tokens=request.max_output_tokens,
        default_max_tokens=defaults.get("max_tokens"),
        override_max_tokens=override_max_tokens,
    )
    params = SamplingParams(
        **{key: _first(request, defaults, key, last) for key, last in _PROTOCOL_DEFAULTS.items()},
        **{key: getattr(request, key) for key in _TAKEN_AS_THEY_ARE},
        n=1 if request.n is None else request.n,
        stop=(request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ()),
        stop_token_ids=(*(request.stop_token_ids or ()), *(defaults.get("stop_token_ids") or ())),
        max_tokens=max_tokens,
        logprobs=None if request.logprob_token_ids else request.num_logprobs,
        prompt_logprobs=_prompt_logprobs(request),
        logprob_token_ids=tuple(request.logprob_token_ids or ()) or None,
        skip_special_tokens=_first(request, defaults, "skip_special_tokens", True),
        output_kind=OutputKind.DELTA if request.stream else OutputKind.FINAL_ONLY,
        skip_clone=True,
        structured_outputs=merge_constraints(request.structured_outputs, request.response_format),
        logit_bias=_parse_bias(request.logit_bias),
        allowed_token_ids=_tuple_or_none(request.allowed_token_ids),
        extra_args=request.vllm_xargs or None,
        bad_words=tuple(request.bad_words),
    )
    check_token_ids(params, max_token_id=max_token_id)
    return params


def _first(
    request: GenerationFields, defaults: Mapping[str, Any], name: str, protocol_default: Any
) -> Any:
    value = getattr(request, name)
    return value if value is not None else defaults.get(name, protocol_default)


def _tuple_or_none(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _prompt_logprobs(request: GenerationFields) -> int | None:
    if request.prompt_logprobs is None and request.echo:
        return request.num_echo_logprobs
    return request.prompt_logprobs


def _check_output(request: GenerationFields) -> None:
    asked, name = request.max_output_tokens, request.max_output_tokens_param
    if asked is not None and asked < 1:
        raise InvalidRequest(
            f"{name} is {asked}; it must be 1 or more.", param=name, details={name: asked}
        )


def _check_room(
    request: GenerationFields, max_model_len: int, num_prompt_tokens: int, refuse_overflow: bool
) -> None:
    room = max_model_len - num_prompt_tokens
    asked = request.max_output_tokens
    if room < 1:
        raise PromptTooLong(
            num_tokens=num_prompt_tokens, max_tokens=max_model_len - 1, max_model_len=max_model_len
        )
    if refuse_overflow and asked is not None and asked > room:
        raise PromptTooLong(
            num_tokens=num_prompt_tokens,
            max_tokens=max(0, max_model_len - asked),
            max_output_tokens=asked,
            max_model_len=max_model_len,
            param=request.max_output_tokens_param,
        )


def _parse_bias(logit_bias: Mapping[str, float] | None) -> dict[int, float] | None:
    if logit_bias is None:
        return None
    biases: dict[int, float] = {}
    for key, bias in logit_bias.items():
        # Python's own int() would take "1_0", " 7 " and digits of other scripts, too.
        if not _TOKEN_ID.fullmatch(key):
            raise InvalidRequest(
                "A key of logit_bias is no token id; keys are ids in plain decimal digits,"
                ' such as "42".',
                param="logit_bias",
            )
        if not math.isfinite(bias):
            raise InvalidRequest(
                f"logit_bias of token {key} is {bias}; it must be a number"
                f" from {-_MAX_BIAS:g} to {_MAX_BIAS:g}.",
                param="logit_bias",
            )
        biases[int(key)] = min(_MAX_BIAS, max(-_MAX_BIAS, bias))
    return biases
