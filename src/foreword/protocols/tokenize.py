"""The bodies of /tokenize and /detokenize are described here, and their answers.

Rules of this file: counting has no length limit. A body is a prompt or a chat, never both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from foreword.chat.flags import check_chat_flags
from foreword.errors import MalformedRequest
from foreword.params import ChatParams, TokenizeParams
from foreword.protocols.chat_fields import Tool, make_chat_params, tool_dicts
from foreword.protocols.prompts import parse_token_ids


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt, or a chat, whose tokens are asked for.

    Shapes: exactly one of `prompt` and `messages` is set. After decoding, `add_special_tokens` is
    a boolean: true for a prompt and false for a chat, where the request left it open.

    Raises: `MalformedRequest` for none or both of them; `InvalidRequest` for a chat that is to be
    both continued and answered.
    """

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = False
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    tools: list[Tool] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    media_io_kwargs: dict[str, dict[str, Any]] | None = None
    mm_processor_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.prompt is None and self.messages is None:
            raise MalformedRequest("Send a prompt, or messages.", param="prompt")
        if self.prompt is not None and self.messages is not None:
            raise MalformedRequest("Send a prompt or messages, not both.", param="prompt")
        if self.messages is not None:
            check_chat_flags(self.add_generation_prompt, self.continue_final_message)
        if self.add_special_tokens is None:
            force_setattr(self, "add_special_tokens", self.messages is None)

    def tool_dicts(self, *, exclude_when_none: bool = False) -> list[dict[str, Any]] | None:
        """Return the tools as templates see them; an empty array counts as none."""
        return tool_dicts(self.tools or None)

    def tokenize_params(
        self, *, max_model_len: int | None = None, do_lower_case: bool = False
    ) -> TokenizeParams:
        """Return parameters without any limit, whatever `max_model_len` is."""
        return TokenizeParams(
            max_total_tokens=None,
            do_lower_case=do_lower_case,
            add_special_tokens=bool(self.add_special_tokens),
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


class TokenizeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a prompt or chat; `token_strs` only when asked for."""

    count: int
    max_model_len: int
    tokens: Sequence[int]
    token_strs: list[str] | None = None

    def to_json(self) -> bytes:
        """Return the answer as the bytes of its JSON object."""
        return msgspec.json.encode(self, enc_hook=list)


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Token ids whose text is asked for.

    Shapes: after decoding, `tokens` is an array of ids.

    Raises: `MalformedRequest` naming the first entry that is no id.
    """

    model: str | None = None
    tokens: Any

    def __post_init__(self) -> None:
        if not isinstance(self.tokens, Sequence) or isinstance(self.tokens, str):
            raise MalformedRequest("tokens must be an array of token ids.", param="tokens")
        force_setattr(self, "tokens", parse_token_ids(self.tokens, "tokens"))


class DetokenizeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The text of the ids."""

    prompt: str

    def to_json(self) -> bytes:
        """Return the answer as the bytes of its JSON object."""
        return msgspec.json.encode(self)
