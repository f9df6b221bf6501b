"""A /v1/completions body is described here; its prompts and their parameters leave.

Rules of this file: names and defaults are vLLM 0.33's. Prompts come out as texts and id arrays,
each checked; what needs the vocabulary is decided where it is.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import force_setattr

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.params import TokenizeParams
from foreword.protocols.prompts import Prompt, parse_prompts
from foreword.sampling.fields import GenerationFields, Int64, check_generation_fields

DEFAULT_MAX_TOKENS = 16


class CompletionRequest(GenerationFields, frozen=True, kw_only=True):
    """A completion request as OpenAI and vLLM 0.33 define it.

    Shapes: after decoding, `prompts` holds every prompt of `prompt`, in order, and `max_tokens`
    is a number: 16 where the request gave none, or null.

    Raises: `InvalidRequest` for a missing prompt and for fields that contradict each other;
    `MalformedRequest` for prompts of the wrong kind; `UnsupportedFeature` for embeddings.
    """

    request_id_prefix: ClassVar[str] = "cmpl-"
    prompt_param: ClassVar[str] = "prompt"

    prompt: Any = None
    prompt_embeds: Any = None
    encoder_prompt: Any = None
    input: Any = None
    suffix: str | None = None
    logprobs: Int64 | None = None
    max_tokens: Int64 | None = DEFAULT_MAX_TOKENS
    add_special_tokens: bool = True

    def __post_init__(self) -> None:
        check_generation_fields(self)
        _check_logprobs(self)
        _check_unsupported(self)
        _check_other_shape(self)
        if self.max_tokens is None:
            force_setattr(self, "max_tokens", DEFAULT_MAX_TOKENS)
        force_setattr(self, "prompt", parse_prompts(self.prompt, "prompt"))
        _check_suffix(self)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Every prompt: a text, or an array of token ids."""
        parsed: tuple[Prompt, ...] = self.prompt
        return parsed

    @property
    def num_prompts(self) -> int:
        return len(self.prompts)

    @property
    def max_output_tokens(self) -> int | None:
        # Scoring a prompt (echo, nothing generated) still costs the engine one step.
        return 1 if self.echo and self.max_tokens == 0 else self.max_tokens

    @property
    def num_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def num_echo_logprobs(self) -> int | None:
        return self.logprobs

    def tokenize_params(
        self, *, max_model_len: int | None, do_lower_case: bool = False
    ) -> TokenizeParams:
        """Return the budget of each prompt in a context of `max_model_len` tokens."""
        return TokenizeParams(
            max_total_tokens=max_model_len,
            max_output_tokens=self.max_tokens,
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            do_lower_case=do_lower_case,
            add_special_tokens=self.add_special_tokens,
            return_token_offsets=bool(self.return_token_offsets),
            needs_detokenization=bool(self.echo and not self.return_token_ids),
        )


def _check_unsupported(request: CompletionRequest) -> None:
    if request.prompt_embeds:
        raise UnsupportedFeature(
            feature="prompt_embeds",
            remedy="Send the prompt as text or token ids.",
            param="prompt_embeds",
        )


def _check_other_shape(request: CompletionRequest) -> None:
    """Tell a body of another kind its way; beside a prompt its fields are overlooked, as any."""
    if request.prompt is not None:
        return
    if request.input is not None:
        raise InvalidRequest(
            "input belongs to an embedding or pooling request, which is rendered by a model loaded"
            " with runner 'pooling' (--runner pooling), with Renderer.render_pooling or `foreword"
            " render`; no HTTP route takes it. A completion brings prompt.",
            param="input",
        )
    if request.encoder_prompt is not None:
        raise UnsupportedFeature(
            feature="encoder_prompt in a completion",
            remedy="Use Renderer.render_encoder_decoder, or `foreword render`; no HTTP route takes"
            " it.",
            param="encoder_prompt",
        )


def _check_suffix(request: CompletionRequest) -> None:
    if request.suffix is None:
        return
    fault = None
    if request.echo:
        fault = "cannot be combined with echo. Drop one of them."
    elif request.truncate_prompt_tokens is not None:
        fault = "cannot be combined with truncate_prompt_tokens. Shorten the prompt instead."
    elif not all(isinstance(prompt, str) for prompt in request.prompts):
        fault = "needs prompts that are text, not token ids."
    if fault is not None:
        raise InvalidRequest(f"suffix (filling in the middle) {fault}", param="suffix")


def _check_logprobs(request: CompletionRequest) -> None:
    logprobs = request.logprobs
    if logprobs is not None and logprobs < -1:
        raise InvalidRequest(
            f"logprobs is {logprobs}; it must be 0 or more, or -1 for all.", param="logprobs"
        )
    if not request.logprob_token_ids:
        return
    if logprobs is None:
        raise InvalidRequest(
            "logprob_token_ids is given without logprobs. Set logprobs.", param="logprob_token_ids"
        )
    if request.echo and request.max_tokens == 0:
        raise InvalidRequest(
            "logprob_token_ids concerns generated tokens, but max_tokens is 0.",
            param="logprob_token_ids",
        )
