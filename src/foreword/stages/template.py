"""A `Conversation` and a compiled template go in; the prompt as one text comes out.

Rules of this file: templates get exactly the variables transformers' `apply_chat_template` gives
them. The caller's messages are never modified. A continued message is cut at its own end, and
media found at their own places, which marks in a second rendering show; nothing is searched for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.chat.flags import check_chat_flags
from foreword.chat.marks import Marks, texts_of
from foreword.errors import ChatTemplateMissing, InvalidRequest
from foreword.templating import (
    DEFAULT_LIMITS,
    CompiledTemplate,
    RenderedTemplate,
    TemplateLimits,
    compile_template,
)
from foreword.types import Conversation, Message, RenderedText

REFUSED_KWARGS = ("chat_template", "tokenize")
"""Template kwargs that would change more than the template's variables."""

TAKEN_KWARGS = frozenset(
    {
        "add_generation_prompt",
        "continue_final_message",
        "conversation",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "tokenizer_kwargs",
        "truncation",
    }
)
"""Names that `apply_chat_template` keeps for itself: no template ever sees them as kwargs."""

MARK = "CONTINUE_FINAL_MESSAGE_TAG"

_TEMPLATE_CHARS = frozenset("{}\n")


def select_template(
    assets_templates: Mapping[str, str],
    *,
    has_tools: bool,
    requested: str | None = None,
    override: str | None = None,
    hint: str = "",
) -> str:
    """Return the source of the template to use: the request's, the operator's, or the model's.

    `requested` and `override` are a name the model has, or a template's source. Of a model's
    several templates `tool_use` is for requests with tools, `default` for all others. `hint` is
    what else helps when there is none.

    Raises: ChatTemplateMissing when there is none, none by that name, or several and no default.

    Source: transformers 5.20 `get_chat_template`, after vLLM 0.33's order; unlike there, a name
    the model does not have is refused instead of becoming the prompt.
    """
    for wanted in (requested, override):
        if wanted is None:
            continue
        if wanted in assets_templates:
            return assets_templates[wanted]
        if _TEMPLATE_CHARS.isdisjoint(wanted):
            raise ChatTemplateMissing(available=sorted(assets_templates), wanted=wanted)
        return wanted
    if has_tools and "tool_use" in assets_templates:
        return assets_templates["tool_use"]
    if "default" in assets_templates:
        return assets_templates["default"]
    raise ChatTemplateMissing(available=sorted(assets_templates), hint=hint)


def unused_kwargs(template: CompiledTemplate, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in `kwargs` that nothing in this template reads."""
    return tuple(name for name in kwargs if name not in template.variables or name in TAKEN_KWARGS)


def render_conversation(
    template: CompiledTemplate,
    conversation: Conversation,
    *,
    special_tokens: Mapping[str, str],
    limits: TemplateLimits = DEFAULT_LIMITS,
    clock: Callable[[], datetime] = datetime.now,
) -> RenderedText:
    """Render `conversation` with `template`, and find the places of its media.

    Raises: InvalidRequest for refused template kwargs, an empty conversation, a message that
    cannot be continued, or media the template does not show; UnsupportedFeature where it shows
    them in a way that can't be followed; and whatever `CompiledTemplate.render` raises.

    Source: transformers 5.20 `apply_chat_template`, with vLLM 0.33's choice of kwargs.
    """
    if not conversation.media:
        return _render(template, conversation, special_tokens, limits, clock)
    now = clock()
    rendered = _render(template, conversation, special_tokens, limits, lambda: now)
    marks = Marks.choose(conversation, template.source, special_tokens)
    marked = _render(
        compile_template(marks.mark_text(template.source), template.is_requested),
        replace(conversation, messages=marks.mark_messages(conversation.messages)),
        {role: marks.mark_text(token) for role, token in special_tokens.items()},
        limits,
        lambda: now,
    )
    return marks.place(rendered, marked.text)


def _render(
    template: CompiledTemplate,
    conversation: Conversation,
    special_tokens: Mapping[str, str],
    limits: TemplateLimits,
    clock: Callable[[], datetime],
) -> RenderedText:
    _check(conversation)
    variables = _make_variables(template, conversation, special_tokens)
    if not conversation.continue_final_message:
        rendered = template.render(variables, limits, clock=clock)
        return RenderedText(text=rendered.text, assistant_spans=rendered.assistant_spans)
    mark = _choose_mark(template, variables)
    variables["messages"], continued = _mark_final_message(conversation.messages, mark)
    rendered = template.render(variables, limits, clock=clock)
    return _cut(rendered, mark, continued)


def _check(conversation: Conversation) -> None:
    refused = [name for name in REFUSED_KWARGS if name in conversation.chat_template_kwargs]
    if refused:
        raise InvalidRequest(
            f"chat_template_kwargs must not hold {' or '.join(refused)}: they are for variables"
            " of the template only."
        )
    if "messages" in conversation.chat_template_kwargs:
        raise InvalidRequest(
            "chat_template_kwargs must not hold messages: the request has them already."
        )
    if not conversation.messages:
        raise InvalidRequest("The conversation has no messages. Send at least one.")
    check_chat_flags(conversation.add_generation_prompt, conversation.continue_final_message)


def _make_variables(
    template: CompiledTemplate, conversation: Conversation, special_tokens: Mapping[str, str]
) -> dict[str, Any]:
    kwargs = conversation.chat_template_kwargs
    # A set: a request may bring a hundred thousand names that nothing reads.
    dropped = frozenset(unused_kwargs(template, kwargs))
    tools = kwargs.get("tools")
    if tools is None and conversation.tools is not None:
        tools = list(conversation.tools)
    # Both are always given: a template that asks whether they are defined hears yes, as it does
    # from transformers, also when they are None.
    return {
        **special_tokens,
        **{name: value for name, value in kwargs.items() if name not in dropped},
        "messages": list(conversation.messages),
        "tools": tools,
        "documents": _check_documents(kwargs.get("documents")),
        "add_generation_prompt": conversation.add_generation_prompt,
    }


def _check_documents(documents: Any) -> Any:
    is_fit = documents is None or (
        isinstance(documents, list) and all(isinstance(item, dict) for item in documents)
    )
    if not is_fit:
        raise InvalidRequest(
            "documents must be a list of objects, such as those with a title and a text.",
            param="documents",
        )
    return documents


# ---------------------------------------------------------------------------------------------
# Continuing the final message.


def _choose_mark(template: CompiledTemplate, variables: Mapping[str, Any]) -> str:
    """Return a mark that neither the template nor anything it is given contains."""
    texts = [template.source, *texts_of(variables)]
    mark, number = MARK, 0
    while any(mark in text for text in texts):
        number += 1
        mark = f"{MARK}_{number}"
    return mark


def _mark_final_message(messages: Sequence[Message], mark: str) -> tuple[list[Message], str]:
    """Return copies with `mark` at the end of the final message, and the text it continues."""
    final = messages[-1]
    content = final.get("content")
    # The space after the mark tells whether the template trims what it prints.
    suffix = f"{mark} "
    if isinstance(content, str):
        return [*messages[:-1], {**final, "content": content + suffix}], content
    if isinstance(content, list | tuple):
        for place in reversed(range(len(content))):
            part = content[place]
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                parts = [*content]
                parts[place] = {**part, "text": part["text"] + suffix}
                return [*messages[:-1], {**final, "content": parts}], part["text"]
    raise InvalidRequest(
        "continue_final_message is set, but the final message has no text to continue. Give it"
        " content, or set continue_final_message to false."
    )


def _cut(rendered: RenderedTemplate, mark: str, continued: str) -> RenderedText:
    start = rendered.text.rfind(mark)
    before = rendered.text[: max(start, 0)]
    if start < 0 or not _ends_with(before, continued):
        raise InvalidRequest(
            "continue_final_message is set, but the model's chat template does not print the final"
            " message as it stands (it drops or changes a part of it, such as its reasoning)."
            " Continue plain content, or set continue_final_message to false."
        )
    if not rendered.text.startswith(" ", start + len(mark)):
        before = before.rstrip()
    spans = tuple(
        (first, min(stop, len(before)))
        for first, stop in rendered.assistant_spans
        if first < len(before)
    )
    return RenderedText(text=before, assistant_spans=spans)


def _ends_with(before: str, continued: str) -> bool:
    """Return whether the continued text stands at the end, its trailing spaces in any form."""
    plain = continued.strip()
    # Templates that print content as JSON escape a newline at its end.
    escaped = json.dumps(continued[len(continued.rstrip()) :])[1:-1]
    return before.rstrip().endswith(plain) or before.endswith(plain + escaped)
