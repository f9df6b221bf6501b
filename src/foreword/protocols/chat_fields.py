"""The parts of a request that say how messages become text enter; `ChatParams` leave.

Rules of this file: a template of the request's own is refused unless the operator trusts it. Keys
that belong to the renderer never reach a template through `chat_template_kwargs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from foreword.errors import InvalidRequest
from foreword.params import ChatParams

# The renderer decides these; a request that puts them among the template's kwargs is overruled.
_RENDERER_KWARGS = frozenset(
    {"add_generation_prompt", "continue_final_message", "chat_template", "tokenize", "return_dict"}
)


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function the model may call."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool the model may use; only functions are."""

    type: Literal["function"] = "function"
    function: Function
    defer_loading: bool | None = None


def tool_dicts(tools: Sequence[Tool] | None) -> list[dict[str, Any]] | None:
    """Return the tools as templates see them: known keys only, in a fixed order.

    Shapes: `description` and `parameters` are present even when null, `strict` and `defer_loading`
    only when given. The parameters keep the client's own order.

    Source: vLLM 0.33 dumps its tool model; a template that prints a whole tool shows the order.
    """
    return None if tools is None else [_tool_dict(tool) for tool in tools]


def _tool_dict(tool: Tool) -> dict[str, Any]:
    source = tool.function
    function: dict[str, Any] = {
        "name": source.name,
        "description": source.description,
        "parameters": source.parameters,
    }
    defer = source.defer_loading if source.defer_loading is not None else tool.defer_loading
    if source.strict is not None:
        function["strict"] = source.strict
    if defer is not None:
        function["defer_loading"] = defer
    dumped: dict[str, Any] = {"type": tool.type, "function": function}
    if tool.defer_loading is not None:
        dumped["defer_loading"] = tool.defer_loading
    return dumped


def make_chat_params(
    *,
    chat_template: str | None,
    chat_template_kwargs: Mapping[str, Any] | None,
    extra_kwargs: Mapping[str, Any],
    add_generation_prompt: bool,
    continue_final_message: bool,
    trust_request_template: bool,
    return_assistant_mask: bool = False,
) -> ChatParams:
    """Return how the request wants its messages rendered.

    Shapes: `extra_kwargs` come from fields of their own and win over `chat_template_kwargs`.

    Raises: `InvalidRequest` for a template in the request that is not trusted.
    """
    kwargs = dict(chat_template_kwargs or {})
    in_kwargs = kwargs.get("chat_template")
    if not trust_request_template and (chat_template is not None or in_kwargs is not None):
        raise InvalidRequest(
            "The request brings its own chat template, which this installation does not trust."
            " Drop chat_template, or let the operator set trust_request_chat_template."
        )
    template = chat_template if chat_template is not None else in_kwargs
    return ChatParams(
        chat_template=template or None,
        chat_template_kwargs={
            key: value
            for key, value in {**kwargs, **extra_kwargs}.items()
            if key not in _RENDERER_KWARGS
        },
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        return_assistant_mask=return_assistant_mask,
    )
