"""The bodies a renderer takes, by what they hold: a chat, or prompts.

Rules of this file: a body is told apart by its keys alone, before it is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.protocols.pooling import PoolingRequest
from foreword.protocols.tokenize import TokenizeRequest

Body: TypeAlias = Mapping[str, Any] | bytes | bytearray | memoryview | str
ChatBody: TypeAlias = ChatCompletionRequest | TokenizeRequest | PoolingRequest
PromptBody: TypeAlias = CompletionRequest | PoolingRequest


class _KindProbe(msgspec.Struct):
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def kind_of(request: Body, *, max_bytes: int | None = None) -> Literal["chat", "completion"]:
    """Tell a chat body from a completion body: only a chat has `messages`.

    Raises: `MalformedRequest` for bytes that are not a JSON object; `InvalidRequest` for more than
    `max_bytes` of them.
    """
    if isinstance(request, Mapping):
        return "chat" if "messages" in request else "completion"
    probe = decode_request(request, _KindProbe, max_bytes=max_bytes)
    return "completion" if probe.messages is msgspec.UNSET else "chat"


def cache_salt_of(request: ChatBody) -> str | None:
    """Return what keeps this request's cached work apart from others'."""
    return None if isinstance(request, TokenizeRequest) else request.cache_salt
