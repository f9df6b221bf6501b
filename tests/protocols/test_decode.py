"""Bodies that are broken, hostile or merely unusual."""

from __future__ import annotations

import copy
import json
from types import MappingProxyType
from typing import Any

import pytest

from foreword.errors import ForewordError, InvalidRequest, MalformedRequest
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.decode import MAX_NESTING, count_up_to, decode_request

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


def decode(body: Any, max_bytes: int | None = None) -> ChatCompletionRequest:
    return decode_request(body, ChatCompletionRequest, max_bytes=max_bytes)


def body(**fields: Any) -> bytes:
    return json.dumps({**HELLO, **fields}).encode()


def refuse(raw: Any, **kwargs: Any) -> ForewordError:
    with pytest.raises(ForewordError) as caught:
        decode(raw, **kwargs)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda raw: raw.decode()])
def test_every_kind_of_json_text(kind: Any) -> None:
    assert decode(kind(body())).messages == HELLO["messages"]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"nul", b'{"messages":[]}x', b"\xff\xfe", b'{"user":"\xff"}']
)
def test_not_json(raw: bytes) -> None:
    error = refuse(raw)
    assert isinstance(error, MalformedRequest)
    assert (error.param, error.wire_type) == (None, "Bad Request")
    assert error.message.startswith("The body is not valid JSON: ")


def test_json_that_is_no_object() -> None:
    assert refuse(b"[1]").message == "The body must be an object, not an array."
    assert refuse(5).message == "The body must be JSON text or a mapping."


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"messages": "hi"}, "messages", "messages must be an array, not a string."),
        ({"messages": [5]}, "messages[0]", "messages[0] must be an object, not an integer."),
        (
            {"temperature": "hot"},
            "temperature",
            "temperature must be a number or null, not a string.",
        ),
        ({"truncation_side": "middle"}, "truncation_side", "must be one of 'left', 'right'."),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "an integer, at least -1."),
        ({"tools": [{"function": {}}]}, "tools[0].function.name", "name is required."),
        ({"stop": list("abcde")}, "stop", "stop must have at most 4 entries."),
        ({"seed": 2**63}, "seed", "seed must be an integer, at most 9223372036854775807."),
        (
            {"max_tokens": True},
            "max_tokens",
            "max_tokens must be an integer or null, not a boolean.",
        ),
    ],
)
def test_wrong_types_name_the_field(fields: dict[str, Any], param: str, message: str) -> None:
    for raw in (body(**fields), {**HELLO, **fields}):
        error = refuse(raw)
        assert isinstance(error, MalformedRequest)
        assert error.param == param
        assert error.message.endswith(message)


def test_a_missing_field_is_named() -> None:
    error = refuse(b"{}")
    assert (error.param, error.message) == ("messages", "messages is required.")


def test_numbers_may_come_as_strings() -> None:
    request = decode(body(temperature="0.5", top_k="3", max_tokens=4.0))
    assert (request.temperature, request.top_k, request.max_tokens) == (0.5, 3, 4)


def test_a_numeric_text_stays_text() -> None:
    assert decode(body(stop="5", user="null")).stop == "5"


@pytest.mark.parametrize("digits", [30, 5000])
def test_huge_integers(digits: int) -> None:
    raw = body(seed=0).replace(b'"seed": 0', b'"seed": ' + b"9" * digits)
    assert refuse(raw).param == "seed"


def test_a_huge_integer_where_anything_goes() -> None:
    raw = body(chat_template_kwargs={"a": 0}).replace(b'"a": 0', b'"a": ' + b"9" * 5000)
    assert refuse(raw).param == "chat_template_kwargs"


@pytest.mark.parametrize(
    ("escaped", "param"),
    [
        (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "messages[0].content"),
        (
            b'{"messages":[{"role":"user","content":"\\udc00 and more text"}]}',
            "messages[0].content",
        ),
        (
            b'{"messages":[{"role":"u","content":[{"text":"\\ud83d\\ud83d"}]}]}',
            "messages[0].content[0].text",
        ),
        (b'{"messages":[{"\\ud800 long enough":1}]}', "messages[0]"),
        (b'{"messages":[],"user":"\\uDBFFx and more text"}', "user"),
    ],
)
def test_lone_surrogates_are_named(escaped: bytes, param: str) -> None:
    for raw in (escaped, json.loads(escaped)):
        error = refuse(raw)
        assert error.param == param
        assert "lone surrogate" in error.message


def test_a_surrogate_in_a_str_body_and_beside_it_a_whole_pair() -> None:
    assert refuse('{"messages":[{"content":"\ud800"}]}').param == "messages[0].content"
    assert decode(b'{"messages":[{"content":"\\ud83d\\ude00"}]}').messages[0]["content"] == "😀"


def test_nul_and_duplicate_keys() -> None:
    request = decode(b'{"messages":[],"messages":[{"content":"a\\u0000b","content":"c\\u0000"}]}')
    assert request.messages == [{"content": "c\0"}]


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


# The body, messages and the message are three levels of their own.
@pytest.mark.parametrize("kind", ["bytes", "dict"])
def test_nesting_up_to_the_limit(kind: str) -> None:
    deepest = {"messages": [{"content": nested(MAX_NESTING - 3)}]}
    beyond = {"messages": [{"content": nested(MAX_NESTING - 2)}]}
    if kind == "bytes":
        decode(json.dumps(deepest).encode())
        assert "200 deep" in refuse(json.dumps(beyond).encode()).message
    else:
        decode(deepest)
        assert "200 deep" in refuse(beyond).message


@pytest.mark.parametrize("field", [b"messages", b"response_format", b"unheard_of"])
def test_a_hundred_thousand_brackets(field: bytes) -> None:
    raw = (
        b'{"messages":[{"role":"user"}],"'
        + field
        + b'":{"a":'
        + b"[" * 10**5
        + b"]" * 10**5
        + b"}}"
    )
    assert isinstance(refuse(raw), InvalidRequest)


def test_a_dict_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "deep" in refuse({"messages": [{"content": loop}]}).message


def test_a_body_over_the_limit_is_refused_with_numbers() -> None:
    raw = body()
    assert decode(raw, max_bytes=len(raw)).messages
    error = refuse(raw, max_bytes=len(raw) - 1)
    assert error.details == {"num_bytes": len(raw), "max_bytes": len(raw) - 1}
    assert error.wire_type == "BadRequestError"


def test_the_limit_counts_bytes_of_a_str_body() -> None:
    assert refuse('{"user":"ä"}', max_bytes=12).details["num_bytes"] == 13


def test_a_dict_is_neither_changed_nor_shared() -> None:
    original = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
        "tools": [],
        "tool_choice": "none",
        "stop_token_ids": list(range(20)),
    }
    before = copy.deepcopy(original)
    request = decode(original)
    assert original == before
    original["messages"][0]["content"][0]["text"] = "b"  # type: ignore[index]
    original["stop_token_ids"].clear()  # type: ignore[attr-defined]
    assert request.messages[0]["content"][0]["text"] == "a"
    assert request.stop_token_ids == list(range(20))


def test_mappings_tuples_and_integer_keys_of_a_dict() -> None:
    message = MappingProxyType({"role": "user", "content": "x"})
    request = decode(MappingProxyType({"messages": (message,), "logit_bias": {13: -5}}))
    assert request.messages == [{"role": "user", "content": "x"}]
    assert request.logit_bias == {"13": -5.0}


def test_unknown_fields_are_ignored_and_key_order_kept() -> None:
    raw = b'{"frobnicate":[1],"messages":[{"z":1,"content":"c","role":"user"}]}'
    assert list(decode(raw).messages[0]) == ["z", "content", "role"]


@pytest.mark.parametrize("most", [0, 1, 5, 100])
def test_counting_stops_where_it_is_told(most: int) -> None:
    data = b"a[b" * 5
    assert count_up_to(data, b"[", most) == min(5, most)
    assert count_up_to(data, b"{", most) == 0
    assert count_up_to(b"", b"[", most) == 0
