"""Chats with videos, end to end: times written out, frames expanded, never half a video."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from media_models import (
    CHATML,
    QWEN_FILES,
    QWEN_TOKENS,
    SHARED,
    byte_level,
    encode_apart,
    jpeg,
    picture,
    png,
    words,
    write_model,
)

import foreword
from foreword.errors import InvalidRequest, MediaUnavailable, MediaWouldBeCut, UnsupportedFeature
from foreword.media.hashing import content_hash
from foreword.media.items import MediaItem, make_item

VIDEOS = Path(__file__).parent / "videos"
TEMPLATE = CHATML.replace(
    "{% elif p.text is defined %}",
    "{% elif p.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif p.text is defined %}",
)
FILES = {
    **QWEN_FILES,
    "video_preprocessor_config.json": {
        "size": {"shortest_edge": 4096, "longest_edge": 25165824},
        "patch_size": 16,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "fps": 2,
        "min_frames": 4,
        "max_frames": 768,
        "video_processor_type": "Qwen3VLVideoProcessor",
        "processor_class": "Qwen3VLProcessor",
    },
}
OLD_FILES = {
    "config.json": {"model_type": "qwen2_5_vl", "max_position_embeddings": 100_000},
    "preprocessor_config.json": {
        "min_pixels": 3136,
        "max_pixels": 12845056,
        "patch_size": 14,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
    },
}


@pytest.fixture(scope="module")
def qwen3() -> foreword.Renderer:
    return write_model(Path(mkdtemp()), FILES, byte_level(QWEN_TOKENS), TEMPLATE)


@pytest.fixture(scope="module")
def qwen25() -> foreword.Renderer:
    return write_model(Path(mkdtemp()), OLD_FILES, byte_level(QWEN_TOKENS), TEMPLATE)


def film(name: str = "film.mov", kind: str = "quicktime") -> dict[str, Any]:
    data = base64.b64encode((VIDEOS / name).read_bytes()).decode()
    return {"type": "video_url", "video_url": {"url": f"data:video/{kind};base64,{data}"}}


def frames(num: int, width: int, height: int) -> dict[str, Any]:
    data = ",".join([base64.b64encode(jpeg(width, height)).decode()] * num)
    return {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{data}"}}


def chat(*parts: Any, **fields: Any) -> dict[str, Any]:
    content = [words(part) if isinstance(part, str) else part for part in parts]
    return {
        "messages": [{"role": "user", "content": content}],
        "add_generation_prompt": False,
        **fields,
    }


def stamped(*steps: tuple[str, int]) -> str:
    """Write down a video of Qwen3-VL."""
    return "".join(
        f"<{moment} seconds><|vision_start|>{'<|video_pad|>' * num}<|vision_end|>"
        for moment, num in steps
    )


def encoded(text: str) -> list[int]:
    return encode_apart(byte_level(QWEN_TOKENS), text, ())


# 17 frames at 24000/1001 a second: frames 0, 5, 11 and 16 are shown, in pairs. 64x48 pixels of two
# patches of 32 a token: 2x2 of them, since four frames of 64x64 are over the least.
FILM = stamped(("0.1", 4), ("0.6", 4))


def test_a_video_file(qwen3: foreword.Renderer) -> None:
    result = qwen3.render_chat(chat("see ", film(), "what?")).engine_input
    text = "<|im_start|>user\nsee <|vision_start|>" + FILM + "<|vision_end|>what?<|im_end|>\n"
    assert result.token_ids.tolist() == encoded(text)
    (span,) = result.media_features
    assert result.token_ids[span.start : span.stop].tolist() == encoded(FILM)
    assert span.identity == content_hash((VIDEOS / "film.mov").read_bytes())
    assert span.is_embed is not None
    assert sum(length for length, embeds in span.is_embed if embeds) == 8
    places = [embeds for length, embeds in span.is_embed for _ in range(length)]
    pad = qwen3.tokenizer.token_to_id("<|video_pad|>")
    assert places == [one == pad for one in result.token_ids[span.start : span.stop]]


def test_frames_that_the_client_sampled(qwen3: foreword.Renderer) -> None:
    """A second apart; an odd last one is its own pair."""
    result = qwen3.render_chat(chat(frames(3, 64, 64))).engine_input
    (span,) = result.media_features
    expected = stamped(("0.5", 4), ("2.0", 4))
    assert result.token_ids[span.start : span.stop].tolist() == encoded(expected)


def test_one_frame_is_no_video(qwen3: foreword.Renderer) -> None:
    with pytest.raises(InvalidRequest, match="at least 2"):
        qwen3.render_chat(chat(frames(1, 64, 64)))


def test_the_older_family_writes_no_times(qwen25: foreword.Renderer) -> None:
    # Four frames of 64x48, 56x56 each after rounding: two pairs of 2x2 tokens of 28.
    result = qwen25.render_chat(chat("a", film(), "b")).engine_input
    pads = "<|video_pad|>" * 2 * 4
    text = f"<|im_start|>user\na<|vision_start|>{pads}<|vision_end|>b<|im_end|>\n"
    assert result.token_ids.tolist() == encoded(text)
    assert result.media_features[0].is_embed is None


def test_images_and_videos_keep_their_own_places(qwen3: foreword.Renderer) -> None:
    parts = (film(), "a", picture(64, 128), frames(2, 64, 64), picture(32, 32), "<|video_pad|>")
    result = qwen3.render_chat(chat(*parts)).engine_input
    assert [(one.modality, one.index) for one in result.media_features] == [
        ("video", 0), ("image", 1), ("video", 2), ("image", 3),
    ]  # fmt: skip
    shown = [
        encoded(FILM), encoded("<|image_pad|>" * 8), encoded(stamped(("0.5", 4))),
        encoded("<|image_pad|>"),
    ]  # fmt: skip
    spans = result.media_features
    assert [result.token_ids[one.start : one.stop].tolist() for one in spans] == shown
    typed = result.token_ids[spans[-1].stop + 1 : -2].tolist()
    assert typed == encode_apart(byte_level(QWEN_TOKENS), "<|video_pad|>", ["<|video_pad|>"])


@pytest.mark.parametrize("side", ["left", "right", None])
def test_a_cut_anywhere_is_right_or_refused(qwen3: foreword.Renderer, side: str | None) -> None:
    parts = ("before", film(), "after")
    whole = qwen3.render_chat(chat(*parts)).engine_input
    (span,), total, num_refused = whole.media_features, len(whole.token_ids), 0
    for kept in range(1, total + 1):
        low, high = (0, kept) if side == "right" else (total - kept, total)
        sent = chat(*parts, truncate_prompt_tokens=kept, truncation_side=side)
        try:
            cut = qwen3.render_chat(sent).engine_input
        except MediaWouldBeCut:
            assert span.start < low or span.stop > high
            num_refused += 1
            continue
        assert low <= span.start
        assert span.stop <= high
        assert cut.token_ids == whole.token_ids[low:high]
        assert cut.media_features[0].is_embed == span.is_embed
    assert num_refused >= span.stop - span.start


def test_a_video_of_the_callers_own(qwen3: foreword.Renderer) -> None:
    """Sampled frames with their times, or all of a file's frames with their rate."""
    sent = chat({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}})
    with pytest.raises(UnsupportedFeature):
        qwen3.render_chat(sent)
    given = {"modality": "video", "identity": "x", "width": 64, "height": 48}
    by_times = MediaItem(**given, num_frames=4, timestamps=(0.0, 0.21, 0.46, 0.67))
    by_rate = MediaItem(**given, num_frames=17, frame_rate=24000 / 1001)
    results = [qwen3.render_chat(sent, media=[item]).engine_input for item in (by_times, by_rate)]
    assert results[0].token_ids == results[1].token_ids
    span = results[0].media_features[0]
    assert results[0].token_ids[span.start : span.stop].tolist() == encoded(FILM)
    undeclared = MediaItem(**given, num_frames=4)
    with pytest.raises(InvalidRequest, match="0 timestamps"):
        qwen3.render_chat(sent, media=[undeclared])


def test_a_video_whose_frames_only_a_decoder_tells(qwen3: foreword.Renderer) -> None:
    for name in ("varying.mp4", "fragmented.mp4"):
        with pytest.raises(MediaUnavailable, match="can't be read") as refusal:
            qwen3.render_chat(chat("a", film(name)))
        assert refusal.value.param == "messages[0].content[1]"


def test_what_is_no_video(qwen3: foreword.Renderer) -> None:
    image = base64.b64encode(png(8, 8)).decode()
    part = {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{image}"}}
    with pytest.raises(MediaUnavailable, match="it is no MP4"):
        qwen3.render_chat(chat(part))


def test_the_table_of_items_is_what_the_line_takes(qwen3: foreword.Renderer) -> None:
    sent = chat(film(), picture(32, 32))
    references = qwen3.collect_media(sent)
    data = [(VIDEOS / "film.mov").read_bytes(), png(32, 32)]
    items = [make_item(one, given) for one, given in zip(references, data, strict=True)]
    given, found = (qwen3.trace(sent, media=media) for media in (items, None))
    assert given.items == found.items
    assert given.engine_input.token_ids == found.engine_input.token_ids
    assert [one.modality for one in references] == ["video", "image"]


def test_an_engine_is_sent_the_video(qwen3: foreword.Renderer) -> None:
    sent = chat(film())
    made = qwen3.generate_request(sent, media_as="content_parts")
    assert not isinstance(made, list)
    assert made.content_parts is not None
    (part,) = made.content_parts
    assert part["type"] == "video_url"
    assert part["url"] == film()["video_url"]["url"]
    pad = qwen3.tokenizer.token_to_id("<|video_pad|>")
    assert list(made.token_ids).count(pad) == 1


def test_a_processor_that_samples_by_itself_is_refused_for_files_alone(tmp_path: Path) -> None:
    """Its own sampling knows no rate, so what it would show of a file isn't known."""
    files = {**OLD_FILES, "video_preprocessor_config.json": {"do_sample_frames": True}}
    renderer = write_model(tmp_path, files, byte_level(QWEN_TOKENS), TEMPLATE)
    with pytest.raises(UnsupportedFeature, match="do_sample_frames"):
        renderer.render_chat(chat(film()))
    assert renderer.render_chat(chat(picture(32, 32))).engine_input.media_features


@pytest.mark.parametrize(("num_frames", "rate"), [(0, 30.0), (9, -1.0), (9, float("nan"))])
def test_a_video_that_is_none(qwen3: foreword.Renderer, num_frames: int, rate: float) -> None:
    item = MediaItem(
        modality="video", identity="x", width=64, height=48, num_frames=num_frames, frame_rate=rate
    )
    with pytest.raises(InvalidRequest, match="can't be sampled"):
        qwen3.render_chat(chat(film()), media=[item])


def test_a_number_of_frames_in_the_files_is_refused(tmp_path: Path) -> None:
    video = {**FILES["video_preprocessor_config.json"], "num_frames": 16}
    files = {**FILES, "video_preprocessor_config.json": video}
    renderer = write_model(tmp_path, files, byte_level(QWEN_TOKENS), TEMPLATE)
    with pytest.raises(UnsupportedFeature, match="num_frames=16"):
        renderer.render_chat(chat(film()))


# ---------------------------------------------------------------------------------------------
# A real tokenizer and template.


@pytest.mark.golden
@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the checkout")
def test_a_real_template_gives_the_ids_of_the_text_written_out() -> None:
    """The reference encodes the whole text, times and all: no place is looked for."""
    tokenizer = SHARED / "models" / "qwen3" / "tokenizer.json"
    template = (SHARED / "templates" / "Qwen3.5-4B.jinja").read_text()
    renderer = write_model(Path(mkdtemp()), FILES, tokenizer.read_bytes(), template)
    reference = Tokenizer.from_file(str(tokenizer))
    shown = {"<|video_pad|>": [FILM, stamped(("0.5", 4))], "<|image_pad|>": ["<|image_pad|>" * 8]}
    messages = [
        {
            "role": "user",
            "content": [film(), words("Was sieht man hier? 图片里"), picture(64, 128)],
        },
        {"role": "assistant", "content": "Nothing."},
        {"role": "user", "content": [words("And"), frames(2, 64, 64)]},
    ]
    for kwargs in ({}, {"add_vision_id": True}):
        trace = renderer.trace({"messages": messages, "chat_template_kwargs": kwargs})
        assert trace.rendered is not None
        text = trace.rendered.text
        for placeholder, items in shown.items():
            first, *rest = text.split(placeholder)
            text = first + "".join(map("".join, zip(items, rest, strict=True)))
        wanted = reference.encode(text, add_special_tokens=False).ids
        assert trace.engine_input.token_ids.tolist() == wanted
        assert [one.modality for one in trace.engine_input.media_features] == [
            "video", "image", "video",
        ]  # fmt: skip
