"""A chat or completion body enters; what the engine is asked, and what each answer says, leave.

    body ─▶ Generation (request, engine requests) ─▶ one Choice for each answer ─▶ ChoiceDelta …

Rules of this file: synchronous; `Generations.prepare` is safe in any thread and free to run twice.
Tools and reasoning are not parsed: an answer is its text.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

from foreword.detokenization import OutputText
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.renderer import Renderer
from foreword.service.engine_stream import EngineUpdate
from foreword.service.executor import Executor
from foreword.service.input_processor import (
    EngineLimits,
    EngineRequest,
    InputProcessor,
    child_requests,
)
from foreword.service.limits import check_chat, check_prompts
from foreword.service.models import ServedModels
from foreword.service.settings import Settings
from foreword.types import Tokenizer

GenerationBody = ChatCompletionRequest | CompletionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceDelta:
    """What an update added to one answer; with a `finish_reason` the answer is complete."""

    text: str
    token_ids: Sequence[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class Choice:
    """One answer in the making: its place among the answers, its text, its tokens.

    Shapes: `prompt_text` goes before the answer's text where the client wants its prompt back.
    """

    __slots__ = (
        "_output", "engine_request", "index", "num_cached_tokens", "num_tokens", "prompt_text",
    )  # fmt: skip

    def __init__(
        self, index: int, engine_request: EngineRequest, tokenizer: Tokenizer, prompt_text: str
    ) -> None:
        sampling = engine_request.sampling
        self.index = index
        self.engine_request = engine_request
        self.prompt_text = prompt_text
        self.num_tokens = 0
        self.num_cached_tokens: int | None = None
        self._output = OutputText(
            tokenizer,
            prompt_token_ids=engine_request.engine_input.token_ids,
            skip_special_tokens=sampling.skip_special_tokens,
            stop=sampling.stop,
            include_stop=sampling.include_stop_str_in_output,
            min_tokens=sampling.min_tokens,
        )

    def take(self, update: EngineUpdate) -> ChoiceDelta:
        """Return what an update adds; a stop string ends the answer before the engine does."""
        if update.num_cached_tokens is not None:
            self.num_cached_tokens = update.num_cached_tokens
        made = self._output.add(
            update.token_ids,
            is_last=update.finish_reason is not None,
            ends_in_stop_token=update.finish_reason == "stop",
        )
        self.num_tokens += made.num_tokens
        is_stopped = made.stop is not None
        return ChoiceDelta(
            text=made.text,
            token_ids=update.token_ids[: made.num_tokens],
            finish_reason="stop" if is_stopped else update.finish_reason,
            stop_reason=made.stop if is_stopped else update.stop_reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A request and its answers to be. `prompts` are its prompts, in order."""

    request: GenerationBody
    response_id: str
    model: str
    created: int
    prompts: tuple[EngineRequest, ...]
    choices: tuple[Choice, ...]

    @property
    def is_chat(self) -> bool:
        return isinstance(self.request, ChatCompletionRequest)

    def usage(self) -> dict[str, object]:
        """Return the numbers of tokens so far, all prompts and answers together."""
        num_prompt = sum(len(one.engine_input.token_ids) for one in self.prompts)
        num_output = sum(choice.num_tokens for choice in self.choices)
        cached = [
            one.num_cached_tokens for one in self.choices if one.num_cached_tokens is not None
        ]
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_output,
            "total_tokens": num_prompt + num_output,
            "prompt_tokens_details": {"cached_tokens": sum(cached)} if cached else None,
        }


class Generations:
    """Makes generations of bodies, for the models of one process."""

    def __init__(self, models: ServedModels, settings: Settings, executor: Executor) -> None:
        self._models = models
        self._settings = settings
        self._executor = executor
        self._limits = EngineLimits(
            max_logprobs=settings.max_logprobs, max_media_tokens=settings.max_media_tokens
        )

    def prepare(
        self,
        body: bytes,
        kind: type[GenerationBody],
        request_id: str,
        max_model_len: int | None,
    ) -> Generation:
        """Read a body and render its prompts.

        Shapes: `max_model_len` is the engine's own, and lowers the model's.

        Raises: any `RequestError`.
        """
        settings = self._settings
        request = decode_request(
            body, kind, max_bytes=settings.max_body_bytes, max_nesting=settings.max_nesting
        )
        if isinstance(request, ChatCompletionRequest):
            check_chat(request.messages, request.tools, settings, len(body))
        else:
            check_prompts(request, settings)
        _check_supported(request)
        _check_number(request, settings)
        model = self._models.find(request.model)
        renderer = lowered(model.renderer, max_model_len)
        processor = InputProcessor(renderer, self._executor, self._limits)
        given = request_id or request.request_id or secrets.token_hex(16)
        response_id = f"{request.request_id_prefix}{given}"
        prompts = tuple(processor.process_inputs(response_id, request))
        for one in prompts:
            _check_media(one)
        return Generation(
            request=request,
            response_id=response_id,
            model=request.model or model.name,
            created=int(time.time()),
            prompts=prompts,
            choices=tuple(_choices(request, prompts, renderer)),
        )


def lowered(renderer: Renderer, max_model_len: int | None) -> Renderer:
    """Return a renderer for an engine with a context of `max_model_len`, if that is less."""
    if max_model_len is None or max_model_len >= renderer.options.max_model_len:
        return renderer
    made = copy(renderer)
    made.options = replace(renderer.options, max_model_len=max_model_len)
    return made


def _choices(
    request: GenerationBody, prompts: Sequence[EngineRequest], renderer: Renderer
) -> list[Choice]:
    made: list[Choice] = []
    for prompt in prompts:
        text = ""
        if request.echo:
            given = prompt.engine_input
            text = given.prompt or renderer.tokenizer.decode(given.token_ids)
        made += [
            Choice(len(made) + place, child, renderer.tokenizer, text)
            for place, child in enumerate(child_requests(prompt))
        ]
    return made


def _check_media(prompt: EngineRequest) -> None:
    if prompt.engine_input.media_features:
        raise UnsupportedFeature(
            feature="A prompt with media, answered by an engine,",
            remedy="Render it here, and let the engine's own front end load the media.",
        )


def _check_number(request: GenerationBody, settings: Settings) -> None:
    num_prompts = 1 if isinstance(request, ChatCompletionRequest) else request.num_prompts
    num, limit = num_prompts * (request.n or 1), settings.max_engine_requests
    if num > limit:
        raise InvalidRequest(
            f"The request asks for {num} answers; at most {limit} can be made at a time here"
            " (the setting max_engine_requests). Lower n, or send fewer prompts.",
            param="n",
            details={"num_answers": num, "max_engine_requests": limit},
        )


def _check_supported(request: GenerationBody) -> None:
    for name, is_asked in (
        ("logprobs", request.num_logprobs is not None),
        ("prompt_logprobs", request.prompt_logprobs is not None),
        ("logprob_token_ids", bool(request.logprob_token_ids)),
    ):
        if is_asked:
            raise UnsupportedFeature(
                feature=f"{name} of an answer", remedy="Drop the field.", param=name
            )
    if not isinstance(request, ChatCompletionRequest):
        return
    if request.echo:
        raise UnsupportedFeature(feature="echo in a chat", remedy="Drop the field.", param="echo")
    if request.tool_choice == "required" or isinstance(request.tool_choice, dict):
        raise UnsupportedFeature(
            feature="A tool_choice that demands a call",
            remedy='Calls are not parsed here; send "auto" and read the text.',
            param="tool_choice",
        )
