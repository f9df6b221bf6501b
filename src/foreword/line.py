"""A decoded request and a model's stations enter; the line it took, every station kept, leaves.

Rules of this file: the order of the stations, and nothing else. A station decides what it does; no
value is looked into here, and none is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from foreword.chat.reused_ids import REUSED_PARAM, reused_token_ids
from foreword.errors import InvalidRequest, RequestError
from foreword.formats import mistral
from foreword.media.items import MediaItem
from foreword.options import RendererOptions
from foreword.params import ChatParams, TokenizeParams
from foreword.protocols.bodies import ChatBody, PromptBody, cache_salt_of
from foreword.protocols.prompts import Prompt
from foreword.stages.conversation import parse_conversation
from foreword.stages.tokenization import tokenize_ids
from foreword.stopping import check_stop
from foreword.templating import CompiledTemplate
from foreword.trace import Laps, Trace
from foreword.types import (
    ChatTokenizer,
    Conversation,
    EngineInput,
    RenderedText,
    Tokenizer,
    TokenSequence,
)


class Stations(Protocol):
    """What a line passes: the stations of one model, as `Renderer` has them."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def options(self) -> RendererOptions: ...

    def tools_of(self, request: ChatBody) -> list[dict[str, Any]] | None: ...

    def chat_params(self, request: ChatBody) -> ChatParams: ...

    def chat_tokenize_params(self, request: ChatBody) -> TokenizeParams: ...

    def tokenize_params(self, request: ChatBody | PromptBody) -> TokenizeParams: ...

    def prompt_text(self, prompt: str, request: PromptBody) -> str: ...

    def template_for(
        self, requested: str | None, *, has_tools: bool
    ) -> CompiledTemplate | None: ...

    def to_conversation(
        self, request: ChatBody, chat_params: ChatParams, template: CompiledTemplate | None
    ) -> Conversation: ...

    def to_items(
        self,
        conversation: Conversation,
        media: Sequence[MediaItem] | None = None,
        *,
        scope: str = "",
    ) -> tuple[MediaItem, ...]: ...

    def to_text(
        self, conversation: Conversation, template: CompiledTemplate | None = None
    ) -> RenderedText: ...

    def to_tokens(
        self,
        rendered: RenderedText,
        params: TokenizeParams,
        *,
        with_offsets: bool = False,
        count_in_full: bool = False,
        scope: str = "",
    ) -> TokenSequence: ...

    def to_expanded(
        self, tokens: TokenSequence, rendered: RenderedText, items: Sequence[MediaItem]
    ) -> TokenSequence: ...

    def to_engine_input(
        self,
        tokens: TokenSequence,
        params: TokenizeParams,
        *,
        rendered: RenderedText | None = None,
        with_assistant_mask: bool = False,
    ) -> EngineInput: ...


def chat_line(
    stations: Stations,
    request: ChatBody,
    *,
    media: Sequence[MediaItem] | None = None,
    count_in_full: bool = False,
    with_offsets: bool = False,
    may_be_empty: bool = False,
) -> Trace:
    """Take a chat down the line and keep every station.

    Ids that an earlier leg forwards (`kv_transfer_params.prompt_token_ids`) join it as tokens.
    """
    laps = Laps()
    params = stations.chat_tokenize_params(request)
    reused = reused_token_ids(request)
    if reused is not None:
        return _reused_line(stations, reused, request, params)
    if isinstance(stations.tokenizer, ChatTokenizer):
        line = _native_line(stations, stations.tokenizer, request, params)
        if not may_be_empty:
            _check_not_empty(line.engine_input, None)
        return line
    chat_params = stations.chat_params(request)
    has_tools = bool(stations.tools_of(request))
    template = stations.template_for(chat_params.chat_template, has_tools=has_tools)
    conversation = stations.to_conversation(request, chat_params, template)
    laps.lap("conversation")
    with_mask, salt = chat_params.return_assistant_mask, cache_salt_of(request)
    items: tuple[MediaItem, ...] = ()
    if conversation.media:
        items = stations.to_items(conversation, media, scope=salt or "")
        laps.lap("media")
    rendered = stations.to_text(conversation, template)
    laps.lap("template")
    check_stop()
    unexpanded = stations.to_tokens(
        rendered,
        params,
        with_offsets=with_mask or with_offsets,
        count_in_full=count_in_full,
        scope=salt or "",
    )
    laps.lap("tokenize")
    tokens = unexpanded
    if items:
        tokens = stations.to_expanded(unexpanded, rendered, items)
        laps.lap("expand")
    engine_input = stations.to_engine_input(
        tokens, params, rendered=rendered, with_assistant_mask=with_mask
    )
    if not may_be_empty:
        _check_not_empty(engine_input, None)
    laps.lap("budget")
    return Trace(
        kind="chat",
        params=params,
        template=template,
        conversation=conversation,
        items=items,
        rendered=rendered,
        unexpanded=unexpanded if items else None,
        tokens=tokens,
        engine_input=laps.sign(engine_input, salt),
        seconds=laps.seconds,
    )


def _native_line(
    stations: Stations, tokenizer: ChatTokenizer, request: ChatBody, params: TokenizeParams
) -> Trace:
    """Take a chat down the line where its tokenizer reads the client's messages itself."""
    laps = Laps()
    mistral.check_request(request)
    chat = request.chat_params().with_defaults(stations.options.default_chat_template_kwargs)
    conversation = parse_conversation(
        request.messages or (),
        content_format="string",
        has_developer_branch=True,
        tools=stations.tools_of(request),
        chat_template_kwargs=chat.chat_template_kwargs,
        add_generation_prompt=chat.add_generation_prompt,
        continue_final_message=chat.continue_final_message,
    )
    sent = mistral.native_conversation(conversation, request.messages or ())
    laps.lap("conversation")
    check_stop()
    tokens = tokenizer.encode_chat(sent)
    laps.lap("tokenize")
    return _token_line(stations, tokens, conversation, request, params, laps)


def _reused_line(
    stations: Stations, token_ids: list[int], request: ChatBody, params: TokenizeParams
) -> Trace:
    laps = Laps()
    tokens = tokenize_ids(token_ids, stations.tokenizer.info, param=REUSED_PARAM)
    return _token_line(stations, tokens, Conversation(messages=()), request, params, laps)


def _token_line(
    stations: Stations,
    tokens: TokenSequence,
    conversation: Conversation,
    request: ChatBody,
    params: TokenizeParams,
    laps: Laps,
) -> Trace:
    engine_input = stations.to_engine_input(tokens, params)
    laps.lap("budget")
    return Trace(
        kind="chat",
        params=params,
        conversation=conversation,
        tokens=tokens,
        engine_input=laps.sign(engine_input, cache_salt_of(request)),
        seconds=laps.seconds,
    )


def prompt_line(
    stations: Stations,
    prompt: Prompt,
    request: PromptBody,
    *,
    count_in_full: bool = False,
    with_offsets: bool = False,
) -> Trace:
    """Take one prompt of a completion, or of an input to embed, down the line."""
    laps, params = Laps(), stations.tokenize_params(request)
    salt, param = request.cache_salt, request.prompt_param
    if isinstance(prompt, str):
        rendered = RenderedText(text=stations.prompt_text(prompt, request))
        tokens = stations.to_tokens(
            rendered,
            params,
            with_offsets=with_offsets,
            count_in_full=count_in_full,
            scope=salt or "",
        )
    else:
        rendered = None
        tokens = tokenize_ids(prompt, stations.tokenizer.info, param=param)
    laps.lap("tokenize")
    engine_input = stations.to_engine_input(tokens, params, rendered=rendered)
    _check_not_empty(engine_input, param)
    laps.lap("budget")
    return Trace(
        kind="completion",
        params=params,
        rendered=rendered,
        tokens=tokens,
        engine_input=laps.sign(engine_input, salt),
        seconds=laps.seconds,
    )


def prompt_lines(stations: Stations, request: PromptBody) -> list[Trace]:
    """Take every prompt of a request down the line, in order.

    Raises: what a station raises; of several prompts, it names the one at fault.
    """
    if request.num_prompts == 1:
        return [prompt_line(stations, request.prompts[0], request)]
    stations.tokenize_params(request)  # what concerns them all is no single prompt's fault
    lines: list[Trace] = []
    for place, prompt in enumerate(request.prompts):
        try:
            lines.append(prompt_line(stations, prompt, request))
        except RequestError as error:
            raise error.at(f"{request.prompt_param}[{place}]") from None
    return lines


def _check_not_empty(engine_input: EngineInput, param: str | None) -> None:
    if not engine_input.token_ids:
        raise InvalidRequest(
            "The prompt is empty: no token is left for the engine."
            " Send some text, or truncate to at least 1 token.",
            param=param,
        )
