"""Every spelling of a media part leads to the same URL, or is refused with its path."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.chat.media_urls import url_of
from foreword.chat.parts import MediaPart, parse_part
from foreword.errors import InvalidRequest, MalformedRequest, UnsupportedFeature

PATH = "messages[0].content[1]"
WEB = "https://example.com/a.png"


def read(part: dict[str, Any]) -> str | None:
    parsed = parse_part(part, PATH)
    assert isinstance(parsed, MediaPart)
    return url_of(parsed)


@pytest.mark.parametrize(
    ("part", "url"),
    [
        # OpenAI's chat completions, and vLLM's
        ({"type": "image_url", "image_url": {"url": WEB, "detail": "low"}}, WEB),
        ({"type": "image_url", "image_url": WEB}, WEB),
        ({"type": "audio_url", "audio_url": {"url": WEB}}, WEB),
        ({"type": "video_url", "video_url": {"url": WEB}}, WEB),
        ({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
         "data:audio/wav;base64,QUJD"),
        # OpenAI's responses
        ({"type": "input_image", "image_url": WEB, "detail": "auto"}, WEB),
        ({"type": "input_image", "image_url": WEB, "file_id": None}, WEB),
        # Anthropic's messages
        ({"type": "image", "source": {"type": "url", "url": WEB}}, WEB),
        ({"type": "image",
          "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"}},
         "data:image/jpeg;base64,QUJD"),
        # transformers' messages
        ({"type": "image", "url": WEB}, WEB),
        ({"type": "image", "image": WEB}, WEB),
        ({"type": "image", "image": {"url": WEB}}, WEB),
        ({"type": "image", "path": "/pictures/a b.png"}, "file:///pictures/a%20b.png"),
        ({"type": "image", "path": "/../#?%"}, "file:///../%23%3F%25"),
        ({"type": "image", "base64": "QUJD"}, "data:application/octet-stream;base64,QUJD"),
        ({"type": "audio", "audio": "data:audio/wav;base64,QUJD"}, "data:audio/wav;base64,QUJD"),
        ({"type": "audio", "path": "/a.wav"}, "file:///a.wav"),
        ({"type": "video", "url": WEB, "path": None}, WEB),
        ({"type": "video", "video": "file:///a.mp4"}, "file:///a.mp4"),
        # known to the engine
        ({"type": "image", "uuid": "known"}, None),
        ({"type": "image_url", "image_url": None, "uuid": "known"}, None),
    ],
)  # fmt: skip
def test_where_an_item_is(part: dict[str, Any], url: str | None) -> None:
    assert read(part) == url


@pytest.mark.parametrize(
    ("part", "kind", "param"),
    [
        ({"type": "image"}, InvalidRequest, PATH),
        ({"type": "image", "image": None}, InvalidRequest, PATH),
        ({"type": "image", "url": WEB, "path": "/a.png"}, InvalidRequest, PATH),
        ({"type": "image", "url": 7}, MalformedRequest, f"{PATH}.url"),
        ({"type": "image", "path": "a.png"}, InvalidRequest, f"{PATH}.path"),
        ({"type": "image", "image": "/9j/4AAQ"}, InvalidRequest, f"{PATH}.image"),
        ({"type": "image", "image": {}}, MalformedRequest, f"{PATH}.image.url"),
        ({"type": "image", "source": WEB}, MalformedRequest, f"{PATH}.source"),
        ({"type": "image", "source": {"type": "text", "data": "a"}}, InvalidRequest,
         f"{PATH}.source.type"),
        ({"type": "image", "source": {"type": "base64", "data": "QUJD"}}, MalformedRequest,
         f"{PATH}.source.media_type"),
        ({"type": "image",
          "source": {"type": "base64", "media_type": "image/png;base64,QUJD,", "data": "QUJD"}},
         InvalidRequest, f"{PATH}.source.media_type"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
         MalformedRequest, f"{PATH}.source.data"),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, UnsupportedFeature, PATH),
        ({"type": "input_image", "file_id": "f"}, UnsupportedFeature, PATH),
        ({"type": "input_audio", "input_audio": "QUJD"}, MalformedRequest,
         f"{PATH}.input_audio"),
        ({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav;base64,QQ=="}},
         InvalidRequest, f"{PATH}.input_audio.format"),
        ({"type": "image_url", "image_url": {"uri": WEB}}, MalformedRequest,
         f"{PATH}.image_url.url"),
    ],
)  # fmt: skip
def test_what_says_not_where_it_is(part: dict[str, Any], kind: type[Exception], param: str) -> None:
    with pytest.raises((InvalidRequest, MalformedRequest, UnsupportedFeature)) as refusal:
        read(part)
    assert type(refusal.value) is kind
    assert refusal.value.param == param


@pytest.mark.parametrize("kind", ["input_file", "file", "document"])
def test_files_are_no_media(kind: str) -> None:
    with pytest.raises(InvalidRequest, match="unsupported content part type"):
        parse_part({"type": kind, "file_data": "QUJD"}, PATH)


def test_a_template_does_not_see_where_an_item_is() -> None:
    part = parse_part({"type": "image", "url": WEB, "uuid": "u", "cache_control": 1}, PATH)
    assert isinstance(part, MediaPart)
    assert part.extra == {"cache_control": 1}
    said = parse_part({"type": "text", "text": "t", "url": WEB, "image": 1}, PATH)
    assert said is not None
    assert getattr(said, "extra", None) == {"url": WEB, "image": 1}
