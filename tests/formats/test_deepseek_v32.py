"""DeepSeek V3.2's prompt, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.formats.deepseek_v32 import DeepSeekV32
from foreword.types import Conversation

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
TOOL = {"type": "function", "function": {"name": "f", "description": "ü", "parameters": {}}}


def render(*messages: dict[str, Any], tools: Any = None, **kwargs: Any) -> str:
    conversation = Conversation(messages=messages, tools=tools, chat_template_kwargs=kwargs)
    rendered = DeepSeekV32().render(conversation)
    assert not rendered.literal_spans
    return rendered.text


def user(text: str = "q") -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str = "a", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def calls(*arguments: Any) -> list[dict[str, Any]]:
    return [{"function": {"name": "f", "arguments": given}} for given in arguments]


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text}


def test_thinking_is_off_unless_asked_for() -> None:
    closed = f"{BOS}{USER}q{ASSISTANT}</think>"
    assert render(user()) == closed
    assert render(user(), enable_thinking=False) == closed
    assert render(user(), thinking=False, enable_thinking=False) == closed
    assert render(user(), thinking=True) == f"{BOS}{USER}q{ASSISTANT}<think>"
    assert render(user(), thinking=False, enable_thinking=True).endswith("<think>")


def test_reasoning_of_earlier_turns_is_dropped_when_a_user_speaks_last() -> None:
    text = render(user(), said(reasoning="r"), user("q2"), thinking=True)
    assert text == f"{BOS}{USER}q{ASSISTANT}</think>a{EOS}{USER}q2{ASSISTANT}<think>"


def test_reasoning_after_the_last_question_is_kept() -> None:
    text = render(user(), said("", reasoning="r", tool_calls=calls({})), result("1"), thinking=True)
    assert f"{ASSISTANT}<think>r</think>\n\n<｜DSML｜function_calls>" in text
    assert text.endswith("\n</function_results>\n\n<think>")


def test_an_answer_after_the_last_question_needs_a_reason() -> None:
    with pytest.raises(InvalidRequest, match="reasoning or tool calls"):
        render(user(), said(), thinking=True)
    assert render(user(), said()).endswith(f"</think>a{EOS}")


def test_developers_are_dropped_with_the_turns_they_spoke_in() -> None:
    developer = {"role": "developer", "content": "d"}
    told = f"{USER}\n\n# The user's message is: d{ASSISTANT}"
    assert told in render(developer, user())
    assert told not in render(developer, user(), thinking=True)
    assert render(user(), developer, thinking=True).endswith(told + "<think>")
    with pytest.raises(InvalidRequest, match="developer"):
        render({"role": "developer", "content": ""}, user())


def test_tools_lead_as_a_system_of_their_own() -> None:
    text = render({"role": "system", "content": "s"}, user(), tools=[TOOL])
    assert text.startswith(f"{BOS}\n\n## Tools\nYou have access to a set of tools you can use")
    schema = '<functions>\n{"name": "f", "description": "ü", "parameters": {}}\n</functions>\n'
    assert f"{schema}s{USER}q" in text


def test_a_developer_may_bring_tools_and_a_format() -> None:
    demand = {"role": "developer", "content": "d", "tools": [TOOL], "response_format": {"a": 1}}
    text = render(demand)
    assert text.startswith(f"{BOS}{USER}\n\n## Tools\n")
    assert text.endswith(
        "\n</functions>\n\n\n## Response Format:\n\nYou MUST strictly adhere to the following"
        ' schema to reply:\n{"a": 1}\n\n# The user\'s message is: d<｜Assistant｜></think>'
    )


def test_arguments_are_bare_strings_or_json() -> None:
    given = {"s": 'a "b"', "n": 1, "l": ["ü", None], "b": True}
    text = render(user(), said("", tool_calls=calls(given, "{}")), result("1"), result("2"))
    assert (
        "\n\n<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="s" string="true">a "b"</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="l" string="false">["ü", null]</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="b" string="false">true</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        '<｜DSML｜invoke name="f">\n\n</｜DSML｜invoke>\n'
        f"</｜DSML｜function_calls>{EOS}" in text
    )
    assert text.endswith(
        "\n\n<function_results>\n<result>1</result>\n<result>2</result>\n</function_results>"
        "\n\n</think>"
    )


def test_results_that_answer_no_call_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="number 2 after an assistant message with 1 tool"):
        render(user(), said(tool_calls=calls({})), result("1"), result("2"))
    with pytest.raises(InvalidRequest):
        render(user(), result("1"))
    with pytest.raises(InvalidRequest):
        render(result("1"))


def test_a_long_run_of_results_takes_no_square_of_its_length() -> None:
    many = 20_000
    text = render(user(), said(tool_calls=calls(*[{}] * many)), *[result("1")] * many)
    assert text.count("<result>1</result>") == many


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="narrator"):
        render({"role": "narrator", "content": "x"})
    with pytest.raises(InvalidRequest, match="no messages"):
        render()
    assert DeepSeekV32().render_suffix("a", "b") is None
