"""Audio in mode `mistral`: the ids mistral-common itself makes of the same chat and clips."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.errors import InvalidRequest, UnsupportedFeature

mistral_common = pytest.importorskip("mistral_common", reason="needs the extra `mistral`")
numpy = pytest.importorskip("numpy")
from mistral_common.protocol.instruct.request import ChatCompletionRequest  # noqa: E402
from mistral_common.tokens.tokenizers import audio as their_audio  # noqa: E402
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer  # noqa: E402
from mistral_common.tokens.tokenizers.tekken import Tekkenizer  # noqa: E402

SOURCE = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
RATE = 16_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as Voxtral's: its audio block, and its tokens, in a tokenizer file of version 7."""
    made = tmp_path_factory.mktemp("voxtral")
    file = json.loads(SOURCE.read_text())
    for block in ("multimodal", "image"):
        file.pop(block, None)
    file["config"] |= {"version": "v7"}
    special = [dict(one) for one in Tekkenizer.DEPRECATED_SPECIAL_TOKENS]
    known = {one["token_str"] for one in special}
    for token in ("[AUDIO]", "[BEGIN_AUDIO]", "[TRANSCRIBE]"):
        if token not in known:
            special.append({"rank": len(special), "token_str": token, "is_control": True})
    file["special_tokens"] = special
    file["audio"] = {
        "sampling_rate": RATE,
        "frame_rate": 12.5,
        "chunk_length_s": 30.0,
        "audio_encoding_config": {"num_mel_bins": 128, "hop_length": 160, "window_size": 400},
    }
    (made / "tekken.json").write_text(json.dumps(file))
    config = {
        "model_type": "voxtral",
        "architectures": ["VoxtralForConditionalGeneration"],
        "max_position_embeddings": 32_768,
    }
    (made / "config.json").write_text(json.dumps(config))
    return made


@pytest.fixture(scope="module")
def voxtral(folder: Path) -> foreword.Renderer:
    return foreword.load(str(folder), tokenizer_mode="mistral")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> MistralTokenizer:
    return MistralTokenizer.from_file(str(folder / "tekken.json"), mode="test")


def wav(num_frames: int) -> bytes:
    body = bytes(2 * num_frames)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    inner = b"WAVE" + form + struct.pack("<4sI", b"data", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(inner)) + inner


def clip(num_frames: int) -> dict[str, Any]:
    data = base64.b64encode(wav(num_frames)).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def chat(*turns: Any, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant", "user")
    messages = [{"role": role, "content": said} for role, said in zip(roles, turns, strict=False)]
    return {"messages": messages, **fields}


def ids_of(theirs: MistralTokenizer, body: dict[str, Any], patch: pytest.MonkeyPatch) -> list[int]:
    """Have mistral-common make the tokens of its own clips; only the samples are made up."""

    def heard(encoder: Any, chunk: Any) -> Any:
        num_frames = (len(base64.b64decode(chunk.input_audio)) - 44) // 2
        samples = numpy.zeros(num_frames, dtype=numpy.float32)
        # Not through its constructor, which wants a library that reads files.
        made = object.__new__(their_audio.Audio)
        made.audio_array, made.sampling_rate, made.format = samples, RATE, "wav"
        return encoder.encode_audio(made, None)

    patch.setattr(their_audio.AudioEncoder, "_encode_audio_chunk", heard)
    request = ChatCompletionRequest.from_openai(messages=body["messages"])
    return list(theirs.encode_chat_completion(request).tokens)


@pytest.mark.witness(
    family=("mode:mistral", "media:voxtral"),
    what="ids of chats with audio",
    against="mistral-common 1.13, which the line hides the clips from",
)
@pytest.mark.parametrize(
    "turns",
    [
        ([clip(16_000)],),
        ([words("What is said?"), clip(480_000), clip(480_001)],),
        ([clip(1), words("[AUDIO][BEGIN_AUDIO]"), clip(1)],),
        ([clip(3000), words("one")], "A song [AUDIO].", [words("two"), clip(20 * RATE)]),
    ],
)
def test_ids_are_mistral_commons(
    turns: Any, voxtral: foreword.Renderer, theirs: MistralTokenizer, monkeypatch: Any
) -> None:
    body = chat(*turns)
    result = voxtral.render_chat(body).engine_input
    assert result.token_ids.tolist() == ids_of(theirs, body, monkeypatch)
    begin = voxtral.tokenizer.token_to_id("[BEGIN_AUDIO]")
    audio = voxtral.tokenizer.token_to_id("[AUDIO]")
    spans = result.media_features
    assert [span.index for span in spans] == list(range(len(spans)))
    # A span is vLLM's: the clip's own tokens, without what stands in front of them.
    assert all(result.token_ids[span.start - 1] == begin for span in spans)
    inside = {place for span in spans for place in range(span.start, span.stop)}
    assert {place for place, one in enumerate(result.token_ids) if one == audio} == inside
    assert all(span.is_embed is None for span in spans)


def test_what_a_clip_points_to_never_reaches_the_library(
    voxtral: foreword.Renderer, monkeypatch: Any
) -> None:
    def fail(*given: Any) -> None:
        raise AssertionError(given)

    for name in ("_encode_audio_chunk", "_encode_audio_url_chunk"):
        monkeypatch.setattr(their_audio.AudioEncoder, name, fail)
    assert len(voxtral.render_chat(chat([clip(RATE)])).engine_input.media_features) == 1
    with pytest.raises(UnsupportedFeature):
        voxtral.render_chat(
            chat([{"type": "audio_url", "audio_url": {"url": "http://169.254.169.254/"}}])
        )


def test_other_media_and_empty_clips_are_refused(voxtral: foreword.Renderer) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(UnsupportedFeature, match="image_url"):
        voxtral.render_chat(chat([image]))
    with pytest.raises(foreword.errors.RequestError, match="empty"):
        voxtral.render_chat(chat([clip(0)]))


def test_a_system_prompt_beside_audio_is_refused_in_their_words(
    voxtral: foreword.Renderer,
) -> None:
    body = {
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [clip(RATE)]},
        ]
    }
    with pytest.raises(InvalidRequest, match="mistral-common"):
        voxtral.render_chat(body)
