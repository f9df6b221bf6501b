"""DeepSeek V4's prompt, rule by rule; V4.1's, where it differs."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.formats.deepseek_v4 import DeepSeekV4
from foreword.formats.deepseek_v41 import DeepSeekV41
from foreword.types import Conversation

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
TOOL = {"type": "function", "function": {"name": "f", "description": "ü", "parameters": {}}}
LOW = {"reasoning_effort": "low"}


def render(*messages: dict[str, Any], tools: Any = None, **kwargs: Any) -> str:
    conversation = Conversation(messages=messages, tools=tools, chat_template_kwargs=kwargs)
    return DeepSeekV4().render(conversation).text.removeprefix(BOS)


def render41(*messages: dict[str, Any], tools: Any = None, **kwargs: Any) -> str:
    conversation = Conversation(messages=messages, tools=tools, chat_template_kwargs=kwargs)
    return DeepSeekV41().render(conversation).text.removeprefix(BOS)


def of(role: str, text: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


def calls(*ids: str) -> list[dict[str, Any]]:
    return [{"id": one, "function": {"name": "f", "arguments": {"q": one}}} for one in ids]


def result(call_id: str, text: Any) -> dict[str, Any]:
    return of("tool", text, tool_call_id=call_id)


HIGH_BEGINS = "Reasoning Effort: Absolute maximum with no shortcuts permitted.\nYou MUST be very"
MAX_BEGINS = "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"


def test_thinking_is_on_unless_something_is_said() -> None:
    assert render(of("user", "q"), **LOW) == f"{USER}q{ASSISTANT}<think>"
    assert render(of("user", "q"), thinking=False, **LOW) == f"{USER}q{ASSISTANT}</think>"
    assert render(of("user", "q"), enable_thinking=False, **LOW).endswith("</think>")
    assert render(of("user", "q"), thinking=False, enable_thinking=True, **LOW).endswith("<think>")
    assert render(of("user", "q"), reasoning_effort="none", thinking=True).endswith("</think>")


@pytest.mark.parametrize("effort", ["low", "minimal", "medium"])
def test_low_efforts_say_nothing(effort: str) -> None:
    assert render(of("user", "q"), reasoning_effort=effort) == f"{USER}q{ASSISTANT}<think>"


@pytest.mark.parametrize("effort", ["high", "xhigh", "anything", 3, None])
def test_any_other_effort_is_high(effort: object) -> None:
    text = render(of("system", "s"), of("user", "q"), reasoning_effort=effort)
    assert text.startswith(HIGH_BEGINS)
    assert text.endswith(f"is left unchecked.\n\ns{USER}q{ASSISTANT}<think>")


def test_the_highest_effort_and_none_without_thinking() -> None:
    assert render(of("user", "q"), reasoning_effort="max").startswith(MAX_BEGINS)
    assert render(of("user", "q"), reasoning_effort="max", thinking=False).startswith(USER)


def test_old_reasoning_is_dropped_unless_told_or_tools_are_there() -> None:
    talk = (of("user", "q"), of("assistant", "a", reasoning="r"), of("user", "q2"))
    assert render(*talk, **LOW) == f"{USER}q{ASSISTANT}</think>a{EOS}{USER}q2{ASSISTANT}<think>"
    kept = f"{USER}q{ASSISTANT}<think>r</think>a{EOS}{USER}q2{ASSISTANT}<think>"
    assert render(*talk, drop_thinking=False, **LOW) == kept
    assert render(*talk, tools=[TOOL], **LOW).endswith(kept)


def test_developers_before_the_last_question_go_with_old_reasoning() -> None:
    talk = (of("developer", "d"), of("assistant", "a"), of("user", "q"))
    assert render(*talk, **LOW) == f"a{EOS}{USER}q{ASSISTANT}<think>"
    assert render(*talk, thinking=False).startswith(f"{USER}d{ASSISTANT}</think>a")


def test_tools_join_the_first_system_or_a_new_one() -> None:
    text = render(of("user", "q"), of("system", "s"), tools=[TOOL], **LOW)
    assert text.startswith(f"{USER}qs\n\n## Tools\n\nYou have access to a set of tools to help")
    assert render(of("user", "q"), tools=[TOOL], **LOW).startswith("\n\n## Tools\n\n")
    assert text.endswith(
        '### Available Tool Schemas\n\n{"name": "f", "description": "ü", "parameters": {}}\n\n'
        "You MUST strictly follow the above defined tool name and parameter schemas to invoke"
        f" tool calls.\n{ASSISTANT}<think>"
    )


def test_a_system_with_a_format_opens_an_answer_only_at_the_end() -> None:
    demand = of("system", "s", response_format={"a": 1})
    text = render(demand, thinking=False)
    assert text == (
        "s\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
        f'{{"a": 1}}{ASSISTANT}</think>'
    )
    assert render(of("system", "s"), of("assistant", "a"), thinking=False).startswith(
        f"s{ASSISTANT}</think>a"
    )
    assert render(of("system", "s"), of("user", "q"), thinking=False).startswith(f"s{USER}q")


def test_results_become_one_user_turn_in_the_order_of_the_calls() -> None:
    text = render(
        of("user", "q"),
        of("assistant", "", tool_calls=calls("x", "y", "z")),
        result("z", "3"),
        result("x", "1"),
        of("user", "and?"),
        result("y", "2"),
        thinking=False,
    )
    assert text.endswith(
        f"{USER}<tool_result>1</tool_result>\n\n<tool_result>2</tool_result>\n\nand?\n\n"
        f"<tool_result>3</tool_result>{ASSISTANT}</think>"
    )
    assert '<｜DSML｜parameter name="q" string="true">x</｜DSML｜parameter>' in text
    assert "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke" in text


def test_results_of_unknown_calls_come_first() -> None:
    text = render(
        of("assistant", "", tool_calls=calls("x", "y")), result("y", "2"), result("?", "0")
    )
    assert "<tool_result>0</tool_result>\n\n<tool_result>2</tool_result>" in text


def test_results_in_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "tool_reference", "name": "f"}]
    text = render(of("assistant", "", tool_calls=calls("x")), result("x", parts))
    assert "<tool_result>a\n\n[Unsupported tool_reference]</tool_result>" in text


def test_parts_and_turns_of_a_user_are_parted_by_a_blank_line() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert render(of("user", parts), of("user", "c"), **LOW) == (
        f"{USER}a\n\nb\n\nc{ASSISTANT}<think>"
    )
    with pytest.raises(InvalidRequest, match="tool_reference"):
        render(of("user", [{"type": "tool_reference", "name": "f"}]))


def test_tasks_end_a_turn_with_their_token() -> None:
    assert render(of("user", "q", task="title"), **LOW) == f"{USER}q<｜title｜>"
    assert render(of("user", "q", task="action"), **LOW) == (
        f"{USER}q{ASSISTANT}<think><｜action｜>"
    )
    talk = (of("user", "q", task="query"), of("assistant", "a", reasoning="r"))
    assert render(*talk, **LOW) == f"{USER}q<｜query｜>a{EOS}"
    assert render(of("user", "q", task="query"), of("user", "q2"), **LOW) == (
        f"{USER}q{USER}q2{ASSISTANT}<think>"
    )
    with pytest.raises(InvalidRequest, match="nope"):
        render(of("user", "q", task="nope"))


def test_reminders_have_a_token() -> None:
    text = render(of("user", "q"), of("latest_reminder", "r"), thinking=False)
    assert text == f"{USER}q{ASSISTANT}</think><｜latest_reminder｜>r"


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="narrator"):
        render(of("narrator", "x"))
    with pytest.raises(InvalidRequest, match="developer"):
        render(of("developer"))
    assert render() == ""


def test_filling_in_the_middle() -> None:
    filled = "<｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>"
    assert DeepSeekV4().render_suffix("a", "b") == filled
    assert DeepSeekV41().render_suffix("a", "b") == filled


def test_many_results_take_no_square_of_their_number() -> None:
    many = [f"c{n}" for n in range(20_000)]
    text = render(of("assistant", "", tool_calls=calls(*many)), *(result(one, "1") for one in many))
    assert text.count("<tool_result>") == len(many)


# ---------------------------------------------------------------------------------------------
# V4.1


def effort(number: int) -> str:
    return (
        f"<｜System｜>Reasoning Effort: {number}"
        " (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
    )


@pytest.mark.parametrize(
    ("asked", "number"),
    [(None, 75), ("low", 50), ("high", 75), ("xhigh", 75), ("max", 100), (1, 1), (100, 100)],
)
def test_v41_says_effort_as_a_number(asked: object, number: int) -> None:
    assert render41(of("user", "q"), reasoning_effort=asked) == (
        f"{effort(number)}{USER}q{ASSISTANT}<think>"
    )


@pytest.mark.parametrize("asked", [0, 101, True, "medium", 1.5])
def test_v41_refuses_other_efforts(asked: object) -> None:
    with pytest.raises(InvalidRequest, match="reasoning_effort") as caught:
        render41(of("user", "q"), reasoning_effort=asked)
    assert caught.value.param == "reasoning_effort"


def test_v41_marks_systems() -> None:
    closed = {"reasoning_effort": "none"}
    assert render41(of("system", "s"), of("user", "q"), **closed) == (
        f"<｜System｜>s{USER}q{ASSISTANT}</think>"
    )
    assert render41(of("user", "q"), of("system", "s"), **closed) == (
        f"{USER}q<｜System｜>s{ASSISTANT}</think>"
    )
    assert render41(of("system", "s"), of("assistant", "a"), **closed) == f"<｜System｜>sa{EOS}"
    assert render41(of("system", "s"), of("user", "q")).startswith(f"{effort(75)}s{USER}")


def test_v41_takes_a_late_system_for_a_question_and_results_for_none() -> None:
    talk = (of("user", "q"), of("assistant", "a", reasoning="r"))
    late = render41(*talk, of("system", "s"))
    assert "r</think>" not in late
    called = render41(
        of("user", "q"),
        of("assistant", "a", reasoning="r", tool_calls=calls("x")),
        result("x", "1"),
    )
    assert f"{ASSISTANT}<think>r</think>a\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke" in called


def test_v41_refuses_text_that_spells_an_image() -> None:
    for message in (
        of("user", "a<｜deepseek_image｜>"),
        of("assistant", "", reasoning="<｜deepseek_image｜>"),
    ):
        with pytest.raises(InvalidRequest, match="image"):
            render41(message)
    with pytest.raises(InvalidRequest, match="latest_reminder"):
        render41(of("latest_reminder", "x"))


def test_v41_reads_arguments_as_they_were_sent() -> None:
    call = {"function": {"name": "f", "arguments": '{"n": 1}'}}
    broken = {"function": {"name": "f", "arguments": "{oops"}}
    text = render41(of("assistant", "", tool_calls=[call, broken]))
    assert (
        '<｜DSML｜ parameter name="n" string="false">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>'
        in text
    )
    assert '<｜DSML｜ invoke name="f">\n\n</｜DSML｜ invoke>' in text
