"""A chat or completion body enters; what the engine is asked, and what each answer says, leave.

    body ─▶ Generation (request, engine requests) ─▶ one Choice for each answer ─▶ ChoiceDelta …

Rules of this file: synchronous; `Generations.prepare` is safe in any thread and free to run twice.
Tools and reasoning are not parsed: an answer is its text.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from foreword.detokenization import OutputText
from foreword.engines.vllm_content_parts import ContentParts, content_parts
from foreword.errors import UnsupportedFeature
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.renderer import Renderer
from foreword.service.engine_stream import EngineUpdate, TokenScores
from foreword.service.executor import Executor
from foreword.service.generation_checks import check_answerable
from foreword.service.generation_logprobs import Position, prompt_positions, scorer_of
from foreword.service.input_processor import (
    EngineLimits,
    EngineRequest,
    InputProcessor,
    child_requests,
    fields_of,
)
from foreword.service.limits import check_chat, check_prompts, decode_body
from foreword.service.media_step import NOTHING, Arrived
from foreword.service.models import ServedModels
from foreword.service.settings import Settings
from foreword.token_texts import TokenTexts
from foreword.types import EngineInput, Tokenizer

GenerationBody = ChatCompletionRequest | CompletionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceDelta:
    """What an update added to one answer; with a `finish_reason` the answer is complete."""

    text: str
    token_ids: Sequence[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    positions: Sequence[Position] = ()


class Choice:
    """One answer in the making: its place among the answers, its text, its tokens.

    Shapes: `prompt_text` goes before the answer's text where the client wants its prompt back;
    with `is_prompt_only` nothing goes behind it.
    """

    __slots__ = (
        "_output", "_scorer", "_texts", "ec_transfer_params", "engine_request", "index",
        "is_prompt_only", "kv_transfer_params", "num_cached_tokens", "num_tokens",
        "prompt_positions", "prompt_text", "text_offset",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        engine_request: EngineRequest,
        tokenizer: Tokenizer,
        *,
        texts: TokenTexts | None = None,
        prompt_text: str = "",
        is_prompt_only: bool = False,
    ) -> None:
        sampling = engine_request.sampling
        self.index = index
        self.engine_request = engine_request
        self.prompt_text = prompt_text
        self.is_prompt_only = is_prompt_only
        self.prompt_positions: list[Position] = []
        self.text_offset = 0
        self._texts = texts or token_texts(tokenizer)
        self._scorer = scorer_of(self._texts, sampling)
        self.num_tokens = 0
        self.num_cached_tokens: int | None = None
        self.kv_transfer_params: Mapping[str, Any] | None = None
        self.ec_transfer_params: Mapping[str, Any] | None = None
        if sampling.prompt_logprobs is not None:
            # A prompt's first token is told though nothing is known of it: the only one, too.
            self._take_prompt(())
        self._output = OutputText(
            tokenizer,
            prompt_token_ids=engine_request.engine_input.token_ids,
            skip_special_tokens=sampling.skip_special_tokens,
            stop=sampling.stop,
            include_stop=sampling.include_stop_str_in_output,
            min_tokens=sampling.min_tokens,
        )

    def take(self, update: EngineUpdate) -> ChoiceDelta:
        """Return what an update adds; a stop string ends the answer before the engine does.

        Raises: `ServiceError` when the engine left logprobs out.
        """
        if update.num_cached_tokens is not None:
            self.num_cached_tokens = update.num_cached_tokens
        self.kv_transfer_params = update.kv_transfer_params or self.kv_transfer_params
        self.ec_transfer_params = update.ec_transfer_params or self.ec_transfer_params
        if update.prompt_scores:
            self._take_prompt(update.prompt_scores)
        made = self._output.add(
            update.token_ids,
            is_last=update.finish_reason is not None,
            ends_in_stop_token=update.finish_reason == "stop",
        )
        self.num_tokens += made.num_tokens
        is_stopped = made.stop is not None
        positions: list[Position] = []
        if self._scorer is not None:
            positions = self._scorer.add(update.scores, num_expected=made.num_tokens)
        return ChoiceDelta(
            text="" if self.is_prompt_only else made.text,
            token_ids=update.token_ids[: made.num_tokens],
            finish_reason="stop" if is_stopped else update.finish_reason,
            stop_reason=made.stop if is_stopped else update.stop_reason,
            positions=() if self.is_prompt_only else positions,
        )

    def _take_prompt(self, scores: Sequence[TokenScores]) -> None:
        request = self.engine_request
        first_id = request.engine_input.token_ids[0]
        self.prompt_positions = prompt_positions(self._texts, request.sampling, first_id, scores)


def token_texts(tokenizer: Tokenizer) -> TokenTexts:
    """Return the texts of a tokenizer's tokens."""
    marker = getattr(tokenizer, "leading_space_marker", None)
    return TokenTexts(tokenizer, space_marker=marker)


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
        self._texts = {model.name: token_texts(model.renderer.tokenizer) for model in models.all}
        self._limits = EngineLimits(
            max_logprobs=settings.max_logprobs, max_media_tokens=settings.max_media_tokens
        )

    def prepare(
        self,
        body: bytes,
        kind: type[GenerationBody],
        request_id: str,
        max_model_len: int | None,
        arrived: Arrived = NOTHING,
    ) -> Generation:
        """Read a body and render its prompts.

        Shapes: `max_model_len` is the engine's own, and lowers the model's; `arrived` is what came
        beside the body.

        Raises: any `RequestError`.
        """
        settings = self._settings
        request = decode_body(body, kind, settings)
        if isinstance(request, ChatCompletionRequest):
            check_chat(request.messages, request.tools, settings, len(body))
        else:
            check_prompts(request, settings)
        check_answerable(request, settings)
        model = self._models.find(request.model)
        renderer = lowered(model.renderer, max_model_len)
        processor = InputProcessor(renderer, self._executor, self._limits)
        given = request_id or request.request_id or secrets.token_hex(16)
        response_id = f"{request.request_id_prefix}{given}"
        if isinstance(request, ChatCompletionRequest):
            made, media = self._render_chat(renderer, request, arrived)
            sampling = renderer.sampling_params(request, made)
            prompts = processor.process_inputs(
                response_id, made, sampling, media=media, **fields_of(request)
            )
        else:
            prompts = processor.process_inputs(response_id, request)
        return Generation(
            request=request,
            response_id=response_id,
            model=request.model or model.name,
            created=int(time.time()),
            prompts=tuple(prompts),
            choices=tuple(_choices(request, prompts, renderer, self._texts[model.name])),
        )

    def _render_chat(
        self, renderer: Renderer, request: ChatCompletionRequest, arrived: Arrived
    ) -> tuple[EngineInput, ContentParts | None]:
        items = arrived.items(renderer, request.cache_salt)
        line = renderer.chat_line(request, media=items, tenant=arrived.tenant)
        if line.items and self._settings.engine_url is None:
            raise UnsupportedFeature(
                feature="A prompt with media, for an engine behind ZMQ,",
                remedy="Such an engine takes tensors. Use engine_url, whose server loads media.",
                param=line.conversation.media[0].path if line.conversation else None,
            )
        return line.engine_input, content_parts(line, urls=arrived.data_urls())


def lowered(renderer: Renderer, max_model_len: int | None) -> Renderer:
    """Return a renderer for an engine with a context of `max_model_len`, if that is less."""
    if max_model_len is None or max_model_len >= renderer.options.max_model_len:
        return renderer
    made = copy(renderer)
    made.options = replace(renderer.options, max_model_len=max_model_len)
    return made


def _choices(
    request: GenerationBody,
    prompts: Sequence[EngineRequest],
    renderer: Renderer,
    texts: TokenTexts,
) -> list[Choice]:
    made: list[Choice] = []
    for prompt in prompts:
        text = ""
        if request.echo and not request.return_token_ids:  # who gets the ids gets no text
            given = prompt.engine_input
            text = given.prompt or renderer.tokenizer.decode(given.token_ids)
        made += [
            Choice(
                len(made) + place,
                child,
                renderer.tokenizer,
                texts=texts,
                prompt_text=text,
                is_prompt_only=bool(request.echo) and request.max_tokens == 0,
            )
            for place, child in enumerate(child_requests(prompt))
        ]
    return made
