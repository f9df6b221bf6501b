"""A conversation enters; DeepSeek V4's prompt leaves.

Rules of this file: it holds V4's own words and rules; what V4 shares with V4.1 is
`deepseek_turns`. Texts are the model's own.

Source: vLLM 0.33 `tokenizer_mode=deepseek_v4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from foreword.formats.deepseek_blocks import DsmlNames, wants_thinking
from foreword.formats.deepseek_turns import Dialect, Thinking, Turn, attach_tools, render_turns
from foreword.types import ContentFormat, Conversation, RenderedText

Effort = Literal["low", "high", "max"]

_EFFORTS: dict[Effort, str] = {
    "low": "",
    "high": """\
Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the\
 root cause, rigorously stress-testing your logic against all potential paths, edge cases, and\
 adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step,\
 considered alternative, and rejected hypothesis to ensure absolutely no assumption is left\
 unchecked.

""",
    "max": """\
Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.
You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively\
 decompose the problem into its most fundamental components, trace every causal chain to its root,\
 and resolve the underlying cause rather than any surface symptom.
Do not stop reasoning until you have independently verified the solution from multiple angles and\
 are certain that no assumption remains unchecked and no error remains undiscovered.

""",
}


def _asks(place: int, turn: Turn) -> bool:
    return turn.role in ("user", "developer")


def _opens_answer(place: int, turns: Sequence[Turn]) -> bool:
    return place == len(turns) - 1 or turns[place + 1].role == "assistant"


_DIALECT = Dialect(
    name="deepseek_v4",
    dsml=DsmlNames(calls="tool_calls", invoke="invoke", parameter="parameter"),
    asks=_asks,
    opens_answer=_opens_answer,
    roles=frozenset({"system", "developer", "user", "tool", "assistant", "latest_reminder"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekV4:
    """DeepSeek V4, with filling in the middle.

    Reads `thinking` and `enable_thinking` (on unless one is given and none is true),
    `reasoning_effort` (any level; V4 knows low, high and max) and `drop_thinking`.
    """

    name: str = "deepseek_v4"
    content_format: ContentFormat = "openai"
    keeps_messages: bool = False
    is_sealed: bool = False
    tells_offsets: bool = False

    def render(self, conversation: Conversation) -> RenderedText:
        """Return the prompt.

        Raises: `InvalidRequest` for a role, task or part the format does not have.
        """
        messages = attach_tools(conversation.messages, conversation.tools)
        return RenderedText(text=render_turns(messages, _DIALECT, _thinking(conversation)))

    def render_suffix(self, prompt: str, suffix: str) -> str | None:
        """Return the prompt that asks for what stands between `prompt` and `suffix`."""
        return f"<｜fim▁begin｜>{prompt}<｜fim▁hole｜>{suffix}<｜fim▁end｜>"


def _thinking(conversation: Conversation) -> Thinking:
    kwargs = conversation.chat_template_kwargs
    asked = kwargs.get("reasoning_effort")
    return Thinking(
        is_on=asked != "none" and wants_thinking(kwargs, default=True),
        effort=_EFFORTS[_level(asked)],
        drops_old=bool(kwargs.get("drop_thinking", True)),
    )


def _level(asked: object) -> Effort:
    if asked == "max":
        return "max"
    return "low" if asked in ("low", "minimal", "medium") else "high"
