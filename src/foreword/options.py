"""What an operator decides for one model: values only.

Rules of this file: every option has a default that is safe to serve with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from foreword.templating import DEFAULT_LIMITS, TemplateLimits
from foreword.types import RunnerType


@dataclass(frozen=True, slots=True, kw_only=True)
class RendererOptions:
    """What the operator decided for one model."""

    max_model_len: int
    runner: RunnerType = "generate"
    served_model_names: tuple[str, ...] = ()
    """Names a request may use for this model, the first of them its own; empty accepts any."""
    chat_template: str | None = None
    """A template's name or source that replaces the model's own."""
    content_format: Literal["auto", "string", "openai"] = "auto"
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    trust_request_chat_template: bool = False
    exclude_tools_when_tool_choice_none: bool = False
    system_start_date: str | None = None
    """The current date told to models whose format tells one, as 2026-11-30; None: the clock's."""
    sampling_defaults: Mapping[str, Any] = field(default_factory=dict)
    """As `sampling.default_sampling_params` gives them."""
    max_new_tokens: int | None = None
    """A ceiling for the output of every request."""
    refuse_overflow: bool = False
    """Refuse a `max_tokens` that does not fit beside the prompt, instead of lowering it."""
    max_body_bytes: int | None = 32 * 2**20
    template_limits: TemplateLimits = DEFAULT_LIMITS
