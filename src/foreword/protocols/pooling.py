"""The body of an embedding, classification or pooling request is described here.

Rules of this file: nothing is generated, so a prompt may fill the whole context. A body brings
`input` or `messages`, never both.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec.structs import force_setattr

from foreword.chat.flags import check_chat_flags
from foreword.errors import InvalidRequest, MalformedRequest
from foreword.params import ChatParams, TokenizeParams
from foreword.protocols.chat_fields import Tool, make_chat_params, tool_dicts
from foreword.protocols.prompts import Prompt, parse_prompts
from foreword.sampling.fields import Int64, check_cache_salt
from foreword.types import RunnerType


class PoolingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts, token ids or a chat to be turned into vectors or scores.

    Shapes: after decoding, `prompts` holds every prompt of `input`; `add_special_tokens` is true
    for `input` and false for a chat, where the request left it open. `pad_prompt_tokens` −1 pads
    to the context, as `padding` "max_length" does.

    Raises: `MalformedRequest` for none or both of `input` and `messages`, or a wrong kind.
    """

    prompt_param: ClassVar[str] = "input"

    model: str | None = None
    user: str | None = None
    request_id: str | None = None
    priority: Int64 = 0
    cache_salt: str | None = None
    input: Any = None
    messages: list[dict[str, Any]] | None = None
    tools: list[Tool] | None = None
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] | None = None
    truncation_side: Literal["left", "right"] | None = None
    padding: Literal["max_length", "do_not_pad"] | None = None
    pad_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = False
    continue_final_message: bool = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_offsets: bool | None = False
    return_prompt_text: bool | None = None
    encoding_format: Literal["float", "base64", "bytes", "bytes_only"] = "float"
    embed_dtype: str = "float32"
    endianness: str = "native"
    dimensions: Int64 | None = None
    use_activation: bool | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_cache_salt(self.cache_salt)
        if self.input is not None and self.messages is not None:
            raise MalformedRequest("Send input or messages, not both.", param="input")
        if self.messages is not None:
            check_chat_flags(self.add_generation_prompt, self.continue_final_message)
        else:
            force_setattr(self, "input", parse_prompts(self.input, "input"))
        if self.add_special_tokens is None:
            force_setattr(self, "add_special_tokens", self.messages is None)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Every prompt: a text, or an array of token ids; none of a chat."""
        parsed: tuple[Prompt, ...] = self.input or ()
        return parsed

    @property
    def num_prompts(self) -> int:
        return len(self.prompts)

    def check_runner(self, runner: RunnerType) -> None:
        """Refuse a cut whose side is open, where the model was not loaded for pooling.

        Raises: `InvalidRequest`.

        Why: cuts of a pooling prompt keep its beginning, those of a generation its end; a vector
        of the wrong half looks like any other.
        """
        if runner != "pooling" and self.truncate_prompt_tokens and self.truncation_side is None:
            raise InvalidRequest(
                f"truncate_prompt_tokens leaves the side open, and this model was loaded with"
                f" runner {runner!r}, whose cuts keep the end. Set truncation_side ('right' keeps"
                " the beginning), or load the model with runner 'pooling'.",
                param="truncation_side",
            )

    def tool_dicts(self, *, exclude_when_none: bool = False) -> list[dict[str, Any]] | None:
        """Return the tools as templates see them."""
        return tool_dicts(self.tools or None)

    def tokenize_params(
        self, *, max_model_len: int | None, do_lower_case: bool = False
    ) -> TokenizeParams:
        """Return the budget of each prompt: the whole context of `max_model_len` tokens."""
        pad = self.pad_prompt_tokens
        if self.padding is not None:
            pad = -1 if self.padding == "max_length" else None
        return TokenizeParams(
            max_total_tokens=max_model_len,
            max_output_tokens=0,
            pad_prompt_tokens=pad,
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            do_lower_case=do_lower_case,
            add_special_tokens=bool(self.add_special_tokens),
            return_token_offsets=bool(self.return_token_offsets),
        )

    def chat_params(self, *, trust_request_template: bool = False) -> ChatParams:
        """Return how this request wants its messages rendered.

        Raises: `InvalidRequest` for a template in the request that is not trusted.
        """
        return make_chat_params(
            chat_template=self.chat_template,
            chat_template_kwargs=self.chat_template_kwargs,
            extra_kwargs={},
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message,
            trust_request_template=trust_request_template,
        )
