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
    _check_logprob_token_ids(params)
    check_token_ids(params, max_token_id=max_token_id)


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
