"""Sampling parameters and an engine's limits enter; parameters that it would refuse raise.

Rules of this file: what needs the vocabulary or the engine's options. Ranges that hold everywhere
are checked where parameters are made.
"""

from __future__ import annotations

from collections.abc import Iterable

from foreword.errors import InvalidRequest, InvalidTokenIds
from foreword.sampling.params import SamplingParams

MAX_LOGPROBS = 20
"""vLLM's own default of --max-logprobs."""
MAX_LOGPROB_TOKEN_IDS = 128


def check_limits(
    params: SamplingParams, *, max_token_id: int, max_logprobs: int = MAX_LOGPROBS
) -> None:
    """Refuse parameters that an engine with this vocabulary and these limits would refuse.

    Shapes: `max_logprobs` −1 allows the whole vocabulary.

    Raises: `InvalidTokenIds` for ids outside the vocabulary, `InvalidRequest` for the rest.

    Source: vLLM 0.33 `SamplingParams.verify`.
    """
    num_ids = max_token_id + 1
    limit = num_ids if max_logprobs == -1 else max_logprobs
    for name in ("logprobs", "prompt_logprobs"):
        asked = getattr(params, name)
        number = num_ids if asked == -1 else asked or 0
        if number > limit:
            raise InvalidRequest(
                f"{name} asks for {number} at each token; the engine gives at most {limit}.",
                param=name,
                details={"num_logprobs": number, "max_logprobs": limit},
            )
    width = max(map(len, params.prompt_logprob_token_ids or ()), default=0)
    if width > limit:
        raise InvalidRequest(
            f"prompt_logprob_token_ids has {width} ids in a row; at most {limit} are scored.",
            param="prompt_logprob_token_ids",
            details={"num_logprobs": width, "max_logprobs": limit},
        )
    _check_logprob_token_ids(params)
    check_token_ids(params, max_token_id=max_token_id)


def check_prompt_fields(params: SamplingParams, *, num_prompt_tokens: int) -> None:
    """Refuse parameters that do not fit the prompt they come with.

    Raises: `InvalidRequest`.

    Source: vLLM 0.33 `InputProcessor.process_inputs`.
    """
    start = params.routed_experts_prompt_start
    if start > num_prompt_tokens:
        raise InvalidRequest(
            f"routed_experts_prompt_start is {start}; the prompt has {num_prompt_tokens} tokens.",
            param="routed_experts_prompt_start",
            details={"routed_experts_prompt_start": start, "num_tokens": num_prompt_tokens},
        )
    rows = params.prompt_logprob_token_ids
    if rows is None:
        return
    num_rows = max(0, num_prompt_tokens - 1 - (params.prompt_logprob_start or 0))
    if len(rows) != num_rows:
        raise InvalidRequest(
            f"prompt_logprob_token_ids has {len(rows)} rows; the prompt has {num_rows} tokens to"
            " score: all but its first, less prompt_logprob_start.",
            param="prompt_logprob_token_ids",
            details={"num_rows": len(rows), "num_scored": num_rows},
        )


def check_token_ids(params: SamplingParams, *, max_token_id: int) -> None:
    """Refuse ids that the vocabulary does not have, and a list of allowed ones that is empty.

    Raises: `InvalidTokenIds`, `InvalidRequest`; `param` is the field.
    """
    if params.allowed_token_ids is not None and not params.allowed_token_ids:
        raise InvalidRequest(
            "allowed_token_ids is empty, so no token could be generated. Drop it, or list some.",
            param="allowed_token_ids",
        )
    for name in ("logprob_token_ids", "stop_token_ids", "logit_bias", "allowed_token_ids"):
        _check_ids(getattr(params, name) or (), name, max_token_id)
    _check_ids(params.trace_decode_token_ids or (), "trace_decode_token_ids", max_token_id)
    scored = (one for row in params.prompt_logprob_token_ids or () for one in row)
    _check_ids((max(0, one) for one in scored), "prompt_logprob_token_ids", max_token_id)


def _check_logprob_token_ids(params: SamplingParams) -> None:
    token_ids = params.logprob_token_ids
    if token_ids is not None and len(token_ids) > MAX_LOGPROB_TOKEN_IDS:
        raise InvalidRequest(
            f"logprob_token_ids has {len(token_ids)} ids; at most {MAX_LOGPROB_TOKEN_IDS} are"
            " allowed.",
            param="logprob_token_ids",
            details={"num_ids": len(token_ids), "max_ids": MAX_LOGPROB_TOKEN_IDS},
        )


def _check_ids(token_ids: Iterable[int], name: str, max_token_id: int) -> None:
    for position, token_id in enumerate(token_ids):
        if not 0 <= token_id <= max_token_id:
            raise InvalidTokenIds(
                token_id=token_id, position=position, max_token_id=max_token_id, param=name
            )
