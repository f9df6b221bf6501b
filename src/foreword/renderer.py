"""An OpenAI-style request enters; what the engine must see leaves: the stations called in order.

Rules of this file: no decision is made here, only the order of the stations. Every entry (chat,
completion, pooling, tokenize) joins one line, and a `Trace` is that line kept. Nothing waits, and
nothing the caller passed in is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

from foreword import engine_request
from foreword.blocks import BlockHashes
from foreword.engines.vllm_content_parts import with_content_parts
from foreword.engines.vllm_generate import GenerateRequest, make_request_id
from foreword.errors import InvalidRequest, UnknownModel
from foreword.formats import find_chat_format, template_hint
from foreword.formats import requests as native
from foreword.line import (
    chat_line,
    check_kind,
    encoder_decoder_line,
    native_conversation,
    prompt_line,
    prompt_lines,
)
from foreword.media.items import MediaItem
from foreword.media.model import MediaModel
from foreword.options import RendererOptions, check_choice
from foreword.params import ChatParams, TokenizeParams
from foreword.protocols.bodies import Body, ChatBody, PromptBody, kind_of
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.protocols.encoder_decoder import EncoderDecoderRequest
from foreword.protocols.pooling import PoolingRequest
from foreword.protocols.scoring import ScoringRequest
from foreword.protocols.tokenize import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from foreword.sampling import SamplingParams
from foreword.score_line import score_lines
from foreword.stages.budget import apply_budget
from foreword.stages.conversation import parse_conversation
from foreword.stages.media import expand_items
from foreword.stages.media_items import find_items, keep_typed, media_forms, media_tokens
from foreword.stages.template import render_conversation, select_template
from foreword.stages.tokenization import tokenize_ids, tokenize_text
from foreword.templating import CompiledTemplate, compile_template
from foreword.trace import Kind, Trace
from foreword.types import (
    ChatTokenizer,
    Conversation,
    EncoderDecoderInput,
    EngineInput,
    MediaReference,
    ModelAssets,
    RenderedChat,
    RenderedText,
    Tokenizer,
    TokenSequence,
)

__all__ = ["Body", "Renderer", "kind_of"]

RequestT = TypeVar("RequestT")


class Renderer:
    """One model's input side. Keeps no state of requests; safe to share between threads."""

    def __init__(
        self, *, assets: ModelAssets, tokenizer: Tokenizer, options: RendererOptions
    ) -> None:
        self.assets = assets
        self.tokenizer = tokenizer
        self.chat_tokenizer = tokenizer if isinstance(tokenizer, ChatTokenizer) else None
        self.options = options
        self.chat_format = find_chat_format(
            tokenizer.info.mode,
            assets.config,
            start_date=options.system_start_date,
            token_to_id=tokenizer.token_to_id,
        )
        self.media = MediaModel.of(
            assets,
            tokenizer_mode=tokenizer.info.mode,
            tolerated_keys=options.media.tolerated_keys,
            tekken=getattr(tokenizer, "media_blocks", None),
        )
        self.hash_memo = engine_request.make_hash_memo(options)

    # -- the whole line -----------------------------------------------------------------------

    def render_chat(
        self,
        request: Body | ChatCompletionRequest,
        *,
        media: Sequence[MediaItem] | None = None,
    ) -> RenderedChat:
        """Render an OpenAI chat body: the conversation the template saw, and the engine's input.

        `media` are the items of `collect_media`, resolved; None takes those in data: URLs.

        Raises: any `RequestError`; `TemplateFailed` when the model's template is broken.
        """
        line = self.chat_line(self.decode(request, ChatCompletionRequest), media=media)
        assert line.conversation is not None
        return RenderedChat(line.conversation, line.engine_input)

    def collect_media(self, request: Body | ChatBody) -> tuple[MediaReference, ...]:
        """Return the media a chat points to, in reading order; nothing is fetched.

        Raises: as `render_chat`, for what is wrong with its messages.
        """
        chat: ChatBody
        if isinstance(request, ChatCompletionRequest | PoolingRequest | TokenizeRequest):
            chat = request
        else:
            chat = self.decode(request, ChatCompletionRequest)
        check_kind(chat, self.assets.config)
        if self.chat_format is not None:
            return ()
        if self.chat_tokenizer is not None:
            return native_conversation(self, chat).media
        chat_params = self.chat_params(chat)
        template = self.template_for(chat_params.chat_template, has_tools=bool(self.tools_of(chat)))
        return self.to_conversation(chat, chat_params, template).media

    def render_cmpl(self, request: Body | CompletionRequest) -> list[EngineInput]:
        """Render an OpenAI completion body: one engine input for each prompt, in order."""
        return [
            line.engine_input for line in self.prompt_lines(self.decode(request, CompletionRequest))
        ]

    def render_pooling(
        self, request: Body | PoolingRequest, *, media: Sequence[MediaItem] | None = None
    ) -> list[EngineInput]:
        """Render an embedding or rerank body (`input` or `messages`), with the full budget."""
        pooling = self.decode(request, PoolingRequest)
        pooling.check_runner(self.options.runner)
        if pooling.messages is not None:
            return [self.chat_line(pooling, media=media).engine_input]
        return [line.engine_input for line in self.prompt_lines(pooling)]

    def render_scoring(
        self, request: Body | ScoringRequest, *, is_apart: bool = False
    ) -> list[EngineInput]:
        """Render a score or rerank body: a prompt for every pair.

        With `is_apart` for every query, then every document, as models that embed them need.
        """
        body = self.decode(request, ScoringRequest)
        return score_lines(self, body, self.assets.config, is_apart=is_apart)

    def render_encoder_decoder(
        self, request: Body | EncoderDecoderRequest, *, media: Sequence[MediaItem] = ()
    ) -> EncoderDecoderInput:
        """Render `encoder_prompt` and `decoder_prompt`; `media` is the clip of a Whisper."""
        body = self.decode(request, EncoderDecoderRequest)
        return encoder_decoder_line(self, body, self.assets.config, media)

    def generate_request(
        self,
        request: Body,
        *,
        kind: Kind | None = None,
        request_id: str | None = None,
        media: Sequence[MediaItem] | None = None,
        media_as: Literal["features", "content_parts"] = "features",
    ) -> GenerateRequest | list[GenerateRequest]:
        """Give vLLM's `GenerateRequest` for a chat body, a list of them for a completion body.

        `kind` None tells the two apart by `messages`. `media` as for `render_chat`. With
        `media_as` "features" the ids are expanded, for an engine that holds the items; with
        "content_parts" it gets the items, and expands them itself.
        """
        check_choice("media_as", media_as, ("features", "content_parts"))
        if (kind or kind_of(request, max_bytes=self.options.max_body_bytes)) == "chat":
            chat = self.decode(request, ChatCompletionRequest)
            line = self.chat_line(chat, media=media)
            made = self.to_generate_request(line.engine_input, chat, request_id, None)
            return with_content_parts(made, line) if media_as == "content_parts" else made
        completion = self.decode(request, CompletionRequest)
        inputs = [line.engine_input for line in self.prompt_lines(completion)]
        request_id = request_id or completion.request_id or make_request_id()
        return [
            self.to_generate_request(
                one, completion, request_id, index if len(inputs) > 1 else None
            )
            for index, one in enumerate(inputs)
        ]

    def tokenize(
        self, request: Body | TokenizeRequest, *, media: Sequence[MediaItem] | None = None
    ) -> TokenizeResponse:
        """Count and list the tokens of a prompt or a chat; no limit on length applies."""
        body = self.decode(request, TokenizeRequest)
        if body.messages is not None:
            line = self.chat_line(body, media=media, count_in_full=True, may_be_empty=True)
            tokens = line.tokens
        else:
            rendered = RenderedText(text=body.prompt or "")
            tokens = self.to_tokens(rendered, self.tokenize_params(body), count_in_full=True)
        strings = None
        if body.return_token_strs:
            strings = [self.tokenizer.id_to_token(one) or "" for one in tokens.token_ids]
        return TokenizeResponse(
            count=len(tokens.token_ids),
            max_model_len=self.options.max_model_len,
            tokens=tokens.token_ids,
            token_strs=strings,
        )

    def detokenize(self, request: Body | DetokenizeRequest) -> DetokenizeResponse:
        """Give the text of token ids, special tokens included."""
        body = self.decode(request, DetokenizeRequest)
        tokens = tokenize_ids(body.tokens, self.tokenizer.info, param="tokens")
        return DetokenizeResponse(prompt=self.tokenizer.decode(tokens.token_ids))

    def trace(
        self,
        request: Body,
        *,
        kind: Kind | None = None,
        prompt_index: int = 0,
        media: Sequence[MediaItem] | None = None,
    ) -> Trace:
        """Render one prompt and keep every station; tokens are counted in full, with offsets."""
        if (kind or kind_of(request, max_bytes=self.options.max_body_bytes)) == "chat":
            chat = self.decode(request, ChatCompletionRequest)
            return self.chat_line(chat, media=media, count_in_full=True, with_offsets=True)
        completion = self.decode(request, CompletionRequest)
        if not 0 <= prompt_index < completion.num_prompts:
            raise InvalidRequest(
                f"The request has {completion.num_prompts} prompts; there is no prompt"
                f" {prompt_index} (the first is 0).",
                param="prompt",
            )
        prompt = completion.prompts[prompt_index]
        return prompt_line(self, prompt, completion, count_in_full=True, with_offsets=True)

    # -- the stations -------------------------------------------------------------------------

    def decode(self, request: Body | RequestT, type: type[RequestT]) -> RequestT:  # noqa: A002
        """Read a body as a request of the given type, and check that it means this model.

        Raises: `MalformedRequest`, `InvalidRequest`, `UnknownModel`.
        """
        if isinstance(request, type):
            decoded = request
        else:
            body = cast(Body, request)
            decoded = decode_request(body, type, max_bytes=self.options.max_body_bytes)
        names, name = self.options.served_model_names, getattr(decoded, "model", None)
        if names and name is not None and name not in names:
            raise UnknownModel(name=name, available=names)
        check_kind(decoded, self.assets.config)
        return decoded

    def to_conversation(
        self, request: ChatBody, chat_params: ChatParams, template: CompiledTemplate | None
    ) -> Conversation:
        """Station 1: the conversation exactly as the template, or chat format, will see it."""
        reader = self.chat_format or template
        assert reader is not None
        wanted = chat_params.content_format
        if wanted == "auto":
            wanted = self.options.content_format
        if wanted == "auto" or self.chat_format is not None:
            wanted = reader.content_format
        return parse_conversation(
            request.messages or (),
            content_format=wanted,
            has_developer_branch=template is None or template.has_developer_branch,
            keeps_messages=self.chat_format is not None and self.chat_format.keeps_messages,
            may_be_empty=self.chat_format is not None,
            tools=self.tools_of(request),
            chat_template_kwargs=chat_params.chat_template_kwargs,
            add_generation_prompt=chat_params.add_generation_prompt,
            continue_final_message=chat_params.continue_final_message,
            media=None if self.chat_format else media_forms(self.media, self.options.media),
        )

    def to_items(
        self,
        conversation: Conversation,
        media: Sequence[MediaItem] | None = None,
        *,
        scope: str = "",
    ) -> tuple[MediaItem, ...]:
        """The items given, or those in data: URLs; `scope` keeps clients' uuids apart."""
        return find_items(conversation, media, self.options.media, scope=scope)

    def to_text(
        self, conversation: Conversation, template: CompiledTemplate | None = None
    ) -> RenderedText:
        """Station 2: the conversation as one text. The model's own template unless one is given."""
        if self.chat_format is not None:
            return self.chat_format.render(conversation)
        if template is None:
            template = self.template_for(None, has_tools=bool(conversation.tools))
            assert template is not None
        rendered = render_conversation(
            template,
            conversation,
            special_tokens=self.tokenizer.info.special_tokens,
            limits=self.options.template_limits,
        )
        return keep_typed(rendered, self.media, self.tokenizer, self.options.media)

    def to_tokens(
        self,
        rendered: RenderedText,
        params: TokenizeParams,
        *,
        with_offsets: bool = False,
        count_in_full: bool = False,
        scope: str = "",
    ) -> TokenSequence:
        """Station 3: the text as tokens, as far as the budget can use them."""
        return tokenize_text(
            rendered,
            params,
            self.tokenizer,
            with_offsets=with_offsets,
            count_in_full=count_in_full,
            scope=scope,
        )

    def to_expanded(
        self,
        tokens: TokenSequence,
        rendered: RenderedText | None,
        items: Sequence[MediaItem],
        *,
        scope: str = "",
    ) -> TokenSequence:
        """Station 3, with media: every item's placeholder replaced by its tokens."""
        media = media_tokens(self.media, self.tokenizer)
        return expand_items(tokens, rendered, items, media, self.tokenizer, scope=scope)

    def to_engine_input(
        self,
        tokens: TokenSequence,
        params: TokenizeParams,
        *,
        rendered: RenderedText | None = None,
        with_assistant_mask: bool = False,
    ) -> EngineInput:
        """Station 4: the tokens within their budget, with every cut told."""
        spans = rendered.assistant_spans if with_assistant_mask and rendered else None
        engine_input = apply_budget(tokens, params, self.tokenizer.info, assistant_spans=spans)
        is_told = self.chat_format is None or self.chat_format.tells_offsets
        if engine_input.offsets is not None and not (params.return_token_offsets and is_told):
            engine_input = replace(engine_input, offsets=None)
        if not params.needs_detokenization:
            return engine_input
        if rendered is not None and not engine_input.num_truncated:
            return replace(engine_input, prompt=rendered.text)
        return replace(engine_input, prompt=self.tokenizer.decode(engine_input.token_ids))

    def template_for(self, requested: str | None, *, has_tools: bool) -> CompiledTemplate | None:
        """Return the compiled template a request is rendered with; None where code renders it.

        Raises: `ChatTemplateMissing`, `TemplateFailed`; `InvalidRequest` for a broken template of
        the request's own.
        """
        if self.chat_format is not None:
            return None
        source = select_template(
            self.assets.chat_templates,
            has_tools=has_tools,
            requested=requested,
            override=self.options.chat_template,
            hint=template_hint(self.assets.config),
        )
        is_own = requested is not None and requested not in self.assets.chat_templates
        return compile_template(source, is_requested=is_own)

    # -- the line -----------------------------------------------------------------------------

    def chat_line(
        self,
        request: ChatBody,
        *,
        media: Sequence[MediaItem] | None = None,
        count_in_full: bool = False,
        with_offsets: bool = False,
        may_be_empty: bool = False,
        tenant: str = "",
    ) -> Trace:
        """Take a chat down the line and keep every station.

        `media` are the chat's items, in order; None takes those that stand in data: URLs. Clients
        of different `tenant` can't name each other's items by uuid.
        """
        return chat_line(
            self,
            request,
            media=media,
            count_in_full=count_in_full,
            with_offsets=with_offsets,
            may_be_empty=may_be_empty,
            tenant=tenant,
        )

    def prompt_lines(self, request: PromptBody) -> list[Trace]:
        """Take every prompt of a request down the line, in order."""
        return prompt_lines(self, request)

    def prompt_text(self, prompt: str, request: PromptBody) -> str:
        """Return a prompt's text: with a `suffix`, what asks for the text in between.

        Raises: `InvalidRequest` when the model's format has no such form.
        """
        if isinstance(request, PoolingRequest) or request.suffix is None:
            return prompt
        return native.fill_in_the_middle(self.chat_format, prompt, request.suffix)

    def chat_params(self, request: ChatBody) -> ChatParams:
        """Return how a chat is rendered, over the operator's defaults.

        Raises: `InvalidRequest` for a template in the request that is not trusted.
        """
        if self.chat_format is not None and self.chat_format.is_sealed:
            return native.sealed_chat_params(request)
        return request.chat_params(
            trust_request_template=self.options.trust_request_chat_template
        ).with_defaults(self.options.default_chat_template_kwargs)

    def chat_tokenize_params(self, request: ChatBody) -> TokenizeParams:
        """Return the budget of a chat.

        Raises: `InvalidRequest` for a budget that contradicts itself or the context.
        """
        if self.chat_format is None or not self.chat_format.is_sealed:
            return self.tokenize_params(request)
        limit = None if isinstance(request, TokenizeRequest) else self.options.max_model_len
        return native.sealed_tokenize_params(
            request, limit, is_pooling=isinstance(request, PoolingRequest)
        )

    def tokenize_params(self, request: ChatBody | PromptBody) -> TokenizeParams:
        """Return the budget of a prompt, or of a chat that a template renders."""
        return request.tokenize_params(
            max_model_len=self.options.max_model_len,
            do_lower_case=self.tokenizer.info.do_lower_case,
        )

    def tools_of(self, request: ChatBody) -> list[dict[str, Any]] | None:
        """Return the tools that the template sees."""
        return request.tool_dicts(
            exclude_when_none=self.options.exclude_tools_when_tool_choice_none
        )

    def to_generate_request(
        self,
        engine_input: EngineInput,
        request: ChatCompletionRequest | CompletionRequest,
        request_id: str | None,
        index: int | None,
    ) -> GenerateRequest:
        """Complete an engine input with its sampling parameters, as vLLM's generate side takes it.

        `index` is the prompt's place among several.
        """
        return engine_request.to_generate_request(self, engine_input, request, request_id, index)

    def sampling_params(
        self, request: ChatCompletionRequest | CompletionRequest, engine_input: EngineInput
    ) -> SamplingParams:
        """Complete the sampling parameters of a request whose prompt is known.

        Raises: as `complete_sampling`.
        """
        return engine_request.sampling_params(self, request, engine_input)

    def block_hashes(self, engine_input: EngineInput, *, model: str | None = None) -> BlockHashes:
        """Hash the full blocks of a prompt as the engine's prefix cache does.

        `model` is the name the request used: an adapter's is part of the hashes.

        Raises: `InvalidRequest` where the option `block_hashing` is not set.
        """
        return engine_request.block_hashes(self, engine_input, name=model)
