"""What a request asks enters; what its chat format follows of that leaves.

Rules of this file: a sealed format is followed by nothing but its own fields; what it passes over
is passed over by the engines, too.
"""

from __future__ import annotations

from typing import Any

from foreword.errors import InvalidRequest
from foreword.formats.harmony_constraints import constrain_final_channel
from foreword.params import ChatParams, TokenizeParams
from foreword.sampling import SamplingParams
from foreword.types import ChatFormat


def sealed_chat_params(request: Any) -> ChatParams:
    """Return how a sealed format renders a request: its effort, and nothing else.

    Source: vLLM 0.33 renders Harmony without templates, their kwargs or their flags.
    """
    effort = getattr(request, "reasoning_effort", None)
    return ChatParams(chat_template_kwargs={} if effort is None else {"reasoning_effort": effort})


def sealed_tokenize_params(
    request: Any, max_model_len: int | None, *, is_pooling: bool
) -> TokenizeParams:
    """Return the budget of a sealed chat: it fits the context whole, or is refused.

    Source: vLLM 0.33 cuts no Harmony chat, whatever truncation is asked for; unlike there, a
    prompt longer than the context is refused here.
    """
    return TokenizeParams(
        max_total_tokens=max_model_len,
        max_output_tokens=0 if is_pooling else None,
        add_special_tokens=False,
        needs_detokenization=bool(getattr(request, "echo", False)),
    )


def is_harmony(chat_format: ChatFormat | None) -> bool:
    """Say whether answers in the format have channels."""
    return chat_format is not None and chat_format.name == "harmony"


def constrained(chat_format: ChatFormat | None, sampling: SamplingParams) -> SamplingParams:
    """Return the parameters of a chat with its constraint where the format's answer stands.

    Raises: `UnsupportedFeature` for a constraint that the format cannot carry.
    """
    if not is_harmony(chat_format):
        return sampling
    constraint = constrain_final_channel(sampling.structured_outputs)
    return sampling.replace(structured_outputs=constraint)


def fill_in_the_middle(chat_format: ChatFormat | None, prompt: str, suffix: str) -> str:
    """Return the text that asks for what stands between `prompt` and `suffix`.

    Raises: `InvalidRequest` when the model's format has no such form.
    """
    text = None if chat_format is None else chat_format.render_suffix(prompt, suffix)
    if text is None:
        raise InvalidRequest(
            "suffix (filling in the middle) needs a model format that says how; this model's is"
            " not known. Write the model's own markers into the prompt.",
            param="suffix",
        )
    return text
