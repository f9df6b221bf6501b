"""An engine input and its parameters enter; vLLM's `EngineCoreRequest` leaves.

Rules of this file: the order of fields is the wire format. Layouts are pinned per engine version;
a version that is not listed is refused, since a shifted field would be read as another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from foreword.engines.msgpack_frames import Tensor
from foreword.engines.msgpack_ids import raw_token_ids
from foreword.engines.vllm_core.params import PoolingArray, SamplingMap
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.types import EngineInput, MediaSpan


class LoRARequest(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """An adapter the engine shall use. `lora_int_id` is 1 or more and the adapter's own."""

    lora_name: str
    lora_int_id: int
    lora_path: str
    base_model_name: str | None = None
    load_inplace: bool = False
    is_3d_lora_weight: bool = False

    def __post_init__(self) -> None:
        if self.lora_int_id < 1 or not self.lora_path:
            raise InvalidRequest(
                f"An adapter needs a path and an id of 1 or more; this one's id is"
                f" {self.lora_int_id} and its path has {len(self.lora_path)} characters.",
                details={"lora_int_id": self.lora_int_id},
            )


class PlaceholderRange(msgspec.Struct, frozen=True, kw_only=True):
    """Where an item's tokens stand; `is_embed` marks those that get an embedding."""

    offset: int
    length: int
    is_embed: Tensor | None = None


class MultiModalFieldElem(msgspec.Struct, frozen=True, kw_only=True):
    """One processed input of a media item.

    Shapes: `data` is a tensor, a number, or nested lists of them; None when the engine has it.
    `field` is how items are batched: `("batched", {...})`, `("flat", {...})`, `("shared", {...})`.
    """

    data: Any
    field: tuple[str, Mapping[str, Any]]


class MultiModalFeatureSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One media item. `data` None means that the engine holds it by its hash."""

    data: Mapping[str, MultiModalFieldElem] | None
    modality: str
    identifier: str
    mm_position: PlaceholderRange
    mm_hash: str | None = None


class KvHintAction(msgspec.Struct, frozen=True, kw_only=True):
    """One thing an orchestrator asks of the KV cache."""

    action_id: str
    action_type: str
    action_version: str
    payload: Mapping[str, Any]


class KvHintsEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """What an orchestrator asks of the KV cache for one request."""

    protocol_version: str
    message_id: str
    actions: Sequence[KvHintAction]


class EngineCoreRequest(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """What the engine is sent to start a request; `request_id` is unique for the engine's life."""

    request_id: str
    prompt_token_ids: msgspec.Raw | None
    mm_features: Sequence[MultiModalFeatureSpec] | None
    sampling_params: SamplingMap | None
    pooling_params: PoolingArray | None
    arrival_time: float
    lora_request: LoRARequest | None = None
    cache_salt: str | None = None
    data_parallel_rank: int | None = None
    prompt_embeds: Tensor | None = None
    prompt_is_token_ids: Sequence[bool] | None = None
    client_index: int = 0
    current_wave: int = 0
    priority: int = 0
    trace_headers: Mapping[str, str] | None = None
    resumable: bool = False
    external_req_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: Mapping[str, Any] | None = None
    abort_immediately: bool = False
    session_id: str | None = None
    kv_hints: KvHintsEnvelope | None = None


class Envelope(TypedDict, total=False):
    """What goes with a request that neither the prompt nor the sampler knows."""

    lora_request: LoRARequest | None
    data_parallel_rank: int | None
    client_index: int
    current_wave: int
    priority: int
    trace_headers: Mapping[str, str] | None
    resumable: bool
    external_req_id: str | None
    reasoning_ended: bool | None
    reasoning_parser_kwargs: Mapping[str, Any] | None
    abort_immediately: bool
    session_id: str | None
    kv_hints: KvHintsEnvelope | None


LAYOUTS: Mapping[str, type[EngineCoreRequest]] = {
    "0.32.0": EngineCoreRequest,
    "0.33.0": EngineCoreRequest,
}
"""The layout of each known engine version, oldest first."""


POOLING_PASSED_OVER: Mapping[str, tuple[str, ...]] = {"0.32.0": ("late_chunking_params",)}
"""Fields an engine version would not read, and so answer without."""


def layout_of(version: str, *, allow_unknown_version: bool = False) -> type[EngineCoreRequest]:
    """Return the layout an engine of `version` reads; builds (`0.32.0+cpu`) share their version's.

    Raises: `UnsupportedFeature` for a version that is not listed, unless it is allowed; then the
    newest layout is assumed.
    """
    layout = LAYOUTS.get(version.partition("+")[0])
    if layout is not None:
        return layout
    if allow_unknown_version:
        return list(LAYOUTS.values())[-1]
    raise UnsupportedFeature(
        feature=f"An engine of vLLM {version or '(no version)'}",
        remedy=f"The wire format is known for {', '.join(LAYOUTS)}. Run one of these, or set"
        " allow_unknown_version to assume the newest one's.",
    )


def make_request(
    engine_input: EngineInput,
    *,
    request_id: str,
    params: SamplingMap | PoolingArray,
    layout: type[EngineCoreRequest] = EngineCoreRequest,
    media_data: Sequence[Mapping[str, MultiModalFieldElem] | None] = (),
    **envelope: Unpack[Envelope],
) -> EngineCoreRequest:
    """Return the engine's request for a prompt.

    Shapes: `media_data` has one entry for each of the input's media features, or is empty when
    the engine holds all of them.

    Raises: `InvalidRequest` when the numbers of media items differ.
    """
    return layout(
        request_id=request_id,
        prompt_token_ids=raw_token_ids(engine_input.token_ids),
        mm_features=_features(engine_input.media_features, media_data),
        sampling_params=params if isinstance(params, SamplingMap) else None,
        pooling_params=None if isinstance(params, SamplingMap) else params,
        arrival_time=engine_input.arrival_time,
        cache_salt=engine_input.cache_salt,
        **envelope,
    )


def _features(
    spans: Sequence[MediaSpan],
    media_data: Sequence[Mapping[str, MultiModalFieldElem] | None],
) -> list[MultiModalFeatureSpec] | None:
    if media_data and len(media_data) != len(spans):
        raise InvalidRequest(
            f"The prompt has {len(spans)} media items, but data came for {len(media_data)}.",
            details={"num_items": len(spans), "num_data": len(media_data)},
        )
    features = [
        MultiModalFeatureSpec(
            data=data,
            modality=span.modality,
            identifier=span.identity,
            mm_position=PlaceholderRange(
                offset=span.start, length=span.stop - span.start, is_embed=_mask(span)
            ),
            mm_hash=span.identity,
        )
        for span, data in zip(spans, media_data or [None] * len(spans), strict=True)
    ]
    return features or None


def _mask(span: MediaSpan) -> Tensor | None:
    if span.is_embed is None:
        return None
    data = b"".join(bytes([is_embed]) * length for length, is_embed in span.is_embed)
    return Tensor(dtype="bool", shape=(len(data),), data=data)
