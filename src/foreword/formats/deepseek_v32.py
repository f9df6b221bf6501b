"""A conversation enters; DeepSeek V3.2's prompt leaves.

Rules of this file: each message becomes a text that depends on its place alone; whether it thinks
is decided by the last question. Texts are the model's own.

Source: vLLM 0.33 `tokenizer_mode=deepseek_v32`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    last_turn,
    response_format_block,
    tool_schemas,
    wants_thinking,
)
from foreword.formats.roles import refuse_role
from foreword.types import ContentFormat, Conversation, Message, RenderedText

_DSML = DsmlNames(calls="function_calls", invoke="invoke", parameter="parameter")
_TOOLS = f"""\
## Tools
You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "{_DSML.open(_DSML.calls)}" block like the following as part\
 of your reply to the user:
{_DSML.example(name="FUNCTION_NAME")}
String and scalar parameters should be specified as is without any escaping or quotes, while lists\
 and objects should use JSON format. The "string" attribute should be set to "true" for string type\
 parameters and "false" for other types (numbers, booleans, arrays, objects).
If the thinking_mode is enabled, then after function results you should strongly consider\
 outputting a thinking block. Here is an example:
{_DSML.open(_DSML.calls)}
...
{_DSML.close(_DSML.calls)}
<function_results>
...
</function_results>
{THINK}...thinking about results{END_THINK}
Here are the functions available in JSONSchema format:
<functions>
"""
_END_TOOLS = "\n</functions>\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekV32:
    """DeepSeek V3.2. Reads `thinking` and `enable_thinking` (off unless one is true).

    Reasoning of earlier turns is dropped when the last message is a user's.
    """

    name: str = "deepseek_v32"
    content_format: ContentFormat = "string"
    keeps_messages: bool = False
    is_sealed: bool = False
    tells_offsets: bool = False

    def render(self, conversation: Conversation) -> RenderedText:
        """Return the prompt.

        Raises: `InvalidRequest` for an empty conversation, a role the format does not have, and
        results, developers or answers it cannot place.
        """
        messages = list(conversation.messages)
        if conversation.tools:
            messages.insert(0, {"role": "system", "tools": conversation.tools})
        if not messages:
            raise InvalidRequest("The conversation has no messages. Send at least one.")
        thinks = wants_thinking(conversation.chat_template_kwargs, default=False)
        if thinks and messages[-1]["role"] == "user":
            # Developers go with the reasoning of the turns they spoke in.
            messages = _without_reasoning(messages)
        turns = _Turns(messages, thinks, last_turn(messages), _find_asking(messages))
        return RenderedText(text=BOS + "".join(map(turns.render, range(len(messages)))))

    def render_suffix(self, prompt: str, suffix: str) -> str | None:
        return None


def _without_reasoning(messages: Sequence[Message]) -> list[Message]:
    last = last_turn(messages)
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if place >= last or message["role"] in ("user", "system", "tool"):
            kept.append(message)
        elif message["role"] == "assistant":
            kept.append({key: value for key, value in message.items() if key != "reasoning"})
    return kept


def _find_asking(messages: Sequence[Message]) -> list[int]:
    """Return, for each message, the place of the last one before it that is no tool's, or -1."""
    asking: list[int] = []
    found = -1
    for place, message in enumerate(messages):
        asking.append(found)
        if message["role"] != "tool":
            found = place
    return asking


@dataclass(frozen=True, slots=True)
class _Turns:
    messages: Sequence[Message]
    thinks: bool
    last: int
    asking: Sequence[int]

    def render(self, place: int) -> str:
        message = self.messages[place]
        role = message["role"]
        if role == "system":
            return _with_blocks(message.get("content") or "", message)
        if role == "developer":
            return self._question(_developer(message), place)
        if role == "user":
            return self._question(message["content"], place)
        if role == "tool":
            return self._result(message["content"], place)
        if role == "assistant":
            return self._answer(message, place)
        raise refuse_role(role, "deepseek_v32")

    def _question(self, content: str, place: int) -> str:
        return USER + content + ASSISTANT + self._opening(place == self.last)

    def _opening(self, is_open: bool) -> str:
        return THINK if is_open and self.thinks else END_THINK

    def _result(self, content: str, place: int) -> str:
        asked = self.asking[place]
        asking = self.messages[asked] if asked >= 0 else {}
        calls = asking.get("tool_calls") or () if asking.get("role") == "assistant" else ()
        order = place - asked
        if len(calls) < order:
            raise InvalidRequest(
                f"A tool's result is number {order} after an assistant message with {len(calls)}"
                " tool calls. Send one result for each call, right after the message that made"
                " the calls."
            )
        text = ("\n\n<function_results>" if order == 1 else "") + f"\n<result>{content}</result>"
        if order < len(calls):
            return text
        return text + "\n</function_results>\n\n" + self._opening(place >= self.last)

    def _answer(self, message: Message, place: int) -> str:
        calls, reasoning = message.get("tool_calls"), message.get("reasoning")
        text = message.get("content") or ""
        if self.thinks and place > self.last:
            if not (reasoning or calls):
                raise InvalidRequest(
                    "With thinking on, an assistant message after the last question needs"
                    " reasoning or tool calls. Add its reasoning, or switch thinking off."
                )
            text = (reasoning or "") + END_THINK + text
        if calls:
            text += "\n\n" + call_block(_DSML, calls)
        return text + EOS


def _developer(message: Message) -> str:
    if not message.get("content"):
        raise InvalidRequest("A developer message is empty. Give it content, or drop it.")
    return _with_blocks("", message) + f"\n\n# The user's message is: {message['content']}"


def _with_blocks(content: str, message: Mapping[str, Any]) -> str:
    if message.get("tools"):
        content += "\n\n" + _TOOLS + tool_schemas(message["tools"]) + _END_TOOLS
    if message.get("response_format"):
        content += "\n\n" + response_format_block(message["response_format"])
    return content
