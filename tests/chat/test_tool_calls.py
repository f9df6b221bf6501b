from __future__ import annotations

import json
from typing import Any

import pytest

from foreword.chat.tool_calls import count_tool_calls, parse_tool_calls
from foreword.errors import InvalidRequest, MalformedRequest

PATH = "messages[1].tool_calls"


def call(arguments: object) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}


def parsed_arguments(arguments: object) -> Any:
    return parse_tool_calls([call(arguments)], PATH)[0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (None, {}),
        ("", {}),
        ("{}", {}),
        ('{"city": "Oslo", "days": [1, 2]}', {"city": "Oslo", "days": [1, 2]}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ("{oops", {}),
        ("[1, 2]", {}),
        ("null", {}),
        ("42", {}),
        ('"text"', {}),
        ([1, 2], {}),
        (0, {}),
        ("9" * 5000, {}),
        ("[" * 100_000, {}),
    ],
)
def test_arguments_become_an_object(arguments: object, expected: dict[str, Any]) -> None:
    assert parsed_arguments(arguments) == expected


def test_object_arguments_are_kept_as_they_are() -> None:
    arguments = {"z": 1, "a": {"y": [], "b": None}}
    assert parsed_arguments(arguments) is arguments


def test_the_order_of_argument_keys_is_the_clients() -> None:
    assert list(parsed_arguments('{"z": 1, "a": 2, "m": 3}')) == ["z", "a", "m"]


def test_missing_arguments_become_an_object() -> None:
    assert parse_tool_calls([{"function": {"name": "f"}}], PATH) == [
        {"function": {"arguments": {}, "name": "f"}}
    ]


def test_keys_come_in_schema_order_and_strangers_are_dropped() -> None:
    sent = {
        "index": 0,
        "type": "function",
        "extra_content": {},
        "function": {"name": "f", "strict": True, "arguments": '{"b": 1}'},
        "id": "c",
    }
    assert json.dumps(parse_tool_calls([sent], PATH)) == (
        '[{"id": "c", "function": {"arguments": {"b": 1}, "name": "f"}, "type": "function"}]'
    )


def test_the_request_is_not_modified() -> None:
    sent = [call('{"a": 1}')]
    parse_tool_calls(sent, PATH)
    assert sent == [call('{"a": 1}')]


@pytest.mark.parametrize(
    ("tool_calls", "error", "param"),
    [
        ("x", MalformedRequest, PATH),
        ({"0": call("{}")}, MalformedRequest, PATH),
        ([call("{}"), "x"], MalformedRequest, f"{PATH}[1]"),
        ([{"type": "custom", "custom": {"name": "n"}}], InvalidRequest, f"{PATH}[0]"),
        ([{"type": "function"}], InvalidRequest, f"{PATH}[0]"),
        ([{"type": "function", "function": "f"}], InvalidRequest, f"{PATH}[0]"),
        ([{"type": "function", "function": {}}], MalformedRequest, f"{PATH}[0].function.name"),
        ([{"function": {"name": 5}}], MalformedRequest, f"{PATH}[0].function.name"),
        ([{"id": 5, "function": {"name": "f"}}], MalformedRequest, f"{PATH}[0].id"),
        ([call('{"a": "\ud800"}')], InvalidRequest, f"{PATH}[0].function.arguments"),
        ([call('{"a": ["\\uD800"]}')], InvalidRequest, f"{PATH}[0].function.arguments.a[0]"),
        ([call({"a": "\ud800"})], InvalidRequest, f"{PATH}[0].function.arguments.a"),
    ],
)
def test_wrong_calls_are_named(tool_calls: object, error: type[InvalidRequest], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_tool_calls(tool_calls, PATH)
    assert type(caught.value) is error
    assert caught.value.param == param


def test_count_tool_calls() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "x", "tool_calls": [call("{}")]},
        {"role": "assistant", "tool_calls": [call("{}"), call("{}")]},
        {"role": "assistant", "tool_calls": None},
        {"role": "assistant", "tool_calls": []},
        {"role": "assistant", "content": "y"},
        {"role": "assistant", "tool_calls": (call("{}"),)},
    ]
    assert count_tool_calls(messages) == 3
    assert count_tool_calls([]) == 0
