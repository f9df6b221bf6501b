"""A decoded score request and a model's stations enter; the engine's inputs leave.

Rules of this file: the order of the stations for two texts that are judged together. Both are
tokenized apart, as the reference does, and joined by the special tokens of the tokenizer's file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from foreword.errors import RequestError, UnsupportedFeature
from foreword.options import RendererOptions
from foreword.params import TokenizeParams
from foreword.protocols.scoring import ScoringRequest
from foreword.templating import CompiledTemplate
from foreword.trace import Laps
from foreword.types import (
    Conversation,
    EngineInput,
    PairShape,
    PairTokenizer,
    RenderedText,
    Side,
    TokenIds,
    Tokenizer,
    TokenSequence,
)


class Stations(Protocol):
    """What this line passes, as `Renderer` has it."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def options(self) -> RendererOptions: ...

    def template_for(
        self, requested: str | None, *, has_tools: bool
    ) -> CompiledTemplate | None: ...

    def to_text(
        self, conversation: Conversation, template: CompiledTemplate | None = None
    ) -> RenderedText: ...

    def to_tokens(
        self, rendered: RenderedText, params: TokenizeParams, *, scope: str = ""
    ) -> TokenSequence: ...

    def to_engine_input(
        self,
        tokens: TokenSequence,
        params: TokenizeParams,
        *,
        rendered: RenderedText | None = None,
    ) -> EngineInput: ...


def score_lines(
    stations: Stations, request: ScoringRequest, config: Mapping[str, Any], *, is_apart: bool
) -> list[EngineInput]:
    """Take every pair down the line; with `is_apart` every query, then every document.

    Raises: what a station raises; of several prompts, it names the one at fault.
    Source: vLLM 0.33: a score template only where the operator gave one; else the tokenizer's own
    pair, or, where `use_sep_token` in config.json is false, the two texts one after the other.
    """
    params = request.tokenize_params(
        max_model_len=stations.options.max_model_len,
        do_lower_case=stations.tokenizer.info.do_lower_case,
    )
    if is_apart:
        limits = (request.max_tokens_per_query, request.max_tokens_per_doc)
        texts = [
            _shorten(stations, text, limit)
            for limit, group in zip(limits, (request.first, request.second), strict=True)
            for text in group
        ]
        return [_one(stations, request, params, text) for text in texts]
    shape = _find_shape(stations, config)
    made: list[EngineInput] = []
    for place, (query, document) in enumerate(request.pairs):
        query = _shorten(stations, query, request.max_tokens_per_query)
        document = _shorten(stations, document, request.max_tokens_per_doc)
        try:
            if shape is not None:
                made.append(_pair(stations, request, params, shape, query, document))
            else:
                text = _joined(stations, request, query, document)
                made.append(_one(stations, request, params, text))
        except RequestError as error:
            raise error.at(f"documents[{place}]") from None
    return made


def _find_shape(stations: Stations, config: Mapping[str, Any]) -> PairShape | None:
    if stations.options.chat_template is not None or config.get("use_sep_token") is False:
        return None
    if not isinstance(stations.tokenizer, PairTokenizer):
        raise UnsupportedFeature(
            feature="a pair of texts with this model's tokenizer",
            remedy="Give a score template (chat_template), which writes both as one text.",
        )
    shape = stations.tokenizer.pair_shape()
    if shape.needs_types:
        raise UnsupportedFeature(
            feature="scoring with a model that tells query and document apart by token types",
            remedy="Token types go to the engine beside the ids, which this version does not send:"
            " let the engine's own /score or /rerank take the request.",
        )
    return shape


def _joined(stations: Stations, request: ScoringRequest, query: str, document: str) -> str:
    if stations.options.chat_template is None:
        return query + document
    messages = (
        {"role": "query", "content": query},
        {"role": "document", "content": document},
    )
    conversation = Conversation(
        messages=messages,
        chat_template_kwargs=request.template_kwargs,
        add_generation_prompt=False,
    )
    return stations.to_text(conversation, stations.template_for(None, has_tools=False)).text


def _one(
    stations: Stations, request: ScoringRequest, params: TokenizeParams, text: str
) -> EngineInput:
    laps, rendered = Laps(), RenderedText(text=text)
    tokens = stations.to_tokens(rendered, params, scope=request.cache_salt or "")
    engine_input = stations.to_engine_input(tokens, params, rendered=rendered)
    return laps.sign(engine_input, request.cache_salt)


def _pair(
    stations: Stations,
    request: ScoringRequest,
    params: TokenizeParams,
    shape: PairShape,
    query: str,
    document: str,
) -> EngineInput:
    laps, scope = Laps(), request.cache_salt or ""
    # Neither is cut before both are there: the longer one pays.
    whole = replace(
        params,
        max_total_tokens=params.max_total_tokens if params.truncation_tokens is None else None,
        truncate_prompt_tokens=None,
        pad_prompt_tokens=None,
        add_special_tokens=False,
    )
    texts = (RenderedText(text=query), RenderedText(text=document))
    both = [stations.to_tokens(text, whole, scope=scope) for text in texts]
    first, second = (one.token_ids for one in both)
    num_special = len(shape.prefix) + len(shape.middle) + len(shape.suffix)
    total = len(first) + len(second) + num_special
    limit, side = params.truncation_tokens, params.truncation_side
    if limit is not None and side is None and num_special <= limit < total:
        side = stations.tokenizer.info.truncation_side
        first, second = longest_first(first, second, limit - num_special, side)
    token_ids = shape.prefix + first + shape.middle + second + shape.suffix
    tokens = TokenSequence(
        token_ids=token_ids,
        num_chars=len(query) + len(document),
        is_complete=all(one.is_complete for one in both),
    )
    engine_input = stations.to_engine_input(tokens, params)
    if len(token_ids) < total:
        engine_input = replace(
            engine_input,
            num_prompt_tokens=total,
            num_truncated=total - len(token_ids),
            truncated_side=side,
        )
    return laps.sign(engine_input, request.cache_salt)


def longest_first(
    first: TokenIds, second: TokenIds, limit: int, side: Side
) -> tuple[TokenIds, TokenIds]:
    """Cut two texts to `limit` tokens together: the longer one until both are as long.

    Source: `tokenizers`' strategy LongestFirst.
    """
    lengths: Sequence[int] = sorted((len(first), len(second)))
    short, long = lengths
    long = short if short > limit else max(short, limit - short)
    if short + long > limit:
        short = limit // 2
        long = short + limit % 2
    num_first, num_second = (long, short) if len(first) > len(second) else (short, long)
    return _cut(first, num_first, side), _cut(second, num_second, side)


def _cut(token_ids: TokenIds, num: int, side: Side) -> TokenIds:
    if side == "right" or num >= len(token_ids):
        return token_ids[:num]
    return token_ids[len(token_ids) - num :]


def _shorten(stations: Stations, text: str, max_tokens: int) -> str:
    """Return the beginning of a text that has no more than so many tokens by itself.

    Source: vLLM 0.33, which cuts the text at a token's end and looks again.
    """
    while max_tokens and text:
        tokens = stations.tokenizer.encode(text, add_special_tokens=False, with_offsets=True)
        if len(tokens.token_ids) <= max_tokens:
            return text
        if tokens.offsets is None:
            raise UnsupportedFeature(
                feature="max_tokens_per_query and max_tokens_per_doc with this tokenizer",
                remedy="It tells no offsets: shorten the texts before they are sent.",
            )
        stop = min(tokens.offsets.stops[max_tokens - 1], tokens.offsets.starts[max_tokens])
        text = text[: min(stop, len(text) - 1)]
    return text
