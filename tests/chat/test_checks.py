from __future__ import annotations

import pytest

from foreword.chat.checks import check_strings, json_type, require_text
from foreword.errors import InvalidRequest, MalformedRequest


@pytest.mark.parametrize("text", ["", "plain", "é😀", "nul \x00 stays", "\ufffd"])
def test_text_is_returned_as_it_is(text: str) -> None:
    assert require_text(text, "messages[0].content") is text


def test_lone_surrogate_is_refused_by_path_without_quoting_the_text() -> None:
    with pytest.raises(InvalidRequest) as caught:
        require_text("secret \ud800", "messages[3].content")
    assert caught.value.param == "messages[3].content"
    assert not isinstance(caught.value, MalformedRequest)
    assert "secret" not in caught.value.message
    caught.value.message.encode()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "a boolean"),
        (5, "a number"),
        (0.5, "a number"),
        ("x", "a string"),
        ({}, "an object"),
        ([], "an array"),
        (b"x", "a Python bytes"),
    ],
)
def test_json_type(value: object, name: str) -> None:
    assert json_type(value) == name


def test_wrong_type_names_both_types() -> None:
    with pytest.raises(MalformedRequest, match=r"^a\.b must be a string, not a number\.$"):
        require_text(5, "a.b")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("\udfff", "tools"),
        ([{"a": ["x", {"b": "\ud83d"}]}], "tools[0].a[1].b"),
        ({"a": {"bad \ud800 key": 1}}, "tools.a"),
        (("fine", "\ud800"), "tools[1]"),
    ],
)
def test_surrogates_are_found_anywhere(value: object, path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_strings(value, "tools")
    assert caught.value.param == path


def test_clean_values_and_deep_ones_pass() -> None:
    check_strings({"a": [1, None, True, 0.5, "é"], "ключ": {}}, "tools")
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    check_strings(deep, "tools")
