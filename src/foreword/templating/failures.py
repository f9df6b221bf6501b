"""Whatever a template raised goes in; the error that says whose turn it is comes out.

Rules of this file: what the template or the request's data caused is the request's
(`TemplateRejected`); what no request can avoid is the model's (`TemplateFailed`). A reason never
holds an object's address, and holds a value of the request only where Jinja's own does.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from jinja2.exceptions import (
    SecurityError,
    TemplateError,
    TemplateRuntimeError,
    TemplateSyntaxError,
    UndefinedError,
)

from foreword.errors import ForewordError, InvalidRequest, TemplateFailed, TemplateRejected
from foreword.templating.environment import TemplateRaised

_MISSING = re.compile(r"No (filter|test) named ")
_UNCLEAN = re.compile(r"<|\b0x[0-9a-f]+")
MAX_REASON_CHARS = 1000
_NO_LOADER = "no loader for this environment specified"


def explain_compile(error: Exception) -> TemplateFailed:
    """Return why a template does not compile."""
    if isinstance(error, TemplateSyntaxError):
        return TemplateFailed(
            reason=(error.message or "syntax error").rstrip("."), line=error.lineno
        )
    if isinstance(error, RecursionError):
        return TemplateFailed(reason="it is nested too deeply")
    return TemplateFailed(reason=f"it cannot be compiled ({type(error).__name__})")


def explain_render(error: Exception) -> ForewordError:
    """Return why a rendering stopped."""
    if isinstance(error, ForewordError):
        return error
    lines = _lines(error.__traceback__)
    line = lines[-1] if lines else None
    message = str(error)
    if isinstance(error, TemplateRaised):
        return _rejected(message, line)
    if type(error) is TemplateRuntimeError and _MISSING.match(message):
        # The innermost line is that of Jinja's stand-in for the filter.
        line = lines[-2] if len(lines) > 1 else line
        return TemplateFailed(reason=message.rstrip("."), line=line)
    if message == _NO_LOADER:
        return TemplateFailed(reason="it includes other templates, which do not exist", line=line)
    if isinstance(error, SecurityError):
        return _rejected(f"it reaches for what the sandbox forbids{_about(message)}", line)
    if isinstance(error, UndefinedError):
        return _rejected(message, line)
    if isinstance(error, RecursionError):
        return _rejected("it calls itself too deeply", line)
    if isinstance(error, TypeError | TemplateError | OverflowError | ZeroDivisionError):
        return _rejected(f"a value does not fit{_about(message)}", line)
    return _rejected(f"a value does not fit ({type(error).__name__})", line)


def blame(error: ForewordError, *, is_requested: bool) -> ForewordError:
    """Return the error for a broken template, blamed on the request where it brought it."""
    if not is_requested or not isinstance(error, TemplateFailed):
        return error
    reason, line = error.details["reason"], error.details["line"]
    where = f" (line {line})" if line else ""
    return InvalidRequest(
        f"The request's chat template is broken{where}: {reason}. Correct it, or drop it to use"
        " the model's own.",
        param="chat_template",
        details=error.details,
    )


def _about(message: str) -> str:
    return "" if not message or _UNCLEAN.search(message) else f" ({message.rstrip('.')})"


def _rejected(reason: str, line: int | None) -> TemplateRejected:
    if len(reason) > MAX_REASON_CHARS:
        reason = f"{reason[:MAX_REASON_CHARS]}…"
    return TemplateRejected(reason=reason, details={"line": line} if line else None)


def _lines(traceback: TracebackType | None) -> list[int]:
    """Return the template's lines that were running, the innermost last."""
    lines = []
    while traceback is not None:
        template: Any = traceback.tb_frame.f_globals.get("__jinja_template__")
        if template is not None:
            lines.append(template.get_corresponding_lineno(traceback.tb_lineno))
        traceback = traceback.tb_next
    return lines
