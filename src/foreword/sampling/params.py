"""Sampling values enter; `SamplingParams` that no engine refuses leave.

Rules of this file: names and defaults are vLLM 0.33's, without its leading underscores; sequences
are tuples. Values are normalized and checked once, here. A range is one row of a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from foreword.errors import InvalidRequest
from foreword.sampling.constraints import RepetitionDetection, StructuredOutputs

MAX_NUM_SEQUENCES = 16384
MIN_TEMPERATURE = 1e-2
"""Smallest temperature above zero that keeps logits finite; smaller ones are raised to it."""
GREEDY_BELOW = 1e-5


class OutputKind(IntEnum):
    """What each answer of the engine holds."""

    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine chooses tokens and when it stops.

    Shapes: `logprobs` −1 means the whole vocabulary; `max_tokens` None means up to the context;
    temperature 0 is greedy. `stop`, `stop_token_ids` and `bad_words` lose duplicates.

    Raises: `InvalidRequest` with `param` for a value outside its range.

    Source: vLLM 0.33 `SamplingParams`.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: bool | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: tuple[tuple[int, ...], ...] | None = None
    """Ids to score as each token of the prompt, from its second on; −1 stands for none."""
    prompt_logprob_start: int | None = None
    """How many of the prompt's tokens after the first to pass over before they are scored."""
    logprob_token_ids: tuple[int, ...] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: OutputKind = OutputKind.CUMULATIVE
    stream_interval: int | None = None
    skip_clone: bool = False
    structured_outputs: StructuredOutputs | None = None
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: tuple[int, ...] | None = None
    extra_args: Mapping[str, Any] | None = None
    bad_words: tuple[str, ...] = ()
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    repetition_detection: RepetitionDetection | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: tuple[int, ...] | None = None
    """Ids to emit in place of sampled ones, by an engine that was started for it."""
    eos_token_id: int | None = None
    """The primary end token; stopping at it gives no stop reason."""
    all_stop_token_ids: frozenset[int] = frozenset()
    bad_words_token_ids: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        _normalize(self)
        _check_ranges(self)
        _check_tokens(self)
        _check_lists(self)
        _check_scoring(self)
        _check_trace(self)
        if self.is_greedy:
            _make_greedy(self)

    def replace(self, **changes: Any) -> SamplingParams:
        """Return these parameters with some of them changed, checked as a whole."""
        return msgspec.structs.replace(self, **changes)

    @property
    def is_greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW

    @property
    def output_text_buffer_length(self) -> int:
        """Characters held back until it is sure that no stop string begins in them."""
        if not self.stop or self.include_stop_str_in_output:
            return 0
        return max(len(text) for text in self.stop) - 1


def _set(params: SamplingParams, name: str, value: object) -> None:
    msgspec.structs.force_setattr(params, name, value)


def _unique(values: Iterable[Any] | None) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values or ()))


def _normalize(params: SamplingParams) -> None:
    if 0 < params.temperature < MIN_TEMPERATURE:
        _set(params, "temperature", MIN_TEMPERATURE)
    if params.seed == -1:
        _set(params, "seed", None)
    if params.thinking_token_budget == -1:
        _set(params, "thinking_token_budget", None)
    stop = (params.stop,) if isinstance(params.stop, str) else tuple(params.stop or ())
    _set(params, "stop", stop)
    _set(params, "stop_token_ids", _unique(params.stop_token_ids))
    _set(params, "bad_words", _unique(params.bad_words))
    _set(params, "all_stop_token_ids", params.all_stop_token_ids | {*params.stop_token_ids})
    for name in ("logprobs", "prompt_logprobs"):
        if getattr(params, name) is True:
            _set(params, name, 1)
    if params.skip_reading_prefix_cache is None:
        # A cached prefix computes no logprobs of the prompt.
        scores_prompt = params.prompt_logprobs is not None or bool(params.prompt_logprob_token_ids)
        _set(params, "skip_reading_prefix_cache", scores_prompt)


def _make_greedy(params: SamplingParams) -> None:
    if params.n > 1:
        raise _refused("n", params.n, "must be 1 when the temperature is 0, as all would be equal")
    _set(params, "top_p", 1.0)
    _set(params, "top_k", 0)
    _set(params, "min_p", 0.0)


def _check_ranges(params: SamplingParams) -> None:
    p = params
    rows: tuple[tuple[str, bool, str], ...] = (
        ("n", 1 <= p.n <= MAX_NUM_SEQUENCES, f"must be from 1 to {MAX_NUM_SEQUENCES}"),
        ("presence_penalty", -2 <= p.presence_penalty <= 2, "must be from -2 to 2"),
        ("frequency_penalty", -2 <= p.frequency_penalty <= 2, "must be from -2 to 2"),
        ("repetition_penalty", 0 < p.repetition_penalty < math.inf, "must be finite, above 0"),
        ("temperature", 0 <= p.temperature <= 2, "must be from 0 to 2"),
        ("top_p", 0 < p.top_p <= 1, "must be above 0 and at most 1"),
        ("top_k", p.top_k >= -1, "must be 1 or more, or 0 for no limit"),
        ("min_p", 0 <= p.min_p <= 1, "must be from 0 to 1"),
        ("min_tokens", p.min_tokens >= 0, "must be 0 or more"),
        ("stream_interval", (p.stream_interval or 1) >= 1, "must be 1 or more"),
        ("logprobs", (p.logprobs or 0) >= -1, "must be 0 or more, or -1 for all"),
        ("prompt_logprobs", (p.prompt_logprobs or 0) >= -1, "must be 0 or more, or -1 for all"),
        ("thinking_token_budget", (p.thinking_token_budget or 0) >= 0, "must be -1 or more"),
        ("routed_experts_prompt_start", p.routed_experts_prompt_start >= 0, "must be 0 or more"),
    )
    for name, is_valid, rule in rows:
        if not is_valid:
            raise _refused(name, getattr(params, name), rule)


def _check_tokens(params: SamplingParams) -> None:
    limit = params.max_tokens
    if limit is None:
        return
    if limit < 1:
        raise _refused("max_tokens", limit, "must be 1 or more")
    if params.min_tokens > limit:
        raise InvalidRequest(
            f"min_tokens is {params.min_tokens}, more than the {limit} of max_tokens."
            " Lower the one or raise the other.",
            details={"min_tokens": params.min_tokens, "max_tokens": limit},
        )


def _check_lists(params: SamplingParams) -> None:
    if "" in params.stop:
        raise InvalidRequest("stop holds an empty string, which every text has.", param="stop")
    if params.stop and not params.detokenize:
        raise InvalidRequest(
            "stop strings are found in text, so they need detokenize. Use stop_token_ids instead.",
            param="stop",
        )
    if "" in params.bad_words:
        raise InvalidRequest("bad_words holds an empty string.", param="bad_words")
    if params.extra_args:
        _check_integers(params.extra_args)


def _check_scoring(params: SamplingParams) -> None:
    rows, start = params.prompt_logprob_token_ids, params.prompt_logprob_start
    if rows is None:
        if start is not None:
            raise _refused("prompt_logprob_start", start, "needs prompt_logprob_token_ids")
        return
    if start is not None and start < 0:
        raise _refused("prompt_logprob_start", start, "must be 0 or more")
    if not any(rows) or any(type(one) is not int or one < -1 for row in rows for one in row):
        raise InvalidRequest(
            "prompt_logprob_token_ids must be rows of token ids, at least one id in all of them;"
            " -1 stands for none.",
            param="prompt_logprob_token_ids",
        )


def _check_trace(params: SamplingParams) -> None:
    trace = params.trace_decode_token_ids
    if trace is None:
        return
    name = "trace_decode_token_ids"
    if not trace or any(type(one) is not int or one < 0 for one in trace):
        raise InvalidRequest(f"{name} must be one token id or more.", param=name)
    if params.n != 1:
        raise _refused("n", params.n, f"must be 1 with {name}")
    for other in (
        "prompt_logprobs",
        "prompt_logprob_token_ids",
        "structured_outputs",
        "repetition_detection",
        "thinking_token_budget",
    ):
        if getattr(params, other) is not None:
            raise InvalidRequest(f"{name} and {other} exclude each other.", param=name)
    if params.bad_words:
        raise InvalidRequest(f"{name} and bad_words exclude each other.", param=name)


def _check_integers(value: object) -> None:
    """Refuse integers that the engine's 64-bit transport cannot carry."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise InvalidRequest(
                "An extra argument is an integer beyond 64 bits, which no engine can be sent.",
                param="vllm_xargs",
            )
        if isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)


def _refused(name: str, value: object, rule: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is {value}; it {rule}.", param=name, details={name: value})
