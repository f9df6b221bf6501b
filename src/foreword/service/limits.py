"""A body and the settings enter; the decoded request leaves, or nothing, or the limit it breaks.

Rules of this file: every limit is a setting, and its error names the number, the limit and the
setting. What a body's size already bounds is not counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from foreword.errors import InvalidRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.service.settings import Settings
from foreword.service.structure import check_structure

T = TypeVar("T")


def decode_body(body: bytes, kind: type[T], settings: Settings) -> T:
    """Decode a body, whose JSON is counted first.

    Raises: `InvalidRequest` for the first limit that is broken; what `decode_request` raises.
    """
    check_structure(body, settings)
    return decode_request(
        body, kind, max_bytes=settings.max_body_bytes, max_nesting=settings.max_nesting
    )


def check_chat(
    messages: Sequence[Mapping[str, Any]], tools: Any, settings: Settings, num_body_bytes: int
) -> None:
    """Check a chat's messages, parts, characters and tools.

    Raises: `InvalidRequest` for the first limit that is broken.
    """
    _check("messages", len(messages), "messages", settings.max_messages, "max_messages")
    lists = [content for one in messages if isinstance(content := one.get("content"), list)]
    _check("messages", sum(map(len, lists)), "content parts", settings.max_parts, "max_parts")
    if num_body_bytes > settings.max_prompt_chars:
        num_chars = sum(map(_num_chars, messages))
        _check("messages", num_chars, "characters", settings.max_prompt_chars, "max_prompt_chars")
    if tools and num_body_bytes > settings.max_tools_bytes:
        size = len(msgspec.json.encode(tools))
        _check("tools", size, "bytes", settings.max_tools_bytes, "max_tools_bytes")


def check_prompts(request: CompletionRequest, settings: Settings) -> None:
    """Check the number of prompts of a completion request, and the characters of each.

    Raises: `InvalidRequest` for the first limit that is broken.
    """
    _check("prompt", request.num_prompts, "prompts", settings.max_prompts, "max_prompts")
    for index, prompt in enumerate(request.prompts):
        if isinstance(prompt, str):
            path = f"prompt[{index}]" if request.num_prompts > 1 else "prompt"
            check_text(prompt, settings, path)


def check_text(text: str, settings: Settings, param: str = "prompt") -> None:
    """Check the characters of a prompt. Raises: `InvalidRequest`."""
    _check(param, len(text), "characters", settings.max_prompt_chars, "max_prompt_chars")


def check_ids(token_ids: Sequence[int], settings: Settings) -> None:
    """Check the number of ids to give the text of, which nothing can interrupt.

    Raises: `InvalidRequest`.
    """
    limit = settings.max_detokenize_tokens
    _check("tokens", len(token_ids), "token ids", limit, "max_detokenize_tokens")


def _check(param: str, number: int, what: str, limit: int, setting: str) -> None:
    if number > limit:
        raise InvalidRequest(
            f"{param} has {number} {what}; at most {limit} are accepted here"
            f" (the setting {setting}).",
            param=param,
            details={"number": number, setting: limit},
        )


def _num_chars(value: Any) -> int:
    """Count the characters of every string inside, keys excepted."""
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return total
