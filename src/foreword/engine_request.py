"""A prompt that fits and the request it came from enter; what the engine is told of it leaves.

Rules of this file: the last station's order, and nothing else: parameters are completed in
`sampling`, a format's constraint in `formats`, hashes in `blocks`, the request in `engines`.
"""

from __future__ import annotations

from typing import Protocol

from foreword.blocks import BlockHashes, BlockHashMemo
from foreword.engines.vllm_generate import GenerateRequest, generate_request
from foreword.errors import InvalidRequest
from foreword.formats import requests as native
from foreword.options import RendererOptions
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.sampling import SamplingParams, complete_sampling
from foreword.types import ChatFormat, EngineInput, Tokenizer


class Model(Protocol):
    """What completing a request needs of a model, as `Renderer` has it."""

    chat_format: ChatFormat | None

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def options(self) -> RendererOptions: ...

    @property
    def hash_memo(self) -> BlockHashMemo | None: ...


def make_hash_memo(options: RendererOptions) -> BlockHashMemo | None:
    """Return what hashes a model's prompts; None where the engine's way of hashing is unknown."""
    hashing = options.block_hashing
    return None if hashing is None else BlockHashMemo(hashing.hasher, max_bytes=hashing.memo_bytes)


def to_generate_request(
    model: Model,
    engine_input: EngineInput,
    request: ChatCompletionRequest | CompletionRequest,
    request_id: str | None,
    index: int | None,
) -> GenerateRequest:
    """Complete an engine input as vLLM's generate side takes it."""
    hashes = None
    if request.return_block_hashes:
        hashes = block_hashes(model, engine_input, name=request.model)
    return generate_request(
        engine_input,
        request,
        sampling_params(model, request, engine_input),
        model=request.model,
        request_id=request_id,
        index=index,
        default_chat_template_kwargs=model.options.default_chat_template_kwargs,
        is_harmony=native.is_harmony(model.chat_format),
        block_hashes=hashes,
    )


def sampling_params(
    model: Model, request: ChatCompletionRequest | CompletionRequest, engine_input: EngineInput
) -> SamplingParams:
    """Complete the sampling parameters of a request whose prompt is known."""
    options = model.options
    sampling = complete_sampling(
        request,
        options.sampling_defaults,
        max_model_len=options.max_model_len,
        num_prompt_tokens=len(engine_input.token_ids),
        override_max_tokens=options.max_new_tokens,
        refuse_overflow=options.refuse_overflow,
        max_token_id=model.tokenizer.info.max_token_id,
    )
    is_chat = isinstance(request, ChatCompletionRequest)
    return native.constrained(model.chat_format, sampling) if is_chat else sampling


def block_hashes(model: Model, engine_input: EngineInput, *, name: str | None) -> BlockHashes:
    """Hash the full blocks of a prompt; `name` is what the request calls the model.

    Raises: `InvalidRequest` where the engine's way of hashing is unknown.
    """
    hashing, memo = model.options.block_hashing, model.hash_memo
    if hashing is None or memo is None:
        raise InvalidRequest(
            "return_block_hashes needs the engine's block size, which is not known here."
            " Set block_hashing when loading, or hash_block_size when serving.",
            param="return_block_hashes",
        )
    return memo.hashes(
        engine_input.token_ids,
        media=engine_input.media_features,
        lora=hashing.lora_key(name),
        cache_salt=engine_input.cache_salt,
    )
