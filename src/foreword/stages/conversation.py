"""A request's messages enter; the `Conversation` the chat template sees leaves.

Rules of this file: the request's objects are never modified, and shared where they need no change.
Keys the client did not send stay absent, except `content`, which templates always find. Sizes are
limited elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foreword.chat.checks import check_strings, require_text, wrong_type
from foreword.chat.flags import check_chat_flags
from foreword.chat.media_parts import MediaCollector, MediaForms
from foreword.chat.parts import (
    MediaPart,
    SpokenPart,
    TextPart,
    join_parts,
    list_parts,
    parse_part,
)
from foreword.chat.roles import developers_to_system, drop_billing_line, drop_billing_parts
from foreword.chat.tool_calls import count_tool_calls, parse_tool_calls
from foreword.errors import InvalidRequest, MalformedRequest, UnsupportedFeature
from foreword.types import ContentFormat, Conversation, Message

__all__ = ["count_tool_calls", "parse_conversation"]


def parse_conversation(
    messages: Sequence[Mapping[str, Any]],
    *,
    content_format: ContentFormat,
    has_developer_branch: bool,
    tools: Sequence[Mapping[str, Any]] | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    keeps_messages: bool = False,
    may_be_empty: bool = False,
    media: MediaForms | None = None,
) -> Conversation:
    """Return the conversation as its template will see it.

    Shapes: content is text with `content_format` "string" and a list of parts with "openai", save
    that a tool's result made of text alone is always text. A message keeps role, content,
    tool_calls, reasoning (under both its names), tool_call_id, name, task and tools, in that
    order; its other keys are dropped, as no engine shows them to a template. With `keeps_messages`
    content stays text or a list as it was sent, in every role, and arguments of calls stay text.
    `media` says how items are written; without it, and for other modalities, they are refused.

    Raises: `MalformedRequest` (wrong types), `InvalidRequest` (contradictions, unknown parts, lone
    surrogates), `UnsupportedFeature` (media not taken); `param` is the path in the request.

    Source: vLLM 0.33 `parse_chat_messages`; a placeholder that a user typed stands for no item.
    """
    check_chat_flags(add_generation_prompt, continue_final_message)
    collector = MediaCollector(media, messages)
    if may_be_empty and not messages:
        parsed: list[Message] = []
    else:
        parsed = _parse_messages(messages, None if keeps_messages else content_format, collector)
    if not has_developer_branch and any(message["role"] == "developer" for message in parsed):
        parsed = developers_to_system(parsed)
    parsed, references = collector.settle(parsed)
    check_strings(chat_template_kwargs, "chat_template_kwargs")
    return Conversation(
        messages=tuple(parsed),
        tools=_parse_tools(tools),
        chat_template_kwargs=chat_template_kwargs or {},
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        media=references,
    )


def _parse_messages(
    messages: object, content_format: ContentFormat | None, media: MediaCollector
) -> list[Message]:
    """Parse the messages; without a content format they keep what was sent."""
    if not isinstance(messages, (list, tuple)):
        raise wrong_type(messages, "messages", expected="an array of messages")
    if not messages:
        raise InvalidRequest("The conversation has no messages. Send at least one.")
    return [
        _parse_message(message, f"messages[{place}]", content_format, media)
        for place, message in enumerate(messages)
    ]


def _parse_tools(tools: object) -> tuple[Mapping[str, Any], ...] | None:
    # Templates that ask whether tools are defined would enter tool mode for an empty list.
    if not tools:
        return None
    if not isinstance(tools, (list, tuple)):
        raise wrong_type(tools, "tools", expected="an array of tools")
    for place, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise wrong_type(tool, f"tools[{place}]", expected="an object")
    check_strings(tools, "tools")
    return tuple(tools)


def _parse_message(
    message: object, path: str, content_format: ContentFormat | None, media: MediaCollector
) -> Message:
    if not isinstance(message, Mapping):
        raise wrong_type(message, path, expected="an object")
    role = message.get("role")
    if role is None:
        raise MalformedRequest(f"{path}.role is missing.", param=f"{path}.role")
    require_text(role, f"{path}.role")
    content: str | list[dict[str, Any]] | None
    if content_format is None:
        content = _keep_content(message.get("content"), f"{path}.content", media)
    else:
        content = _parse_content(
            message.get("content"), role, f"{path}.content", content_format, media
        )
    parsed: dict[str, Any] = {"role": role, "content": content}
    if len(message) > 1 + ("content" in message):
        _add_role_fields(parsed, message, path, keeps_arguments=content_format is None)
        for key in ("name", "task"):
            if message.get(key) is not None:
                parsed[key] = require_text(message[key], f"{path}.{key}")
        if role == "developer" and message.get("tools") is not None:
            parsed["tools"] = _parse_developer_tools(message["tools"], f"{path}.tools")
    return parsed


def _parse_content(
    content: object, role: str, path: str, content_format: ContentFormat, media: MediaCollector
) -> str | list[dict[str, Any]]:
    is_list = content_format == "openai" and role != "tool"
    if isinstance(content, str):
        text = require_text(content, path)
        if role == "system":
            text = drop_billing_line(text)
            if is_list and not text and content:
                return []
        return [{"type": "text", "text": text}] if is_list else text
    if content is None:
        return [] if is_list else ""
    if not isinstance(content, (list, tuple)):
        raise wrong_type(content, path, expected="a string, an array of parts, or null")
    parts = _parse_parts(content, path, media)
    if role == "system":
        parts = drop_billing_parts(parts)
    if is_list:
        return list_parts(parts)
    if content_format == "openai":
        return _tool_result(parts)
    return join_parts(parts)


def _keep_content(
    content: object, path: str, media: MediaCollector
) -> str | list[dict[str, Any]] | None:
    if content is None or isinstance(content, str):
        return None if content is None else require_text(content, path)
    if not isinstance(content, (list, tuple)):
        raise wrong_type(content, path, expected="a string, an array of parts, or null")
    # A file says nothing that a text format could hold; its engine passes over it, too.
    kept = [part for part in content if not _is_file(part)]
    return list_parts(_parse_parts(kept, path, media))


def _is_file(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "file"


def _parse_parts(content: Sequence[object], path: str, media: MediaCollector) -> list[SpokenPart]:
    parts: list[SpokenPart] = []
    for place, item in enumerate(content):
        part = parse_part(item, f"{path}[{place}]")
        if part is not None:
            parts.append(media.add(part) if isinstance(part, MediaPart) else part)
    return parts


def _tool_result(parts: Sequence[SpokenPart]) -> str | list[dict[str, Any]]:
    """Return a tool's result as text when it is only text, for most templates know no other."""
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "\n".join(texts) if len(texts) == len(parts) else list_parts(parts)


def _add_role_fields(
    parsed: dict[str, Any], message: Mapping[str, Any], path: str, *, keeps_arguments: bool
) -> None:
    if parsed["role"] == "assistant":
        if message.get("tool_calls") is not None:
            tool_calls = parse_tool_calls(
                message["tool_calls"], f"{path}.tool_calls", keeps_arguments=keeps_arguments
            )
            if tool_calls:
                parsed["tool_calls"] = tool_calls
        reasoning = _parse_reasoning(message, path)
        if reasoning is not None:
            parsed["reasoning"] = reasoning
            parsed["reasoning_content"] = reasoning
    elif parsed["role"] == "tool" and "tool_call_id" in message:
        call_id = message["tool_call_id"]
        parsed["tool_call_id"] = (
            None if call_id is None else require_text(call_id, f"{path}.tool_call_id")
        )


def _parse_reasoning(message: Mapping[str, Any], path: str) -> str | None:
    key = "reasoning" if message.get("reasoning") is not None else "reasoning_content"
    reasoning = message.get(key)
    if reasoning is None:
        return None
    if isinstance(reasoning, Mapping) and reasoning.get("type") == "prompt_embeds":
        raise UnsupportedFeature(
            feature="Reasoning as prompt_embeds (precomputed embeddings)",
            remedy="Send the reasoning as text.",
            param=f"{path}.{key}",
        )
    return require_text(reasoning, f"{path}.{key}")


def _parse_developer_tools(tools: object, path: str) -> Sequence[Any]:
    if not isinstance(tools, (list, tuple)):
        raise wrong_type(tools, path, expected="an array of tools")
    check_strings(tools, path)
    return tools
