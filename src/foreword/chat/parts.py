"""One part of a message's content enters; text, a tool reference or a media part leaves.

Rules of this file: a part is recognised once, here, and everything later asks for its class. A
media part is only described, never fetched. Of a part's other keys the template sees those that
no part type defines, and only where content is a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from foreword.chat.checks import check_strings, require_text, wrong_type
from foreword.errors import InvalidRequest, MalformedRequest, UnsupportedFeature

_TEXT_KEYS: Mapping[str, str] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
"""Part types that are text, and the key the text is under."""

_MEDIA_MODALITIES: Mapping[str, str] = {
    "image_url": "image",
    "input_image": "image",
    "image_pil": "image",
    "image_embeds": "image",
    "audio_embeds": "audio",
    "video_embeds": "video",
    "prompt_embeds": "prompt",
    "audio_url": "audio",
    "input_audio": "audio",
    "video_url": "video",
    "image": "image",
    "audio": "audio",
    "video": "video",
}

_TYPES_BY_KEY = (
    "image_url",
    "image_pil",
    "image_embeds",
    "audio_embeds",
    "video_embeds",
    "prompt_embeds",
    "audio_url",
    "input_audio",
    "video_url",
    "tool_reference",
)
"""Types recognised by a key of that name when a part has no `type`: the first match counts."""

_PLAIN = frozenset({"image", "audio", "video"})
"""Part types named for what they are, as Anthropic and transformers have them."""

_PLACE_KEYS = ("source", "url", "path", "base64")
"""Where such a part's item is, beside a key of the type's own name."""

_DEFINED_KEYS = frozenset(
    {*_TEXT_KEYS.values(), *_MEDIA_MODALITIES, "type", "file", "name", "data", "closed", "uuid"}
    | {"prompt_cache_breakpoint"}
) - {"input_image", *_PLAIN}

SUPPORTED_TYPES = (
    *sorted(_TEXT_KEYS),
    "tool_reference",
    *sorted({*_MEDIA_MODALITIES} - {"image_pil"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Something said. `type` is the client's word for it; templates only know `text`."""

    type: str
    text: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReference:
    """The name of a deferred tool; the template expands it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaPart:
    """Something shown or heard, as the client gave it. `payload` may be null beside a `uuid`."""

    type: str
    modality: str
    payload: Any
    uuid: str | None
    path: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A media item's place among the parts: `placeholder` where content is text."""

    modality: str
    placeholder: str
    extra: Mapping[str, Any] = field(default_factory=dict)


Part: TypeAlias = TextPart | ToolReference | MediaPart
SpokenPart: TypeAlias = TextPart | ToolReference | ShownPart


def parse_part(part: object, path: str) -> Part | None:
    """Return what a part is, or None when its text is null (it says nothing).

    Raises: `InvalidRequest` when the part is no object, or of no or an unknown type;
    `MalformedRequest` when its text is missing or no string.

    Source: vLLM 0.33 chat_utils; unlike there, `input_text` is accepted from every client.
    """
    if not isinstance(part, Mapping):
        # A union of part types has no single field to blame, so vLLM names none either.
        error = wrong_type(part, path, expected='an object such as {"type": "text", "text": ...}')
        raise InvalidRequest(error.message)
    part_type = _resolve_type(part, path)
    text_key = _TEXT_KEYS.get(part_type)
    if text_key is not None:
        return _parse_text(part, part_type, text_key, path)
    if part_type == "tool_reference":
        return ToolReference(name=require_text(part.get("name"), f"{path}.name"))
    modality = _MEDIA_MODALITIES.get(part_type)
    if modality is None:
        raise _unsupported_type(path)
    uuid = part.get("uuid")
    return MediaPart(
        type=part_type,
        modality=modality,
        payload=_payload(part, part_type),
        uuid=None if uuid is None else require_text(uuid, f"{path}.uuid"),
        path=path,
        extra=_extra_keys(part, path, also=_places(part_type)),
    )


def join_parts(parts: Sequence[SpokenPart]) -> str:
    """Return what the parts say as one text, a line break between them; empty ones vanish.

    Shapes: placeholders come first, those that are alike together, whatever stands between them.

    Source: vLLM 0.33 `get_full_multimodal_text_prompt`.
    """
    shown = [part for part in parts if isinstance(part, ShownPart)]
    kinds = dict.fromkeys(part.modality for part in shown)
    placeholders = [one.placeholder for kind in kinds for one in shown if one.modality == kind]
    said = (_said(part) for part in parts if not isinstance(part, ShownPart))
    return "\n".join([*placeholders, *(text for text in said if text)])


def _said(part: TextPart | ToolReference) -> str:
    return part.text if isinstance(part, TextPart) else part.name


def list_parts(parts: Sequence[SpokenPart]) -> list[dict[str, Any]]:
    """Return the parts as the objects a template with list content expects."""
    return [_listed(part) for part in parts]


def _listed(part: SpokenPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text, **part.extra}
    if isinstance(part, ShownPart):
        return {"type": part.modality, **part.extra}
    return {"type": "tool_reference", "name": part.name}


def refuse_media(part: MediaPart) -> NoReturn:
    """Refuse a media part by its name.

    Raises: `UnsupportedFeature`, always.
    """
    if part.type.endswith("_embeds"):
        raise UnsupportedFeature(
            feature=f"The content part type {part.type} (precomputed embeddings)",
            remedy="Send the content itself instead of its embeddings.",
            param=part.path,
        )
    raise UnsupportedFeature(
        feature=f"The content part type {part.type} ({part.modality} input)",
        remedy="Send the text parts only, or send the request to the engine itself.",
        param=part.path,
    )


def _resolve_type(part: Mapping[str, Any], path: str) -> str:
    part_type = part.get("type")
    if isinstance(part_type, str) and (
        part_type in _TEXT_KEYS or part_type in _MEDIA_MODALITIES or part_type == "tool_reference"
    ):
        return part_type
    if part_type is None or part.get("uuid") is not None:
        for name in _TYPES_BY_KEY:
            if name in part:
                return name
        raise InvalidRequest(
            f"{path} is missing 'type'. Supported types: {', '.join(SUPPORTED_TYPES)}.",
            param="type",
            details={"path": path},
        )
    raise _unsupported_type(path)


def _parse_text(
    part: Mapping[str, Any], part_type: str, text_key: str, path: str
) -> TextPart | None:
    text_path = f"{path}.{text_key}"
    if text_key not in part:
        raise MalformedRequest(f"{text_path} is missing.", param=text_path)
    text = part[text_key]
    if text is None:
        return None
    require_text(text, text_path)
    if len(part) == 2:
        return TextPart(type=part_type, text=text)
    return TextPart(type=part_type, text=text, extra=_extra_keys(part, path))


def _extra_keys(
    part: Mapping[str, Any], path: str, *, also: tuple[str, ...] = ()
) -> dict[str, Any]:
    extra = {
        key: value for key, value in part.items() if key not in _DEFINED_KEYS and key not in also
    }
    check_strings(extra, path)
    return extra


def _payload(part: Mapping[str, Any], part_type: str) -> Any:
    if part_type in _PLAIN:
        found = {key: part[key] for key in _places(part_type) if part.get(key) is not None}
        return found or None
    if part_type == "input_image":
        file_id = part.get("file_id")
        return part.get("image_url") if file_id is None else {**part, "url": part.get("image_url")}
    return part.get("data" if part_type == "prompt_embeds" else part_type)


def _places(part_type: str) -> tuple[str, ...]:
    return (*_PLACE_KEYS, part_type) if part_type in _PLAIN else ()


def _unsupported_type(path: str) -> InvalidRequest:
    return InvalidRequest(
        f"{path} has an unsupported content part type."
        f" Supported types: {', '.join(SUPPORTED_TYPES)}.",
        param="type",
        details={"path": path, "supported": list(SUPPORTED_TYPES)},
    )
