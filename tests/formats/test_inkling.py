"""Inkling: a value written out for every rule, and the ids of pieces that are encoded apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.demo import model_folder
from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.formats.inkling import _NEEDED, Inkling
from foreword.stages.conversation import parse_conversation

EFFORT = "<|message_system|><|content_text|>Thinking effort level: 0.9<|end_message|>"
OPEN = "<|message_model|>"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": {"é": None}}}}
DECLARED = (
    "<|message_system|>tool_declare<|content_xml|>"
    '[{"description":"","name":"f","parameters":{"a":{"é":null},"b":1},"type":"function"}]'
    "<|end_message|>"
)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(role: str, text: str, kind: str = "text", author: str = "") -> str:
    return f"<|message_{role}|>{author}<|content_{kind}|>{text}<|end_message|>"


def render(*messages: dict[str, Any], tools: Any = None, **options: Any) -> str:
    kwargs = options.pop("kwargs", {})
    conversation = parse_conversation(
        messages, content_format="string", has_developer_branch=True, keeps_messages=True,
        may_be_empty=True, tools=tools, chat_template_kwargs=kwargs, **options,
    )  # fmt: skip
    return Inkling().render(conversation).text


def test_a_question() -> None:
    assert render(user("hi")) == EFFORT + said("user", "hi") + OPEN
    assert render(user("hi"), add_generation_prompt=False) == EFFORT + said("user", "hi")


def test_effort_stands_behind_the_first_systems_and_the_tools() -> None:
    text = render(
        {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, user("u"),
        {"role": "system", "content": "late"}, tools=[TOOL],
    )  # fmt: skip
    first = DECLARED + said("system", "s") + said("system", "d") + EFFORT
    assert text == first + said("user", "u") + said("system", "late") + OPEN
    assert render({"role": "system", "content": "s"}) == said("system", "s") + EFFORT + OPEN


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (None, "0.9"), ("none", "0.0"), ("minimal", "0.1"), ("low", "0.2"), ("medium", "0.7"),
        ("high", "0.9"), ("xhigh", "0.99"), ("max", "0.99"), (0, "0.0"), (0.5, "0.5"),
        (0.001, "0.0"), (0.99, "0.99"), ("unknown", None), (True, None),
    ],
)  # fmt: skip
def test_effort_is_a_name_or_a_number(asked: Any, level: str | None) -> None:
    text = render(user("u"), kwargs={"reasoning_effort": asked})
    block = "" if level is None else EFFORT.replace("0.9", level)
    assert text == block + said("user", "u") + OPEN


@pytest.mark.parametrize("asked", [1, -0.1, 1.5])
def test_an_effort_out_of_range_is_refused(asked: float) -> None:
    with pytest.raises(InvalidRequest, match=r"from 0 to 0\.99"):
        render(user("u"), kwargs={"reasoning_effort": asked})


def test_an_answer_with_reasoning_calls_and_results() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"b":1,"a":"é"}'},
    }
    text = render(
        user("u"),
        {"role": "assistant", "reasoning": "r", "content": "a", "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
        },
        {"role": "tool", "tool_call_id": "other", "content": ""},
        {"role": "tool", "tool_call_id": "c1", "name": "named", "content": "z"},
    )
    assert (
        text
        == EFFORT
        + said("user", "u")
        + said("model", "r", "thinking")
        + said("model", "a")
        + said("model", '{"name":"f","args":{"a":"é","b":1}}', "invoke_tool_json", "f")
        + "<|content_model_end_sampling|>"
        + said("tool", "xy", author="f")
        + said("tool", "")
        + said("tool", "z", author="named")
        + OPEN
    )


def test_arguments_that_are_no_object_count_as_none() -> None:
    for broken in ("{oops", "[1]", "", "3"):
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": broken}}
        text = render(user("u"), {"role": "assistant", "content": None, "tool_calls": [call]})
        assert '{"name":"f","args":{}}' in text


def test_every_part_is_a_message_and_an_empty_text_is_none() -> None:
    parts = [{"type": "text", "text": text} for text in ("a", "", "b")]
    expected = said("user", "a") + said("user", "") + said("user", "b")
    assert render(user(parts)) == EFFORT + expected + OPEN
    assert render(user("")) == EFFORT + OPEN


def test_a_developers_tools_are_declared_with_the_others() -> None:
    text = render({"role": "developer", "content": "d", "tools": [TOOL]}, user("u"))
    assert text.startswith(DECLARED + said("system", "d") + EFFORT)


def test_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no role 'critic'"):
        render({"role": "critic", "content": "x"})
    with pytest.raises(InvalidRequest, match="part of type tool_reference"):
        render(user([{"type": "tool_reference", "name": "x"}]))
    with pytest.raises(InvalidRequest, match="cannot continue"):
        render(
            user("u"), {"role": "assistant", "content": "a"},
            add_generation_prompt=False, continue_final_message=True,
        )  # fmt: skip


def make_model(folder: Path, *, xml: str = "<|content_xml|>", lacks: str = "") -> Path:
    file = json.loads((Path(model_folder()) / "tokenizer.json").read_text())
    first = 1 + max(file["model"]["vocab"].values())
    first = max(first, 1 + max(row["id"] for row in file["added_tokens"]))
    flags = {"single_word": False, "lstrip": True, "rstrip": True, "normalized": False}
    tokens = [token for token in (*_NEEDED, xml) if token != lacks]
    file["added_tokens"] += [
        {"id": first + place, "content": token, "special": True, **flags}
        for place, token in enumerate(tokens)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(file))
    (folder / "config.json").write_text('{"max_position_embeddings": 4096}')
    return folder


@pytest.mark.parametrize("xml", ["<|content_xml|>", "<|unused_200024|>"])
def test_pieces_between_control_tokens_are_encoded_apart(tmp_path: Path, xml: str) -> None:
    renderer = foreword.load(make_model(tmp_path, xml=xml), tokenizer_mode="inkling")
    body = {"messages": [user(" two  words "), user("x <|end_message|> y")], "tools": [TOOL]}
    made = list(renderer.render_chat(body).engine_input.token_ids)
    tokenizer = renderer.tokenizer

    def ids(*pieces: str) -> list[int]:
        return [
            one
            for piece in pieces
            for one in tokenizer.encode(piece, add_special_tokens=False).token_ids
        ]

    declared = DECLARED.split("<|content_xml|>")[1].removesuffix("<|end_message|>")
    # Flags that swallow blanks do not reach across, and what a text spells is what it spells.
    assert made == ids(
        "<|message_system|>", "tool_declare", xml, declared, "<|end_message|>",
        "<|message_system|>", "<|content_text|>", "Thinking effort level: 0.9", "<|end_message|>",
        "<|message_user|>", "<|content_text|>", " two  words ", "<|end_message|>",
        "<|message_user|>", "<|content_text|>", "x <|end_message|> y", "<|end_message|>",
        "<|message_model|>",
    )  # fmt: skip


def test_a_vocabulary_without_its_tokens_is_refused_at_load(tmp_path: Path) -> None:
    with pytest.raises(AssetsInvalid, match=r"lacks: <\|content_text\|>\."):
        foreword.load(make_model(tmp_path, lacks="<|content_text|>"), tokenizer_mode="inkling")
    with pytest.raises(AssetsInvalid, match=r"lacks: <\|content_xml\|>\."):
        foreword.load(make_model(tmp_path, xml="<|x|>"), tokenizer_mode="inkling")
