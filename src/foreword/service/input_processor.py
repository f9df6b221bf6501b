"""A request, or a prompt that is already rendered, enters; what an engine is sent leaves.

    body  ─▶ process_inputs ──▶ EngineRequest        (renders; for the pool)
    EngineInput ─▶ process_inputs ─▶ EngineRequest   (checks only; microseconds, on the event loop)

Rules of this file: one synchronous function does all of it; the asynchronous one only decides where
it runs. Nothing is rendered twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from foreword.chat.reused_ids import without_reused_ids
from foreword.engines.vllm_content_parts import ContentParts
from foreword.errors import InvalidRequest, InvalidTokenIds, PromptTooLong
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.renderer import Renderer
from foreword.sampling import (
    check_constraint,
    check_limits,
    check_prompt_fields,
    with_bad_words,
    with_generation_config,
)
from foreword.sampling.limits import MAX_LOGPROBS
from foreword.sampling.params import SamplingParams
from foreword.service.executor import Executor
from foreword.types import EngineInput, MediaSpan

_TRANSFER = ("kv_transfer_params", "ec_transfer_params")
Prompt = ChatCompletionRequest | CompletionRequest | EngineInput


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One prompt for an engine. `external_id` is the client's name for it.

    Shapes: `sampling` is complete: end tokens, bad words and `max_tokens` are resolved. Transfer
    parameters are another engine's, for this one to go on with, or ask it for some.
    """

    request_id: str
    external_id: str
    engine_input: EngineInput
    sampling: SamplingParams
    media: ContentParts | None = None
    """For an engine that expands media itself: its ids, and the items."""
    lora_name: str | None = None
    priority: int = 0
    trace_headers: Mapping[str, str] | None = None
    kv_transfer_params: Mapping[str, Any] | None = None
    ec_transfer_params: Mapping[str, Any] | None = None

    @property
    def constraint(self) -> str | None:
        """The kind of the constraint on the output, where there is one."""
        wanted = self.sampling.structured_outputs
        return None if wanted is None else wanted.kind

    def sampling_with_transfer(self) -> SamplingParams:
        """Return the sampling parameters with the transfer parameters where the engine reads them.

        Source: vLLM 0.33 `to_sampling_params`: they are among `extra_args`.
        """
        given = {name: getattr(self, name) for name in _TRANSFER if getattr(self, name)}
        if not given:
            return self.sampling
        return self.sampling.replace(extra_args={**(self.sampling.extra_args or {}), **given})


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """What an engine does not take, beside a prompt that is too long. None: no limit is known."""

    max_logprobs: int = MAX_LOGPROBS
    max_media_tokens: int | None = None
    """Embeddings of one media item: vLLM's encoder cache."""


class InputProcessor:
    """Turns requests for one model into engine requests.

    Why: an engine needs an id that no other request has, while clients may send the same one
    twice; so the engine's id is the client's with eight random hexadecimal digits behind it.
    """

    def __init__(
        self, renderer: Renderer, executor: Executor, limits: EngineLimits | None = None
    ) -> None:
        self._renderer = renderer
        self._executor = executor
        self._limits = limits or EngineLimits()

    def process_inputs(
        self,
        request_id: str,
        prompt: Prompt,
        sampling: SamplingParams | None = None,
        **further: Any,
    ) -> list[EngineRequest]:
        """Return one engine request for each prompt.

        Shapes: a rendered `EngineInput` comes with its `sampling`; a request brings its own.
        `further` are fields of `EngineRequest`.

        Raises: `InvalidRequest`, `PromptTooLong`, `InvalidTokenIds`; what rendering raises.
        """
        if isinstance(prompt, EngineInput):
            if sampling is None:
                raise InvalidRequest("A rendered prompt needs its sampling parameters.")
            pairs = [(prompt, sampling)]
        else:
            pairs = [
                (one, self._renderer.sampling_params(prompt, one)) for one in self._render(prompt)
            ]
            further = {**fields_of(prompt), **further}
        many = len(pairs) > 1
        return [
            self._make(f"{request_id}-{index}" if many else request_id, *pair, **further)
            for index, pair in enumerate(pairs)
        ]

    async def process_inputs_async(
        self,
        request_id: str,
        prompt: Prompt,
        sampling: SamplingParams | None = None,
        **further: Any,
    ) -> list[EngineRequest]:
        """Do the same without holding up the event loop: what must be rendered goes to a thread."""
        if isinstance(prompt, EngineInput):
            return self.process_inputs(request_id, prompt, sampling, **further)
        return await self._executor.run(
            lambda: self.process_inputs(request_id, prompt, sampling, **further)
        )

    def _render(self, request: ChatCompletionRequest | CompletionRequest) -> list[EngineInput]:
        if isinstance(request, ChatCompletionRequest):
            return [self._renderer.chat_line(request).engine_input]
        return [line.engine_input for line in self._renderer.prompt_lines(request)]

    def _make(
        self, request_id: str, made: EngineInput, sampling: SamplingParams, **further: Any
    ) -> EngineRequest:
        self._validate(made, sampling)
        if not made.arrival_time:
            made = replace(made, arrival_time=time.time())
        return EngineRequest(
            request_id=f"{request_id}-{secrets.token_hex(4)}",
            external_id=request_id,
            engine_input=made,
            sampling=self._completed(sampling, len(made.token_ids)),
            **further,
        )

    def _completed(self, sampling: SamplingParams, num_prompt_tokens: int) -> SamplingParams:
        """Complete parameters by what the model's files say; the engine completes nothing."""
        if sampling.max_tokens is None:
            room = self._renderer.options.max_model_len - num_prompt_tokens
            sampling = sampling.replace(max_tokens=room)
        sampling = with_generation_config(
            sampling,
            self._renderer.assets.generation_config,
            eos_token_id=self._renderer.tokenizer.info.eos_token_id,
        )
        return with_bad_words(sampling, self._renderer.tokenizer)

    def _validate(self, made: EngineInput, sampling: SamplingParams) -> None:
        """Check what an engine would fail on, whoever rendered it."""
        options, info = self._renderer.options, self._renderer.tokenizer.info
        num_tokens, limit = len(made.token_ids), options.max_model_len
        if not num_tokens:
            raise InvalidRequest("The prompt is empty: there is no token to follow.")
        # A generation needs room for one token more.
        room = limit if options.runner == "pooling" else limit - 1
        if num_tokens > room:
            raise PromptTooLong(num_tokens=num_tokens, max_tokens=room)
        largest = max(made.token_ids)
        if largest > info.max_token_id:
            raise InvalidTokenIds(
                token_id=largest,
                position=made.token_ids.index(largest),
                max_token_id=info.max_token_id,
                param="prompt",
            )
        for span in made.media_features:
            self._check_media(span)
        check_prompt_fields(sampling, num_prompt_tokens=num_tokens)
        check_constraint(sampling.structured_outputs)
        check_limits(
            sampling, max_token_id=info.max_token_id, max_logprobs=self._limits.max_logprobs
        )

    def _check_media(self, span: MediaSpan) -> None:
        limit = self._limits.max_media_tokens
        num_embeds = span.stop - span.start
        if span.is_embed is not None:
            num_embeds = sum(length for length, is_embed in span.is_embed if is_embed)
        if limit is not None and num_embeds > limit:
            raise InvalidRequest(
                f"{span.modality} {span.index} takes {num_embeds} embeddings; the engine's encoder"
                f" holds at most {limit}. Send a smaller one, or raise the engine's"
                " max_num_batched_tokens.",
                details={
                    "modality": span.modality,
                    "index": span.index,
                    "num_embeds": num_embeds,
                    "max_embeds": limit,
                },
            )


def fields_of(request: ChatCompletionRequest | CompletionRequest) -> dict[str, Any]:
    """Return what an `EngineRequest` takes from a request beside its prompt and parameters."""
    transfer = request.kv_transfer_params
    if isinstance(request, ChatCompletionRequest):
        transfer = without_reused_ids(transfer)  # they are the prompt, or were passed over
    return {
        "priority": request.priority,
        "kv_transfer_params": transfer or None,
        "ec_transfer_params": request.ec_transfer_params or None,
    }


def child_requests(request: EngineRequest) -> list[EngineRequest]:
    """Return one request for each of the `n` answers that are wanted, each for one answer.

    Shapes: a seed is the parent's plus the answer's place, so that answers differ and repeat.

    Source: vLLM 0.33 `ParentRequest`.
    """
    sampling = request.sampling
    if sampling.n == 1:
        return [request]
    return [
        replace(
            request,
            request_id=f"{index}_{request.request_id}",
            sampling=sampling.replace(
                n=1, seed=None if sampling.seed is None else sampling.seed + index
            ),
        )
        for index in range(sampling.n)
    ]
