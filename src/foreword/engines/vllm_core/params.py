"""Sampling parameters enter; the map vLLM's engine decodes leaves. Pooling parameters likewise.

Rules of this file: names, order and defaults are vLLM's own, private names included. What is
vLLM's default may be left out; `stop`, `stop_token_ids`, `bad_words` and
`skip_reading_prefix_cache` never are, as vLLM always writes them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec

from foreword.engines.msgpack_frames import Tensor
from foreword.sampling import OutputKind, PoolingParams, SamplingParams, StructuredOutputs

STRUCTURED_OUTPUTS_BACKEND = "auto"
"""vLLM's own default; an engine started with another one must be told so."""
_AUTO, _XGRAMMAR = "auto", "xgrammar"
_ESCAPES = {
    **{chr(code): f"\\u{code:04x}" for code in (*range(0x20), 0x7F)},
    "\\": r"\\",
    '"': r"\"",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
}
_ESCAPED = str.maketrans(_ESCAPES)

_PRIVATE = ("eos_token_id", "all_stop_token_ids", "bad_words_token_ids")
_CONVERTED = (
    "structured_outputs",
    "repetition_detection",
    "output_kind",
    "prompt_logprob_token_ids",
)


class SamplingMap(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """vLLM's `SamplingParams` on the wire."""

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
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: Tensor | None = None
    prompt_logprob_start: int | None = None
    logprob_token_ids: tuple[int, ...] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: int = 0
    stream_interval: int | None = None
    skip_clone: bool = False
    output_text_buffer_length: int = 0
    _eos_token_id: int | None = None
    _all_stop_token_ids: frozenset[int] = frozenset()
    structured_outputs: Mapping[str, Any] | None = None
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: tuple[int, ...] | None = None
    extra_args: Mapping[str, Any] | None = None
    bad_words: tuple[str, ...]
    _bad_words_token_ids: tuple[tuple[int, ...], ...] | None = None
    skip_reading_prefix_cache: bool | None
    thinking_token_budget: int | None = None
    repetition_detection: Mapping[str, int] | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: tuple[int, ...] | None = None


class PoolingArray(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """vLLM's `PoolingParams` on the wire; what is inside of them are arrays too."""

    use_activation: bool | None
    dimensions: int | None
    step_tag_id: int | None
    returned_token_ids: tuple[int, ...] | None
    task: str | None
    requires_token_ids: bool
    skip_reading_prefix_cache: bool | None
    late_interaction_params: tuple[str, str, int | None] | None
    extra_kwargs: Mapping[str, Any] | None
    output_kind: int
    late_chunking_params: tuple[int] | None


def sampling_map(
    params: SamplingParams, *, structured_outputs_backend: str = STRUCTURED_OUTPUTS_BACKEND
) -> SamplingMap:
    """Return sampling parameters as the engine decodes them.

    Shapes: the parameters are complete (end tokens, bad words and `max_tokens` resolved), since
    the engine completes nothing.
    """
    values = {
        name: getattr(params, name)
        for name in params.__struct_fields__
        if name not in _PRIVATE + _CONVERTED
    }
    repetition = params.repetition_detection
    return SamplingMap(
        **values,
        **{f"_{name}": getattr(params, name) for name in _PRIVATE},
        output_kind=int(params.output_kind),
        output_text_buffer_length=params.output_text_buffer_length,
        structured_outputs=_constraint(params.structured_outputs, structured_outputs_backend),
        repetition_detection=None if repetition is None else repetition.to_dict(),
        prompt_logprob_token_ids=_scored_ids(params.prompt_logprob_token_ids),
    )


def _scored_ids(rows: Sequence[Sequence[int]] | None) -> Tensor | None:
    if rows is None:
        return None
    width = max(map(len, rows))
    ids = array("i", [one for row in rows for one in (*row, *[-1] * (width - len(row)))])
    return Tensor(dtype="<i4", shape=(len(rows), width), data=ids.tobytes())


def pooling_array(params: PoolingParams) -> PoolingArray:
    """Return pooling parameters as the engine decodes them."""
    scoring, chunking = params.late_interaction_params, params.late_chunking_params
    values = {field.name: getattr(params, field.name) for field in fields(params)}
    values["late_interaction_params"] = scoring and (
        scoring.mode,
        scoring.query_key,
        scoring.query_uses,
    )
    values["late_chunking_params"] = chunking and (chunking.chunk_size,)
    return PoolingArray(**values, output_kind=OutputKind.FINAL_ONLY.value)


def _constraint(constraint: StructuredOutputs | None, backend: str) -> dict[str, Any] | None:
    if constraint is None:
        return None
    told = constraint.to_dict()
    # The engine takes no "auto": of its backends the front end names one, and says that it chose.
    chosen = _XGRAMMAR if backend == _AUTO else backend
    if constraint.choice is not None and chosen == _XGRAMMAR:
        # This backend has no choices, so front ends write a grammar of them.
        told |= {"choice": None, "grammar": choice_grammar(constraint.choice)}
    return {**told, "_backend": chosen, "_backend_was_auto": backend == _AUTO}


def choice_grammar(choices: Sequence[str]) -> str:
    """Return the grammar of some texts to choose from, as vLLM's front end writes it."""
    return "root ::= " + " | ".join(f'"{one.translate(_ESCAPED)}"' for one in choices)
