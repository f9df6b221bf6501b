"""An error enters; the body an OpenAI-style client expects leaves.

Rules of this file: exactly four keys, and `code` is the HTTP status.
"""

from __future__ import annotations

from typing import Any

from foreword.errors import ForewordError


def error_body(error: ForewordError) -> dict[str, Any]:
    """Return `error` as `{"error": {"message", "type", "param", "code"}}`."""
    return {
        "error": {
            "message": error.message,
            "type": error.wire_type,
            "param": error.param,
            "code": error.status,
        }
    }
