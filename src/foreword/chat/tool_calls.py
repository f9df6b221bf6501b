"""An assistant message's tool calls enter, as clients send them; as templates read them they leave.

Rules of this file: arguments become an object, whatever they were, because a call a model once got
wrong must not spoil every later turn. The request's own objects are never modified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foreword.chat.checks import check_strings, require_text, wrong_type
from foreword.errors import InvalidRequest, MalformedRequest


def parse_tool_calls(
    tool_calls: object, path: str, *, keeps_arguments: bool = False
) -> list[dict[str, Any]]:
    """Return the calls with only the keys templates know, and arguments as objects.

    Shapes: keys come in the order id, function (arguments, name), type, as vLLM's schema writes
    them; a template that prints a whole call shows it. Keys not sent stay absent.

    Raises: `MalformedRequest` for a wrong type; `InvalidRequest` for a call that is no function.

    Source: vLLM 0.33 chat_utils; unlike there, arguments sent as an object are taken as they are
    and a call without an id is not refused.
    """
    if not isinstance(tool_calls, (list, tuple)):
        raise wrong_type(tool_calls, path, expected="an array of tool calls")
    return [
        _parse_tool_call(call, f"{path}[{place}]", keeps_arguments)
        for place, call in enumerate(tool_calls)
    ]


def count_tool_calls(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many tool calls the assistant has made so far."""
    calls = (
        message.get("tool_calls")
        for message in messages
        if isinstance(message, Mapping) and message.get("role") == "assistant"
    )
    return sum(_count(value) for value in calls if value is not None)


def _count(tool_calls: object) -> int:
    if isinstance(tool_calls, (str, bytes, Mapping)) or not isinstance(tool_calls, Iterable):
        return 1
    return sum(1 for _ in tool_calls)


def _parse_tool_call(call: object, path: str, keeps_arguments: bool) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise wrong_type(call, path, expected="an object")
    function = call.get("function")
    if call.get("type", "function") != "function" or not isinstance(function, Mapping):
        raise InvalidRequest(
            f"{path} must be a call of type 'function' with a 'function' object;"
            " no other type of tool call can be rendered.",
            param=path,
        )
    parsed: dict[str, Any] = {}
    if call.get("id") is not None:
        parsed["id"] = require_text(call["id"], f"{path}.id")
    parsed["function"] = _parse_function(function, f"{path}.function", keeps_arguments)
    if "type" in call:
        parsed["type"] = "function"
    return parsed


def _parse_function(
    function: Mapping[str, Any], path: str, keeps_arguments: bool
) -> dict[str, Any]:
    if "name" not in function:
        raise MalformedRequest(f"{path}.name is missing.", param=f"{path}.name")
    arguments, arguments_path = function.get("arguments"), f"{path}.arguments"
    keeps = keeps_arguments and isinstance(arguments, str)
    return {
        "arguments": require_text(arguments, arguments_path)
        if keeps
        else _parse_arguments(arguments, arguments_path),
        "name": require_text(function["name"], f"{path}.name"),
    }


def _parse_arguments(arguments: object, path: str) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        require_text(arguments, path)
        decoded = _decode_object(arguments)
        # Only an escape can bring a surrogate into text that was clean.
        if "\\ud" in arguments or "\\uD" in arguments:
            check_strings(decoded, path)
        return decoded
    if isinstance(arguments, Mapping):
        check_strings(arguments, path)
        return arguments
    return {}


def _decode_object(text: str) -> dict[str, Any]:
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
