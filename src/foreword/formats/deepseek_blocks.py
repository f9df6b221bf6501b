"""What DeepSeek's prompts are made of: control tokens, tool descriptions, calls in DSML.

Rules of this file: texts are the models' own, to the last blank; nothing here knows about turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foreword.types import Message

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
USER = "<｜User｜>"
ASSISTANT = "<｜Assistant｜>"
THINK = "<think>"
END_THINK = "</think>"
DSML = "｜DSML｜"


@dataclass(frozen=True, slots=True, kw_only=True)
class DsmlNames:
    """How a model generation spells the tags of a call: `<｜DSML｜` and one of these."""

    calls: str
    invoke: str
    parameter: str

    def open(self, tag: str, **attributes: str) -> str:
        """Return an opening tag."""
        said = "".join(f' {name}="{value}"' for name, value in attributes.items())
        return f"<{DSML}{tag}{said}>"

    def close(self, tag: str) -> str:
        """Return a closing tag."""
        return f"</{DSML}{tag}>"

    def example(self, *, name: str) -> str:
        """Return the call with placeholders that teaches the syntax."""
        value = f"$PARAMETER_VALUE{self.close(self.parameter)}"
        parameter = self.open(self.parameter, name="$PARAMETER_NAME", string="true|false") + value
        return "\n".join(
            (
                self.open(self.calls),
                self.open(self.invoke, name=f"${name}"),
                parameter,
                "...",
                self.close(self.invoke),
                self.open(self.invoke, name=f"${name}2"),
                "...",
                self.close(self.invoke),
                self.close(self.calls),
            )
        )


def to_json(value: object) -> str:
    """Return `value` as JSON, other scripts unescaped, as Python's `json` spaces it."""
    return json.dumps(value, ensure_ascii=False)


def tool_schemas(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools' functions, one JSON object a line."""
    return "\n".join(to_json(tool["function"]) for tool in tools)


def call_block(names: DsmlNames, tool_calls: Sequence[Mapping[str, Any]]) -> str:
    """Return the calls of one answer, arguments in DSML: strings bare, all else as JSON."""
    calls = "\n".join(_call(names, call["function"]) for call in tool_calls)
    return f"{names.open(names.calls)}\n{calls}\n{names.close(names.calls)}"


def _call(names: DsmlNames, function: Mapping[str, Any]) -> str:
    parameters = "\n".join(
        names.open(names.parameter, name=key, string="true" if isinstance(value, str) else "false")
        + (value if isinstance(value, str) else to_json(value))
        + names.close(names.parameter)
        for key, value in _arguments(function["arguments"]).items()
    )
    opening = names.open(names.invoke, name=function["name"])
    return f"{opening}\n{parameters}\n{names.close(names.invoke)}"


def _arguments(arguments: object) -> Mapping[str, Any]:
    """Read arguments; what is no object counts as none, as everywhere on the line."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
    return arguments if isinstance(arguments, Mapping) else {}


def response_format_block(schema: object) -> str:
    """Return the demand that the answer follow `schema`."""
    return (
        "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
        + to_json(schema)
    )


def wants_thinking(kwargs: Mapping[str, Any], *, default: bool) -> bool:
    """Say whether the request wants reasoning: `thinking` or `enable_thinking`."""
    if "thinking" not in kwargs and "enable_thinking" not in kwargs:
        return default
    return bool(kwargs.get("thinking")) or bool(kwargs.get("enable_thinking"))


def last_turn(messages: Sequence[Message]) -> int:
    """Return the place of the last message of a user or developer, or -1."""
    places = (place for place in reversed(range(len(messages))) if _asks(messages[place]))
    return next(places, -1)


def _asks(message: Message) -> bool:
    return message["role"] in ("user", "developer")
