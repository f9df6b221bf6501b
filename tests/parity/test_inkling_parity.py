"""Inkling's chats against vLLM's own encoder, id for id, on random conversations."""

from __future__ import annotations

import copy
import importlib.util
import json
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.demo import model_folder
from foreword.errors import ForewordError
from foreword.formats.inkling import _NEEDED

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

TEXTS = ("hi", "", "Ü ✓", "a\n\nb", " sp ", "<|end_message|>", "<|message_", "x <|unused_200024|>")
ARGUMENTS = ('{"b":{"z":1,"a":[1.5,null]},"a":"Ü"}', "{}", "", "{oops", "[1]", '{"s":"<x>\\n"}')
TOOLS = (
    {"type": "function", "function": {"name": "f", "description": "ü", "parameters": {"b": 1}}},
    {"type": "function", "function": {"name": "g", "parameters": None}},
)
EFFORTS = (
    "none",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
    "zz",
    0,
    0.25,
    0.999,
    3,
    True,
)


@pytest.fixture
def theirs(vllm_sources: Path) -> types.ModuleType:
    path = vllm_sources / "renderers" / "inkling_encoding.py"
    spec = importlib.util.spec_from_file_location("inkling_encoding", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ours(tmp_path: Path) -> foreword.Renderer:
    file = json.loads((Path(model_folder()) / "tokenizer.json").read_text())
    first = 1 + max(file["model"]["vocab"].values())
    flags = {"single_word": False, "lstrip": True, "rstrip": False, "normalized": False}
    file["added_tokens"] += [
        {"id": first + 100 + place, "content": token, "special": True, **flags}
        for place, token in enumerate((*_NEEDED, "<|unused_200024|>"))
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 100000}')
    return foreword.load(tmp_path, tokenizer_mode="inkling")


class Pieces:
    """vLLM's adapter: a text by itself, and the id of a control token by its spellings."""

    def __init__(self, tokenizer: Any, spellings: dict[str, tuple[str, ...]]) -> None:
        self.tokenizer, self.spellings = tokenizer, spellings

    def encode_text(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).token_ids)

    def encode_special(self, token: str) -> int:
        found = (self.tokenizer.token_to_id(one) for one in self.spellings[token])
        return next(one for one in found if one is not None)


def make_content(rng: random.Random) -> Any:
    if rng.random() < 0.3:
        return [{"type": "text", "text": rng.choice(TEXTS)} for _ in range(rng.randint(0, 3))]
    return rng.choice((*TEXTS, None)) if rng.random() < 0.9 else ""


def make_messages(rng: random.Random) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for turn in range(rng.randint(1, 8)):
        role = rng.choice(("user", "user", "assistant", "tool", "system", "developer"))
        message: dict[str, Any] = {"role": role, "content": make_content(rng)}
        messages.append(message)
        if role == "tool":
            message["tool_call_id"] = f"c{rng.randrange(8)}-0"
            if rng.random() < 0.3:
                message["name"] = rng.choice(("named", ""))
        if role == "developer" and rng.random() < 0.4:
            message["tools"] = list(TOOLS[:1])
        if role == "assistant" and rng.random() < 0.6:
            message["reasoning"] = rng.choice(TEXTS)
        if role == "assistant" and rng.random() < 0.5:
            message["tool_calls"] = [
                {
                    "id": f"c{turn}-{place}",
                    "type": "function",
                    "function": {"name": rng.choice("fg"), "arguments": rng.choice(ARGUMENTS)},
                }
                for place in range(rng.randint(1, 2))
            ]
    return messages


def as_theirs(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the client's messages with arguments as vLLM's parsing leaves them there."""
    made = copy.deepcopy(messages)
    for message in made:
        for call in message.get("tool_calls", []):
            try:
                value = json.loads(call["function"]["arguments"])
            except ValueError:
                value = {}
            call["function"]["arguments"] = value if isinstance(value, dict) else {}
    return made


@pytest.mark.witness(
    family="mode:inkling",
    what="ids of 1,500 random conversations with tools, results and reasoning, or a refusal by "
    "both, with a small vocabulary",
    against="vLLM 0.33's own encoder",
    needs="the sources of vLLM 0.33",
)
def test_random_conversations(
    theirs: types.ModuleType, ours: foreword.Renderer, vllm_sources: Path
) -> None:
    resolve = resolver(vllm_sources)
    pieces = Pieces(ours.tokenizer, theirs.SPECIAL_TOKEN_SPELLINGS)
    rng = random.Random(1)
    num_equal = 0
    for _ in range(1500):
        messages, body = make_messages(rng), {}
        if rng.random() < 0.3:
            body["tools"] = list(TOOLS)
        if rng.random() < 0.5:
            body["chat_template_kwargs"] = {"reasoning_effort": rng.choice(EFFORTS)}
        opens = rng.random() < 0.8
        try:
            request = {"messages": messages, "add_generation_prompt": opens, **body}
            made = list(ours.render_chat(request).engine_input.token_ids)
        except ForewordError:
            made = None
        effort = body.get("chat_template_kwargs", {}).get("reasoning_effort")
        try:
            expected = theirs.render_inkling_messages(
                as_theirs(messages),
                pieces,
                add_generation_prompt=opens,
                tools=body.get("tools"),
                reasoning_effort=resolve(effort),
            )
        except (ValueError, TypeError):
            expected = None
        assert made == (expected or None), (messages, body)
        num_equal += made is not None
    assert num_equal > 1000


def resolver(vllm_sources: Path) -> Callable[[object], Any]:
    """Return vLLM's own reading of `reasoning_effort`, cut out of a module that needs torch."""
    source = (vllm_sources / "renderers" / "inkling.py").read_text()
    start = source.index("_NAMED_REASONING_EFFORT")
    scope: dict[str, Any] = {}
    exec(source[start : source.index("class _HfBackedTmlTokenizer")], scope)
    found: Callable[[object], Any] = scope["_resolve_reasoning_effort"]
    return found
