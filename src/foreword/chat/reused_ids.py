"""A chat request enters; the prompt's ids that an earlier leg forwarded with it leave, if any.

Rules of this file: ids are taken only where they stand for the whole prompt: text alone, no echo.
What else `kv_transfer_params` holds is the engine's, and is handed on without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foreword.errors import InvalidRequest

KEY = "prompt_token_ids"
REUSED_PARAM = f"kv_transfer_params.{KEY}"

_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", "thinking"})


def reused_token_ids(request: Any) -> list[int] | None:
    """Return the forwarded ids, or None when the messages must be rendered.

    Raises: `InvalidRequest` for what is not a non-empty list of integers of 0 or more.
    Source: vLLM 0.33, disaggregated serving: the decode leg needs no second tokenization.
    """
    params = getattr(request, "kv_transfer_params", None)
    ids = params.get(KEY) if isinstance(params, Mapping) else None
    if ids is None or request.echo or _has_media(request.messages):
        return None
    if not isinstance(ids, list) or not ids or any(type(one) is not int or one < 0 for one in ids):
        raise InvalidRequest(
            f"{REUSED_PARAM} must be a non-empty list of token ids, integers of 0 or more.",
            param=REUSED_PARAM,
        )
    return ids


def without_reused_ids(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the transfer parameters as the engine gets them; None when nothing is left."""
    return {key: value for key, value in (params or {}).items() if key != KEY} or None


def _has_media(messages: Sequence[Mapping[str, Any]]) -> bool:
    for message in messages:
        content = message.get("content")
        if isinstance(content, list) and any(
            isinstance(part, Mapping) and part.get("type", "text") not in _TEXT_PARTS
            for part in content
        ):
            return True
    return False
