"""A media part's payload enters; the URL that it stands for leaves.

Rules of this file: spellings only. What is sent along in base64 becomes a data: URL, a path a
file: URL; whether a URL may be read is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from foreword.chat.checks import require_text, wrong_type
from foreword.chat.parts import MediaPart
from foreword.errors import InvalidRequest, UnsupportedFeature

NUMBERED = "foreword:"
"""The URL that a tokenizer which reads chats itself finds for an item: this and its number."""

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*")
_SCHEME = re.compile(r"(?i)(data|https?|file):")


def url_of(part: MediaPart) -> str | None:
    """Return where an item is; None for one that is only named by its uuid.

    Raises: `InvalidRequest` for an item that is nowhere, or in two places; `MalformedRequest` for
    wrong types; `UnsupportedFeature` for files that only the client's provider keeps.

    Source: OpenAI's chat completions and responses, vLLM 0.33, Anthropic's messages, and the
    messages that transformers' processors take.
    """
    payload, path = part.payload, part.path
    if payload is None:
        if part.uuid is None:
            raise InvalidRequest(
                f"{path} has no {part.type}. Give one, or a uuid the engine knows.", param=path
            )
        return None
    if part.type == part.modality:
        return _plain(payload, part)
    path = f"{path}.{part.type}"
    if part.type == "input_audio":
        return _inline_audio(payload, path)
    if isinstance(payload, Mapping):
        if payload.get("file_id") is not None and payload.get("url") is None:
            raise _kept_elsewhere(part)
        return require_text(payload.get("url"), f"{path}.url")
    return require_text(payload, path)


def _plain(payload: Mapping[str, Any], part: MediaPart) -> str:
    """Read {"type": "image"} and its like, whose place is under one of several keys."""
    if len(payload) > 1:
        raise InvalidRequest(
            f"{part.path} says in {len(payload)} ways where its {part.modality} is:"
            f" {', '.join(payload)}. Keep one of them.",
            param=part.path,
        )
    ((key, value),) = payload.items()
    path = f"{part.path}.{key}"
    if key == "source":
        return _source(value, part, path)
    if key == "base64":
        return f"data:application/octet-stream;base64,{require_text(value, path)}"
    if key == "path":
        return _file_url(require_text(value, path), path)
    if key == "url":
        return require_text(value, path)
    if isinstance(value, Mapping):
        return require_text(value.get("url"), f"{path}.url")
    text = require_text(value, path)
    if _SCHEME.match(text):
        return text
    # It could be a path, or base64 that begins like one.
    raise InvalidRequest(
        f"{path} is no URL. Say what it is: url, path or base64 instead of {key}.", param=path
    )


def _source(value: Any, part: MediaPart, path: str) -> str:
    if not isinstance(value, Mapping):
        raise wrong_type(value, path, expected="an object with type")
    kind = require_text(value.get("type"), f"{path}.type")
    if kind == "url":
        return require_text(value.get("url"), f"{path}.url")
    if kind == "file":
        raise _kept_elsewhere(part)
    if kind != "base64":
        raise InvalidRequest(
            f"{path}.type must be base64 or url.", param=f"{path}.type", details={"path": path}
        )
    media_type = require_text(value.get("media_type"), f"{path}.media_type")
    data = require_text(value.get("data"), f"{path}.data")
    return _data_url(media_type, data, f"{path}.media_type", example="image/png")


def _inline_audio(payload: Any, path: str) -> str:
    if not isinstance(payload, Mapping):
        raise wrong_type(payload, path, expected="an object with data and format")
    data = require_text(payload.get("data"), f"{path}.data")
    if data[:5].lower() == "data:":
        raise InvalidRequest(
            f"{path}.data must be base64 alone. Send a data: URL as audio_url.",
            param=f"{path}.data",
        )
    kind = require_text(payload.get("format"), f"{path}.format")
    return _data_url(f"audio/{kind}", data, f"{path}.format", example="wav")


def _data_url(media_type: str, data: str, where: str, *, example: str) -> str:
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidRequest(f"{where} must be a type such as {example}.", param=where)
    return f"data:{media_type};base64,{data}"


def _file_url(path: str, where: str) -> str:
    if not path.startswith("/"):
        raise InvalidRequest(f"{where} must be an absolute path.", param=where)
    return "file://" + quote(path, errors="surrogatepass")


def _kept_elsewhere(part: MediaPart) -> UnsupportedFeature:
    return UnsupportedFeature(
        feature=f"A file_id in the content part type {part.type}",
        remedy="Send the item itself, as a data: URL.",
        param=part.path,
    )
