"""A request enters; the stations it reached leave, with the error that stopped it, if any.

Rules of this file: the order of the stations is the renderer's, and their values too. A request
that does not fit is still counted in full, since that is what its author needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from foreword.engines.vllm_generate import GenerateRequest
from foreword.errors import ForewordError, InvalidRequest, PromptTooManyChars
from foreword.line import read_natively
from foreword.media.items import MediaItem
from foreword.params import TokenizeParams
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.pooling import PoolingRequest
from foreword.renderer import Body, Renderer
from foreword.stages.tokenization import tokenize_ids
from foreword.templating import CompiledTemplate
from foreword.trace import Kind, Laps, Trace
from foreword.types import (
    ChatTokenizer,
    Conversation,
    EngineInput,
    RenderedText,
    TokenSequence,
)

Station = Literal["request", "template", "conversation", "text", "tokens", "budget", "engine"]
STATIONS: tuple[Station, ...] = get_args(Station)
RequestKind = Literal["chat", "completion", "pooling"]
_TRACED = (
    "params",
    "template",
    "conversation",
    "items",
    "rendered",
    "unexpanded",
    "tokens",
    "engine_input",
)
_LAPS: Mapping[Station, str] = {
    "conversation": "conversation",
    "text": "template",
    "tokens": "tokenize",
    "budget": "budget",
}
"""Stages by station, named as the renderer names them in a trace."""
_Request: TypeAlias = ChatCompletionRequest | CompletionRequest | PoolingRequest
_TYPES: Mapping[str, type[_Request]] = {
    "chat": ChatCompletionRequest,
    "completion": CompletionRequest,
    "pooling": PoolingRequest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stations:
    """What one prompt became, station by station; None where it did not come so far.

    `stopped_at` is the station that raised `error`. `tokens` are complete and have offsets, also
    where they do not fit; `params` are then what the request asked for all the same.
    """

    kind: RequestKind
    num_prompts: int = 1
    params: TokenizeParams | None = None
    template: CompiledTemplate | None = None
    conversation: Conversation | None = None
    items: tuple[MediaItem, ...] = ()
    rendered: RenderedText | None = None
    unexpanded: TokenSequence | None = None
    tokens: TokenSequence | None = None
    engine_input: EngineInput | None = None
    engine_request: GenerateRequest | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: ForewordError | None = None
    stopped_at: Station | None = None

    def require(self, station: Station) -> None:
        """Raise the error when it came at `station` or before it."""
        if self.error is None or self.stopped_at is None:
            return
        if STATIONS.index(self.stopped_at) <= STATIONS.index(station):
            raise self.error

    def as_trace(self) -> Trace | None:
        """Return a `Trace` for `find_parts` and the like; None when there are no tokens yet.

        Where the prompt does not fit, its engine input is the whole prompt.
        """
        if self.tokens is None or self.params is None:
            return None
        kind: Kind = "completion" if self.conversation is None else "chat"
        return Trace(
            kind=kind,
            params=self.params,
            template=self.template,
            conversation=self.conversation,
            items=self.items,
            rendered=self.rendered,
            unexpanded=self.unexpanded,
            tokens=self.tokens,
            engine_input=self.engine_input or EngineInput(token_ids=self.tokens.token_ids),
            seconds=self.seconds,
        )


def walk(
    renderer: Renderer,
    body: Body,
    *,
    kind: RequestKind,
    prompt_index: int = 0,
    until: Station = "engine",
) -> Stations:
    """Take one prompt of a request down the line, as far as it goes and not beyond `until`.

    Never raises a `ForewordError`: it is part of the answer. What the renderer itself traces is
    taken from there; only a prompt that it refuses is taken down the line step by step.
    """
    steps = _Steps(renderer, kind, until)
    try:
        if not steps.trace(body, prompt_index):
            steps.run(body, prompt_index)
        steps.make_engine_request(body, prompt_index)
    except _Arrived:
        pass
    except ForewordError as error:
        steps.stop(error)
    return Stations(kind=kind, seconds=steps.laps.seconds, **steps.reached)


class _Arrived(Exception):
    """The last station asked for was reached."""


class _Steps:
    """One walk: the values reached so far, and the station that is being tried."""

    def __init__(self, renderer: Renderer, kind: RequestKind, until: Station) -> None:
        self.renderer, self.kind, self.until = renderer, kind, until
        self.reached: dict[str, Any] = {}
        self.laps = Laps()
        self.wants_mask = False
        self.is_native = False
        self.station: Station = "request"

    def stop(self, error: ForewordError, station: Station | None = None) -> None:
        """Keep the first error, and where it came."""
        self.reached.setdefault("error", error)
        self.reached.setdefault("stopped_at", station or self.station)

    def trace(self, body: Body, prompt_index: int) -> bool:
        """Take every station from the renderer's own trace; tell whether there was one."""
        if self.kind == "pooling":
            return False
        try:
            trace = self.renderer.trace(body, kind=self.kind, prompt_index=prompt_index)
        except ForewordError:
            return False
        self.reached = {name: getattr(trace, name) for name in _TRACED}
        if self.kind == "completion":
            request = self.renderer.decode(body, CompletionRequest)
            self.reached["num_prompts"] = request.num_prompts
        self.laps.seconds = dict(trace.seconds)
        return True

    def make_engine_request(self, body: Body, prompt_index: int) -> None:
        """Take the last station, unless the walk ends before it."""
        if self.until != "engine":
            return
        self.station = "engine"
        if self.kind == "pooling":
            self.renderer.render_pooling(body)
            return
        made = self.renderer.generate_request(body, kind=self.kind)
        self.reached["engine_request"] = made[prompt_index] if isinstance(made, list) else made

    def run(self, body: Body, prompt_index: int) -> None:
        """Take the prompt down the line step by step."""
        self.laps = Laps()
        request: _Request = self.renderer.decode(body, _TYPES[self.kind])
        num_prompts = 1 if _has_messages(request) else request.num_prompts  # type: ignore[union-attr]
        self.reached["num_prompts"] = num_prompts
        if not 0 <= prompt_index < num_prompts:
            raise InvalidRequest(
                f"The request has {num_prompts} prompts; there is no prompt {prompt_index}"
                " (the first is 0).",
                param="prompt",
            )
        params = self._params(request)
        if _has_messages(request):
            self._say(request)  # type: ignore[arg-type]
        else:
            prompt = request.prompts[prompt_index]  # type: ignore[union-attr]
            if isinstance(prompt, str):
                text = self.renderer.prompt_text(prompt, request)  # type: ignore[arg-type]
                self.reached["rendered"] = RenderedText(text=text)
            else:
                self._enter("tokens")
                param = "input" if self.kind == "pooling" else "prompt"
                self.reached["tokens"] = tokenize_ids(
                    prompt, self.renderer.tokenizer.info, param=param
                )
        self._arrive("text")
        if "tokens" not in self.reached:
            self._tokenize(params, request.cache_salt)
        self._arrive("tokens")
        self._decide(params, request)
        self._arrive("budget")

    def _params(self, request: _Request) -> TokenizeParams:
        info = self.renderer.tokenizer.info
        try:
            if isinstance(request, CompletionRequest) or not _has_messages(request):
                params = self.renderer.tokenize_params(request)
            else:
                params = self.renderer.chat_tokenize_params(request)
        except ForewordError as error:
            self.stop(error, "budget")
            params = _without_limit(request, info.do_lower_case)
        self.reached["params"] = params
        self._arrive("request")
        return params

    def _say(self, request: ChatCompletionRequest | PoolingRequest) -> None:
        options, tokenizer = self.renderer.options, self.renderer.tokenizer
        if isinstance(tokenizer, ChatTokenizer):
            self._enter("conversation")
            said = read_natively(self.renderer, tokenizer, request, self.laps)
            self.reached |= said._asdict()
            self.is_native = True
            self._arrive("conversation")
            return
        self._enter("template")
        chat_params = self.renderer.chat_params(request)
        tools = request.tool_dicts(exclude_when_none=options.exclude_tools_when_tool_choice_none)
        template = self.renderer.template_for(chat_params.chat_template, has_tools=bool(tools))
        self.reached["template"] = template
        self._arrive("template")
        self._enter("conversation")
        conversation = self.renderer.to_conversation(request, chat_params, template)
        self.reached["conversation"] = conversation
        self._arrive("conversation")
        if conversation.media:
            scope = request.cache_salt or ""
            self.reached["items"] = self.renderer.to_items(conversation, scope=scope)
        self._enter("text")
        self.reached["rendered"] = self.renderer.to_text(conversation, template)
        self.wants_mask = chat_params.return_assistant_mask

    def _tokenize(self, params: TokenizeParams, cache_salt: str | None) -> None:
        self._enter("tokens")
        rendered, scope = self.reached["rendered"], cache_salt or ""
        try:
            tokens = self.renderer.to_tokens(
                rendered, params, with_offsets=True, count_in_full=True, scope=scope
            )
        except PromptTooManyChars as error:
            self.stop(error)
            unlimited = TokenizeParams(
                max_total_tokens=None,
                do_lower_case=params.do_lower_case,
                add_special_tokens=params.add_special_tokens,
            )
            tokens = self.renderer.to_tokens(
                rendered, unlimited, with_offsets=True, count_in_full=True, scope=scope
            )
        items = self.reached.get("items")
        if items:
            self.reached["unexpanded"] = tokens
            tokens = self.renderer.to_expanded(tokens, rendered, items, scope=scope)
        self.reached["tokens"] = tokens

    def _decide(self, params: TokenizeParams, request: _Request) -> None:
        if "error" in self.reached:
            raise _Arrived
        self._enter("budget")
        self.reached["engine_input"] = self.renderer.to_engine_input(
            self.reached["tokens"],
            params,
            rendered=self.reached.get("rendered"),
            with_assistant_mask=self.wants_mask,
        )

    def _enter(self, station: Station) -> None:
        self.station = station

    def _arrive(self, station: Station) -> None:
        is_timed = self.is_native and station != "budget"
        is_text_alone = station == "text" and "conversation" not in self.reached
        if station in _LAPS and not is_timed and not is_text_alone:
            self.laps.lap(_LAPS[station])
        if self.until == station:
            raise _Arrived


def _has_messages(request: _Request) -> bool:
    return getattr(request, "messages", None) is not None


def _without_limit(request: _Request, do_lower_case: bool) -> TokenizeParams:
    return TokenizeParams(
        max_total_tokens=None,
        max_output_tokens=None,
        do_lower_case=do_lower_case,
        add_special_tokens=bool(request.add_special_tokens),
    )
