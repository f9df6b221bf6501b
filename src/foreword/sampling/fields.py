"""The fields that chat and completion requests share: all that concerns the answer, not the prompt.

Rules of this file: names and defaults are vLLM 0.33's. Types are checked by whoever decodes;
contradictions between fields here; ranges when the request is completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from foreword.errors import InvalidRequest
from foreword.sampling.constraints import RepetitionDetection, StructuredOutputs, merge_constraints

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
StopStrings = Annotated[list[str], Meta(max_length=4)]
XargValue = str | int | float | list[str | int | float]

MAX_CACHE_SALT_CHARS = 128
_CACHE_SALT_FORBIDDEN = frozenset("@/\\\0")


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream reports beside the text."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class GenerationFields(msgspec.Struct, frozen=True, kw_only=True):
    """What a request that generates may say about its answer and its handling.

    Raises: `InvalidRequest` for fields that contradict each other.
    """

    request_id_prefix: ClassVar[str] = ""

    model: str | None = None
    request_id: str | None = None
    session_id: str | None = None
    user: str | None = None
    priority: Int64 = 0
    cache_salt: str | None = None

    n: Int64 | None = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: Int64 | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: Int64 | None = None
    stop: str | StopStrings | None = None
    stop_token_ids: list[Int64] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: Int64 | None = None
    min_tokens: Int64 = 0
    prompt_logprobs: Int64 | None = None
    logprob_token_ids: list[Int64] | None = None
    allowed_token_ids: list[Int64] | None = None
    bad_words: list[str] = []
    logit_bias: dict[str, float] | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool = True
    response_format: dict[str, Any] | None = None
    structured_outputs: StructuredOutputs | None = None
    thinking_token_budget: Int64 | None = None
    repetition_detection: RepetitionDetection | None = None
    use_beam_search: bool = False
    length_penalty: float = 1.0
    watermarking: bool | None = None
    echo: bool | None = False

    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stream_interval: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_offsets: bool | None = False
    return_prompt_text: bool | None = None
    return_block_hashes: bool | None = False
    return_weight_versions: bool = False
    routed_experts_prompt_start: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=2**63 - 1)] | None = None
    truncation_side: Literal["left", "right"] | None = None

    mm_payload: Literal["tensors", "none"] | None = None
    return_mm_kwargs: bool | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, XargValue] | None = None

    @property
    def max_output_tokens(self) -> int | None:
        """The number of output tokens asked for; None leaves it open."""
        return self.max_tokens

    @property
    def max_output_tokens_param(self) -> str:
        """The field that asked for it."""
        return "max_tokens"

    @property
    def num_logprobs(self) -> int | None:
        """Logprobs asked for at each output token, −1 for all; None for none at all."""
        return None

    @property
    def num_echo_logprobs(self) -> int | None:
        """Logprobs that echoing gives for each prompt token, when not asked for by number."""
        return None

    def parse_context(self) -> Mapping[str, Any] | None:
        """What a parser of the output must know of the request; None where nothing is parsed."""
        return None


def check_generation_fields(request: GenerationFields) -> None:
    """Refuse fields that contradict each other.

    Raises: `InvalidRequest`, naming the field.
    """
    if request.use_beam_search:
        raise InvalidRequest(
            "Beam search (use_beam_search) cannot be rendered: the engine would need every beam's"
            " own prompt. Use n with sampling instead."
        )
    check_cache_salt(request.cache_salt)
    _check_output(request)
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest(
            "stream_options is given without stream. Set stream to true, or drop it.",
            param="stream_options",
        )
    if request.stream and request.prompt_logprobs not in (None, 0):
        raise InvalidRequest(
            "prompt_logprobs cannot be streamed. Set stream to false, or drop it.",
            param="prompt_logprobs",
        )
    if request.prompt_logprobs is not None and request.prompt_logprobs < -1:
        raise InvalidRequest(
            f"prompt_logprobs is {request.prompt_logprobs}; it must be 0 or more, or -1 for all.",
            param="prompt_logprobs",
        )
    merge_constraints(request.structured_outputs, request.response_format)


def _check_output(request: GenerationFields) -> None:
    """Refuse fewer than no output tokens, in either field that may ask for some."""
    for name in ("max_tokens", "max_completion_tokens"):
        asked = getattr(request, name, None)
        if asked is not None and asked < 0:
            raise InvalidRequest(
                f"{name} is {asked}; it must be 1 or more.", param=name, details={name: asked}
            )


def check_cache_salt(cache_salt: str | None) -> None:
    """Refuse a cache salt that is empty, too long, or holds a separator of cache keys."""
    if cache_salt is None:
        return
    if not cache_salt:
        raise InvalidRequest("cache_salt is empty. Drop it, or send some text.", param="cache_salt")
    if len(cache_salt) > MAX_CACHE_SALT_CHARS or not _CACHE_SALT_FORBIDDEN.isdisjoint(cache_salt):
        raise InvalidRequest(
            f"cache_salt has {len(cache_salt)} characters; it may have {MAX_CACHE_SALT_CHARS},"
            " and none of them '@', '/', '\\' or NUL.",
            param="cache_salt",
            details={"num_chars": len(cache_salt), "max_chars": MAX_CACHE_SALT_CHARS},
        )
