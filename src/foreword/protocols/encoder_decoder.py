"""The body of a prompt for a model with an encoder and a decoder is described here.

Rules of this file: names are those of vLLM 0.33's prompts. Both prompts are tokenized alike, since
engines do so; what the model's own files decide is not looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec.structs import force_setattr

from foreword.errors import InvalidRequest, MalformedRequest
from foreword.params import TokenizeParams
from foreword.protocols.prompts import Prompt, parse_prompts
from foreword.sampling.fields import check_cache_salt


class EncoderDecoderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt for the encoder, and the words the decoder's answer begins with, if any.

    Shapes: after decoding, both prompts are a text or an array of token ids; a `decoder_prompt` of
    None leaves the decoder with its start token alone. `add_special_tokens` None follows the model.

    Raises: `MalformedRequest` for a prompt of the wrong kind, or several; `InvalidRequest` for one
    without any token ids.
    """

    prompt_param: ClassVar[str] = "encoder_prompt"

    model: str | None = None
    request_id: str | None = None
    cache_salt: str | None = None
    encoder_prompt: Any = None
    decoder_prompt: Any = None
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] | None = None
    truncation_side: Literal["left", "right"] | None = None
    add_special_tokens: bool | None = None

    def __post_init__(self) -> None:
        check_cache_salt(self.cache_salt)
        if self.encoder_prompt is None:
            raise MalformedRequest(
                "encoder_prompt is missing. Send text, or token ids.", param="encoder_prompt"
            )
        for name in ("encoder_prompt", "decoder_prompt"):
            force_setattr(self, name, _parse_one(getattr(self, name), name))

    def tokenize_params(
        self, *, max_model_len: int | None, do_lower_case: bool, add_special_tokens: bool
    ) -> TokenizeParams:
        """Return the budget of either prompt; `add_special_tokens` is the model's own habit."""
        given = self.add_special_tokens
        return TokenizeParams(
            max_total_tokens=max_model_len,
            max_output_tokens=0,
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            do_lower_case=do_lower_case,
            add_special_tokens=add_special_tokens if given is None else given,
        )


def _parse_one(value: object, param: str) -> Prompt | None:
    if value is None or value == "":
        return None if value is None else ""
    if isinstance(value, Sequence) and not isinstance(value, str) and not len(value):
        raise InvalidRequest(f"{param} has no token ids. Drop it, or send some.", param=param)
    parsed = parse_prompts(value, param)
    if isinstance(value, list) and not isinstance(value[0], int):
        raise MalformedRequest(
            f"{param} must be one text, or one array of token ids; send a request for each.",
            param=param,
        )
    return parsed[0]
