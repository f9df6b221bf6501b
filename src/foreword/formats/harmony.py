"""A conversation enters; the Harmony prompt of gpt-oss leaves.

Rules of this file: only what is written by `control` can become a control token; all else is
literal. The system message is the format's own, and what the client calls system is a developer.

Source: vLLM 0.33 for `model_type` gpt_oss, and openai-harmony's format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from foreword.errors import InvalidRequest
from foreword.formats.harmony_types import describe_function
from foreword.formats.roles import refuse_role
from foreword.types import ContentFormat, Conversation, Message, RenderedText, Span

EFFORTS = ("low", "medium", "high")
_DEFAULT_EFFORT = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony:
    """gpt-oss. Reads `reasoning_effort` (low, medium, high).

    `start_date` is the current date told to the model, such as 2026-11-30; None: the clock's.
    """

    name: str = "harmony"
    content_format: ContentFormat = "openai"
    keeps_messages: bool = True
    is_sealed: bool = True
    tells_offsets: bool = True
    start_date: str | None = None
    clock: Callable[[], datetime] = datetime.now

    def render(self, conversation: Conversation) -> RenderedText:
        """Return the prompt, up to where the assistant says which channel it answers on.

        Raises: `InvalidRequest` for a role or an effort the format does not have.
        """
        instructions, messages = _split_instructions(conversation.messages)
        said = [*_say_all(messages)]
        tools = conversation.tools or ()
        system = self._system(conversation.chat_template_kwargs, has_tools=bool(tools))
        preamble = [_Said("system", (system,))]
        if instructions or tools:
            preamble.append(_Said("developer", (_developer(instructions, tools),)))
        text = _Text()
        for one in (*preamble, *_without_old_analysis(said)):
            one.write(text)
        text.control("<|start|>")
        text.literal("assistant")
        return text.rendered()

    def render_suffix(self, prompt: str, suffix: str) -> str | None:
        return None

    def _system(self, kwargs: Mapping[str, Any], *, has_tools: bool) -> str:
        effort = kwargs.get("reasoning_effort") or _DEFAULT_EFFORT
        if effort not in EFFORTS:
            raise InvalidRequest(
                f"reasoning_effort is {effort!r}; this model has {', '.join(EFFORTS)}.",
                param="reasoning_effort",
            )
        date = self.start_date or self.clock().strftime("%Y-%m-%d")
        text = (
            "You are ChatGPT, a large language model trained by OpenAI.\n"
            f"Knowledge cutoff: 2024-06\nCurrent date: {date}\n\nReasoning: {effort}\n\n"
            "# Valid channels: analysis, commentary, final."
            " Channel must be included for every message."
        )
        if has_tools:
            text += "\nCalls to these tools must go to the commentary channel: 'functions'."
        return text


# ---------------------------------------------------------------------------------------------
# What is said, message by message.


class _Said(NamedTuple):
    """One Harmony message: who, on which channel, and texts that are encoded apart."""

    author: str
    texts: tuple[str, ...]
    channel: str | None = None
    end: str = "<|end|>"

    def write(self, text: _Text) -> None:
        text.control("<|start|>")
        text.literal(self.author)
        if self.channel is not None:
            text.control("<|channel|>")
            text.literal(self.channel)
        text.control("<|message|>")
        for one in self.texts:
            text.literal(one)
        text.control(self.end)


def _split_instructions(messages: Sequence[Message]) -> tuple[str | None, Sequence[Message]]:
    if messages and messages[0]["role"] in ("system", "developer"):
        return _instructions(messages[0]), messages[1:]
    return None, messages


def _instructions(message: Message) -> str | None:
    """Return what a system or developer says; None when it says nothing, not even emptiness."""
    texts = _texts(message)
    return "".join(texts) if texts else None


def _say_all(messages: Sequence[Message]) -> Iterator[_Said]:
    names = {
        call.get("id"): call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    for message in messages:
        role = message["role"]
        if role == "assistant":
            yield from _answer(message)
        elif role == "tool":
            name = names.get(message.get("tool_call_id"), "")
            result = "".join(_texts(message))
            yield _Said(f"functions.{name}", (result,), "commentary to=assistant")
        elif role in ("system", "developer"):
            instructions = _instructions(message)
            if instructions is not None:
                yield _Said("developer", (_developer(instructions, ()),))
        elif role == "user":
            yield _Said("user", _texts(message))
        else:
            raise refuse_role(role, "harmony")


def _answer(message: Message) -> Iterator[_Said]:
    calls, reasoning, texts = message.get("tool_calls"), message.get("reasoning"), _texts(message)
    analysis = [_Said("assistant", (reasoning,), "analysis")] if reasoning else []
    if not calls:
        yield from analysis
        if any(texts):
            yield _Said("assistant", texts, "final")
        return
    if any(texts):
        yield _Said("assistant", ("".join(texts),), "commentary")
    yield from analysis
    for call in calls:
        function = call["function"]
        arguments = function["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        author = f"assistant to=functions.{function['name']}"
        yield _Said(author, (arguments,), "commentary json", "<|call|>")


def _without_old_analysis(said: Sequence[_Said]) -> Iterator[_Said]:
    """Drop reasoning that an answer on the final channel has come after."""
    finals = (place for place in reversed(range(len(said))) if said[place].channel == "final")
    last = next(finals, -1)
    for place, one in enumerate(said):
        if place >= last or one.channel != "analysis":
            yield one


def _texts(message: Message) -> tuple[str, ...]:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return () if content is None else (content,)
    return tuple(part["text"] for part in content if isinstance(part.get("text"), str))


def _developer(instructions: str | None, tools: Sequence[Mapping[str, Any]]) -> str:
    sections = [] if instructions is None else ["# Instructions", instructions]
    if tools:
        functions = "\n".join(describe_function(tool["function"]) for tool in tools)
        space = f"namespace functions {{\n\n{functions}\n}} // namespace functions"
        sections += ["# Tools", f"## functions\n\n{space}"]
    return "\n\n".join(sections)


class _Text:
    """The prompt as it grows, and which of its characters are literal."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._spans: list[Span] = []
        self._num_chars = 0

    def control(self, token: str) -> None:
        self._pieces.append(token)
        self._num_chars += len(token)

    def literal(self, text: str) -> None:
        if text:
            self._spans.append((self._num_chars, self._num_chars + len(text)))
            self.control(text)

    def rendered(self) -> RenderedText:
        return RenderedText(text="".join(self._pieces), literal_spans=tuple(self._spans))
