"""A `Trace` enters; what a person wants to know of it leaves: where the tokens went, what is odd.

Rules of this file: nothing here changes a request or a token. Parts are found by rendering again
without them and comparing, never by searching for a message's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix
from typing import Any

import msgspec

from foreword.errors import ForewordError
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.renderer import Renderer
from foreword.stages.template import unused_kwargs
from foreword.trace import Trace
from foreword.types import Conversation

MAX_PARTS = 200
"""Messages told apart; earlier ones of a longer chat are one part (each costs a rendering)."""

_CONTROL_TOKEN = re.compile(
    r"<\|[A-Za-z0-9_\-]{1,40}\|>|<｜[^｜<>]{1,40}｜>|<(?:start|end)_of_\w{1,20}>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>"
)
_MANY = 0.5
"""Share of the prompt from which on tool schemas are said to dominate it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of the rendered text, what it is, and the tokens that begin in it."""

    label: str
    start: int
    stop: int
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A usual fault found in a request: a stable code, and a sentence with the way out."""

    code: str
    sentence: str


# ---------------------------------------------------------------------------------------------
# Where the tokens went.


def find_parts(trace: Trace, renderer: Renderer) -> tuple[Part, ...]:
    """Return the messages, the generation prompt and what surrounds them, in text order.

    Why: a template may print anything in any order, so a message's part is what the text gains
    when the message is added to those before it.
    """
    if trace.conversation is None or trace.rendered is None or trace.tokens.offsets is None:
        return ()
    text = trace.rendered.text
    marks = list(_boundaries(trace, renderer))
    starts = sorted(trace.tokens.offsets.starts[trace.tokens.num_prefix_special :])
    parts, before = [], 0
    for label, stop in [*marks, ("generation prompt", len(text))]:
        if stop > before:
            num_tokens = sum(1 for start in starts if before <= start < stop)
            parts.append(Part(label=label, start=before, stop=stop, num_tokens=num_tokens))
            before = stop
    return tuple(parts)


def _boundaries(trace: Trace, renderer: Renderer) -> Iterator[tuple[str, int]]:
    """Yield every message's label and where its text ends, in rising order."""
    conversation, rendered = trace.conversation, trace.rendered
    assert conversation is not None
    assert rendered is not None
    count = len(conversation.messages)
    skipped = max(0, count - MAX_PARTS)
    for num_messages in range(max(1, skipped), count + 1):
        prefix = replace(
            conversation,
            messages=conversation.messages[:num_messages],
            add_generation_prompt=False,
            continue_final_message=False,
        )
        try:
            text = renderer.to_text(prefix, trace.template).text
        except ForewordError:
            continue  # such a beginning is no conversation for this template; the next one is
        label = _label(conversation, num_messages - 1)
        if num_messages == skipped:
            label = f"messages 0 to {skipped - 1}"
        yield label, len(commonprefix([text, rendered.text]))


def _label(conversation: Conversation, index: int) -> str:
    role = conversation.messages[index].get("role")
    with_tools = " and tools" if index == 0 and conversation.tools else ""
    return f"[{index}] {role}{with_tools}"


def count_tool_tokens(trace: Trace, renderer: Renderer) -> int:
    """Return how many tokens the tools cost: those of the prompt that go when the tools go."""
    conversation = trace.conversation
    if conversation is None or not conversation.tools:
        return 0
    try:
        rendered = renderer.to_text(replace(conversation, tools=None), trace.template)
        tokens = renderer.to_tokens(rendered, trace.params, count_in_full=True)
    except ForewordError:
        return 0
    return max(0, len(trace.tokens.token_ids) - len(tokens.token_ids))


# ---------------------------------------------------------------------------------------------
# What is odd.


def find_oddities(
    trace: Trace, renderer: Renderer, body: Mapping[str, Any] | None = None
) -> tuple[Oddity, ...]:
    """Return the usual faults this request shows; `body` is what the client sent."""
    found = [
        *_two_bos(trace, renderer),
        *_lost_beginning(trace),
        *_split_control_tokens(trace, renderer),
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


def _lost_beginning(trace: Trace) -> Iterator[Oddity]:
    result = trace.engine_input
    if result.num_truncated and result.truncated_side == "left":
        yield Oddity(
            code="lost_beginning",
            sentence=f"Truncation removed the first {result.num_truncated} tokens, and with them"
            " the system prompt, if there was one. Ask for truncation_side right to keep the"
            " beginning, or shorten the conversation.",
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
    if trace.conversation is None:
        return
    specials = [token for token in renderer.tokenizer.info.all_special_tokens if token]
    for index, message in enumerate(trace.conversation.messages):
        text = _text_of(message)
        spelled = [token for token in specials if token in text]
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
