"""Engine inputs enter; what a vLLM engine reads from its sockets leaves, and its answers return.

Rules of this file: bytes only; sockets are opened elsewhere. `VllmCore` is the way in; the rest
is for whoever holds the sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Unpack

from foreword.engines.msgpack_frames import encode_whole
from foreword.engines.vllm_core.messages import (
    RequestType,
    abort_message,
    add_message,
    start_wave_message,
    utility_message,
)
from foreword.engines.vllm_core.outputs import (
    EngineCoreOutput,
    EngineCoreOutputs,
    FinishReason,
    decode_outputs,
    is_engine_dead,
    logprob_rows,
)
from foreword.engines.vllm_core.params import (
    STRUCTURED_OUTPUTS_BACKEND,
    pooling_array,
    sampling_map,
)
from foreword.engines.vllm_core.request import (
    POOLING_PASSED_OVER,
    EngineCoreRequest,
    Envelope,
    LoRARequest,
    MultiModalFieldElem,
    layout_of,
    make_request,
)
from foreword.engines.vllm_core.startup import (
    EngineAddresses,
    EngineGreeting,
    EngineHandshakeMetadata,
    EngineReady,
    decode_greeting,
    decode_ready,
    encode_handshake,
    engine_identity,
    engine_index,
)
from foreword.errors import UnsupportedFeature
from foreword.sampling import PoolingParams, SamplingParams
from foreword.types import EngineInput

__all__ = [
    "EngineAddresses",
    "EngineCoreOutput",
    "EngineCoreOutputs",
    "EngineCoreRequest",
    "EngineGreeting",
    "EngineHandshakeMetadata",
    "EngineReady",
    "FinishReason",
    "LoRARequest",
    "MultiModalFieldElem",
    "RequestType",
    "VllmCore",
    "abort_message",
    "add_message",
    "decode_greeting",
    "decode_outputs",
    "decode_ready",
    "encode_handshake",
    "engine_identity",
    "engine_index",
    "is_engine_dead",
    "logprob_rows",
    "start_wave_message",
    "utility_message",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmCore:
    """One version of vLLM's engine, as an `Engine`.

    Shapes: `version` is what the engine's ready message states. `structured_outputs_backend` is
    the one the engine was started with; of `auto` foreword takes xgrammar, as vLLM does first.

    Raises: `UnsupportedFeature` for a version whose wire format is not known.
    """

    version: str
    allow_unknown_version: bool = False
    structured_outputs_backend: str = STRUCTURED_OUTPUTS_BACKEND
    name: str = "vllm_core"
    layout: type[EngineCoreRequest] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        layout = layout_of(self.version, allow_unknown_version=self.allow_unknown_version)
        object.__setattr__(self, "layout", layout)

    def request(
        self,
        engine_input: EngineInput,
        *,
        request_id: str,
        params: SamplingParams | PoolingParams,
        media_data: Sequence[Mapping[str, MultiModalFieldElem] | None] = (),
        **envelope: Unpack[Envelope],
    ) -> EngineCoreRequest:
        """Return the engine's request for a prompt; `add_message` makes frames of it.

        Raises: `UnsupportedFeature` for a parameter that the engine's version does not read.
        """
        if isinstance(params, PoolingParams):
            self._check_pooling(params)
        backend = self.structured_outputs_backend
        return make_request(
            engine_input,
            request_id=request_id,
            params=(
                sampling_map(params, structured_outputs_backend=backend)
                if isinstance(params, SamplingParams)
                else pooling_array(params)
            ),
            layout=self.layout,
            media_data=media_data,
            **envelope,
        )

    def _check_pooling(self, params: PoolingParams) -> None:
        for name in POOLING_PASSED_OVER.get(self.version.partition("+")[0], ()):
            if getattr(params, name) is not None:
                raise UnsupportedFeature(
                    feature=f"{name} with vLLM {self.version}",
                    remedy="Drop it, or run a newer engine.",
                    param=name,
                )

    def encode(
        self, engine_input: EngineInput, *, request_id: str, params: SamplingParams | PoolingParams
    ) -> bytes:
        """Return the engine's request for a prompt as one msgpack message."""
        return encode_whole(self.request(engine_input, request_id=request_id, params=params))
