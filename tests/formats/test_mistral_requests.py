"""What engines change in a chat before mistral-common reads it, and what they refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.formats.mistral import check_request, native_conversation
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.types import Conversation

CALL = {"id": "call_0123456789", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "short"}]},
    {"role": "tool", "tool_call_id": "call_0123456789", "content": "1"},
    {"role": "assistant", "content": "done"},
    {"role": "user", "content": "thanks"},
]


def prepare(messages: list[dict[str, Any]], **flags: Any) -> Conversation:
    return native_conversation(Conversation(messages=(), **flags), messages)


def test_ids_of_calls_keep_their_last_nine_characters() -> None:
    messages = prepare(MESSAGES).messages
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["123456789", "short"]
    assert messages[2]["tool_call_id"] == "123456789"


def test_an_assistant_always_has_a_list_of_calls_and_others_are_the_clients_own() -> None:
    messages = prepare(MESSAGES).messages
    assert messages[3]["tool_calls"] == []
    assert messages[4] is MESSAGES[4]


def test_text_of_the_responses_api_is_text() -> None:
    assert prepare(MESSAGES).messages[0]["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "audio_url", "audio_url": {"url": "http://localhost/"}},
        {"type": "image", "path": "/etc/passwd"},
        {"image_url": {"url": "http://localhost/"}},
    ],
)
def test_nothing_a_part_points_to_reaches_the_library(part: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        prepare([{"role": "user", "content": [{"type": "text", "text": "x"}, part]}])
    assert caught.value.param == "messages[0].content[1]"


def test_the_request_is_not_touched() -> None:
    before = copy.deepcopy(MESSAGES)
    prepare(MESSAGES)
    assert before == MESSAGES


@pytest.mark.parametrize(
    ("last", "flags", "wrong"),
    [
        ("assistant", {}, True),
        ("assistant", {"add_generation_prompt": False}, False),
        ("assistant", {"add_generation_prompt": False, "continue_final_message": True}, False),
        ("user", {}, False),
        ("user", {"add_generation_prompt": False, "continue_final_message": True}, True),
    ],
)
def test_the_last_message_must_fit_what_is_asked(
    last: str, flags: dict[str, bool], wrong: bool
) -> None:
    messages = [{"role": last, "content": "x"}]
    if not wrong:
        assert len(prepare(messages, **flags).messages) == 1
        return
    with pytest.raises(InvalidRequest, match=r"last message") as caught:
        prepare(messages, **flags)
    assert caught.value.param is None


@pytest.mark.parametrize(
    "field",
    [{"chat_template": "x"}, {"chat_template_kwargs": {}}, {"chat_template_kwargs": {"a": 1}}],
)
def test_templates_and_their_kwargs_are_refused(field: dict[str, Any]) -> None:
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "x"}], **field)
    with pytest.raises(InvalidRequest, match="do not apply to Mistral") as caught:
        check_request(request)
    assert caught.value.param == "chat_template"


def test_a_request_without_them_passes() -> None:
    check_request(ChatCompletionRequest(messages=[{"role": "user", "content": "x"}]))
