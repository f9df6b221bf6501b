"""The template stage: which template, which variables, and where a continued message ends."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest

from foreword.errors import ChatTemplateMissing, InvalidRequest
from foreword.stages.template import (
    MARK,
    render_conversation,
    select_template,
    unused_kwargs,
)
from foreword.templating import compile_template
from foreword.types import Conversation

CHATML = (
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TRIMMING = CHATML.replace("m.content", "m.content | trim")
PARTS = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% for c in m.content %}{{ c.text }}"
    "{% endfor %}</>{% endfor %}"
)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def render(source: str, *messages: dict[str, Any], **options: Any) -> str:
    special_tokens = options.pop("special_tokens", {})
    conversation = Conversation(messages=messages, **options)
    return render_conversation(
        compile_template(source), conversation, special_tokens=special_tokens
    ).text


def continued(source: str, *messages: dict[str, Any]) -> str:
    return render(source, *messages, add_generation_prompt=False, continue_final_message=True)


# -- which template

MODELS = {"default": "{{ d }}", "tool_use": "{{ t }}", "rag": "{{ r }}"}


def test_tools_choose_the_template_for_tools() -> None:
    assert select_template(MODELS, has_tools=True) == "{{ t }}"
    assert select_template(MODELS, has_tools=False) == "{{ d }}"
    assert select_template({"default": "x"}, has_tools=True) == "x"


def test_a_name_or_a_source_is_taken_the_requests_before_the_operators() -> None:
    assert select_template(MODELS, has_tools=True, requested="rag") == "{{ r }}"
    assert select_template(MODELS, has_tools=True, override="rag") == "{{ r }}"
    assert select_template(MODELS, has_tools=True, override="{{ mine }}") == "{{ mine }}"
    assert (
        select_template(MODELS, has_tools=False, requested="rag", override="{{ o }}") == "{{ r }}"
    )
    assert select_template({}, has_tools=False, override="{{ o }}") == "{{ o }}"


def test_no_template_unknown_name_or_no_default_is_said() -> None:
    with pytest.raises(ChatTemplateMissing, match="no chat template"):
        select_template({}, has_tools=False)
    with pytest.raises(ChatTemplateMissing, match=r"a, b.*no default"):
        select_template({"b": "{{ b }}", "a": "{{ a }}"}, has_tools=False)
    with pytest.raises(ChatTemplateMissing, match=r"'rga'.*default, rag, tool_use"):
        select_template(MODELS, has_tools=False, requested="rga")


# -- which variables


def test_tools_and_documents_are_always_defined() -> None:
    source = (
        "{{ tools is defined }} {{ tools }} {{ documents is defined }} {{ nothing is defined }}"
    )
    assert render(source, user("x")) == "True None True False"


def test_tools_are_a_list_of_what_the_request_gave() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    assert render("{{ tools }}", user("x"), tools=(tool,)) == str([tool])


def test_special_tokens_are_given_and_kwargs_win_over_them() -> None:
    source = "{{ bos_token }}{{ eos_token }}"
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    assert render(source, user("x"), special_tokens=tokens) == "<s></s>"
    assert (
        render(source, user("x"), special_tokens=tokens, chat_template_kwargs={"bos_token": "!"})
        == "!</s>"
    )


def test_kwargs_reach_the_template_when_it_reads_them() -> None:
    kwargs = {"enable_thinking": False, "documents": [{"text": "d"}], "other": 1}
    source = "{{ enable_thinking }} {{ documents[0].text }}"
    assert render(source, user("x"), chat_template_kwargs=kwargs) == "False d"
    assert unused_kwargs(compile_template(source), kwargs) == ("other",)


def test_names_apply_chat_template_takes_for_itself_never_reach_the_template() -> None:
    template = compile_template("{{ padding }}{{ truncation }}{{ x }}")
    assert unused_kwargs(template, {"padding": 1, "x": 2}) == ("padding",)
    assert render("{{ padding is defined }}", user("x"), chat_template_kwargs={"padding": 1}) == (
        "False"
    )


@pytest.mark.parametrize("name", ["chat_template", "tokenize", "messages"])
def test_kwargs_that_would_replace_more_than_variables_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as caught:
        render(CHATML, user("x"), chat_template_kwargs={name: "y"})
    assert caught.value.param is None


def test_documents_must_be_objects() -> None:
    with pytest.raises(InvalidRequest, match="documents must be"):
        render("{{ documents }}", user("x"), chat_template_kwargs={"documents": ["text"]})


def test_generation_prompt_and_clock() -> None:
    assert render(CHATML, user("a")) == "<user>a</>\n<assistant>"
    assert render(CHATML, user("a"), add_generation_prompt=False) == "<user>a</>\n"
    rendered = render_conversation(
        compile_template("{{ strftime_now('%Y') }}"),
        Conversation(messages=(user("x"),)),
        special_tokens={},
        clock=lambda: datetime(1999, 1, 1),
    )
    assert rendered.text == "1999"


def test_empty_conversation_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no messages"):
        render(CHATML)


# -- where a continued message ends


@pytest.mark.parametrize("content", ["Roses", "Roses ", "Roses\n\n", "", " ", "玫瑰 🌹 ", "</>\n"])
def test_text_ends_exactly_where_the_message_does(content: str) -> None:
    text = continued(CHATML, user("Write"), assistant(content))
    assert text == f"<user>Write</>\n<assistant>{content}"


def test_a_trimming_template_trims_the_end_too() -> None:
    assert continued(TRIMMING, user("Write"), assistant("Roses are ")).endswith(">Roses are")


def test_the_same_text_elsewhere_does_not_move_the_end() -> None:
    source = CHATML + "{{ messages[0].content }}"
    assert continued(source, user("Roses"), assistant("Roses")).endswith("<assistant>Roses")


def test_a_text_that_spells_the_mark_changes_nothing() -> None:
    for content in (MARK, f"{MARK} ", f"a {MARK}_1 {MARK}"):
        text = continued(CHATML, user(content), assistant(content))
        assert text == f"<user>{content}</>\n<assistant>{content}"


def test_the_last_text_part_is_continued() -> None:
    image = {"type": "image"}
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B "}]
    assert continued(PARTS, user([]), assistant(parts)) == "<user></><assistant>AB "
    with pytest.raises(InvalidRequest, match="no text to continue"):
        continued(PARTS, assistant([image]))


def test_a_user_message_can_be_continued() -> None:
    assert continued(CHATML, user("Wri")) == "<user>Wri"


@pytest.mark.parametrize("message", [{"role": "assistant"}, assistant(None)])
def test_nothing_to_continue_is_said(message: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="no text to continue"):
        continued(CHATML, user("x"), message)


@pytest.mark.parametrize(
    "content", ["m.content.split('</think>')[-1]", "m.content | lower", "m.role", "m.content[:3]"]
)
def test_a_template_that_changes_the_message_is_named(content: str) -> None:
    source = CHATML.replace("m.content", content)
    with pytest.raises(InvalidRequest, match="does not print the final message as it stands"):
        continued(source, user("x"), assistant("<think>Hm</think>Roses"))


def test_continuing_and_a_generation_prompt_exclude_each_other() -> None:
    with pytest.raises(InvalidRequest, match="continue_final_message and add_generation") as caught:
        render(CHATML, user("x"), continue_final_message=True)
    assert caught.value.param is None


def test_assistant_spans_end_with_the_text() -> None:
    source = (
        "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}</>\n"
        "{% endgeneration %}{% endfor %}"
    )
    rendered = render_conversation(
        compile_template(source),
        Conversation(
            messages=(assistant("a"), assistant("b ")),
            add_generation_prompt=False,
            continue_final_message=True,
        ),
        special_tokens={},
    )
    assert [rendered.text[a:b] for a, b in rendered.assistant_spans] == ["a</>\n", "b "]


def test_messages_are_never_modified() -> None:
    messages = (user([{"type": "text", "text": "a"}]), assistant([{"type": "text", "text": "b"}]))
    before = copy.deepcopy(messages)
    continued(PARTS, *messages)
    assert messages == before
