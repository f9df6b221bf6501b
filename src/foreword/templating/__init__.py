"""Chat templates: source text in, a compiled template that renders within limits out."""

from foreword.templating.compiled import CompiledTemplate, compile_template
from foreword.templating.limits import DEFAULT_LIMITS, RenderedTemplate, TemplateLimits

__all__ = [
    "DEFAULT_LIMITS",
    "CompiledTemplate",
    "RenderedTemplate",
    "TemplateLimits",
    "compile_template",
]
