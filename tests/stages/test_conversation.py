from __future__ import annotations

import contextlib
import copy
import json
import pickle
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.errors import (
    ForewordError,
    InvalidRequest,
    MalformedRequest,
    RequestError,
    UnsupportedFeature,
)
from foreword.stages.conversation import count_tool_calls, parse_conversation
from foreword.types import Conversation

Format = Literal["string", "openai"]
TEXT = {"type": "text", "text": "x"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
PARSED_CALL = {"id": "c", "function": {"arguments": {"a": 1}, "name": "f"}, "type": "function"}


def parse(messages: Any, content_format: Format = "string", **options: Any) -> Conversation:
    options.setdefault("has_developer_branch", False)
    return parse_conversation(messages, content_format=content_format, **options)


def parse_one(message: dict[str, Any], content_format: Format = "string") -> dict[str, Any]:
    conversation = parse([message], content_format, has_developer_branch=True)
    return dict(conversation.messages[0])


# Content


@pytest.mark.parametrize(
    ("content", "as_string", "as_list"),
    [
        ("hi", "hi", [{"type": "text", "text": "hi"}]),
        ("", "", [{"type": "text", "text": ""}]),
        (" x\n", " x\n", [{"type": "text", "text": " x\n"}]),
        (None, "", []),
        ([], "", []),
        (
            [TEXT, {"type": "input_text", "text": "y"}],
            "x\ny",
            [TEXT, {"type": "text", "text": "y"}],
        ),
        ([TEXT, {"type": "text", "text": ""}], "x", [TEXT, {"type": "text", "text": ""}]),
        ([TEXT, {"type": "text", "text": None}], "x", [TEXT]),
        ([{"type": "refusal", "refusal": "no"}], "no", [{"type": "text", "text": "no"}]),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant", "system", "narrator"])
def test_content_in_both_formats(role: str, content: Any, as_string: str, as_list: Any) -> None:
    message = {"role": role, "content": content}
    assert parse_one(message) == {"role": role, "content": as_string}
    assert parse_one(message, "openai") == {"role": role, "content": as_list}


def test_missing_content_is_empty_content() -> None:
    assert parse_one({"role": "assistant"}) == {"role": "assistant", "content": ""}
    assert parse_one({"role": "assistant"}, "openai") == {"role": "assistant", "content": []}


@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_a_tool_result_of_text_is_text(content_format: Format) -> None:
    parts = [{"type": "text", "text": "r1"}, {"type": "text", "text": "r2"}]
    for content, expected in [("r", "r"), ("", ""), (None, ""), ([], ""), (parts, "r1\nr2")]:
        message = {"role": "tool", "tool_call_id": "c", "content": content}
        assert parse_one(message, content_format) == {
            "role": "tool",
            "content": expected,
            "tool_call_id": "c",
        }


def test_an_empty_part_of_a_tool_result_keeps_its_line_only_in_list_format() -> None:
    message = {"role": "tool", "content": [TEXT, {"type": "text", "text": ""}]}
    assert parse_one(message)["content"] == "x"
    assert parse_one(message, "openai")["content"] == "x\n"


def test_a_tool_result_with_tool_references_keeps_its_structure_in_list_format() -> None:
    message = {"role": "tool", "content": [TEXT, {"type": "tool_reference", "name": "f"}]}
    assert parse_one(message, "openai")["content"] == message["content"]
    assert parse_one(message)["content"] == "x\nf"


@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_the_billing_line_of_a_system_message_is_dropped(content_format: Format) -> None:
    header = "x-anthropic-billing-header: cch=1"
    for content in (f"{header}\nrest", [{"type": "text", "text": f"{header}\nrest"}]):
        kept = parse_one({"role": "system", "content": content}, content_format)["content"]
        assert kept in ("rest", [{"type": "text", "text": "rest"}])
        untouched = parse_one({"role": "user", "content": content}, content_format)["content"]
        assert header in json.dumps(untouched)
    alone = parse_one({"role": "system", "content": header}, content_format)
    assert alone["content"] == ("" if content_format == "string" else [])


# Fields


def test_assistant_fields_in_the_order_templates_are_given_them() -> None:
    message = {"name": "n", "reasoning": "r", "tool_calls": [CALL], "role": "assistant", "x": 1}
    parsed = parse_one(message)
    assert parsed == {
        "role": "assistant",
        "content": "",
        "tool_calls": [PARSED_CALL],
        "reasoning": "r",
        "reasoning_content": "r",
        "name": "n",
    }
    assert list(parsed)[2:] == ["tool_calls", "reasoning", "reasoning_content", "name"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"reasoning_content": "r"}, "r"),
        ({"reasoning": "r", "reasoning_content": "old"}, "r"),
        ({"reasoning": None, "reasoning_content": "r"}, "r"),
        ({"reasoning": "", "reasoning_content": "old"}, ""),
        ({"reasoning": None}, None),
    ],
)
def test_reasoning_reaches_the_template_under_both_names(
    sent: dict[str, Any], expected: str | None
) -> None:
    parsed = parse_one({"role": "assistant", "content": "a", **sent})
    both = {} if expected is None else {"reasoning": expected, "reasoning_content": expected}
    assert parsed == {"role": "assistant", "content": "a", **both}


def test_keys_that_mean_nothing_for_a_role_are_dropped() -> None:
    message = {
        "role": "user",
        "content": "x",
        "tool_calls": [CALL],
        "reasoning": "r",
        "tool_call_id": "c",
        "tools": [],
        "refusal": "no",
    }
    assert parse_one(message) == {"role": "user", "content": "x"}


@pytest.mark.parametrize("tool_calls", [None, []])
def test_no_tool_calls_leave_no_key(tool_calls: Any) -> None:
    message = {"role": "assistant", "content": "a", "tool_calls": tool_calls}
    assert parse_one(message) == {"role": "assistant", "content": "a"}


def test_name_and_task_are_kept_and_null_means_absent() -> None:
    sent = {"role": "user", "content": "x", "name": "ann", "task": "title"}
    assert parse_one(sent) == sent
    assert parse_one({**sent, "name": None, "task": None}) == {"role": "user", "content": "x"}


def test_tool_call_id_null_stays_and_missing_stays_missing() -> None:
    assert parse_one({"role": "tool", "content": "r"}) == {"role": "tool", "content": "r"}
    assert parse_one({"role": "tool", "content": "r", "tool_call_id": None}) == {
        "role": "tool",
        "content": "r",
        "tool_call_id": None,
    }


# Roles


DEVELOPER = {"role": "developer", "content": "B", "tools": [{"type": "function"}]}


def test_a_template_that_knows_developers_sees_them_with_their_tools() -> None:
    messages = [{"role": "user", "content": "u"}, DEVELOPER]
    assert list(parse(messages, has_developer_branch=True).messages) == messages


def test_a_template_that_knows_no_developer_sees_one_system_in_front() -> None:
    messages = [{"role": "user", "content": "u"}, {"role": "system", "content": "A"}, DEVELOPER]
    assert list(parse(messages, "openai").messages) == [
        {"role": "system", "content": "A\n\nB"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
    ]


def test_without_a_developer_late_and_repeated_systems_stay_where_they_are() -> None:
    messages = [
        {"role": "system", "content": "A"},
        {"role": "user", "content": "u"},
        {"role": "system", "content": "B"},
    ]
    assert list(parse(messages).messages) == messages


# The rest of the conversation


def test_the_rest_of_the_request_is_carried() -> None:
    tools = [{"function": {"z": 1, "a": 2}, "type": "function"}]
    kwargs = {"enable_thinking": False}
    conversation = parse(
        [{"role": "user", "content": "x"}],
        tools=tools,
        chat_template_kwargs=kwargs,
        add_generation_prompt=False,
        continue_final_message=True,
    )
    assert conversation.tools is not None
    assert conversation.tools[0] is tools[0]
    assert conversation.chat_template_kwargs == kwargs
    assert conversation.continue_final_message
    assert not conversation.add_generation_prompt
    assert conversation.media == ()
    assert pickle.loads(pickle.dumps(conversation)) == conversation


@pytest.mark.parametrize("tools", [None, [], ()])
def test_no_tools_are_none(tools: Any) -> None:
    assert parse([{"role": "user", "content": "x"}], tools=tools).tools is None


def test_count_tool_calls_is_offered_here_too() -> None:
    assert count_tool_calls([{"role": "assistant", "tool_calls": [CALL, CALL]}]) == 2


# Refusals


@pytest.mark.parametrize(
    ("messages", "error", "param"),
    [
        ([], InvalidRequest, None),
        ("hello", MalformedRequest, "messages"),
        (None, MalformedRequest, "messages"),
        ({"role": "user"}, MalformedRequest, "messages"),
        (["hello"], MalformedRequest, "messages[0]"),
        ([{"content": "x"}], MalformedRequest, "messages[0].role"),
        ([{"role": 5, "content": "x"}], MalformedRequest, "messages[0].role"),
        ([{"role": "user", "content": 5}], MalformedRequest, "messages[0].content"),
        ([{"role": "user", "content": {"type": "text"}}], MalformedRequest, "messages[0].content"),
        ([{"role": "user", "content": ["a", "b"]}], InvalidRequest, None),
        ([{"role": "user", "content": [{"type": "file"}]}], InvalidRequest, "type"),
        (
            [{"role": "user", "content": [TEXT, {"type": "text", "text": 5}]}],
            MalformedRequest,
            "messages[0].content[1].text",
        ),
        (
            [{"role": "user", "content": [TEXT, {"type": "image_url", "image_url": {"url": "u"}}]}],
            UnsupportedFeature,
            "messages[0].content[1]",
        ),
        (
            [{"role": "assistant", "tool_calls": ["x"]}],
            MalformedRequest,
            "messages[0].tool_calls[0]",
        ),
        ([{"role": "assistant", "reasoning": 5}], MalformedRequest, "messages[0].reasoning"),
        (
            [{"role": "assistant", "reasoning_content": ["x"]}],
            MalformedRequest,
            "messages[0].reasoning_content",
        ),
        (
            [{"role": "assistant", "reasoning": {"type": "prompt_embeds", "data": "e"}}],
            UnsupportedFeature,
            "messages[0].reasoning",
        ),
        ([{"role": "user", "content": "x", "name": 5}], MalformedRequest, "messages[0].name"),
        ([{"role": "tool", "tool_call_id": 5}], MalformedRequest, "messages[0].tool_call_id"),
        ([{"role": "developer", "tools": "x"}], MalformedRequest, "messages[0].tools"),
        (
            [{"role": "user", "content": "ok"}, {"role": "user", "content": "\ud800"}],
            InvalidRequest,
            "messages[1].content",
        ),
        ([{"role": "us\udc00er", "content": "x"}], InvalidRequest, "messages[0].role"),
        (
            [{"role": "assistant", "reasoning": "\ud800"}],
            InvalidRequest,
            "messages[0].reasoning",
        ),
        (
            [{"role": "user", "content": [{**TEXT, "k": ["\ud800"]}]}],
            InvalidRequest,
            "messages[0].content[0].k[0]",
        ),
    ],
)
def test_bad_messages_are_refused_by_path(
    messages: Any, error: type[ForewordError], param: str | None
) -> None:
    with pytest.raises(ForewordError) as caught:
        parse(messages)
    assert type(caught.value) is error
    assert caught.value.param == param
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("options", "error", "param"),
    [
        ({"continue_final_message": True}, InvalidRequest, None),
        ({"tools": "x"}, MalformedRequest, "tools"),
        ({"tools": [{}, "x"]}, MalformedRequest, "tools[1]"),
        ({"tools": [{"function": {"name": "\ud800"}}]}, InvalidRequest, "tools[0].function.name"),
        ({"chat_template_kwargs": {"a": "\ud800"}}, InvalidRequest, "chat_template_kwargs.a"),
    ],
)
def test_bad_options_are_refused_by_path(
    options: dict[str, Any], error: type[ForewordError], param: str | None
) -> None:
    with pytest.raises(ForewordError) as caught:
        parse([{"role": "user", "content": "x"}], **options)
    assert type(caught.value) is error
    assert caught.value.param == param


def test_no_prompt_text_in_a_refusal() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse([{"role": "user", "content": [{"type": "SECRET", "text": "SECRET"}]}])
    assert "SECRET" not in str(caught.value) + repr(caught.value.details)


# Properties

ANY_TEXT = st.text(st.characters(), max_size=4) | st.just("\ud800")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda child: (
        st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=4), child, max_size=3)
    ),
    max_leaves=8,
)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "refusal", "thinking", "tool_reference", "image_url"])},
        optional={
            "text": st.text(max_size=5),
            "refusal": st.none() | st.text(max_size=5),
            "thinking": st.text(max_size=5),
            "name": st.text(max_size=5),
            "image_url": JSON,
            "extra": JSON,
        },
    )
    | JSON,
    max_size=3,
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({"name": st.just("f")}, optional={"arguments": JSON})},
        optional={"id": st.text(max_size=3), "type": st.just("function"), "index": JSON},
    )
    | JSON,
    max_size=3,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer", "narrator"])},
        optional={
            "content": st.none() | st.text() | PARTS | JSON,
            "tool_calls": CALLS | JSON,
            "reasoning": st.text() | JSON,
            "reasoning_content": st.text() | JSON,
            "tool_call_id": st.text(max_size=3),
            "name": st.text(max_size=3) | JSON,
            "tools": JSON,
            "junk": JSON,
        },
    )
    | JSON,
    min_size=1,
    max_size=4,
)


@given(
    messages=MESSAGES,
    content_format=st.sampled_from(["string", "openai"]),
    has_developer_branch=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_any_json_is_parsed_or_refused_and_never_modified(
    messages: list[Any], content_format: Format, has_developer_branch: bool
) -> None:
    before = copy.deepcopy(messages)
    with contextlib.suppress(RequestError):
        conversation = parse(messages, content_format, has_developer_branch=has_developer_branch)
        # No lone surrogate is left, so any rendering of it can be encoded.
        json.dumps(conversation.messages, ensure_ascii=False).encode()
        for message in conversation.messages:
            assert isinstance(message["content"], str | list)
            for tool_call in message.get("tool_calls", ()):
                assert isinstance(tool_call["function"]["arguments"], dict)
    assert messages == before


@given(texts=st.lists(st.text(), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_plain_text_passes_unchanged(texts: list[str]) -> None:
    messages = [{"role": "user", "content": text} for text in texts]
    assert [message["content"] for message in parse(messages).messages] == texts


def test_a_thousand_plain_messages_parse_fast() -> None:
    messages = [
        {"role": ("user", "assistant")[place % 2], "content": "wörd " * 40} for place in range(1000)
    ]
    durations = []
    for _ in range(20):
        start = time.perf_counter()
        parse(messages)
        durations.append(time.perf_counter() - start)
    # About 1 ms on an ordinary core; three leaves room for a shared one.
    assert min(durations) < 0.003


# Goldens of the reference server

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "golden"
REFUSED = {
    "chat-content-bare-strings": (InvalidRequest, None),
    "chat-continue-and-gen": (InvalidRequest, None),
    "chat-no-messages": (InvalidRequest, None),
    "chat-unknown-part": (InvalidRequest, "type"),
    "wrong-type-content": (MalformedRequest, "messages[0].content"),
    "wrong-type-messages": (MalformedRequest, "messages"),
}


def parse_golden(request: dict[str, Any]) -> Conversation:
    return parse(
        request["messages"],
        add_generation_prompt=request.get("add_generation_prompt", True),
        continue_final_message=request.get("continue_final_message", False),
    )


@pytest.mark.golden
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data is not beside the checkout")
@pytest.mark.parametrize("model", ["qwen3", "llama3_1", "deepseek_v3", "gemma3"])
def test_goldens_are_refused_or_counted_alike(model: str) -> None:
    num_counted = 0
    for file in sorted((GOLDEN / model).glob("*.json")):
        golden = json.loads(file.read_bytes())
        request = golden["request"]
        if "messages" not in request:
            continue
        if golden["name"] in REFUSED:
            error, param = REFUSED[golden["name"]]
            with pytest.raises(error) as caught:
                parse_golden(request)
            assert (caught.value.status, caught.value.param) == (golden["status"], param)
            assert caught.value.wire_type == golden["response"]["error"]["type"]
            continue
        parse_golden(request)
        context = golden["response"].get("parse_context")
        if context is not None:
            num_counted += 1
            assert count_tool_calls(request["messages"]) == context["history_tool_call_cnt"]
    assert num_counted > 20
