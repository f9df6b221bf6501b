"""A model's generation_config.json and the operator's overrides enter; checked defaults leave.

Rules of this file: a value that every request would fail on is refused once, here, and blamed on
whoever wrote it. A range is `SamplingParams`' own; it is never written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.sampling.params import SamplingParams

_FILE = "generation_config.json"
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(
        (
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "temperature",
            "top_p",
            "min_p",
        ),
        ((int, float), "a number"),
    ),
    **dict.fromkeys(("top_k", "max_new_tokens"), ((int,), "an integer")),
    "skip_special_tokens": ((bool,), "true or false"),
}
_NAMES = {"max_new_tokens": "max_tokens"}
"""What a key is called among sampling parameters, where that differs."""


def default_sampling_params(
    generation_config: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the defaults a model brings, with the operator's overrides on top.

    Shapes: `max_new_tokens` comes back as `max_tokens`; keys that concern no sampler are left out.

    Raises: `AssetsInvalid` naming the key of generation_config.json that no sampler takes, unless
    an override replaces it; `InvalidRequest` for such an override.

    Source: vLLM 0.33 `get_diff_sampling_param`, which checks nothing until a request comes.
    """
    overrides = overrides or {}
    found: dict[str, Any] = {}
    for key in _KINDS:
        value = overrides.get(key, generation_config.get(key))
        if value is None:
            continue
        if problem := _problem(key, value):
            raise _refusal(key, problem, is_override=key in overrides)
        found[_NAMES.get(key, key)] = value
    _check_end_tokens(generation_config.get("eos_token_id"))
    return found


def _problem(key: str, value: object) -> str | None:
    """Say what is wrong with a value, or None."""
    kinds, words = _KINDS[key]
    # A boolean is an int to Python, and to no one who writes a configuration.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return f"{key} must be {words}, not {_json_type(value)}."
    try:
        given: dict[str, Any] = {_NAMES.get(key, key): value}
        SamplingParams(**given)
    except InvalidRequest as error:
        return error.message.replace(_NAMES.get(key, key), key, 1)
    return None


def _refusal(key: str, problem: str, *, is_override: bool) -> Exception:
    if is_override:
        return InvalidRequest(problem, param=f"generation_config.{key}")
    return AssetsInvalid(
        file=_FILE,
        problem=problem,
        remedy=f"Correct the file, or override {key} when loading the model.",
    )


def _check_end_tokens(eos: object) -> None:
    listed = eos if isinstance(eos, list) else [] if eos is None else [eos]
    if any(type(token_id) is not int or token_id < 0 for token_id in listed):
        raise AssetsInvalid(
            file=_FILE,
            problem="eos_token_id must be a token id or a list of them.",
            remedy="Correct the file, or download the model again.",
        )


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a fraction" if isinstance(value, float) else "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "an array"
