"""A conversation enters; Inkling's prompt leaves.

Rules of this file: what stands between two control tokens is encoded by itself, as engines do; a
control token that a text spells is one there too. Images and audio are refused where messages are
read.

Source: vLLM 0.33 `tokenizer_mode=inkling`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.formats.roles import refuse_role
from foreword.types import ContentFormat, Conversation, Message, RenderedText, Span

_ROLES = {
    "user": "<|message_user|>",
    "assistant": "<|message_model|>",
    "system": "<|message_system|>",
    "developer": "<|message_system|>",
    "tool": "<|message_tool|>",
}
_XML = ("<|content_xml|>", "<|unused_200024|>")
"""The spellings of one token, the first that the vocabulary has."""
_TEXT, _THINKING = "<|content_text|>", "<|content_thinking|>"
_CALL = "<|content_invoke_tool_json|>"
_END, _END_SAMPLING = "<|end_message|>", "<|content_model_end_sampling|>"
_NEEDED = (
    *dict.fromkeys(_ROLES.values()), _TEXT, "<|content_image|>", _END_SAMPLING, _THINKING,
    "<|content_audio_input|>", _CALL, _END, "<|audio_end|>",
)  # fmt: skip
_EFFORTS = {
    "none": 0.0,
    "minimal": 0.1,
    "low": 0.2,
    "medium": 0.7,
    "high": 0.9,
    "xhigh": 0.99,
    "max": 0.99,
}
_DEFAULT_EFFORT, _MAX_EFFORT = 0.9, 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Inkling:
    """Inkling, text only. Reads `reasoning_effort`: a name from none to max, or 0 to 0.99.

    `xml_token` is how the vocabulary spells the token before the declaration of tools.
    """

    name: str = "inkling"
    content_format: ContentFormat = "string"
    keeps_messages: bool = True
    is_sealed: bool = False
    tells_offsets: bool = False
    xml_token: str = _XML[0]

    @classmethod
    def of_vocabulary(cls, token_to_id: Callable[[str], int | None]) -> Inkling:
        """Return the format as a vocabulary spells it.

        Raises: `AssetsInvalid` naming the control tokens the vocabulary lacks.
        """
        missing = [token for token in _NEEDED if token_to_id(token) is None]
        xml = next((token for token in _XML if token_to_id(token) is not None), None)
        if xml is None or missing:
            lacking = ", ".join([*missing, *([] if xml else _XML[:1])])
            raise AssetsInvalid(
                file="tokenizer.json",
                problem=f"tokenizer mode 'inkling' needs control tokens it lacks: {lacking}.",
                remedy="Choose mode 'hf' for a model of another family.",
            )
        return cls(xml_token=xml)

    def render(self, conversation: Conversation) -> RenderedText:
        """Return the prompt, up to the token that opens the model's turn.

        Raises: `InvalidRequest` for a role, part or effort the format does not have, arguments
        that are no JSON, and a message that is to be continued.
        """
        if conversation.continue_final_message:
            raise InvalidRequest(
                "This model's chat format cannot continue a message. Leave"
                " continue_final_message out.",
                param="continue_final_message",
            )
        text, effort = _Text(), _effort(conversation.chat_template_kwargs)
        if tools := _all_tools(conversation):
            text.message("system", self.xml_token, _declare(tools), author="tool_declare")
        names: dict[str, str] = {}
        for place, message in enumerate(conversation.messages):
            role = message["role"]
            if role not in _ROLES:
                raise refuse_role(role, self.name)
            if effort is not None and role not in ("system", "developer"):
                text.message("system", _TEXT, effort)
                effort = None
            if role == "tool":
                author = message.get("name") or names.get(str(message.get("tool_call_id")), "")
                parts = "".join(_parts(message, place))
                text.message("tool", _TEXT, parts, author=str(author))
            else:
                _say(text, message, place, names)
        if effort is not None:
            text.message("system", _TEXT, effort)
        if conversation.add_generation_prompt:
            text.control(_ROLES["assistant"])
        return text.rendered()

    def render_suffix(self, prompt: str, suffix: str) -> str | None:
        return None


class _Text:
    """The prompt as it grows, and where it is cut: at both ends of every control token."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._cuts: list[Span] = []
        self._num_chars = 0

    def control(self, token: str) -> None:
        self._cut()
        self._add(token)
        self._cut()

    def message(self, role: str, kind: str, content: str, *, author: str = "") -> None:
        self.control(_ROLES[role])
        self._add(author)
        self.control(kind)
        self._add(content)
        self.control(_END)

    def rendered(self) -> RenderedText:
        return RenderedText(text="".join(self._pieces), literal_spans=tuple(self._cuts))

    def _add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._num_chars += len(piece)

    def _cut(self) -> None:
        here = (self._num_chars, self._num_chars)
        if not self._cuts or self._cuts[-1] != here:
            self._cuts.append(here)


def _say(text: _Text, message: Message, place: int, names: dict[str, str]) -> None:
    """Write what a message says, and note the names of the calls it makes."""
    role = message["role"]
    if role == "assistant" and (reasoning := message.get("reasoning")):
        text.message(role, _THINKING, reasoning)
    for part in _parts(message, place):
        text.message(role, _TEXT, part)
    if role != "assistant":
        return
    for call in message.get("tool_calls") or ():
        name = call["function"]["name"]
        if call.get("id"):
            names[str(call["id"])] = name
        arguments = _canonical(_arguments(call["function"].get("arguments")), place)
        said = f'{{"name":{json.dumps(name, ensure_ascii=False)},"args":{arguments}}}'
        text.message(role, _CALL, said, author=name)
    text.control(_END_SAMPLING)


def _parts(message: Message, place: int) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        if content or message["role"] == "tool":
            yield content
        return
    for number, part in enumerate(content or ()):
        if part.get("type") == "text":
            yield part["text"]
        else:
            path = f"messages[{place}].content[{number}]"
            raise InvalidRequest(
                f"{path} is a part of type {part.get('type')}, which this model's chat format does"
                " not have. Send text.",
                param=path,
            )


def _effort(kwargs: Mapping[str, Any]) -> str | None:
    """Return the sentence that tells the effort; None for a name that is not known."""
    asked = kwargs.get("reasoning_effort")
    value = _DEFAULT_EFFORT if asked is None else asked
    if isinstance(value, str):
        value = _EFFORTS.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0.0 <= value <= _MAX_EFFORT:
        raise InvalidRequest(
            f"reasoning_effort is {asked!r}; it must be from 0 to {_MAX_EFFORT}, or one of"
            f" {', '.join(_EFFORTS)}.",
            param="reasoning_effort",
        )
    number = f"{value:.2f}".rstrip("0").rstrip(".")
    return f"Thinking effort level: {'0.0' if number in ('0', '-0') else number}"


def _all_tools(conversation: Conversation) -> list[Mapping[str, Any]]:
    tools = list(conversation.tools or ())
    for message in conversation.messages:
        if message["role"] == "developer":
            tools.extend(message.get("tools") or ())
    return tools


def _declare(tools: list[Mapping[str, Any]]) -> str:
    specs = [
        {
            "description": tool["function"].get("description") or "",
            "name": tool["function"]["name"],
            "parameters": tool["function"].get("parameters") or {},
            "type": tool.get("type", "function"),
        }
        for tool in tools
    ]
    return _canonical(specs, None)


def _arguments(arguments: object) -> Mapping[str, Any]:
    """Read arguments; what is no object counts as none, as everywhere on the line."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
    return arguments if isinstance(arguments, Mapping) else {}


def _canonical(value: object, place: int | None) -> str:
    """Return a value as JSON with sorted keys and nothing between.

    Raises: `InvalidRequest` for a number that JSON does not have.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
    except ValueError:
        param = "tools" if place is None else f"messages[{place}].tool_calls"
        raise InvalidRequest(
            f"{param} holds a number that JSON does not have (NaN or an infinity).", param=param
        ) from None
