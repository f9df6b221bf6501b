"""A conversation enters; DeepSeek V4.1's prompt leaves.

Rules of this file: it holds what V4.1 does differently from V4: a token for systems, effort as a
number, tags that begin with a blank. Images are refused where messages are read.

Source: vLLM 0.33 `tokenizer_mode=deepseek_v41`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foreword.errors import InvalidRequest
from foreword.formats.deepseek_blocks import DsmlNames, wants_thinking
from foreword.formats.deepseek_turns import Dialect, Thinking, Turn, attach_tools, render_turns
from foreword.types import ContentFormat, Conversation, Message, RenderedText

IMAGE = "<｜deepseek_image｜>"
_LEVELS: Mapping[object, int] = {"low": 50, "high": 75, "xhigh": 75, "max": 100}
_DEFAULT_EFFORT = 75


def _asks(place: int, turn: Turn) -> bool:
    if turn.role == "system":
        return place > 0
    if turn.role == "user":
        # Results alone continue the turn that called for them.
        return not all(block.is_result for block in turn.blocks)
    return turn.role == "developer"


def _opens_answer(place: int, turns: Sequence[Turn]) -> bool:
    return place > 0


_DIALECT = Dialect(
    name="deepseek_v41",
    dsml=DsmlNames(calls=" calls", invoke=" invoke", parameter=" parameter"),
    asks=_asks,
    opens_answer=_opens_answer,
    system_token="<｜System｜>",
    roles=frozenset({"system", "developer", "user", "tool", "assistant"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekV41:
    """DeepSeek V4.1, text only, with filling in the middle.

    Reads `thinking` and `enable_thinking` (on unless one is given and none is true),
    `reasoning_effort` (low, high, xhigh, max, or a number from 1 to 100) and `drop_thinking`.
    """

    name: str = "deepseek_v41"
    content_format: ContentFormat = "openai"
    keeps_messages: bool = True
    is_sealed: bool = False
    tells_offsets: bool = False

    def render(self, conversation: Conversation) -> RenderedText:
        """Return the prompt.

        Raises: `InvalidRequest` for a role, part or effort the format does not have, and for text
        that spells the image token.
        """
        for place, message in enumerate(conversation.messages):
            _refuse_image_token(message, place)
        messages = attach_tools(conversation.messages, conversation.tools)
        return RenderedText(text=render_turns(messages, _DIALECT, _thinking(conversation)))

    def render_suffix(self, prompt: str, suffix: str) -> str | None:
        """Return the prompt that asks for what stands between `prompt` and `suffix`."""
        return f"<｜fim▁begin｜>{prompt}<｜fim▁hole｜>{suffix}<｜fim▁end｜>"


def _refuse_image_token(message: Message, place: int) -> None:
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [part.get("text") for part in content]
    if any(isinstance(text, str) and IMAGE in text for text in (*parts, message.get("reasoning"))):
        raise InvalidRequest(
            f"messages[{place}] spells the token that stands for an image. Remove it from the text."
        )


def _thinking(conversation: Conversation) -> Thinking:
    kwargs = conversation.chat_template_kwargs
    asked = kwargs.get("reasoning_effort")
    effort = _number(None if asked == "none" else asked)
    return Thinking(
        is_on=asked != "none" and wants_thinking(kwargs, default=True),
        effort=(
            f"Reasoning Effort: {effort}"
            " (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
        ),
        drops_old=bool(kwargs.get("drop_thinking", True)),
    )


def _number(asked: object) -> int:
    if asked is None:
        return _DEFAULT_EFFORT
    if type(asked) is int and 1 <= asked <= 100:
        return asked
    if isinstance(asked, str) and asked in _LEVELS:
        return _LEVELS[asked]
    raise InvalidRequest(
        f"reasoning_effort is {asked!r}; it must be none, low, high, xhigh, max, or an integer"
        " from 1 to 100 in chat_template_kwargs.",
        param="reasoning_effort",
    )
