"""A conversation's messages enter; the turns that DeepSeek V4 and V4.1 write leave, as text.

Rules of this file: tools have no role of their own: their results are blocks of a user's turn, in
the order of the calls. Where the two generations differ, `Dialect` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foreword.errors import InvalidRequest
from foreword.formats.deepseek_blocks import (
    ASSISTANT,
    BOS,
    END_THINK,
    EOS,
    THINK,
    USER,
    DsmlNames,
    call_block,
    response_format_block,
    tool_schemas,
)
from foreword.formats.roles import refuse_role
from foreword.types import Message

LATEST_REMINDER = "<｜latest_reminder｜>"
TASKS = ("action", "query", "authority", "domain", "title", "read_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message, or several that the model reads as one.

    `blocks` is what a user's turn holds: texts, and results of tools.
    """

    role: str
    message: Message
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A text, or the result of the call `call_id`."""

    text: str
    is_result: bool = False
    call_id: str | None = None

    def render(self) -> str:
        return f"<tool_result>{self.text}</tool_result>" if self.is_result else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one generation differs from the other.

    `asks` says whether a turn, at its place, is a question: reasoning before the last of them
    may be dropped. `opens_answer` says whether a system's turn is followed by an answer's opening.
    """

    name: str
    dsml: DsmlNames
    asks: Callable[[int, Turn], bool]
    opens_answer: Callable[[int, Sequence[Turn]], bool]
    system_token: str = ""
    roles: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """Whether the model thinks, the words that say how hard, and what becomes of old reasoning."""

    is_on: bool
    effort: str = ""
    drops_old: bool = True


def render_turns(messages: Sequence[Message], dialect: Dialect, thinking: Thinking) -> str:
    """Return the whole prompt.

    Shapes: contents are text or lists of text parts; a system's `tools` make its tool block.

    Raises: `InvalidRequest` for a role, task or part the format does not have.
    """
    turns = _sort_results(_merge(messages, dialect))
    if any(turn.message.get("tools") for turn in turns):
        # A model at work with tools needs to see why it called them.
        thinking = replace(thinking, drops_old=False)
    if thinking.is_on and thinking.drops_old:
        turns = _drop_old(turns, dialect)
    writer = _Writer(turns, dialect, thinking, _last_question(turns, dialect))
    return BOS + "".join(map(writer.write, range(len(turns))))


def attach_tools(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
) -> list[Message]:
    """Return the messages with the request's tools on the first system's, or on a new one."""
    if not tools:
        return list(messages)
    for place, message in enumerate(messages):
        if message["role"] == "system":
            return [*messages[:place], {**message, "tools": tools}, *messages[place + 1 :]]
    return [{"role": "system", "content": "", "tools": tools}, *messages]


def text_of(content: object) -> str:
    """Return a content's text, its parts apart by a blank line.

    Raises: `InvalidRequest` for a part that is not text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    assert isinstance(content, Sequence)
    for part in content:
        if part.get("type") != "text":
            raise InvalidRequest(
                f"The chat format takes only text parts here, not {part.get('type')!r}.",
                param="type",
            )
    return "\n\n".join(part["text"] for part in content)


# ---------------------------------------------------------------------------------------------
# From messages to turns.


def _merge(messages: Sequence[Message], dialect: Dialect) -> list[Turn]:
    # A user's turn stays open for what follows it: results always, texts unless it has a task.
    merged: list[tuple[Message, list[Block]]] = []
    for message in messages:
        role = message["role"]
        if role not in dialect.roles:
            raise refuse_role(role, dialect.name)
        if role not in ("user", "tool"):
            merged.append((message, []))
            continue
        open_blocks = merged[-1][1] if merged else []
        if open_blocks and (role == "tool" or merged[-1][0].get("task") is None):
            open_blocks.append(_block(message))
        else:
            alone = message if role == "user" else {"role": "user"}
            merged.append((alone, [_block(message)]))
    return [
        Turn(role=message["role"], message=message, blocks=tuple(blocks))
        for message, blocks in merged
    ]


def _block(message: Message) -> Block:
    if message["role"] == "user":
        return Block(text=text_of(message["content"]))
    return Block(
        text=_result_text(message["content"]), is_result=True, call_id=message.get("tool_call_id")
    )


def _result_text(content: object) -> str:
    if not isinstance(content, list | tuple):
        return str(content or "")
    return "\n\n".join(
        part["text"] if part.get("type") == "text" else f"[Unsupported {part.get('type')}]"
        for part in content
    )


def _sort_results(turns: Sequence[Turn]) -> list[Turn]:
    """Put the results of each turn in the order of the calls they answer."""
    order: dict[str, int] = {}
    ordered: list[Turn] = []
    for turn in turns:
        calls = turn.message.get("tool_calls") if turn.role == "assistant" else None
        if calls:
            order = {call["id"]: place for place, call in enumerate(calls) if call.get("id")}
        elif turn.blocks and order:
            turn = replace(turn, blocks=_in_order(turn.blocks, order))
        ordered.append(turn)
    return ordered


def _in_order(blocks: Sequence[Block], order: Mapping[str, int]) -> tuple[Block, ...]:
    results = iter(
        sorted(
            (block for block in blocks if block.is_result),
            key=lambda block: order.get(block.call_id or "", 0),
        )
    )
    return tuple(next(results) if block.is_result else block for block in blocks)


def _last_question(turns: Sequence[Turn], dialect: Dialect) -> int:
    asked = (place for place in reversed(range(len(turns))) if dialect.asks(place, turns[place]))
    return next(asked, -1)


def _drop_old(turns: Sequence[Turn], dialect: Dialect) -> list[Turn]:
    """Drop the reasoning, and the developers, of turns before the last question."""
    last = _last_question(turns, dialect)
    kept: list[Turn] = []
    for place, turn in enumerate(turns):
        if place >= last or turn.role in ("user", "system", "latest_reminder"):
            kept.append(turn)
        elif turn.role == "assistant":
            message = {key: value for key, value in turn.message.items() if key != "reasoning"}
            kept.append(replace(turn, message=message))
    return kept


# ---------------------------------------------------------------------------------------------
# From turns to text.


@dataclass(frozen=True, slots=True)
class _Writer:
    turns: Sequence[Turn]
    dialect: Dialect
    thinking: Thinking
    last: int

    def write(self, place: int) -> str:
        turn = self.turns[place]
        return self._beginning(place, turn) + self._said(place, turn) + self._next(place, turn)

    def _beginning(self, place: int, turn: Turn) -> str:
        token = self.dialect.system_token
        if place:
            return token if turn.role == "system" else ""
        effort = self.thinking.effort if self.thinking.is_on else ""
        return (token if effort or turn.role == "system" else "") + effort

    def _said(self, place: int, turn: Turn) -> str:
        message = turn.message
        if turn.role == "user":
            return USER + "\n\n".join(block.render() for block in turn.blocks)
        if turn.role == "assistant":
            return self._answer(place, message)
        content = text_of(message.get("content"))
        if turn.role == "system":
            return content + self._demands(message)
        if turn.role == "developer":
            if not content:
                raise InvalidRequest("A developer message is empty. Give it content, or drop it.")
            return USER + content + self._demands(message)
        return LATEST_REMINDER + content

    def _demands(self, message: Message) -> str:
        text = ""
        if message.get("tools"):
            text += "\n\n" + tool_block(self.dialect.dsml, message["tools"])
        if message.get("response_format"):
            text += "\n\n" + response_format_block(message["response_format"])
        return text

    def _answer(self, place: int, message: Message) -> str:
        text = ""
        follows_task = place > 0 and self.turns[place - 1].message.get("task") is not None
        is_shown = not self.thinking.drops_old or place > self.last
        if self.thinking.is_on and is_shown and not follows_task:
            text = (message.get("reasoning") or "") + END_THINK
        text += text_of(message.get("content"))
        if message.get("tool_calls"):
            text += "\n\n" + call_block(self.dialect.dsml, message["tool_calls"])
        return text + EOS

    def _next(self, place: int, turn: Turn) -> str:
        """Return what opens the answer, or the task, that follows a turn."""
        turns, is_last = self.turns, place == len(self.turns) - 1
        if not is_last and turns[place + 1].role not in ("assistant", "latest_reminder"):
            return ""
        task = turn.message.get("task")
        if task is not None:
            return self._task(task)
        is_question = turn.role in ("user", "developer")
        if not is_question and not (
            turn.role == "system" and self.dialect.opens_answer(place, turns)
        ):
            return ""
        is_shown = not self.thinking.drops_old or place >= self.last
        return ASSISTANT + (THINK if self.thinking.is_on and is_shown else END_THINK)

    def _task(self, task: str) -> str:
        if task not in TASKS:
            raise InvalidRequest(
                f"The task {task!r} is unknown. Tasks: {', '.join(TASKS)}.", param="task"
            )
        token = f"<｜{task}｜>"
        if task != "action":
            return token
        return ASSISTANT + (THINK if self.thinking.is_on else END_THINK) + token


def tool_block(names: DsmlNames, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the model's own words about tools, with these tools' schemas."""
    opening = names.open(names.calls)
    return f"""\
## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by\
 writing a "{opening}" block like the following:

{names.example(name="TOOL_NAME")}

String parameters should be specified as is and set `string="true"`. For all other types (numbers,\
 booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by {THINK}), you MUST output your complete reasoning inside\
 {THINK}...{END_THINK} BEFORE any tool calls or final response.

Otherwise, output directly after {END_THINK} with tool calls or final response.

### Available Tool Schemas

{tool_schemas(tools)}

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
"""
