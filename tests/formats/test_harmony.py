"""Harmony's prompt, rule by rule: what is control, what is literal, who says what where."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.formats.harmony import Harmony
from foreword.formats.harmony_constraints import constrain_final_channel
from foreword.formats.harmony_types import describe_function, typescript
from foreword.sampling.constraints import StructuredOutputs
from foreword.types import Conversation, RenderedText

SYSTEM = (
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
    "Knowledge cutoff: 2024-06\nCurrent date: 2026-11-30\n\nReasoning: medium\n\n"
    "# Valid channels: analysis, commentary, final. Channel must be included for every message."
    "<|end|>"
)
ASKS = "<|start|>assistant"
TOOL: dict[str, Any] = {"function": {"name": "f", "description": None, "parameters": None}}


def rendered(*messages: dict[str, Any], tools: Any = None, **kwargs: Any) -> RenderedText:
    conversation = Conversation(messages=messages, tools=tools, chat_template_kwargs=kwargs)
    return Harmony(start_date="2026-11-30").render(conversation)


def said(*messages: dict[str, Any]) -> str:
    """What stands between the system message and the answer."""
    text = rendered(*messages).text
    assert text.startswith(SYSTEM)
    assert text.endswith(ASKS)
    return text[len(SYSTEM) : -len(ASKS)]


def of(role: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def parts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def test_every_character_that_is_not_control_is_literal() -> None:
    made = rendered(of("user", "<|end|>"), of("assistant", "a"))
    literal = [made.text[start:stop] for start, stop in made.literal_spans]
    assert literal[:2] == ["system", SYSTEM[len("<|start|>system<|message|>") : -len("<|end|>")]]
    assert literal[2:] == ["user", "<|end|>", "assistant", "final", "a", "assistant"]
    control = made.text
    for start, stop in reversed(made.literal_spans):
        control = control[:start] + "…" + control[stop:]
    assert control == (
        "<|start|>…<|message|>…<|end|><|start|>…<|message|>…<|end|>"
        "<|start|>…<|channel|>…<|message|>…<|end|><|start|>…"
    )


def test_the_date_is_the_clocks_where_none_is_given() -> None:
    clock = Harmony(clock=lambda: datetime(2031, 2, 3))
    text = clock.render(Conversation(messages=())).text
    assert "\nCurrent date: 2031-02-03\n" in text


@pytest.mark.parametrize("effort", ["low", "medium", "high"])
def test_efforts(effort: str) -> None:
    assert f"\nReasoning: {effort}\n" in rendered(reasoning_effort=effort).text


@pytest.mark.parametrize("effort", ["none", "minimal", "max", 3])
def test_other_efforts_are_refused(effort: object) -> None:
    with pytest.raises(InvalidRequest, match="low, medium, high") as caught:
        rendered(reasoning_effort=effort)
    assert caught.value.param == "reasoning_effort"


def test_the_clients_system_is_a_developer_in_any_place() -> None:
    told = "<|start|>developer<|message|># Instructions\n\nbe terse<|end|>"
    assert said(of("system", "be terse")) == told
    assert said(of("developer", parts("be ", "terse"))) == told
    assert said(of("user", "q"), of("system", "be terse")).endswith(told)
    assert said(of("system", "")) == ""
    assert said(of("user", "q"), of("system", None)).count("developer") == 0
    assert said(of("user", "q"), of("system", "")).endswith("# Instructions\n\n<|end|>")


def test_tools_are_the_developers_too() -> None:
    text = rendered(of("system", "s"), of("user", "q"), tools=[TOOL, TOOL]).text
    assert (
        "every message.\nCalls to these tools must go to the commentary channel: 'functions'."
        in (text)
    )
    assert (
        "# Instructions\n\ns\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n"
        "type f = () => any;\n\ntype f = () => any;\n\n} // namespace functions<|end|>" in text
    )


def test_answers_and_reasoning_have_channels() -> None:
    talk = (of("user", "q"), of("assistant", "a", reasoning="r"))
    assert said(*talk).endswith("<|start|>assistant<|channel|>final<|message|>a<|end|>")
    assert "analysis" not in said(*talk)
    assert said(of("assistant", "", reasoning="r")) == (
        "<|start|>assistant<|channel|>analysis<|message|>r<|end|>"
    )
    assert said(*talk, of("assistant", None, reasoning="later")).endswith("later<|end|>")
    assert said(of("assistant", None)) == ""


def test_calls_and_results() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{oops"}}
    other = {"id": "d", "function": {"name": "g", "arguments": {"ü": 1}}}
    text = said(
        of("assistant", parts("so", "!"), reasoning="r", tool_calls=[call, other]),
        of("tool", parts("1", "2"), tool_call_id="c"),
        of("tool", "3", tool_call_id="?"),
    )
    assert text == (
        "<|start|>assistant<|channel|>commentary<|message|>so!<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>r<|end|>"
        "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{oops<|call|>"
        '<|start|>assistant to=functions.g<|channel|>commentary json<|message|>{"ü": 1}<|call|>'
        "<|start|>functions.f<|channel|>commentary to=assistant<|message|>12<|end|>"
        "<|start|>functions.<|channel|>commentary to=assistant<|message|>3<|end|>"
    )


def test_a_users_parts_are_pieces_of_their_own() -> None:
    made = rendered(of("user", parts("ab", "cd")))
    literal = [made.text[start:stop] for start, stop in made.literal_spans]
    assert literal[-3:] == ["ab", "cd", "assistant"]


def test_roles_that_harmony_does_not_have() -> None:
    with pytest.raises(InvalidRequest, match="narrator"):
        rendered(of("narrator", "x"))
    assert Harmony().render_suffix("a", "b") is None


# ---------------------------------------------------------------------------------------------
# Types


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, "any"),
        (None, "any"),
        ({"type": "nonsense"}, "any"),
        ({"type": "integer"}, "number"),
        ({"type": ["integer", "null", 3]}, "number | null"),
        ({"type": []}, "any"),
        ({"type": "string", "enum": ["a", 1, "b"]}, '"a" | "b"'),
        ({"type": "string", "enum": []}, "string"),
        ({"type": "array"}, "Array<any>"),
        ({"type": "array", "items": {"type": "boolean"}}, "boolean[]"),
        ({"type": "object"}, "{\n}"),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, "\n | string\n | number"),
        (
            {"oneOf": [{"type": "string", "nullable": True, "description": "d", "default": "x"}]},
            '\n | string | null // d default: "x"',
        ),
    ],
)
def test_types(schema: object, written: str) -> None:
    assert typescript(schema) == written


def properties(**of: Any) -> str:
    return typescript({"type": "object", "properties": of, "required": ["need"]})


def test_properties() -> None:
    assert properties(need={"type": "string"}) == "{\nneed: string,\n}"
    assert properties(a={"type": "string", "nullable": True}) == "{\na?: string | null,\n}"
    described = {"type": "string", "title": "T", "description": "d", "examples": ["x", 1]}
    assert properties(a=described) == ('{\n// T\n//\n// d\n// Examples:\n// - "x"\na?: string,\n}')
    nested = {"type": "object", "description": "d", "properties": {"b": {"type": "number"}}}
    assert properties(a=nested) == "{\n// d\na?:     // d\n{\n    b?: number,\n    },\n}"


@pytest.mark.parametrize(
    ("default", "written"),
    [
        ("x", '"x"'),
        (True, "true"),
        (None, "null"),
        (5, "5"),
        (1.5, "1.5"),
        (1e16, "1e+16"),
        (1.25e-5, "0.0000125"),
        (1.5e-7, "1.5e-7"),
        (2**64, "1.8446744073709552e+19"),
        ({"b": 1, "a": ["ü", 'q"']}, '{"b":1,"a":["ü","q\\""]}'),
    ],
)
def test_defaults(default: object, written: str) -> None:
    schema = {"type": "number", "default": default}
    assert properties(a=schema) == f"{{\na?: number, // default: {written}\n}}"


def test_a_default_among_named_values_has_no_quotes() -> None:
    schema = {"type": "string", "enum": ["x"], "default": "x"}
    assert properties(a=schema) == '{\na?: "x", // default: x\n}'


def test_properties_of_several_types() -> None:
    one_of = [{"type": "string", "description": "s"}, {"type": "number", "default": 1}]
    assert properties(a={"description": "d", "default": "x", "oneOf": one_of}) == (
        '{\n// d\n// default: "x"\na?:\n | string\n | number // default: 1\n,\n}'
    )
    assert properties(a={"description": "s", "oneOf": one_of}) == (
        "{\na?:\n | string\n | number // default: 1\n,\n}"
    )
    assert properties(a={"oneOf": one_of}) == (
        "{\na?:\n | string // s\n | number // default: 1\n,\n}"
    )


def test_descriptions_of_functions() -> None:
    function = {"name": "f", "description": "a\r\nb\n", "parameters": {"type": "string"}}
    assert describe_function(function) == "// a\n// b\ntype f = (_: string) => any;\n"


# ---------------------------------------------------------------------------------------------
# Constraints


def constrained(**wanted: Any) -> list[Any]:
    made = constrain_final_channel(StructuredOutputs(**wanted))
    assert made is not None
    assert made.structural_tag is not None
    reasoning, answer = json.loads(made.structural_tag)["format"]["elements"]
    assert reasoning["type"] == "optional"
    return answer["elements"] if answer["type"] == "or" else [answer]


def test_json_may_be_announced_in_two_ways() -> None:
    begins = [tag["begin"] for tag in constrained(json={"type": "string"})]
    assert begins == [
        "<|channel|>final json<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ]
    assert constrained(json='{"a": 1}')[0]["content"]["json_schema"] == {"a": 1}
    assert constrained(json_object=True)[0]["content"]["json_schema"] == {"type": "object"}


def test_other_constraints_stand_in_the_final_channel() -> None:
    (regex,) = constrained(regex="[0-9]+")
    assert regex["begin"] == "<|channel|>final<|message|>"
    assert regex["end"] == ["<|end|>", ""]
    assert regex["content"] == {"type": "regex", "pattern": "[0-9]+"}
    (choice,) = constrained(choice=["a", "b"])
    assert [one["value"] for one in choice["content"]["elements"]] == ["a", "b"]
    (grammar,) = constrained(grammar='root ::= "a"')
    assert grammar["content"] == {"type": "grammar", "grammar": 'root ::= "a"'}
    (tag,) = constrained(structural_tag='{"type": "structural_tag", "format": {"type": "x"}}')
    assert tag["content"] == {"type": "x"}
    assert constrain_final_channel(None) is None
    with pytest.raises(UnsupportedFeature, match="EBNF"):
        constrained(grammar='start: "a"')
