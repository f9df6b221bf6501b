"""The `prompt` or `input` of a request enters, in any of its four forms; texts and id arrays leave.

Rules of this file: ids are integers, and neither booleans nor numbers in strings. Whether an id is
in the vocabulary is asked where the vocabulary is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from foreword.errors import InvalidRequest, MalformedRequest
from foreword.types import make_token_ids

MAX_NUM_PROMPTS = 1024

Prompt = str | Sequence[int]
"""A text, or ids: `TokenIds`, or a list where one of them does not fit 32 bits."""


def parse_prompts(value: object, param: str) -> tuple[Prompt, ...]:
    """Return every prompt of a text, an array of texts, an array of ids or an array of those.

    Raises: `InvalidRequest` when there is none, or more than `MAX_NUM_PROMPTS`; `MalformedRequest`
    with the path of the first entry that is of the wrong kind.
    """
    if value is None or (isinstance(value, (str, list)) and not value):
        raise InvalidRequest(
            f"{param} is empty. Send text, token ids, or an array of either.", param=param
        )
    if isinstance(value, str):
        return (value,)
    if isinstance(value, array):
        return (parse_token_ids(value, param),)
    if not isinstance(value, list):
        raise MalformedRequest(
            f"{param} must be text, an array of texts, or arrays of token ids.", param=param
        )
    kinds = set(map(type, value))
    if kinds == {int}:
        return (parse_token_ids(value, param),)
    if not (kinds == {str} or kinds <= {list, array}):
        raise _mixed(value, param)
    if len(value) > MAX_NUM_PROMPTS:
        raise InvalidRequest(
            f"{param} has {len(value)} prompts; at most {MAX_NUM_PROMPTS} are accepted in one"
            " request. Send several requests.",
            param=param,
            details={"num_prompts": len(value), "max_prompts": MAX_NUM_PROMPTS},
        )
    return tuple(_parse_one(item, f"{param}[{place}]") for place, item in enumerate(value))


def parse_token_ids(value: Any, param: str) -> Sequence[int]:
    """Return a list of ids as an array; one that no array can hold stays a list.

    Raises: `MalformedRequest` naming the first entry that is no integer of 0 or more.

    Why: an id beyond 32 bits is refused with the model's own bound, which is not known here.
    """
    if isinstance(value, array) and value.typecode == "I":
        return value[:]
    # The type check comes first because an array would take True for 1.
    if set(map(type, value)) <= {int}:
        try:
            return make_token_ids(value)
        except OverflowError:
            if min(value) >= 0:
                return list(value)
    raise _bad_id(value, param)


def _parse_one(item: Any, path: str) -> Prompt:
    if isinstance(item, str):
        return item
    if not len(item):
        raise InvalidRequest(f"{path} has no token ids. Drop it, or send some.", param=path)
    return parse_token_ids(item, path)


def _mixed(value: list[Any], param: str) -> MalformedRequest:
    first = next(place for place, item in enumerate(value) if type(item) is not int or item < 0)
    return MalformedRequest(
        f"{param}[{first}] is {_describe(value[first])}. Entries must be all texts, all token ids"
        " (integers of 0 or more), or all arrays of ids.",
        param=f"{param}[{first}]",
    )


def _bad_id(value: Any, param: str) -> MalformedRequest:
    for place, token_id in enumerate(value):
        if type(token_id) is not int or token_id < 0:
            return MalformedRequest(
                f"{param}[{place}] must be a token id, an integer of 0 or more,"
                f" not {_describe(token_id)}.",
                param=f"{param}[{place}]",
            )
    return MalformedRequest(f"{param} must be an array of token ids.", param=param)


def _describe(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "negative" if value < 0 else "an integer"
    if isinstance(value, float):
        return "a fraction"
    for kind, name in ((str, "a string"), (list, "an array"), (dict, "an object")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "another kind of value"
