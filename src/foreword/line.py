"""A decoded request and a model's stations enter; the line it took, every station kept, leaves.

Rules of this file: the order of the stations, and nothing else. A station decides what it does; no
value is looked into here, and none is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from foreword.chat.reused_ids import REUSED_PARAM, reused_token_ids
from foreword.errors import InvalidRequest, RequestError
from foreword.formats import mistral
from foreword.media.items import MediaItem, uuid_namespace
from foreword.media.model import MediaModel
from foreword.options import RendererOptions
from foreword.params import ChatParams, TokenizeParams
from foreword.protocols.bodies import ChatBody, PromptBody, cache_salt_of
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.encoder_decoder import EncoderDecoderRequest
from foreword.protocols.prompts import Prompt
from foreword.stages.conversation import parse_conversation
from foreword.stages.encoder_decoder import (
    begin_decoder,
    check_audio_prompt,
    check_for_encoder,
    find_decoder_start,
    hear,
)
from foreword.stages.media_items import media_forms, refuse_media_fields
from foreword.stages.tokenization import tokenize_ids
from foreword.stopping import check_stop
from foreword.templating import CompiledTemplate
from foreword.trace import Laps, Trace
from foreword.types import (
    ChatTokenizer,
    Conversation,
    EncoderDecoderInput,
    EngineInput,
    ModelAssets,
    RenderedText,
    Tokenizer,
    TokenSequence,
)


class Stations(Protocol):
    """What a line passes: the stations of one model, as `Renderer` has them."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def chat_tokenizer(self) -> ChatTokenizer | None: ...

    @property
    def options(self) -> RendererOptions: ...

    @property
    def media(self) -> MediaModel: ...

    @property
    def assets(self) -> ModelAssets: ...

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
        self,
        tokens: TokenSequence,
        rendered: RenderedText | None,
        items: Sequence[MediaItem],
        *,
        scope: str = "",
    ) -> TokenSequence: ...

    def to_engine_input(
        self,
        tokens: TokenSequence,
        params: TokenizeParams,
        *,
        rendered: RenderedText | None = None,
        with_assistant_mask: bool = False,
    ) -> EngineInput: ...


def check_kind(request: object, config: Mapping[str, Any]) -> None:
    """Refuse a request to generate that is made for the other kind of model.

    Raises: `UnsupportedFeature`.
    """
    if isinstance(request, ChatCompletionRequest | CompletionRequest | EncoderDecoderRequest):
        check_for_encoder(config, is_wanted=isinstance(request, EncoderDecoderRequest))


def chat_line(
    stations: Stations,
    request: ChatBody,
    *,
    media: Sequence[MediaItem] | None = None,
    count_in_full: bool = False,
    with_offsets: bool = False,
    may_be_empty: bool = False,
    tenant: str = "",
) -> Trace:
    """Take a chat down the line and keep every station.

    `tenant` is whose request it is: uuids of media are its own. Ids that an earlier leg forwards
    (`kv_transfer_params.prompt_token_ids`) join it as tokens.
    """
    check_kind(request, stations.assets.config)
    laps = Laps()
    params = stations.chat_tokenize_params(request)
    reused = reused_token_ids(request)
    if reused is not None:
        return _reused_line(stations, reused, request, params)
    if stations.chat_tokenizer is not None:
        line = _native_line(stations, stations.chat_tokenizer, request, params, media, tenant)
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
        items = _find_items(stations, conversation, request, media, tenant)
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
        with _naming_items(conversation):
            tokens = stations.to_expanded(unexpanded, rendered, items, scope=salt or "")
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
    stations: Stations,
    tokenizer: ChatTokenizer,
    request: ChatBody,
    params: TokenizeParams,
    media: Sequence[MediaItem] | None,
    tenant: str,
) -> Trace:
    """Take a chat down the line where its tokenizer reads the client's messages itself."""
    laps = Laps()
    said = read_natively(stations, tokenizer, request, laps, media=media, tenant=tenant)
    line = _token_line(stations, said.tokens, said.conversation, request, params, laps)
    # An engine in this mode only looks where the items are, in ids that are expanded already.
    return replace(line, items=said.items, unexpanded=said.tokens) if said.items else line


class NativeChat(NamedTuple):
    """What a chat became where its tokenizer read it."""

    conversation: Conversation
    items: tuple[MediaItem, ...]
    tokens: TokenSequence


def read_natively(
    stations: Stations,
    tokenizer: ChatTokenizer,
    request: ChatBody,
    laps: Laps,
    *,
    media: Sequence[MediaItem] | None = None,
    tenant: str = "",
) -> NativeChat:
    """Have a tokenizer read a chat, and expand its media."""
    conversation = native_conversation(stations, request)
    sent = mistral.native_conversation(conversation, request.messages or ())
    laps.lap("conversation")
    items: tuple[MediaItem, ...] = ()
    if conversation.media:
        items = _find_items(stations, conversation, request, media, tenant)
        laps.lap("media")
    check_stop()
    tokens = tokenizer.encode_chat(sent)
    laps.lap("tokenize")
    if items:
        mistral.check_places(conversation, tokens)
        with _naming_items(conversation):
            tokens = stations.to_expanded(tokens, None, items)
        laps.lap("expand")
    return NativeChat(conversation, items, tokens)


def native_conversation(stations: Stations, request: ChatBody) -> Conversation:
    """Return a chat's conversation where its tokenizer reads the client's messages itself."""
    mistral.check_request(request)
    chat = request.chat_params().with_defaults(stations.options.default_chat_template_kwargs)
    return parse_conversation(
        request.messages or (),
        content_format="string",
        has_developer_branch=True,
        tools=stations.tools_of(request),
        chat_template_kwargs=chat.chat_template_kwargs,
        add_generation_prompt=chat.add_generation_prompt,
        continue_final_message=chat.continue_final_message,
        media=media_forms(stations.media, stations.options.media),
    )


def _find_items(
    stations: Stations,
    conversation: Conversation,
    request: ChatBody,
    media: Sequence[MediaItem] | None,
    tenant: str,
) -> tuple[MediaItem, ...]:
    refuse_media_fields(request)
    scope = uuid_namespace(tenant, cache_salt_of(request))
    return stations.to_items(conversation, media, scope=scope)


@contextmanager
def _naming_items(conversation: Conversation) -> Iterator[None]:
    """Have an error about one item say which part of the request it is."""
    try:
        yield
    except RequestError as error:
        index = error.details.get("index")
        if index is not None and error.param in (None, "messages"):
            error.param = conversation.media[index].path
        raise


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
    check_kind(request, stations.assets.config)
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
    check_kind(request, stations.assets.config)
    stations.tokenize_params(request)  # what concerns them all is no single prompt's fault
    lines: list[Trace] = []
    for place, prompt in enumerate(request.prompts):
        try:
            lines.append(prompt_line(stations, prompt, request))
        except RequestError as error:
            raise error.at(f"{request.prompt_param}[{place}]") from None
    return lines


def encoder_decoder_line(
    stations: Stations,
    request: EncoderDecoderRequest,
    config: Mapping[str, Any],
    media: Sequence[MediaItem],
) -> EncoderDecoderInput:
    """Take both prompts of a model with an encoder down the line, then begin its decoder.

    `config` is the model's; `media` is the one audio clip of a model that hears.
    """
    laps, salt = Laps(), request.cache_salt
    start = find_decoder_start(config, stations.tokenizer.info)
    params = request.tokenize_params(
        max_model_len=stations.options.max_model_len,
        do_lower_case=stations.tokenizer.info.do_lower_case,
        add_special_tokens=start.adds_special_tokens,
    )

    def rendered(prompt: Prompt, budget: TokenizeParams, param: str) -> EngineInput:
        if isinstance(prompt, str):
            text = RenderedText(text=prompt)
            return stations.to_engine_input(
                stations.to_tokens(text, budget, scope=salt or ""), budget, rendered=text
            )
        tokens = tokenize_ids(prompt, stations.tokenizer.info, param=param)
        return stations.to_engine_input(tokens, budget)

    if start.num_audio_tokens is not None:
        check_audio_prompt(request.encoder_prompt, media)
        encoder = hear(media[0], start.num_audio_tokens)
    else:
        encoder = rendered(request.encoder_prompt, params, "encoder_prompt")
        _check_not_empty(encoder, "encoder_prompt")
    decoder: EngineInput | None = None
    if request.decoder_prompt is not None:
        budget = replace(params, max_output_tokens=None)
        decoder = rendered(request.decoder_prompt, budget, "decoder_prompt")
    decoder = begin_decoder(decoder, start, max_model_len=stations.options.max_model_len)
    return EncoderDecoderInput(encoder=laps.sign(encoder, salt), decoder=laps.sign(decoder, salt))


def _check_not_empty(engine_input: EngineInput, param: str | None) -> None:
    if not engine_input.token_ids:
        raise InvalidRequest(
            "The prompt is empty: no token is left for the engine."
            " Send some text, or truncate to at least 1 token.",
            param=param,
        )
