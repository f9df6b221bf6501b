"""A `Trace` enters; the usual faults its request shows leave, each with the way out.

Rules of this file: nothing here changes a request or a token, and nothing here fails: an oddity
is a suspicion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from foreword.diagnosis.parts import MAX_PARTS, count_tool_tokens, find_parts
from foreword.errors import ForewordError
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.renderer import Renderer
from foreword.stages.template import unused_kwargs
from foreword.trace import Trace
from foreword.types import ChatTokenizer

_CONTROL_TOKEN = re.compile(
    r"<\|[A-Za-z0-9_\-]{1,40}\|>|<｜[^｜<>]{1,40}｜>|<(?:start|end)_of_\w{1,20}>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>"
)
_MANY = 0.5
"""Share of the prompt from which on tool schemas are said to dominate it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A usual fault found in a request: a stable code, and a sentence with the way out."""

    code: str
    sentence: str


def find_oddities(
    trace: Trace, renderer: Renderer, body: Mapping[str, Any] | None = None
) -> tuple[Oddity, ...]:
    """Return the usual faults this request shows; `body` is what the client sent."""
    found = [
        *_two_bos(trace, renderer),
        *_lost_end(trace),
        *_dropped_messages(trace, renderer),
        *_split_control_tokens(trace, renderer),
        *_unread_tools(trace),
        *_unread_kwargs(trace, body),
        *_spelled_control_tokens(trace, renderer),
        *_large_tools(trace, renderer),
        *_ignored_fields(trace, body),
        *(Oddity(code="model", sentence=warning) for warning in renderer.assets.warnings),
    ]
    return tuple(found)


def _two_bos(trace: Trace, renderer: Renderer) -> Iterator[Oddity]:
    bos, ids = renderer.tokenizer.info.bos_token_id, trace.tokens.token_ids
    if bos is not None and list(ids[:2]) == [bos, bos]:
        yield Oddity(
            code="two_bos",
            sentence=f"The prompt begins with two BOS tokens ({bos}): its text already holds one,"
            " and add_special_tokens adds another. Set add_special_tokens to false.",
        )


def _lost_end(trace: Trace) -> Iterator[Oddity]:
    result = trace.engine_input
    if not result.num_truncated:
        return
    if result.truncated_side == "left":
        yield Oddity(
            code="lost_beginning",
            sentence=f"Truncation removed the first {result.num_truncated} tokens, and with them"
            " the system prompt, if there was one. Shorten the conversation to keep it.",
        )
    elif trace.kind == "chat":
        yield Oddity(
            code="lost_end",
            sentence=f"Truncation removed the last {result.num_truncated} tokens, and with them"
            " the last message and what tells the model to answer. Ask for truncation_side left.",
        )


def _dropped_messages(trace: Trace, renderer: Renderer) -> Iterator[Oddity]:
    conversation, rendered = trace.conversation, trace.rendered
    if conversation is None or rendered is None or trace.template is None:
        return
    shown = {part.label.partition(" ")[0] for part in find_parts(trace, renderer)}
    first = max(0, len(conversation.messages) - MAX_PARTS)
    for index, message in enumerate(conversation.messages[first:], start=first):
        if f"[{index}]" in shown or not _text_of(message):
            continue
        rest = (*conversation.messages[:index], *conversation.messages[index + 1 :])
        try:
            without = renderer.to_text(replace(conversation, messages=rest), trace.template)
        except ForewordError:
            continue
        if without.text == rendered.text:
            yield Oddity(
                code="dropped_message",
                sentence=f"The template prints nothing of messages[{index}] (role"
                f" {message.get('role')}): the model will not see it. Use a role that the"
                " template knows.",
            )


def _split_control_tokens(trace: Trace, renderer: Renderer) -> Iterator[Oddity]:
    if trace.rendered is None or trace.conversation is None:
        return
    said = json.dumps(list(trace.conversation.messages), ensure_ascii=False, default=str)
    spelled = dict.fromkeys(_CONTROL_TOKEN.findall(trace.rendered.text))
    split = [
        token
        for token in spelled
        if token not in said and renderer.tokenizer.token_to_id(token) is None
    ]
    if split:
        yield Oddity(
            code="foreign_template",
            sentence=f"The template prints {_listed(split)}, which this tokenizer does not know"
            " as tokens and splits into text: the template belongs to another model family.",
        )


def _unread_tools(trace: Trace) -> Iterator[Oddity]:
    if trace.conversation is None or trace.template is None or not trace.conversation.tools:
        return
    if "tools" not in trace.template.variables:
        yield Oddity(
            code="unread_tools",
            sentence=f"The request has {len(trace.conversation.tools)} tools, but nothing in the"
            " template reads them: the model is not told of any. Describe them in the system"
            " message, or load a template that prints them with --chat-template.",
        )


def _unread_kwargs(trace: Trace, body: Mapping[str, Any] | None) -> Iterator[Oddity]:
    if trace.conversation is None or trace.template is None:
        return
    asked = trace.conversation.chat_template_kwargs
    unread = unused_kwargs(trace.template, asked)
    if body is not None:
        unread = tuple(name for name in unread if name in _client_kwargs(body))
    if unread:
        yield Oddity(
            code="unread_kwargs",
            sentence=f"Nothing in the template reads {_listed(unread)}: check the spelling, or"
            " leave it out.",
        )


def _client_kwargs(body: Mapping[str, Any]) -> set[str]:
    kwargs = body.get("chat_template_kwargs")
    return {*(kwargs if isinstance(kwargs, Mapping) else ()), *body}


def _spelled_control_tokens(trace: Trace, renderer: Renderer) -> Iterator[Oddity]:
    if trace.conversation is None or (trace.rendered and trace.rendered.literal_spans):
        return  # a format that marks what was said as literal makes no token of it
    tokenizer = renderer.tokenizer
    if isinstance(tokenizer, ChatTokenizer):
        return
    specials = [token for token in tokenizer.info.all_special_tokens if token]
    for index, message in enumerate(trace.conversation.messages):
        text = _text_of(message)
        known = [token for token in specials if token in text]
        known += [
            token
            for token in _CONTROL_TOKEN.findall(text)
            if tokenizer.token_to_id(token) is not None
        ]
        spelled = list(dict.fromkeys(known))
        if spelled:
            yield Oddity(
                code="spelled_control_tokens",
                sentence=f"messages[{index}] spells {_listed(spelled)}, which becomes a control"
                " token of the model, as if the template had written it.",
            )


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(
            part["text"]
            for part in content
            if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        )
    return ""


def _large_tools(trace: Trace, renderer: Renderer) -> Iterator[Oddity]:
    num_tools, total = count_tool_tokens(trace, renderer), len(trace.tokens.token_ids)
    if total and num_tools / total >= _MANY:
        yield Oddity(
            code="large_tools",
            sentence=f"The tools take {num_tools} of the prompt's {total} tokens"
            f" ({num_tools / total:.0%}). Send only those this turn can use, or shorten their"
            " schemas.",
        )


def _ignored_fields(trace: Trace, body: Mapping[str, Any] | None) -> Iterator[Oddity]:
    if body is None:
        return
    request = ChatCompletionRequest if trace.kind == "chat" else CompletionRequest
    known = {field.encode_name for field in msgspec.structs.fields(request)}
    unknown = [str(name) for name in body if name not in known]
    if unknown:
        yield Oddity(
            code="ignored_fields",
            sentence=f"The request has {_listed(unknown)}, which no field of the API is named;"
            " ignored.",
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
