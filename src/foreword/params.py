"""What a request may ask: `TokenizeParams` with its three derived budgets, and `ChatParams`.

Rules of this file: output tokens are never subtracted from the input budget; refusing and
truncating are two different questions. Parameters check themselves when made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foreword.errors import InvalidRequest
from foreword.types import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeParams:
    """How long a prompt may be, and what to do when it is longer.

    Shapes: every `*_tokens` is a count. `max_total_tokens` is the context length (None: no
    limit, as /tokenize counts). `max_output_tokens` is 0 for pooling, None when the request
    leaves it open (which is generation). `truncate_prompt_tokens` −1 means
    `max_truncation_tokens`; None never truncates. `pad_prompt_tokens` −1 means
    `max_input_tokens`; None never pads. `truncation_side` None leaves the cut to the
    tokenizer's own rule, which keeps the special tokens it adds.

    Raises: `InvalidRequest` for a side that is none, an output below 0 or above the context, a
    truncation or padding size below −1 or above the context.

    Source: vLLM 0.33 `TokenizeParams`; unlike there, a copy keeps every field.
    """

    max_total_tokens: int | None
    max_output_tokens: int | None = 0
    pad_prompt_tokens: int | None = None
    truncate_prompt_tokens: int | None = None
    truncation_side: Side | None = None
    do_lower_case: bool = False
    add_special_tokens: bool = True
    return_token_offsets: bool = False
    needs_detokenization: bool = False
    max_output_tokens_param: str = "max_tokens"
    """The field of the request that set `max_output_tokens`, for messages."""

    def __post_init__(self) -> None:
        _check_side(self.truncation_side)
        _check_output(self)
        _check_truncation(self)
        _check_padding(self)

    @property
    def max_input_tokens(self) -> int | None:
        """Most tokens a prompt may have. Output is not subtracted."""
        return self.max_total_tokens

    @property
    def max_truncation_tokens(self) -> int | None:
        """Most tokens truncation may leave: a generation keeps room for one token."""
        if self.max_input_tokens is None:
            return None
        if self.max_output_tokens == 0:
            return self.max_input_tokens
        return max(0, self.max_input_tokens - 1)

    def max_input_chars(self, max_chars_per_token: int) -> int | None:
        """Most characters that can fit, were every token as long as the longest."""
        if self.max_input_tokens is None:
            return None
        return self.max_input_tokens * max_chars_per_token

    @property
    def truncation_tokens(self) -> int | None:
        """The number of tokens to cut down to, −1 resolved; None when nothing is cut."""
        if self.truncate_prompt_tokens is None:
            return None
        if self.truncate_prompt_tokens < 0:
            return self.max_truncation_tokens
        return self.truncate_prompt_tokens

    @property
    def is_generation(self) -> bool:
        """Whether at least one token must be able to follow the prompt."""
        return self.max_output_tokens != 0


def _check_side(side: object) -> None:
    if side not in (None, "left", "right"):
        raise InvalidRequest(
            f"truncation_side is {side!r}; it must be 'left', 'right', or not given.",
            param="truncation_side",
        )


def _check_output(params: TokenizeParams) -> None:
    limit, output = params.max_total_tokens, params.max_output_tokens
    if output is not None and output < 0:
        name = params.max_output_tokens_param
        raise InvalidRequest(
            f"{name} is {output}; it must be 0 or more.", param=name, details={"requested": output}
        )
    if limit is not None and output is not None and output > limit:
        name = params.max_output_tokens_param
        raise InvalidRequest(
            f"{name} is {output}, more than the context length {limit}."
            " Request fewer output tokens.",
            param=name,
            details={"requested": output, "max_model_len": limit},
        )


def _check_truncation(params: TokenizeParams) -> None:
    size, limit = params.truncate_prompt_tokens, params.max_input_tokens
    if size is None:
        return
    if size < -1:
        raise InvalidRequest(
            f"truncate_prompt_tokens is {size}; it must be -1 (the whole budget) or more.",
            param="truncate_prompt_tokens",
            details={"requested": size},
        )
    if limit is not None and size > limit:
        raise InvalidRequest(
            f"truncate_prompt_tokens is {size}, more than the {limit} tokens a prompt may have."
            " Request a smaller size, or -1 for the whole budget.",
            param="truncate_prompt_tokens",
            details={"requested": size, "max_input_tokens": limit},
        )


def _check_padding(params: TokenizeParams) -> None:
    size, limit = params.pad_prompt_tokens, params.max_input_tokens
    if size is None or (size >= -1 and (limit is None or size <= limit)):
        return
    most = "" if limit is None else f" to {limit}, what a prompt may have"
    raise InvalidRequest(
        f"pad_prompt_tokens is {size}; it must be -1 (the whole budget), or 0{most or ' or more'}.",
        param="pad_prompt_tokens",
        details={"requested": size, "max_input_tokens": limit},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatParams:
    """How a conversation becomes text.

    `chat_template` is a template's name (`default`, `tool_use` …) or its source; None chooses
    among the model's own. `content_format` `auto` follows what the template does with content.
    """

    chat_template: str | None = None
    content_format: Literal["auto", "string", "openai"] = "auto"
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    return_assistant_mask: bool = False

    def with_defaults(self, chat_template_kwargs: Mapping[str, Any]) -> ChatParams:
        """Return these parameters over server defaults.

        A request's value wins, except that None and "auto" count as not given, and reach no
        template (as in vLLM 0.33).
        """
        if not chat_template_kwargs and not self.chat_template_kwargs:
            return self
        given = {k: v for k, v in self.chat_template_kwargs.items() if v not in (None, "auto")}
        return replace(self, chat_template_kwargs={**chat_template_kwargs, **given})
