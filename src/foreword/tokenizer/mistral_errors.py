"""What mistral-common raised enters; an error of ours, without the prompt's text, leaves.

Rules of this file: its own sentences are kept where they name roles, types and ids; where they
quote what the client wrote (pydantic does), only the place and the kind of fault are.
"""

from __future__ import annotations

import re
from typing import Any

from foreword.errors import InvalidRequest

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_REASON_CHARS = 300


def chat_refusal(error: Exception) -> InvalidRequest:
    """Return why mistral-common does not accept a conversation."""
    if (surrogate := isinstance(error, UnicodeError)) or not str(error):
        reason = "its text is not valid Unicode" if surrogate else type(error).__name__
    elif hasattr(error, "errors"):
        reason = "; ".join(_fault(fault) for fault in error.errors())
    elif isinstance(error, KeyError):
        reason = f"a message has no {error}"
    else:
        reason = str(error)
    if len(reason) > _MAX_REASON_CHARS:
        reason = f"{reason[:_MAX_REASON_CHARS]} …"
    return InvalidRequest(
        f"The model's chat format (mistral-common) does not accept this conversation: {reason}",
        details={"reason": reason},
    )


def text_refusal(text: str) -> InvalidRequest:
    """Return why a text cannot be tokenized: not Unicode, or one stretch too long to split."""
    found = _SURROGATE.search(text)
    if found is not None:
        return InvalidRequest(
            f"The text has a lone surrogate (U+{ord(found[0]):04X}) at character {found.start()}"
            f" of {len(text)}: it is not valid Unicode. Send text that UTF-8 can hold.",
            details={"position": found.start(), "num_chars": len(text)},
        )
    return InvalidRequest(
        f"The text has {len(text)} characters in which mistral-common finds no place to split"
        " (such as one run of a million spaces). Break it up.",
        details={"num_chars": len(text)},
    )


def _fault(fault: dict[str, Any]) -> str:
    place = ".".join(str(step) for step in fault.get("loc", ()))
    return f"{place}: {fault.get('type')}" if place else str(fault.get("type"))
