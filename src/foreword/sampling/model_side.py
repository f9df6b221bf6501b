"""Sampling parameters and a model's own tokens enter; parameters that know them leave.

Rules of this file: parameters are copied, never changed. This is the generating side's completion,
for engines that are spoken to directly; a `GenerateRequest` leaves it to its receiver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foreword.errors import InvalidRequest
from foreword.sampling.params import SamplingParams
from foreword.types import Tokenizer

MAX_NUM_BAD_WORDS = 128


def with_generation_config(
    params: SamplingParams, generation_config: Mapping[str, Any], *, eos_token_id: int | None
) -> SamplingParams:
    """Return parameters that stop at the model's end tokens.

    Shapes: the primary `eos_token_id` is kept apart, since stopping at it gives no stop reason;
    the others join `stop_token_ids` in ascending order, unless `ignore_eos`. All of them are in
    `all_stop_token_ids`, which `min_tokens` keeps from being sampled.

    Source: vLLM 0.33 `update_from_generation_config`; the order there is a set's.
    """
    listed = generation_config.get("eos_token_id")
    others = {listed} if isinstance(listed, int) else set(listed or ())
    others.discard(eos_token_id)
    every = params.all_stop_token_ids | others
    if eos_token_id is not None:
        every |= {eos_token_id}
    if params.ignore_eos:
        return params.replace(all_stop_token_ids=every)
    return params.replace(
        eos_token_id=eos_token_id,
        stop_token_ids=(*params.stop_token_ids, *sorted(others)),
        all_stop_token_ids=every,
    )


def with_bad_words(params: SamplingParams, tokenizer: Tokenizer) -> SamplingParams:
    """Return parameters whose bad words are token sequences.

    Shapes: each word is encoded as it begins a text; also after a space, where that gives other
    tokens of the same number.

    Raises: `InvalidRequest` for a word without tokens, and for more than `MAX_NUM_BAD_WORDS`
    sequences.

    Source: vLLM 0.33 `update_from_tokenizer`.
    """
    if not params.bad_words:
        return params
    sequences: list[tuple[int, ...]] = []
    for place, word in enumerate(params.bad_words):
        plain, spaced = (_encode(tokenizer, space + word.lstrip()) for space in ("", " "))
        if not plain:
            raise InvalidRequest(
                "A bad word has no tokens, so it cannot be forbidden. Drop it.",
                param=f"bad_words[{place}]",
            )
        sequences.append(plain)
        if spaced and spaced[0] != plain[0] and len(spaced) == len(plain):
            sequences.append(spaced)
    if len(sequences) > MAX_NUM_BAD_WORDS:
        raise InvalidRequest(
            f"The bad words give {len(sequences)} token sequences; at most {MAX_NUM_BAD_WORDS}"
            " are allowed. Send fewer.",
            param="bad_words",
            details={"num_sequences": len(sequences), "max_sequences": MAX_NUM_BAD_WORDS},
        )
    return params.replace(bad_words_token_ids=tuple(sequences))


def _encode(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False).token_ids)
