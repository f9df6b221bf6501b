"""Parsed messages enter; the same messages leave, with system roles as the template can take them.

Rules of this file: messages are replaced, never modified. Nothing here is reached unless a role
asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foreword.chat.parts import SpokenPart, TextPart
from foreword.types import Message

_BILLING_HEADER = "x-anthropic-billing-header"


def drop_billing_line(text: str) -> str:
    """Return a system text without the attribution line some coding agents put first.

    Why: the line differs in every request, so a prompt that keeps it never meets a prefix cache.
    """
    return text.partition("\n")[2] if text.startswith(_BILLING_HEADER) else text


def drop_billing_parts(parts: Sequence[SpokenPart]) -> list[SpokenPart]:
    """Return a system message's parts without the attribution line, or the part that was only it.

    Source: vLLM 0.33, which looks at parts of type `text` alone.
    """
    kept: list[SpokenPart] = []
    for part in parts:
        if isinstance(part, TextPart) and part.type == "text":
            rest = drop_billing_line(part.text)
            if rest != part.text:
                if rest:
                    kept.append(TextPart(type=part.type, text=rest, extra=part.extra))
                continue
        kept.append(part)
    return kept


def developers_to_system(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with every developer speaking as the system, and one system in front.

    Shapes: all system texts are joined by a blank line; a single one that is already first stays
    as it is, its list content and name included. A developer's own `tools` are dropped.

    Source: vLLM 0.33 `safe_apply_chat_template`, for templates that know no developer.
    """
    converted = [_to_system(message) for message in messages]
    others = [message for message in converted if message["role"] != "system"]
    if len(converted) - len(others) == 1 and converted[0]["role"] == "system":
        return converted
    texts = (_text_of(message) for message in converted if message["role"] == "system")
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [merged, *others]


def _to_system(message: Message) -> Message:
    if message["role"] != "developer":
        return message
    rest = {key: value for key, value in message.items() if key != "tools"}
    return {**rest, "role": "system"}


def _text_of(message: Message) -> str:
    content: str | list[dict[str, Any]] = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)
