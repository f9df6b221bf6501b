"""Bad input gets one clear error: the right class, the field at fault, nothing quoted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import line_models as line
from line_models import SECRET, check_showable, searching, user

from foreword.errors import (
    ForewordError,
    InvalidRequest,
    InvalidTokenIds,
    MalformedRequest,
    RequestError,
    UnsupportedFeature,
)
from foreword.protocols.decode import MAX_NESTING
from foreword.renderer import Renderer

Entry = Callable[[Renderer, Any], Any]
CHAT: tuple[Entry, ...] = (
    Renderer.render_chat,
    Renderer.generate_request,
    Renderer.trace,
    Renderer.tokenize,
)
COMPLETION: tuple[Entry, ...] = (
    Renderer.render_cmpl,
    Renderer.generate_request,
    Renderer.trace,
)


def refuse(entry: Entry, body: Any, kind: str = "demo", max_model_len: int = 8192) -> ForewordError:
    """Return the error of a bad body, which must be one that can be shown to anyone."""
    with pytest.raises(ForewordError) as caught:
        entry(line.model(kind, max_model_len), body)
    check_showable(caught.value)
    return caught.value


def call(function: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}


# ---------------------------------------------------------------------------------------------
# Not JSON, and not an object.


@pytest.mark.parametrize("entry", [*CHAT, *COMPLETION])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"prompt": "sesame-4711}',
        b'{"prompt": "sesame-4711",}',
        b"{'prompt': 'sesame-4711'}",
        b'{"prompt": "sesame-4711"} trailing',
        b'{"prompt": NaN}',
        b'{"prompt": "\xff\xfe sesame-4711"}',
        b"sesame-4711",
        b"[]",
        b'"sesame-4711"',
        b"3",
        b"null",
        '{"prompt": "sesame-4711',
        "\ufeff{",
    ],
)
def test_no_json_object(entry: Entry, body: Any) -> None:
    error = refuse(entry, body)
    assert type(error) is MalformedRequest
    assert error.status == 400
    # A field that is missing may be noticed before the fault behind it.
    assert error.param in (None, "messages")


@searching(150)
@given(body=st.binary(max_size=60) | st.text(max_size=60))
def test_noise(body: Any) -> None:
    for entry in (*CHAT, Renderer.render_cmpl, Renderer.render_pooling, Renderer.detokenize):
        with suppress(RequestError):  # and no other exception
            entry(line.model("demo"), body)


# ---------------------------------------------------------------------------------------------
# The wrong type, with its path.

WRONG_IN_CHAT: list[tuple[dict[str, Any], type[RequestError], str | None]] = [
    ({}, MalformedRequest, "messages"),
    ({"messages": None}, MalformedRequest, "messages"),
    ({"messages": SECRET}, MalformedRequest, "messages"),
    ({"messages": []}, InvalidRequest, None),
    ({"messages": [SECRET]}, MalformedRequest, "messages[0]"),
    ({"messages": [user("a"), 7]}, MalformedRequest, "messages[1]"),
    ({"messages": [{"content": SECRET}]}, MalformedRequest, "messages[0].role"),
    ({"messages": [{"role": 3, "content": SECRET}]}, MalformedRequest, "messages[0].role"),
    ({"messages": [user("a"), user(3)]}, MalformedRequest, "messages[1].content"),
    ({"messages": [user({"text": SECRET})]}, MalformedRequest, "messages[0].content"),
    ({"messages": [user([{"type": "text"}])]}, MalformedRequest, "messages[0].content[0].text"),
    (
        {"messages": [user([{"type": "text", "text": [SECRET]}])]},
        MalformedRequest,
        "messages[0].content[0].text",
    ),
    ({"messages": [user([{"type": SECRET}])]}, InvalidRequest, "type"),
    ({"messages": [user([{"text": SECRET}])]}, InvalidRequest, "type"),
    ({"messages": [user([{"type": 5, "text": SECRET}])]}, InvalidRequest, "type"),
    ({"messages": [user("a", name=5)]}, MalformedRequest, "messages[0].name"),
    (
        {"messages": [{"role": "assistant", "reasoning": 5}]},
        MalformedRequest,
        "messages[0].reasoning",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": SECRET}]},
        MalformedRequest,
        "messages[0].tool_calls",
    ),
    ({"messages": [call(SECRET)]}, InvalidRequest, "messages[0].tool_calls[0]"),
    ({"messages": [call({})]}, MalformedRequest, "messages[0].tool_calls[0].function.name"),
    (
        {"messages": [call({"name": 5})]},
        MalformedRequest,
        "messages[0].tool_calls[0].function.name",
    ),
    ({"messages": [user("a")], "tools": SECRET}, MalformedRequest, "tools"),
    ({"messages": [user("a")], "tools": [SECRET]}, MalformedRequest, "tools[0]"),
    (
        {"messages": [user("a")], "tools": [{"function": {"name": 4}}]},
        MalformedRequest,
        "tools[0].function.name",
    ),
    (
        {"messages": [user("a")], "tools": [{"type": SECRET, "function": {"name": "f"}}]},
        MalformedRequest,
        "tools[0].type",
    ),
    (
        {"messages": [user("a")], "chat_template_kwargs": SECRET},
        MalformedRequest,
        "chat_template_kwargs",
    ),
    (
        {"messages": [user("a")], "continue_final_message": True, "add_generation_prompt": True},
        InvalidRequest,
        None,
    ),
    ({"messages": [user("a")], "chat_template": "{{ 1 }}"}, InvalidRequest, None),
    (
        {"messages": [user("a")], "chat_template_kwargs": {"chat_template": "{{ 1 }}"}},
        InvalidRequest,
        None,
    ),
]


@pytest.mark.parametrize("entry", CHAT)
@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.parametrize(("body", "kind", "param"), WRONG_IN_CHAT)
def test_a_chat_with_a_wrong_field(
    entry: Entry, as_bytes: bool, body: Any, kind: type[RequestError], param: str | None
) -> None:
    if "messages" not in body and entry in (Renderer.generate_request, Renderer.trace):
        param, kind = "prompt", InvalidRequest  # without messages it is a completion
    elif body.get("messages") is None and entry is Renderer.tokenize:
        param = "prompt"  # counting needs one of the two
    error = refuse(entry, json.dumps(body).encode() if as_bytes else body)
    assert type(error) is kind
    assert (error.status, error.param) == (400, param)


@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"max_tokens": SECRET}, MalformedRequest, "max_tokens"),
        ({"max_tokens": 1.5}, MalformedRequest, "max_tokens"),
        ({"max_tokens": 10**30}, MalformedRequest, "max_tokens"),
        ({"max_tokens": 99999}, InvalidRequest, "max_tokens"),
        ({"truncate_prompt_tokens": -2}, MalformedRequest, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": 99999}, InvalidRequest, "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": 0}, InvalidRequest, None),
        ({"truncation_side": SECRET}, MalformedRequest, "truncation_side"),
        ({"temperature": SECRET}, MalformedRequest, "temperature"),
        ({"cache_salt": ""}, InvalidRequest, "cache_salt"),
        ({"stop": {"a": SECRET}}, MalformedRequest, "stop"),
        ({"echo": SECRET}, MalformedRequest, "echo"),
    ],
)
def test_a_wrong_setting(
    as_bytes: bool, fields: dict[str, Any], kind: type[RequestError], param: str | None
) -> None:
    for entry, said in (
        (Renderer.render_chat, {"messages": [user(SECRET)]}),
        (Renderer.render_cmpl, {"prompt": SECRET}),
    ):
        body = {**said, **fields}
        error = refuse(entry, json.dumps(body).encode() if as_bytes else body)
        assert type(error) is kind
        named = "prompt" if param is None and "prompt" in said else param
        assert (error.status, error.param) == (400, named)


@pytest.mark.parametrize(
    "part_type", ["image_url", "input_audio", "video_url", "image_embeds", "prompt_embeds"]
)
def test_media_is_refused_by_name(part_type: str) -> None:
    content = [{"type": "text", "text": "x"}, {"type": part_type, part_type: {"url": SECRET}}]
    error = refuse(Renderer.render_chat, {"messages": [user(content)]})
    assert type(error) is UnsupportedFeature
    assert error.param == "messages[0].content[1]"
    assert part_type in error.message


def test_prompt_embeds_are_refused_by_name() -> None:
    error = refuse(Renderer.render_cmpl, {"prompt_embeds": SECRET, "prompt": "x"})
    assert type(error) is UnsupportedFeature
    assert error.param == "prompt_embeds"


# ---------------------------------------------------------------------------------------------
# Characters that are none, and one that is.

LONE = "\ud800"
SURROGATES: list[tuple[dict[str, Any], str]] = [
    ({"prompt": SECRET + LONE}, "prompt"),
    ({"prompt": ["a", LONE + SECRET]}, "prompt[1]"),
    ({"messages": [user(SECRET + "\udfff")]}, "messages[0].content"),
    (
        {"messages": [user("a"), user([{"type": "text", "text": LONE}])]},
        "messages[1].content[0].text",
    ),
    (
        {"messages": [call({"name": "f", "arguments": {"a": [SECRET, LONE]}})]},
        "messages[0].tool_calls[0].function.arguments.a[1]",
    ),
    ({"messages": [user("a")], "chat_template_kwargs": {"k": LONE}}, "chat_template_kwargs.k"),
    (
        {"messages": [user("a")], "tools": [{"function": {"name": "f", "description": LONE}}]},
        "tools[0].function.description",
    ),
]


@pytest.mark.parametrize("form", ["dict", "escaped bytes", "escaped text", "raw text"])
@pytest.mark.parametrize(("body", "param"), SURROGATES)
def test_lone_surrogates(form: str, body: dict[str, Any], param: str) -> None:
    bodies = {
        "dict": body,
        "escaped bytes": json.dumps(body).encode(),
        "escaped text": json.dumps(body),
        "raw text": json.dumps(body, ensure_ascii=False),
    }
    for entry in CHAT if "messages" in body else COMPLETION:
        error = refuse(entry, bodies[form])
        assert type(error) is InvalidRequest
        assert (error.status, error.param) == (400, param)
        assert "surrogate" in error.message


def test_surrogates_inside_tool_arguments_sent_as_json_text() -> None:
    arguments = json.dumps({"a": LONE})
    error = refuse(
        Renderer.render_chat, {"messages": [call({"name": "f", "arguments": arguments})]}
    )
    assert type(error) is InvalidRequest
    assert error.param == "messages[0].tool_calls[0].function.arguments.a"


def test_a_whole_pair_is_text() -> None:
    whole = line.model("demo").tokenize(b'{"prompt": "\\ud83c\\udf24"}')
    assert list(whole.tokens) == line.full_encode("demo", "\U0001f324")[0]


@pytest.mark.parametrize("kind", line.KINDS)
def test_nul_is_text_like_any_other(kind: str) -> None:
    renderer, text = line.model(kind), "a\x00b\x00"
    ids = line.full_encode(kind, text)[0]
    for body in ({"prompt": text}, json.dumps({"prompt": text}).encode()):
        assert list(renderer.render_cmpl(body)[0].token_ids) == ids
    conversation, _ = renderer.render_chat({"messages": [user(text)]})
    assert conversation.messages[0]["content"] in (text, [{"type": "text", "text": text}])


# ---------------------------------------------------------------------------------------------
# Token ids.

BAD_IDS: list[tuple[Any, type[RequestError], int]] = [
    (-1, MalformedRequest, 1),
    (-(2**70), MalformedRequest, 1),
    (2816, InvalidTokenIds, 1),
    (2**32 - 1, InvalidTokenIds, 1),
    (2**32, InvalidTokenIds, 1),
    (2**63, InvalidTokenIds, 1),
    (2**64, InvalidTokenIds, 1),
    (10**40, InvalidTokenIds, 1),
    (True, MalformedRequest, 1),
    (5.0, MalformedRequest, 1),
    (1.5, MalformedRequest, 1),
    ("5", MalformedRequest, 1),
    (None, MalformedRequest, 1),
    ([5], MalformedRequest, 1),
]


@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.parametrize("field", ["prompt", "prompts", "input", "tokens"])
@pytest.mark.parametrize(("bad", "kind", "position"), BAD_IDS)
def test_token_ids_that_are_none(
    as_bytes: bool, field: str, bad: Any, kind: type[RequestError], position: int
) -> None:
    ids: Any = [5, bad, 7]
    path = "prompt" if field == "prompts" else field
    body = {path: [[4, 4], ids]} if field == "prompts" else {path: ids}
    if field == "prompts":
        path = "prompt[1]"
    entry = {"input": Renderer.render_pooling, "tokens": Renderer.detokenize}.get(
        field, Renderer.render_cmpl
    )
    error = refuse(entry, json.dumps(body).encode() if as_bytes else body)
    assert type(error) is kind, error
    assert error.status == 400
    if kind is InvalidTokenIds:
        # An id of 32 bits is judged where the vocabulary is known, by the name of the field.
        assert error.param in (path, "prompt")
        assert error.details["position"] == position
        assert error.details["token_id"] == bad
        assert "vocabulary" in error.message
    elif type(bad) is list and field == "prompt":
        assert error.param == "prompt[1]"
    else:
        assert error.param == f"{path}[{position}]"


def test_ids_up_to_the_last_row_of_the_model_are_good() -> None:
    renderer = line.model("demo")
    assert list(renderer.render_cmpl({"prompt": [0, 2815]})[0].token_ids) == [0, 2815]
    assert refuse(Renderer.render_cmpl, {"prompt": [2816]}).details["max_token_id"] == 2815


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [[5], []]}, "prompt[1]"),
        ({"prompt": [""]}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
    ],
)
def test_empty_prompts(body: dict[str, Any], param: str) -> None:
    for given_body in (body, json.dumps(body).encode()):
        error = refuse(Renderer.render_cmpl, given_body)
        assert type(error) is InvalidRequest
        assert (error.status, error.param) == (400, param)
        assert "empty" in error.message or "no token" in error.message


def test_an_empty_text_of_a_model_with_bos_is_that_one_token() -> None:
    engine_inputs = line.model("bos").render_cmpl({"prompt": ["", "a"]})
    assert list(engine_inputs[0].token_ids) == [0]


@pytest.mark.parametrize(
    "body", [{"prompt": 5}, {"prompt": {"a": SECRET}}, {"prompt": [SECRET, 5]}, {"prompt": True}]
)
def test_prompts_of_another_kind(body: dict[str, Any]) -> None:
    error = refuse(Renderer.render_cmpl, body)
    assert type(error) is MalformedRequest
    assert error.param in ("prompt", "prompt[0]", "prompt[1]")


# ---------------------------------------------------------------------------------------------
# Too large, too deep, too many.


@pytest.mark.parametrize(
    "entry", {*CHAT, *COMPLETION, Renderer.render_pooling, Renderer.detokenize}
)
def test_a_body_of_a_hundred_megabytes(entry: Entry) -> None:
    # It is no JSON either; to be told so, somebody would have had to read it.
    body = bytes(100 * 2**20)
    error = refuse(entry, body)
    assert type(error) is InvalidRequest
    assert error.status == 400
    assert error.details == {"num_bytes": len(body), "max_bytes": 32 * 2**20}


@pytest.mark.parametrize("field", ["prompt", "messages", "unknown"])
@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 5000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_nesting(field: str, depth: int, brackets: str) -> None:
    opening = brackets[0] if brackets == "[]" else '{"a":'
    value = opening * depth + "1" + brackets[1] * depth
    body = f'{{"messages": [{{"role": "user"}}], "{field}": {value}}}'
    renderer = line.model("demo")
    if field == "messages" or depth > 1000:
        error = refuse(Renderer.render_chat, body)
        assert isinstance(error, InvalidRequest)
        assert error.status == 400
    else:  # a field that nothing reads is passed over
        assert renderer.render_chat(body).engine_input.token_ids


def test_nesting_where_everything_is_read() -> None:
    value: Any = "x"
    for _ in range(MAX_NESTING + 1):
        value = {"a": value}
    body = {"messages": [user("a")], "chat_template_kwargs": {"k": value}}
    for given_body in (body, json.dumps(body).encode(), json.dumps(body)):
        error = refuse(Renderer.render_chat, given_body)
        assert type(error) is InvalidRequest
        assert error.details == {"max_nesting": MAX_NESTING}


def test_more_prompts_than_one_request_may_have() -> None:
    error = refuse(Renderer.render_cmpl, {"prompt": [SECRET] * 2000})
    assert type(error) is InvalidRequest
    assert (error.param, error.details["num_prompts"]) == ("prompt", 2000)
