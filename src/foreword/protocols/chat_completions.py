"""A /v1/chat/completions body is described here; its parameters for each station leave.

Rules of this file: messages stay as the client wrote them. A rule that concerns one field names it;
what needs the tokenizer or the template is decided where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from foreword.chat.flags import check_chat_flags
from foreword.chat.tool_calls import count_tool_calls
from foreword.errors import InvalidRequest
from foreword.params import ChatParams, TokenizeParams
from foreword.protocols.chat_fields import Tool, make_chat_params, tool_dicts
from foreword.sampling.fields import GenerationFields, Int64, check_generation_fields

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ToolChoice = str | dict[str, Any] | None


class ChatCompletionRequest(GenerationFields, frozen=True, kw_only=True):
    """A chat request as OpenAI and vLLM 0.33 define it.

    Shapes: after decoding, `tool_choice` is "none", "auto", "required", a named choice or None:
    "auto" when tools came without a choice, "none" when there are no tools.

    Raises: `InvalidRequest` for fields that contradict each other.
    """

    request_id_prefix: ClassVar[str] = "chatcmpl-"

    messages: list[dict[str, Any]]
    max_completion_tokens: Int64 | None = None
    logprobs: bool | None = False
    top_logprobs: Int64 | None = 0
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | UnsetType = UNSET
    parallel_tool_calls: bool | None = True
    reasoning_effort: ReasoningEffort | None = None
    include_reasoning: bool = True
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    documents: list[dict[str, Any]] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_assistant_mask: bool = False

    def __post_init__(self) -> None:
        check_generation_fields(self)
        _check_logprobs(self)
        _settle_tools(self)
        _check_constraint_beside_tool(self)
        check_chat_flags(self.add_generation_prompt, self.continue_final_message)

    @property
    def max_output_tokens(self) -> int | None:
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens
        return self.max_tokens

    @property
    def max_output_tokens_param(self) -> str:
        return "max_completion_tokens" if self.max_completion_tokens is not None else "max_tokens"

    @property
    def num_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def num_echo_logprobs(self) -> int | None:
        return self.top_logprobs or 0

    def tool_dicts(self, *, exclude_when_none: bool = False) -> list[dict[str, Any]] | None:
        """Return the tools as templates see them.

        With `exclude_when_none` the choice "none" hides them from the template.
        """
        if exclude_when_none and self.tool_choice == "none":
            return None
        return tool_dicts(self.tools)

    def tokenize_params(
        self, *, max_model_len: int | None, do_lower_case: bool = False
    ) -> TokenizeParams:
        """Return the budget of this request in a context of `max_model_len` tokens."""
        return TokenizeParams(
            max_total_tokens=max_model_len,
            max_output_tokens=self.max_output_tokens,
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            do_lower_case=do_lower_case,
            add_special_tokens=self.add_special_tokens,
            return_token_offsets=bool(self.return_token_offsets),
            needs_detokenization=bool(self.echo and not self.return_token_ids),
            max_output_tokens_param=self.max_output_tokens_param,
        )

    def chat_params(self, *, trust_request_template: bool = False) -> ChatParams:
        """Return how this request wants its messages rendered.

        Raises: `InvalidRequest` for a template in the request that is not trusted.
        """
        return make_chat_params(
            chat_template=self.chat_template,
            chat_template_kwargs=self.chat_template_kwargs,
            extra_kwargs=self._extra_kwargs(),
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message,
            trust_request_template=trust_request_template,
            return_assistant_mask=self.return_assistant_mask,
        )

    def parse_context(self) -> Mapping[str, Any]:
        return {
            "tools": tool_dicts(self.tools),
            "tool_choice": self.tool_choice,
            "parallel_tool_calls": self.parallel_tool_calls,
            "include_reasoning": self.include_reasoning,
            "chat_template_kwargs": {
                **(self.chat_template_kwargs or {}),
                "add_generation_prompt": self.add_generation_prompt,
                "continue_final_message": self.continue_final_message,
                **self._extra_kwargs(),
            },
            "history_tool_call_cnt": count_tool_calls(self.messages),
        }

    def _extra_kwargs(self) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        if self.documents is not None:
            extra["documents"] = self.documents
        if self.reasoning_effort is not None:
            extra["reasoning_effort"] = self.reasoning_effort
            # Templates that think only when told to would ignore an effort on its own.
            if "enable_thinking" not in (self.chat_template_kwargs or {}):
                extra["enable_thinking"] = self.reasoning_effort != "none"
        return extra


def _check_logprobs(request: ChatCompletionRequest) -> None:
    top = request.top_logprobs or 0
    if request.logprob_token_ids and not request.logprobs:
        raise InvalidRequest(
            "logprob_token_ids is given without logprobs. Set logprobs to true.",
            param="logprob_token_ids",
        )
    if top < -1:
        raise InvalidRequest(
            f"top_logprobs is {top}; it must be 0 or more, or -1 for all.", param="top_logprobs"
        )
    if top and not request.logprobs:
        raise InvalidRequest(
            "top_logprobs is given without logprobs. Set logprobs to true.", param="top_logprobs"
        )


def _settle_tools(request: ChatCompletionRequest) -> None:
    choice, tools = request.tool_choice, request.tools
    if tools is not None and not tools:
        if choice != "none":
            raise InvalidRequest(
                "tools is an empty array. Send at least one tool, or drop the field.",
                param="tools",
            )
        force_setattr(request, "tools", None)
    if choice is UNSET:
        force_setattr(request, "tool_choice", "auto" if tools else "none")
    elif choice not in ("none", None):
        _check_choice(choice, tools)


def _check_choice(choice: object, tools: Sequence[Tool] | None) -> None:
    if not tools:
        raise InvalidRequest(
            "tool_choice is given without tools. Send the tools, or drop tool_choice.",
            param="tool_choice",
        )
    if choice in ("auto", "required"):
        return
    if not isinstance(choice, dict):
        raise InvalidRequest(
            "tool_choice must be 'none', 'auto', 'required', or a named function.",
            param="tool_choice",
        )
    function = choice.get("function")
    if not isinstance(function, dict):
        raise InvalidRequest(
            "A named tool_choice needs an object 'function'.", param="tool_choice.function"
        )
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest(
            "A named tool_choice needs the function's name.", param="tool_choice.function.name"
        )
    if all(tool.function.name != name for tool in tools):
        raise InvalidRequest(
            "tool_choice names a function that is not among the tools.", param="tool_choice"
        )


def _check_constraint_beside_tool(request: ChatCompletionRequest) -> None:
    constraint = request.structured_outputs
    if constraint is None or not isinstance(request.tool_choice, dict):
        return
    if any(kind is not None for kind in (constraint.json, constraint.regex, constraint.choice)):
        raise InvalidRequest(
            "structured_outputs and a named tool_choice each prescribe the whole output."
            " Drop one of them.",
            param="structured_outputs",
        )
