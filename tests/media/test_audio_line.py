"""Chats with audio, end to end: counted from their headers, in templates and in plain text."""

from __future__ import annotations

import base64
import struct
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from media_models import (
    CHATML,
    QWEN_FILES,
    byte_level,
    encode_apart,
    gemma_like,
    picture,
    words,
    write_model,
)

import foreword
from foreword.errors import InvalidRequest, MediaUnavailable, MediaWouldBeCut
from foreword.media.hashing import content_hash

TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|audio_start|>", "<|audio_pad|>",
    "<|audio_end|>",
)  # fmt: skip
HEARING = {
    "config.json": {"model_type": "qwen2_audio", "max_position_embeddings": 100_000},
    "preprocessor_config.json": {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "Qwen2AudioProcessor",
        "hop_length": 160,
        "chunk_length": 30,
        "sampling_rate": 16_000,
    },
}
NUMBERED = (
    "{% set n = namespace(audio=0) %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'audio' %}{% set n.audio = n.audio + 1 %}"
    "Audio {{ n.audio }}: <|audio_bos|><|AUDIO|><|audio_eos|>\n"
    "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
)
PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
OMNI = {
    "config.json": {"model_type": "qwen3_omni_moe", "max_position_embeddings": 100_000},
    "preprocessor_config.json": {
        **QWEN_FILES["preprocessor_config.json"],
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "Qwen3OmniMoeProcessor",
        "hop_length": 160,
    },
}
BOTH = CHATML.replace(
    "{% elif p.text is defined %}",
    "{% elif p.type == 'audio' %}<|audio_start|><|audio_pad|><|audio_end|>"
    "{% elif p.text is defined %}",
)


def wav(num_frames: int, rate: int = 16_000) -> bytes:
    body = bytes(2 * num_frames)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    inner = b"WAVE" + form + struct.pack("<4sI", b"data", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(inner)) + inner


def clip(num_frames: int, rate: int = 16_000) -> dict[str, Any]:
    data = base64.b64encode(wav(num_frames, rate)).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def chat(*parts: Any, **fields: Any) -> dict[str, Any]:
    content = [words(part) if isinstance(part, str) else part for part in parts]
    message = {"role": "user", "content": content}
    return {"messages": [message], "add_generation_prompt": False, **fields}


def encoded(text: str) -> list[int]:
    return encode_apart(byte_level(TOKENS), text, ())


def heard(number: int, num_tokens: int) -> str:
    return f"Audio {number}: <|audio_bos|>{'<|AUDIO|>' * num_tokens}<|audio_eos|>"


@pytest.fixture(scope="module")
def hearing() -> foreword.Renderer:
    return write_model(Path(mkdtemp()), HEARING, byte_level(TOKENS), NUMBERED)


# A second is 25 tokens of Qwen2-Audio.
def test_clips_where_the_template_numbers_them(hearing: foreword.Renderer) -> None:
    parts = ("the ", clip(16_000), "of", clip(8_000, 8_000), clip(44_100 * 3, 44_100))
    result = hearing.render_chat(chat(*parts)).engine_input
    text = f"<|im_start|>user\nthe {heard(1, 25)}\nof{heard(2, 25)}\n{heard(3, 75)}\n<|im_end|>\n"
    assert result.token_ids.tolist() == encoded(text)
    spans = result.media_features
    assert [(one.modality, one.stop - one.start) for one in spans] == [
        ("audio", 25), ("audio", 25), ("audio", 75),
    ]  # fmt: skip
    assert all(one.is_embed is None for one in spans)
    assert spans[0].identity == content_hash(wav(16_000))


def test_clips_in_plain_text_come_first_and_numbered(tmp_path: Path) -> None:
    renderer = write_model(tmp_path, HEARING, byte_level(TOKENS), PLAIN)
    result = renderer.render_chat(chat("the", clip(16_000), "of", clip(16_000))).engine_input
    text = f"<|im_start|>user\n{heard(1, 25)}\n{heard(2, 25)}\nthe\nof<|im_end|>\n"
    assert result.token_ids.tolist() == encoded(text)


def test_a_typed_placeholder_is_no_clip(hearing: foreword.Renderer) -> None:
    typed = "Audio 1: <|audio_bos|><|AUDIO|><|audio_eos|>"
    result = hearing.render_chat(chat(typed, clip(16_000), typed)).engine_input
    token_id = hearing.tokenizer.token_to_id("<|AUDIO|>")
    (span,) = result.media_features
    assert result.token_ids.count(token_id) == 25
    assert set(result.token_ids[span.start : span.stop]) == {token_id}
    assert hearing.tokenizer.decode(result.token_ids).count(typed) == 2


def test_pictures_and_clips_in_one_chat(tmp_path: Path) -> None:
    renderer = write_model(tmp_path, OMNI, byte_level(TOKENS), BOTH)
    parts = (picture(64, 128), "a", clip(16_000), "b", picture(32, 32), clip(160_000))
    result = renderer.render_chat(chat(*parts)).engine_input

    def shown(num: int) -> str:
        return f"<|vision_start|>{'<|image_pad|>' * num}<|vision_end|>"

    def said(num: int) -> str:
        return f"<|audio_start|>{'<|audio_pad|>' * num}<|audio_end|>"

    text = f"<|im_start|>user\n{shown(8)}a{said(13)}b{shown(1)}{said(130)}<|im_end|>\n"
    assert result.token_ids.tolist() == encoded(text)
    assert [(one.modality, one.index) for one in result.media_features] == [
        ("image", 0), ("audio", 1), ("image", 2), ("audio", 3),
    ]  # fmt: skip
    made = renderer.generate_request(chat(*parts, model="m"))
    assert not isinstance(made, list)
    assert made.features is not None
    assert {kind: len(ids) for kind, ids in made.features["mm_hashes"].items()} == {
        "image": 2, "audio": 2,
    }  # fmt: skip


def test_gemma_wraps_clips_in_newlines(tmp_path: Path) -> None:
    tokens = (
        "<bos>", "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<audio_soft_token>",
        "<start_of_audio>", "<end_of_audio>", "\n", "\n\n", "\n\n\n", "\n\n\n\n",
    )  # fmt: skip
    files = {
        "config.json": {"model_type": "gemma3n", "max_position_embeddings": 10_000},
        "processor_config.json": {
            "audio_seq_length": 4, "image_seq_length": 2, "processor_class": "Gemma3nProcessor",
        },
    }  # fmt: skip
    template = (
        "{{ bos_token }}{% for m in messages %}{% for p in m.content %}{% if p.type == 'audio' %}"
        "<audio_soft_token>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}"
    )
    renderer = write_model(tmp_path, files, gemma_like(tokens), template)
    result = renderer.render_chat(chat("the", clip(16_000), "of")).engine_input
    item = f"\n\n<start_of_audio>{'<audio_soft_token>' * 4}<end_of_audio>\n\n"
    expected = gemma_like(tokens).encode(f"<bos>the{item}of", add_special_tokens=False).ids
    assert result.token_ids.tolist() == expected
    (span,) = result.media_features
    assert span.is_embed == ((2, False), (4, True), (2, False))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_cut_is_right_or_refused(hearing: foreword.Renderer, side: str) -> None:
    parts = ("the", clip(3_200), "of")
    whole = hearing.render_chat(chat(*parts)).engine_input
    (span,), total, outcomes = whole.media_features, len(whole.token_ids), set()
    for kept in range(1, total):
        low, high = (0, kept) if side == "right" else (total - kept, total)
        try:
            cut = hearing.render_chat(
                chat(*parts, truncate_prompt_tokens=kept, truncation_side=side)
            ).engine_input
        except MediaWouldBeCut:
            assert span.start < low or span.stop > high
            outcomes.add("refused")
            continue
        assert cut.token_ids == whole.token_ids[low:high]
        outcomes.add("cut")
    assert outcomes == {"refused", "cut"}


def test_what_cannot_be_heard_is_refused(hearing: foreword.Renderer) -> None:
    with pytest.raises(InvalidRequest, match="too few"):
        hearing.render_chat(chat(clip(100)))
    with pytest.raises(MediaUnavailable, match="at most 600"):
        hearing.render_chat(chat(clip(8_000 * 601, 8_000)))
    for data, why in ((b"", "empty"), (b"RIFF", "it is no WAV"), (wav(0), "is empty")):
        part = clip(1)
        part["input_audio"]["data"] = base64.b64encode(data).decode()
        with pytest.raises(MediaUnavailable, match=why) as refusal:
            hearing.render_chat(chat("a", part))
        assert refusal.value.param == "messages[0].content[1]"
