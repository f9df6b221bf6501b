"""Harmony prompts against `oss-harmony`, the format's own library, id by id.

Needs the group `parity` and the gpt-oss tokenizer beside the checkout; without them this skips.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

oh = pytest.importorskip("openai_harmony", reason="needs oss-harmony, of the group `parity`")

from foreword import load  # noqa: E402
from foreword.formats.harmony import Harmony  # noqa: E402
from foreword.types import Conversation  # noqa: E402

MODEL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "models" / "gptoss"
pytestmark = pytest.mark.skipif(not MODEL.is_dir(), reason="no ../shared/data beside the checkout")

DATE = "2026-11-30"
TEXTS = (
    *("hello world", "Grüße 👋 ẞ", "it's  \n\n  a test\t", "12345 678", "日本語テスト", " ", "\n"),
    *("<|end|>", "x<|start|>assistant<|channel|>final<|message|>", "<|e", "nd|>", "don'T we'RE"),
)
DEFAULTS = ("x", 5, 1.5, True, None, {"b": 1, "a": [1, 2]}, 'q"uote\\', 1e16, 1.25e-5, 3e-9, 2**64)


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        return "".join(self.random.choices(TEXTS, k=self.random.randint(1, 3)))

    def schema(self, depth: int = 0) -> dict[str, Any]:
        pick, chance = self.random.choice, lambda p: self.random.random() < p
        kind = pick(
            ("string", "integer", "boolean", "array", "object", "oneOf", "enum", "many", "")
        )
        made: dict[str, Any] = {"type": kind}
        if kind in ("", "oneOf"):
            made = {}
        if kind == "oneOf":
            made["oneOf"] = (
                [self.schema(depth + 1) for _ in range(pick((0, 1, 3)))] if depth < 3 else []
            )
        elif kind == "enum":
            made = {"type": "string", "enum": pick((["a", "b"], [], ["c", 1]))}
        elif kind == "many":
            made = {"type": pick((["string", "null"], ["integer", 3], []))}
        elif kind == "array" and chance(0.7) and depth < 3:
            made["items"] = self.schema(depth + 1)
        elif kind == "object" and depth < 3:
            names = self.random.sample(("zeta", "alpha", "q", "Big", "ü"), pick((0, 2, 3)))
            made["properties"] = {name: self.schema(depth + 1) for name in names}
            made["required"] = names[:1]
        for key, values in (
            ("description", ("A city", "two\nlines", "ü <|end|>")),
            ("title", ("T",)),
            ("nullable", (True, False)),
            ("default", DEFAULTS),
            ("examples", ([], ["e1", 1])),
        ):
            if chance(0.25):
                made[key] = pick(values)
        return made

    def tools(self) -> list[dict[str, Any]]:
        described = self.random.choice(("", "One line", "a\r\nb\n"))
        given = self.random.choice((None, self.schema(), {"type": "object", "properties": {}}))
        return [{"function": {"name": "f", "description": described, "parameters": given}}]


def make(maker: Maker) -> tuple[Conversation, list[Any]]:
    """The same conversation, for us and for the witness."""
    instructions = maker.text() if maker.random.random() < 0.5 else None
    tools = maker.tools() if maker.random.random() < 0.6 else None
    system = oh.SystemContent.new().with_conversation_start_date(DATE)
    theirs = [oh.Message.from_role_and_content(oh.Role.SYSTEM, system)]
    ours: list[dict[str, Any]] = []
    if instructions is not None:
        ours.append({"role": "system", "content": instructions})
    if instructions is not None or tools:
        developer = oh.DeveloperContent.new()
        if instructions is not None:
            developer = developer.with_instructions(instructions)
        if tools:
            described = [oh.ToolDescription.new(**tool["function"]) for tool in tools]
            developer = developer.with_function_tools(described)
        theirs.append(oh.Message.from_role_and_content(oh.Role.DEVELOPER, developer))
    for _ in range(maker.random.randint(0, 4)):
        texts = [maker.text() for _ in range(maker.random.randint(1, 2))]
        ours.append({"role": "user", "content": [{"type": "text", "text": one} for one in texts]})
        parts = [oh.TextContent(text=one) for one in texts]
        theirs.append(oh.Message.from_role_and_contents(oh.Role.USER, parts))
        answer = maker.text()
        ours.append({"role": "assistant", "content": answer})
        said = oh.Message.from_role_and_content(oh.Role.ASSISTANT, answer)
        theirs.append(said.with_channel("final"))
    return Conversation(messages=tuple(ours), tools=tuple(tools) if tools else None), theirs


@pytest.mark.witness(
    family="format:gpt_oss",
    what="ids of random conversations and tools, control tokens spelled in them included",
    against="oss-harmony 0.0.11",
    needs="the group parity and the data folder",
)
def test_random_conversations() -> None:
    renderer = load(str(MODEL))
    encoding = oh.load_harmony_encoding(oh.HarmonyEncodingName.HARMONY_GPT_OSS)
    for seed in range(400):
        conversation, messages = make(Maker(seed))
        rendered = Harmony(start_date=DATE).render(conversation)
        ours = renderer.tokenizer.encode(
            rendered.text, add_special_tokens=False, literal_spans=rendered.literal_spans
        )
        theirs = encoding.render_conversation_for_completion(
            oh.Conversation.from_messages(messages), oh.Role.ASSISTANT
        )
        assert list(ours.token_ids) == theirs, rendered.text
