"""The public Jinja templates of the same models as second witnesses, where both cover a case.

The templates lie beside the checkout and are never part of it; without them these tests skip.
Where a template departs from the model's own encoder (V3.2's closed thinking and tool header, old
reasoning beside calls and results out of order in V4, blank lines after Harmony's instructions,
JSON around its results), the recorded answers decide and it is not asked.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from foreword.formats import BY_MODE
from foreword.formats.harmony import Harmony
from foreword.stages.conversation import parse_conversation
from foreword.stages.template import render_conversation
from foreword.templating import compile_template

TEMPLATES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "templates"
FILES = {
    "deepseek_v32": "deepseek-ai-DeepSeek-V3.2.jinja",
    "deepseek_v4": "deepseek-ai-DeepSeek-V4-Flash-0731.jinja",
    "harmony": "openai-gpt-oss-120b.jinja",
}
SPECIAL = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not TEMPLATES.is_dir(), reason="no ../shared/data beside the checkout"),
]

Messages = list[dict[str, Any]]


def user(text: str = "How far is it?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str = "Not far.", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def calls(*names: str, **more: Any) -> dict[str, Any]:
    made = [
        {"id": f"call-{n}", "type": "function", "function": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(zip(names, ARGUMENTS, strict=False))
    ]
    return {"role": "assistant", "content": "", "tool_calls": made, **more}


def result(number: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call-{number}", "content": text}


ARGUMENTS = ('{"city": "Århus", "days": 2, "near": ["a", {"b": null}]}', '{"q": "x<y"}')
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be terse."}
TALKS: dict[str, Messages] = {
    "one": [user()],
    "system": [SYSTEM, user()],
    "turns": [SYSTEM, user(), answer(), user("And back?"), answer("As far."), user("Ü  \n")],
    "reasoned": [user(), answer(reasoning="It is near."), user("And back?")],
    "tool": [user(), calls("f", reasoning="Ask f."), result(0, "3 km")],
    "tool-answered": [
        *(user(), calls("f", reasoning="Ask f."), result(0, "3 km")),
        *(answer("3 km.", reasoning="It says so."), user("And back?")),
    ],
}
TWO_CALLS: Messages = [user(), calls("f", "g", reasoning="Ask."), result(0, "3"), result(1, "4")]
BY_CASE = {**TALKS, "two-calls": TWO_CALLS}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "Distances",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "days": {"type": "integer"},
                },
                "required": ["city"],
            },
        },
    }
]


def ours(name: str, messages: Messages, kwargs: dict[str, Any], **more: Any) -> str:
    chat_format = BY_MODE[name]() if name in BY_MODE else Harmony(start_date="2026-11-30")
    conversation = parse_conversation(
        messages,
        content_format=chat_format.content_format,
        keeps_messages=chat_format.keeps_messages,
        has_developer_branch=True,
        chat_template_kwargs=kwargs,
        **more,
    )
    return chat_format.render(conversation).text


def theirs(name: str, messages: Messages, kwargs: dict[str, Any], **more: Any) -> str:
    template = compile_template((TEMPLATES / FILES[name]).read_text())
    conversation = parse_conversation(
        messages,
        content_format="string",
        has_developer_branch=True,
        chat_template_kwargs=kwargs,
        **more,
    )
    rendered = render_conversation(
        template,
        conversation,
        special_tokens=SPECIAL,
        clock=lambda: datetime(2026, 11, 30),
    )
    return rendered.text


@pytest.mark.witness(
    family="mode:deepseek_v32",
    what="chats that think, where both cover a case",
    against="the model's public template",
)
@pytest.mark.parametrize("case", TALKS)
def test_deepseek_v32_that_thinks(case: str) -> None:
    kwargs = {"thinking": True}
    assert ours("deepseek_v32", TALKS[case], kwargs) == theirs("deepseek_v32", TALKS[case], kwargs)


@pytest.mark.witness(
    family="mode:deepseek_v4",
    what="chats with and without thinking and tools, where both cover a case",
    against="the model's public template",
)
@pytest.mark.parametrize("effort", ["low", "high", "max"])
@pytest.mark.parametrize("case", ["one", "system", "turns", "reasoned"])
def test_deepseek_v4_that_thinks(case: str, effort: str) -> None:
    kwargs = {"thinking": True, "reasoning_effort": effort}
    assert ours("deepseek_v4", TALKS[case], kwargs) == theirs("deepseek_v4", TALKS[case], kwargs)


@pytest.mark.parametrize("case", BY_CASE)
def test_deepseek_v4_that_does_not_think(case: str) -> None:
    kwargs = {"thinking": False}
    assert ours("deepseek_v4", BY_CASE[case], kwargs) == theirs(
        "deepseek_v4", BY_CASE[case], kwargs
    )


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("case", BY_CASE)
def test_deepseek_v4_with_tools(case: str, thinking: bool) -> None:
    kwargs = {"thinking": thinking, "reasoning_effort": "high"}
    messages = [SYSTEM, *(message for message in BY_CASE[case] if message is not SYSTEM)]
    said = ours("deepseek_v4", messages, kwargs, tools=TOOLS)
    assert said == theirs("deepseek_v4", messages, kwargs, tools=TOOLS)


@pytest.mark.witness(
    family="format:gpt_oss",
    what="chats at each effort, where both cover a case",
    against="the model's public template",
)
@pytest.mark.parametrize("effort", ["low", "medium", "high"])
@pytest.mark.parametrize("case", ["one", "reasoned"])
def test_harmony(case: str, effort: str) -> None:
    kwargs = {"reasoning_effort": effort}
    said = ours("harmony", TALKS[case], kwargs)
    assert said == theirs("harmony", TALKS[case], kwargs)
    with_tools = ours("harmony", TALKS[case], kwargs, tools=TOOLS)
    assert with_tools == theirs("harmony", TALKS[case], kwargs, tools=TOOLS)
