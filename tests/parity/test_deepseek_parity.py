"""DeepSeek's chats against vLLM's own encoders, text for text, on random conversations.

Needs the sources of vLLM 0.33 on the path; nothing of it is imported but the encoders' own files,
so that neither torch nor a build is needed.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from foreword.errors import ForewordError
from foreword.formats import BY_MODE
from foreword.stages.conversation import parse_conversation

pytest.importorskip("transformers", reason="needs the parity group")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

TEXTS = ("hi", "", "Ü ✓", "a\n\nb", "<think>x</think>", "<｜User｜>", " sp ")
ARGUMENTS = (
    '{"city":"Ü","n":2,"l":[1,{"a":null}],"b":true,"f":1.5}', "{}", "", "{oops", "[1]",
    '{"s":"<x>\\n"}',
)  # fmt: skip
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": None,
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
    },
    {"type": "function", "function": {"name": "g", "description": "d", "parameters": None}},
)
KINDS = {"user": 4.0, "assistant": 3.0, "calls": 2.0, "tool": 0.5, "system": 0.5, "developer": 0.5}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", 3, 100, 0, 101, "zz")


class Plain:
    """As much of a tokenizer as is wrapped."""

    def get_added_vocab(self) -> dict[str, int]:
        return {}


def make_content(rng: random.Random) -> Any:
    if rng.random() < 0.2:
        texts = [text for text in TEXTS if text]
        return [{"type": "text", "text": rng.choice(texts)} for _ in range(rng.randint(0, 3))]
    return rng.choice(TEXTS)


def make_messages(rng: random.Random) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": make_content(rng)})
    for turn in range(rng.randint(1, 7)):
        (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
        message = {"role": kind, "content": make_content(rng)}
        messages.append(message)
        if kind == "tool":
            message["tool_call_id"] = "zz"
        elif kind == "developer" and rng.random() < 0.4:
            message["tools"] = list(TOOLS[:1])
        elif kind in ("assistant", "calls") and rng.random() < 0.6:
            message["reasoning"] = rng.choice(TEXTS)
        if kind == "calls":
            ids = [f"c{turn}-{place}" for place in range(rng.randint(1, 3))]
            function = {"name": rng.choice("fg"), "arguments": rng.choice(ARGUMENTS)}
            message["role"] = "assistant"
            message["tool_calls"] = [
                {"id": one, "type": "function", "function": dict(function)} for one in ids
            ]
            rng.shuffle(ids)
            messages += [
                {"role": "tool", "tool_call_id": one, "content": make_content(rng)} for one in ids
            ]
    return messages


def make_kwargs(rng: random.Random) -> dict[str, Any]:
    names = ("thinking", "enable_thinking", "drop_thinking")
    kwargs: dict[str, Any] = {name: rng.random() < 0.6 for name in names if rng.random() < 0.3}
    if rng.random() < 0.4:
        kwargs["reasoning_effort"] = rng.choice(EFFORTS)
    return kwargs


def with_objects(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with arguments as vLLM's parsing leaves them in the client's own."""
    made = copy.deepcopy(messages)
    for message in made:
        for call in message.get("tool_calls", []):
            try:
                value = json.loads(call["function"]["arguments"])
            except ValueError:
                value = {}
            call["function"]["arguments"] = value if isinstance(value, dict) else {}
    return made


class Crashed(Exception):
    """vLLM's encoder lost count of its messages: a 500 there (docs/conformance.md)."""


def text_or_refusal(render: Callable[..., str], *given: Any, **options: Any) -> str | None:
    """Return the text; None where it is refused."""
    try:
        return render(*given, **options)
    except (ForewordError, ValueError, AssertionError, TypeError, NotImplementedError) as error:
        if "out of range for" in str(error):
            raise Crashed from None
        return None


@pytest.mark.witness(
    family=("mode:deepseek_v32", "mode:deepseek_v4", "mode:deepseek_v41"),
    what="the text of 1,500 random conversations with tools, results and reasoning, or a refusal "
    "by both",
    against="vLLM 0.33's own encoders",
    needs="the group parity and the sources of vLLM 0.33",
)
@pytest.mark.parametrize("mode", sorted(BY_MODE))
def test_random_conversations(mode: str, vllm_tokenizers: Callable[[str], Any]) -> None:
    theirs = getattr(vllm_tokenizers(mode), f"get_{mode}_tokenizer")(Plain())
    ours = BY_MODE[mode]()
    rng = random.Random(1)
    num_equal = 0
    for _ in range(1500):
        messages, kwargs = make_messages(rng), make_kwargs(rng)
        tools = list(TOOLS) if rng.random() < 0.3 else None
        given: dict[str, Any] = {
            "content_format": ours.content_format,
            "has_developer_branch": True,
            "tools": tools,
            "chat_template_kwargs": kwargs,
        }
        conversation = parse_conversation(
            messages, keeps_messages=ours.keeps_messages, may_be_empty=True, **given
        )
        made = text_or_refusal(lambda one: ours.render(one).text, conversation)
        if mode == "deepseek_v41":
            seen = with_objects(messages)
        else:
            seen = [dict(one) for one in parse_conversation(messages, **given).messages]
        try:
            expected = text_or_refusal(
                theirs.apply_chat_template,
                copy.deepcopy(seen),
                tools=copy.deepcopy(tools),
                tokenize=False,
                **kwargs,
            )
        except Crashed:
            continue
        assert made == expected, (messages, tools, kwargs)
        num_equal += made is not None
    assert num_equal > 500
