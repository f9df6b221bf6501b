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


class _ShapeProbe(msgspec.Struct):
    encoder_prompt: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    documents: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text_2: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_2: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    # What any of these has is another request, whose template may be given documents.
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    prompt: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OTHER_SHAPES = frozenset({"messages", "prompt", "input"})


def two_prompts_of(
    request: Body, *, max_bytes: int | None = None
) -> Literal["encoder_decoder", "scoring"] | None:
    """Tell a body whose prompts are of two kinds, by what only such a body has; None: any other.

    Raises: as `kind_of`.
    """
    names = set(_ShapeProbe.__struct_fields__)
    if isinstance(request, Mapping):
        given = names & request.keys()
    else:
        probe = decode_request(request, _ShapeProbe, max_bytes=max_bytes)
        given = {name for name in names if getattr(probe, name) is not msgspec.UNSET}
    if given & _OTHER_SHAPES:
        return None
    if "encoder_prompt" in given:
        return "encoder_decoder"
    return "scoring" if given else None


def cache_salt_of(request: ChatBody) -> str | None:
    """Return what keeps this request's cached work apart from others'."""
    return None if isinstance(request, TokenizeRequest) else request.cache_salt
