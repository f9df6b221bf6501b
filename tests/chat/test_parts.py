from __future__ import annotations

from typing import Any

import pytest

from foreword.chat.parts import (
    MediaPart,
    SpokenPart,
    TextPart,
    ToolReference,
    join_parts,
    list_parts,
    parse_part,
    refuse_media,
)
from foreword.errors import InvalidRequest, MalformedRequest, UnsupportedFeature

PATH = "messages[0].content[1]"


@pytest.mark.parametrize(
    ("part_type", "key"),
    [
        ("text", "text"),
        ("input_text", "text"),
        ("output_text", "text"),
        ("refusal", "refusal"),
        ("thinking", "thinking"),
    ],
)
def test_text_parts(part_type: str, key: str) -> None:
    assert parse_part({"type": part_type, key: "x"}, PATH) == TextPart(type=part_type, text="x")
    assert parse_part({"type": part_type, key: None}, PATH) is None


def test_only_keys_no_part_type_defines_are_kept() -> None:
    part = {"cache_control": {"type": "ephemeral"}, "text": "x", "closed": True, "type": "text"}
    parsed = parse_part(part, PATH)
    assert parsed == TextPart(type="text", text="x", extra={"cache_control": {"type": "ephemeral"}})


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "text", "text": 5}, f"{PATH}.text"),
        ({"type": "text"}, f"{PATH}.text"),
        ({"type": "refusal", "text": "x"}, f"{PATH}.refusal"),
        ({"type": "thinking", "thinking": ["x"]}, f"{PATH}.thinking"),
        ({"type": "tool_reference"}, f"{PATH}.name"),
        ({"type": "tool_reference", "name": 1}, f"{PATH}.name"),
    ],
)
def test_wrong_fields_are_named(part: dict[str, Any], param: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_part(part, PATH)
    assert caught.value.param == param


@pytest.mark.parametrize("part", ["bare", 5, None, ["x"]])
def test_a_part_must_be_an_object(part: object) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\[0\]\.content\[1\] must be an object") as e:
        parse_part(part, PATH)
    assert e.value.param is None
    assert not isinstance(e.value, MalformedRequest)


@pytest.mark.parametrize("part_type", ["file", "input_file", "", 7, ["text"]])
def test_unknown_types_list_the_supported_ones(part_type: object) -> None:
    with pytest.raises(InvalidRequest, match=r"tool_reference") as caught:
        parse_part({"type": part_type, "text": "x"}, PATH)
    assert caught.value.param == "type"
    assert caught.value.details["path"] == PATH
    assert "input_text" in caught.value.message


@pytest.mark.parametrize("part", [{}, {"text": "x"}, {"type": None, "text": "x"}, {"uuid": "u"}])
def test_a_part_without_type_and_telling_key_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="missing 'type'") as caught:
        parse_part(part, PATH)
    assert caught.value.param == "type"


@pytest.mark.parametrize(
    ("part", "part_type", "modality"),
    [
        ({"type": "image_url", "image_url": {"url": "u"}}, "image_url", "image"),
        ({"type": "input_image", "image_url": "u"}, "input_image", "image"),
        ({"image_url": "u"}, "image_url", "image"),
        ({"image_url": None, "uuid": "i"}, "image_url", "image"),
        ({"type": "mystery", "image_url": "u", "uuid": "i"}, "image_url", "image"),
        ({"audio_url": "u", "image_pil": 1}, "image_pil", "image"),
        ({"input_audio": {"data": "", "format": "wav"}}, "input_audio", "audio"),
        (
            {"type": "video_embeds", "video_embeds": "e", "audio_embeds": "a"},
            "video_embeds",
            "video",
        ),
        ({"type": "prompt_embeds", "data": "e"}, "prompt_embeds", "prompt"),
    ],
)
def test_media_parts_are_described(part: dict[str, Any], part_type: str, modality: str) -> None:
    parsed = parse_part(part, PATH)
    assert isinstance(parsed, MediaPart)
    assert (parsed.type, parsed.modality, parsed.path) == (part_type, modality, PATH)


def test_media_payload_and_uuid_are_kept() -> None:
    parsed = parse_part({"type": "prompt_embeds", "data": "e", "uuid": "7"}, PATH)
    assert isinstance(parsed, MediaPart)
    assert (parsed.payload, parsed.uuid) == ("e", "7")
    parsed = parse_part({"type": "input_image", "image_url": "u"}, PATH)
    assert isinstance(parsed, MediaPart)
    assert (parsed.payload, parsed.uuid) == ("u", None)


def test_tool_reference_without_type() -> None:
    assert parse_part({"tool_reference": {}, "name": "f"}, PATH) == ToolReference(name="f")


@pytest.mark.parametrize("part_type", ["image_url", "video_url", "audio_embeds", "prompt_embeds"])
def test_media_is_refused_by_name(part_type: str) -> None:
    part = MediaPart(type=part_type, modality="image", payload="u", uuid=None, path=PATH)
    with pytest.raises(UnsupportedFeature) as caught:
        refuse_media(part)
    assert caught.value.param == PATH
    assert part_type in caught.value.details["feature"]


def test_joining_drops_empty_text_and_listing_keeps_it() -> None:
    parts: list[SpokenPart] = [
        TextPart(type="text", text="a"),
        TextPart(type="text", text=""),
        ToolReference(name="f"),
        TextPart(type="thinking", text="b", extra={"k": 1}),
    ]
    assert join_parts(parts) == "a\nf\nb"
    assert list_parts(parts) == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": ""},
        {"type": "tool_reference", "name": "f"},
        {"type": "text", "text": "b", "k": 1},
    ]
