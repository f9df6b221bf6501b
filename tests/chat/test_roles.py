from __future__ import annotations

from typing import Any

from foreword.chat.parts import SpokenPart, TextPart, ToolReference
from foreword.chat.roles import developers_to_system, drop_billing_line, drop_billing_parts

HEADER = "x-anthropic-billing-header: cch=1"


def say(role: str, content: Any, **rest: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **rest}


def test_billing_line() -> None:
    assert drop_billing_line(f"{HEADER}\nBe brief.\n") == "Be brief.\n"
    assert drop_billing_line(HEADER) == ""
    assert drop_billing_line(f" {HEADER}\nx") == f" {HEADER}\nx"


def test_billing_parts() -> None:
    parts: list[SpokenPart] = [
        TextPart(type="text", text=HEADER),
        TextPart(type="text", text=f"{HEADER}\nrest", extra={"k": 1}),
        TextPart(type="input_text", text=HEADER),
        ToolReference(name="f"),
    ]
    assert drop_billing_parts(parts) == [
        TextPart(type="text", text="rest", extra={"k": 1}),
        TextPart(type="input_text", text=HEADER),
        ToolReference(name="f"),
    ]


def test_a_single_leading_developer_only_changes_its_role() -> None:
    messages = [
        say("developer", [{"type": "text", "text": "d"}], name="n", tools=[1]),
        say("user", "u"),
    ]
    assert developers_to_system(messages) == [
        say("system", [{"type": "text", "text": "d"}], name="n"),
        say("user", "u"),
    ]
    assert messages[0]["role"] == "developer"


def test_system_and_developer_become_one_system_in_front() -> None:
    messages = [say("system", "A"), say("developer", "B", name="n"), say("user", "u")]
    assert developers_to_system(messages) == [say("system", "A\n\nB"), say("user", "u")]


def test_a_late_developer_moves_to_the_front() -> None:
    messages = [say("user", "u"), say("developer", "B"), say("assistant", "a")]
    assert developers_to_system(messages) == [
        say("system", "B"),
        say("user", "u"),
        say("assistant", "a"),
    ]


def test_list_contents_are_joined_by_line_and_empty_ones_vanish() -> None:
    messages = [
        say("developer", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        say("system", ""),
        say("system", [{"type": "tool_reference", "name": "f"}, {"type": "text", "text": "c"}]),
    ]
    assert developers_to_system(messages) == [say("system", "a\nb\n\nc")]
