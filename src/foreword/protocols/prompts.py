"""The `prompt` or `input` of a request enters, in any of its four forms; texts and id arrays leave.

Rules of this file: ids are integers, and neither booleans nor numbers in strings. Whether an id is
in the vocabulary is asked where the vocabulary is known.
"""

from __future__ import annotations

from array import array
from typing import Any, Union

from foreword.errors import InvalidRequest, InvalidTokenIds, MalformedRequest
from foreword.types import MAX_TOKEN_ID, TokenIds, make_token_ids

MAX_NUM_PROMPTS = 1024

Prompt = Union[str, TokenIds]  # noqa: UP007 (TokenIds is a name in quotes until read by mypy)


def parse_prompts(value: object, param: str) -> tuple[Prompt, ...]:
    """Return every prompt of a text, an array of texts, an array of ids or an array of those.

    Raises: `InvalidRequest` when there is none, or more than `MAX_NUM_PROMPTS`; `MalformedRequest`
    with the path of the first entry that is of the wrong kind; `InvalidTokenIds` for an id beyond
    32 bits.
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


def parse_token_ids(value: Any, param: str) -> TokenIds:
    """Return a list of ids as an array.

    Raises: `MalformedRequest` naming the first entry that is no integer of 0 or more;
    `InvalidTokenIds` for one beyond 32 bits.
    """
    if isinstance(value, array) and value.typecode == "I":
        return value[:]
    # The type check comes first because an array would take True for 1.
    if set(map(type, value)) <= {int}:
        try:
            return make_token_ids(value)
        except OverflowError:
            pass
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


def _bad_id(value: Any, param: str) -> InvalidRequest | InvalidTokenIds:
    for place, token_id in enumerate(value):
        if type(token_id) is not int or token_id < 0:
            return MalformedRequest(
                f"{param}[{place}] must be a token id, an integer of 0 or more,"
                f" not {_describe(token_id)}.",
                param=f"{param}[{place}]",
            )
        if token_id > MAX_TOKEN_ID:
            return InvalidTokenIds(
                token_id=token_id, position=place, max_token_id=MAX_TOKEN_ID, param=param
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
