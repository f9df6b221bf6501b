"""An `EngineInput` and its sampling parameters enter; vLLM's `GenerateRequest`, as JSON, leaves.

Rules of this file: keys are vLLM 0.33's `/inference/v1/generate` and `.../render`. What that reader
would fill in differently, such as an absent `max_tokens`, is always written.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import msgspec

from foreword.blocks import BlockHashes
from foreword.chat.reused_ids import without_reused_ids
from foreword.errors import InvalidRequest
from foreword.sampling.fields import GenerationFields, StreamOptions
from foreword.sampling.params import SamplingParams
from foreword.types import EngineInput, MediaSpan, Offsets, TokenIds

SERVER_TEMPLATE_KWARGS: Mapping[str, Any] = {"cohere_format": "cmd4"}
"""Template kwargs every vLLM 0.33 server has by default; parsers of its output look for them."""

_UNSET_TEMPLATE_VALUES = (None, "auto")
# Always written: the reader's own default may differ, or it is what vLLM itself always writes.
_ALWAYS = frozenset(
    {
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "temperature",
        "top_p",
        "min_p",
        "max_tokens",
        "stop",
        "stop_token_ids",
        "bad_words",
        "skip_reading_prefix_cache",
    }
)
_PRIVATE = frozenset({"eos_token_id", "all_stop_token_ids", "bad_words_token_ids"})
_DEFAULTS = {
    field.name: field.default
    for field in msgspec.structs.fields(SamplingParams)
    if field.name not in _PRIVATE
}
_values_of = attrgetter(*_DEFAULTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """What vLLM's generate side takes in place of a prompt.

    Shapes: `token_offsets` are character spans, half-open; `features` and `content_parts` exclude
    each other; `parse_context` is what parses the output of a chat. `block_hashes` are for whoever
    routes the request; an engine passes over them.
    """

    request_id: str
    token_ids: TokenIds
    token_offsets: Offsets | None = None
    features: Mapping[str, Any] | None = None
    content_parts: Sequence[Mapping[str, Any]] | None = None
    sampling_params: SamplingParams
    model: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: Mapping[str, Any] | None = None
    return_token_ids: bool | None = None
    output_mode: str = "tokens"
    parse_context: Mapping[str, Any] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: Mapping[str, Any] | None = None
    ec_transfer_params: Mapping[str, Any] | None = None
    block_hashes: BlockHashes | None = None

    def to_json(self) -> bytes:
        """Return the request as the bytes of its JSON object."""
        return to_json(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the request as the JSON object it is sent as, of plain Python values."""
        return to_dict(self)


_NAMES = tuple(field.name for field in fields(GenerateRequest))
_parts_of = attrgetter(*_NAMES)


def generate_request(
    engine_input: EngineInput,
    request: GenerationFields,
    sampling: SamplingParams,
    *,
    model: str | None,
    request_id: str | None = None,
    index: int | None = None,
    default_chat_template_kwargs: Mapping[str, Any] | None = None,
    is_harmony: bool = False,
    block_hashes: BlockHashes | None = None,
) -> GenerateRequest:
    """Return what vLLM's generate side needs to answer `request`.

    Shapes: `request_id` (a header's, say) wins over the request's own; without either one is made.
    `index` is the prompt's place among several, which share one `request_id`. The kwargs are the
    operator's. `is_harmony`: the prompt ends where Harmony's answer begins; its parser takes
    template kwargs as the reasoning parser's, and no reasoning is open.

    Raises: `InvalidRequest` when the prompt has no tokens.

    Source: vLLM 0.33 `render_chat_request` and `render_completion_request`.
    """
    if not len(engine_input.token_ids):
        raise InvalidRequest(
            "The prompt has no tokens, so nothing can follow it. Send some text, or a"
            " truncate_prompt_tokens above 0."
        )
    context = _parse_context(request, default_chat_template_kwargs)
    reasoning_kwargs = None
    if context is not None and is_harmony:
        reasoning_kwargs = {"chat_template_kwargs": context["chat_template_kwargs"]}
        context = {**context, "chat_template_kwargs": {}}
    return GenerateRequest(
        request_id=_make_id(request, request_id, index),
        token_ids=engine_input.token_ids,
        token_offsets=engine_input.offsets,
        features=_features(engine_input.media_features),
        sampling_params=sampling,
        model=model,
        reasoning_ended=_reasoning_ended(context, is_harmony),
        reasoning_parser_kwargs=reasoning_kwargs,
        return_token_ids=request.return_token_ids,
        parse_context=context,
        stream=bool(request.stream),
        stream_options=request.stream_options if request.stream else None,
        cache_salt=request.cache_salt,
        priority=request.priority,
        kv_transfer_params=without_reused_ids(request.kv_transfer_params),
        ec_transfer_params=request.ec_transfer_params or None,
        block_hashes=block_hashes,
    )


def to_dict(request: GenerateRequest) -> dict[str, Any]:
    """Return `request` as the JSON object it is sent as, of plain Python values."""
    wire = _wire(request)
    wire["token_ids"] = request.token_ids.tolist()
    if request.stream_options is not None:
        wire["stream_options"] = msgspec.to_builtins(request.stream_options)
    return wire


def to_json(
    request: GenerateRequest, *, write_ids: Callable[[TokenIds], bytes] | None = None
) -> bytes:
    """Return `request` as the bytes of its JSON object.

    `write_ids` gives the JSON array of the ids; a service that remembers it has one of its own.
    """
    wire = _wire(request)
    if write_ids is not None:
        wire["token_ids"] = msgspec.Raw(write_ids(request.token_ids))
    return msgspec.json.encode(wire, enc_hook=_encode_ids)


def sampling_to_dict(params: SamplingParams) -> dict[str, Any]:
    """Return sampling parameters as vLLM reads them: a few always, else what is not default.

    Why: `max_tokens` is always written, since vLLM reads its absence as "up to the context" and
    not as its own default of 16.
    """
    wire: dict[str, Any] = {}
    for (name, default), value in zip(_DEFAULTS.items(), _values_of(params), strict=True):
        if value != default or name in _ALWAYS:
            wire[name] = _plain(value)
    if params.output_text_buffer_length:
        wire["output_text_buffer_length"] = params.output_text_buffer_length
    if params.structured_outputs is not None:
        bookkeeping = {"_backend": None, "_backend_was_auto": False}
        wire["structured_outputs"] = {**params.structured_outputs.to_dict(), **bookkeeping}
    if params.repetition_detection is not None:
        wire["repetition_detection"] = params.repetition_detection.to_dict()
    if params.logit_bias is not None:
        wire["logit_bias"] = {str(token_id): bias for token_id, bias in params.logit_bias.items()}
    return wire


def _wire(request: GenerateRequest) -> dict[str, Any]:
    wire = dict(zip(_NAMES, _parts_of(request), strict=True))
    wire["sampling_params"] = sampling_to_dict(request.sampling_params)
    if request.token_offsets is not None:
        wire["token_offsets"] = [list(span) for span in request.token_offsets]
    hashes = wire.pop("block_hashes")  # vLLM's own answer has no such key
    if hashes is not None:
        wire["block_hashes"] = {
            "block_size": hashes.block_size,
            "algorithm": hashes.algorithm,
            "hashes": hashes.to_hex(),
        }
    return wire


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _encode_ids(value: object) -> list[int]:
    if isinstance(value, array):
        return value.tolist()
    raise NotImplementedError(f"a {type(value).__name__} has no JSON form")


def make_request_id() -> str:
    """Return a new base for the ids of a request: of all its prompts, which share it."""
    return secrets.token_hex(8)


def _make_id(request: GenerationFields, request_id: str | None, index: int | None) -> str:
    base = request_id or request.request_id or make_request_id()
    suffix = "" if index is None else f"-{index}"
    return f"{request.request_id_prefix}{base}{suffix}"


def _reasoning_ended(context: Mapping[str, Any] | None, is_harmony: bool) -> bool | None:
    """Say whether constraints hold from the first token on; None leaves it to the engine."""
    if context is None:
        return None
    return True if is_harmony or not context["include_reasoning"] else None


def _parse_context(
    request: GenerationFields, defaults: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    context = request.parse_context()
    if context is None:
        return None
    asked = {
        key: value
        for key, value in context["chat_template_kwargs"].items()
        if value not in _UNSET_TEMPLATE_VALUES
    }
    kwargs = {**SERVER_TEMPLATE_KWARGS, **(defaults or {}), **asked}
    return {**context, "chat_template_kwargs": kwargs}


def _features(spans: Sequence[MediaSpan]) -> dict[str, Any] | None:
    if not spans:
        return None
    hashes: dict[str, list[str]] = {}
    places: dict[str, list[dict[str, int]]] = {}
    for span in spans:
        hashes.setdefault(span.modality, []).append(span.identity)
        places.setdefault(span.modality, []).append(
            {"offset": span.start, "length": span.stop - span.start}
        )
    return {
        "mm_hashes": hashes,
        "mm_placeholders": places,
        "kwargs_data": None,
        "mm_metadata": None,
    }
