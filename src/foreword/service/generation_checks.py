"""A request to answer enters; what no engine behind this service can do of it raises, by name.

Rules of this file: checked before anything is rendered; `param` is the field that asks for it.
"""

from __future__ import annotations

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.sampling import check_constraint
from foreword.sampling.constraints import merge_constraints
from foreword.service.settings import Settings


def check_answerable(
    request: ChatCompletionRequest | CompletionRequest, settings: Settings
) -> None:
    """Refuse a request that could not be answered as it asks to be.

    Raises: `UnsupportedFeature`, `InvalidRequest`.
    """
    _check_supported(request)
    _check_constraint(request)
    if settings.engine_url is not None:
        _check_over_http(request, settings)
    _check_number(request, settings)


def _check_constraint(request: ChatCompletionRequest | CompletionRequest) -> None:
    wanted = merge_constraints(request.structured_outputs, request.response_format)
    is_own = wanted is request.structured_outputs
    check_constraint(wanted, param="structured_outputs" if is_own else "response_format")


def _check_number(request: ChatCompletionRequest | CompletionRequest, settings: Settings) -> None:
    num_prompts = 1 if isinstance(request, ChatCompletionRequest) else request.num_prompts
    num, limit = num_prompts * (request.n or 1), settings.max_engine_requests
    if num > limit:
        raise InvalidRequest(
            f"The request asks for {num} answers; at most {limit} can be made at a time here"
            " (the setting max_engine_requests). Lower n, or send fewer prompts.",
            param="n",
            details={"num_answers": num, "max_engine_requests": limit},
        )


def _check_supported(request: ChatCompletionRequest | CompletionRequest) -> None:
    if request.return_block_hashes:
        raise UnsupportedFeature(
            feature="return_block_hashes of an answer",
            remedy="Ask the render route, which answers with the same prompt.",
            param="return_block_hashes",
        )
    if not isinstance(request, ChatCompletionRequest):
        return
    if request.echo:
        raise UnsupportedFeature(feature="echo in a chat", remedy="Drop the field.", param="echo")
    if request.tool_choice == "required" or isinstance(request.tool_choice, dict):
        raise UnsupportedFeature(
            feature="A tool_choice that demands a call",
            remedy='Calls are not parsed here; send "auto" and read the text.',
            param="tool_choice",
        )


def _check_over_http(
    request: ChatCompletionRequest | CompletionRequest, settings: Settings
) -> None:
    """Refuse what an engine's server does not tell in the streams it answers with."""
    asks_for_prompt = bool(request.echo) and request.num_logprobs is not None
    for name, is_asked in (
        ("prompt_logprobs", request.prompt_logprobs is not None),
        ("logprob_token_ids", bool(request.logprob_token_ids)),
        ("echo", asks_for_prompt),
    ):
        if is_asked:
            raise UnsupportedFeature(
                feature=f"{name}{' with logprobs' if name == 'echo' else ''} over engine_url",
                remedy="Drop the field, or be the engine's front end over ZMQ.",
                param=name,
            )
    limit, number = settings.max_logprobs, request.num_logprobs or 0
    if not isinstance(request, ChatCompletionRequest) and number == limit > 0:
        raise InvalidRequest(
            f"logprobs is {number}, and the engine tells {limit} tokens at a position, the chosen"
            f" one among them; over engine_url at most {limit - 1} can be asked for.",
            param="logprobs",
            details={"num_logprobs": number, "max_logprobs": limit},
        )
