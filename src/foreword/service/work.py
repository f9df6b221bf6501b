"""A request's bytes enter; its answer leaves: what a worker does for each of the four hot routes.

Rules of this file: plain synchronous functions, free to run twice, safe in any thread. Each body is
decoded once. Stage times are reported from here, since only here they are known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from foreword.engines.vllm_content_parts import with_content_parts
from foreword.engines.vllm_generate import make_request_id, to_json
from foreword.errors import ForewordError
from foreword.media.headers import warm_up as load_image_plugins
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.tokenize import DetokenizeRequest, TokenizeRequest
from foreword.service.answers import Answer, Header
from foreword.service.limits import check_chat, check_ids, check_prompts, check_text, decode_body
from foreword.service.logs import log
from foreword.service.media_step import NOTHING, Arrived
from foreword.service.metrics import Metrics
from foreword.service.models import ServedModel, ServedModels
from foreword.service.settings import Settings
from foreword.service.token_json import TokenIdsWriter
from foreword.service.tracing import Tracing
from foreword.stopping import check_stop
from foreword.trace import Trace
from foreword.types import EngineInput, MediaReference

T = TypeVar("T")


class CountableTokenizeRequest(TokenizeRequest, frozen=True, kw_only=True):
    """A /tokenize body that may ask for the number alone."""

    count_only: bool = False


class Work:
    """The hot routes' work on one set of models."""

    def __init__(
        self,
        models: ServedModels,
        settings: Settings,
        metrics: Metrics,
        tracing: Tracing,
    ) -> None:
        self._models = models
        self._settings = settings
        self._metrics = metrics
        self._tracing = tracing
        self._ids = TokenIdsWriter(max_bytes=settings.memo_bytes * 3 // 8)

    def collect_media(self, body: bytes) -> tuple[MediaReference, ...]:
        """Return what media a chat points to."""
        return self._collect(self._decode(body, ChatCompletionRequest), len(body))

    def collect_tokenize_media(self, body: bytes) -> tuple[MediaReference, ...]:
        """Return what media a /tokenize body points to."""
        return self._collect(self._decode(body, CountableTokenizeRequest), len(body))

    def _collect(
        self, request: ChatCompletionRequest | TokenizeRequest, num_bytes: int
    ) -> tuple[MediaReference, ...]:
        if request.messages is None:
            return ()
        check_chat(request.messages, request.tools, self._settings, num_bytes)
        return self._models.find(request.model).renderer.collect_media(request)

    def chat(self, body: bytes, request_id: str, arrived: Arrived = NOTHING) -> Answer:
        """Answer /v1/chat/completions/render."""
        started = time.perf_counter()
        request = self._decode(body, ChatCompletionRequest)
        check_chat(request.messages, request.tools, self._settings, len(body))
        model = self._models.find(request.model)
        parsed = time.perf_counter()
        media = arrived.items(model.renderer, request.cache_salt)
        line = model.renderer.chat_line(request, media=media, tenant=arrived.tenant)
        check_stop()
        rendered = time.perf_counter()
        request_id = request_id or request.request_id or make_request_id()
        made = model.renderer.to_generate_request(line.engine_input, request, request_id, None)
        if line.items and self._settings.media_output == "content_parts":
            made = with_content_parts(made, line, urls=arrived.data_urls())
        wire = to_json(made, write_ids=self._ids.write)
        self._report(model, (line,), parsed - started, time.perf_counter() - rendered)
        return Answer(200, wire, _headers(model, (line.engine_input,), request_id))

    def completion(self, body: bytes, request_id: str) -> Answer:
        """Answer /v1/completions/render: a list, one entry for each prompt."""
        started = time.perf_counter()
        request = self._decode(body, CompletionRequest)
        check_prompts(request, self._settings)
        model = self._models.find(request.model)
        parsed = time.perf_counter()
        lines = model.renderer.prompt_lines(request)
        check_stop()
        rendered = time.perf_counter()
        request_id = request_id or request.request_id or make_request_id()
        wires = []
        for index, line in enumerate(lines):
            made = model.renderer.to_generate_request(
                line.engine_input, request, request_id, index if len(lines) > 1 else None
            )
            wires.append(to_json(made, write_ids=self._ids.write))
            check_stop()
        self._report(model, lines, parsed - started, time.perf_counter() - rendered)
        inputs = [line.engine_input for line in lines]
        return Answer(200, b"[" + b",".join(wires) + b"]", _headers(model, inputs, request_id))

    def tokenize(self, body: bytes, request_id: str, arrived: Arrived = NOTHING) -> Answer:
        """Answer /tokenize, or its number alone when `count_only` is set."""
        request = self._decode(body, CountableTokenizeRequest)
        if request.messages is not None:
            check_chat(request.messages, request.tools, self._settings, len(body))
        elif request.prompt is not None:
            check_text(request.prompt, self._settings)
        model = self._models.find(request.model)
        made = model.renderer.tokenize(request, media=arrived.items(model.renderer, None))
        headers = (*_fingerprint(model), (b"x-foreword-tokens", str(made.count).encode()))
        if request.count_only:
            return Answer(200, msgspec.json.encode({"count": made.count}), headers)
        wire = {
            "count": made.count,
            "max_model_len": made.max_model_len,
            "tokens": msgspec.Raw(self._ids.write(made.tokens)),  # type: ignore[arg-type]
            "token_strs": made.token_strs,
        }
        return Answer(200, msgspec.json.encode(wire), headers)

    def detokenize(self, body: bytes, request_id: str) -> Answer:
        """Answer /detokenize."""
        request = self._decode(body, DetokenizeRequest)
        check_ids(request.tokens, self._settings)
        model = self._models.find(request.model)
        made = model.renderer.detokenize(request)
        return Answer(200, made.to_json(), _fingerprint(model))

    def _decode(self, body: bytes, kind: type[T]) -> T:
        return decode_body(body, kind, self._settings)

    def _report(
        self, model: ServedModel, lines: Sequence[Trace], parse: float, serialise: float
    ) -> None:
        seconds = {"parse": parse}
        for line in lines:
            for stage, lap in line.seconds.items():
                seconds[stage] = seconds.get(stage, 0.0) + lap
            self._metrics.rendered(model.name, line.engine_input)
        seconds["serialise"] = serialise
        for stage, lap in seconds.items():
            self._metrics.stage(model.name, stage, lap)
        inputs = [line.engine_input for line in lines]
        self._tracing.stages(
            seconds,
            {
                "foreword.num_chars": sum(one.num_chars for one in inputs),
                "foreword.num_tokens": sum(len(one.token_ids) for one in inputs),
                "foreword.num_truncated": sum(one.num_truncated for one in inputs),
            },
        )


def _headers(
    model: ServedModel, inputs: Iterable[EngineInput], request_id: str
) -> tuple[Header, ...]:
    """Tell the three numbers and the cut; of several prompts, their sums."""
    inputs = tuple(inputs)
    num_cut = sum(one.num_truncated for one in inputs)
    cut: Any = str(num_cut)
    if num_cut:
        side = next(one.truncated_side for one in inputs if one.num_truncated)
        cut += f";side={side}"
    if any(one.num_prompt_tokens_is_lower_bound for one in inputs):
        cut += ";at-least"
    # A line break in a header would let the client write headers of its own.
    is_plain = request_id.isascii() and request_id.isprintable()
    return (
        *_fingerprint(model),
        *(((b"x-request-id", request_id.encode()),) if is_plain else ()),
        (b"x-foreword-chars", str(sum(one.num_chars for one in inputs)).encode()),
        (b"x-foreword-tokens", str(sum(len(one.token_ids) for one in inputs)).encode()),
        (b"x-foreword-truncated", cut.encode()),
    )


def _fingerprint(model: ServedModel) -> tuple[Header, ...]:
    return ((b"x-foreword-fingerprint", model.renderer.assets.fingerprint.encode()),)


def warm_up(work: Work, models: ServedModels) -> None:
    """Render once with every model, so that no client pays for the first time.

    A model that cannot chat, or refuses this chat, is still warm for what it can do.
    """
    for model in models.all:
        family = model.renderer.media.family
        if family is not None and family.image is not None:
            load_image_plugins()
        text = "Warm up: one line of text, 1234 digits, and an end."
        chat = {"model": model.name, "messages": [{"role": "user", "content": text}]}
        for call, body in (
            (work.chat, chat),
            (work.completion, {"model": model.name, "prompt": text, "max_tokens": 1}),
        ):
            try:
                call(msgspec.json.encode(body), "warm-up")
            except ForewordError as error:
                log(logging.INFO, "warm-up refused", model=model.name, code=error.code)
