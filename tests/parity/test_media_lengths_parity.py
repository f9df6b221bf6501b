"""Counts of videos and audio equal those of transformers' own processors, length by length."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.media import MediaFiles, Run, count_audio, count_video, find_family
from foreword.media.count import sample_video

pytest.importorskip("transformers")
np = pytest.importorskip("numpy")
pytest.importorskip("PIL")

pytestmark = pytest.mark.parity

Sources = Callable[..., SimpleNamespace]

NUM_RANDOM = 2000


def module(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name}")


def bare(kind: Any, **attributes: Any) -> Any:
    """Return a processor that was never initialised."""
    made = object.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made


def clips() -> Iterator[tuple[int, int, int]]:
    rng = random.Random(7)
    for _ in range(NUM_RANDOM):
        yield rng.randint(2, 200), rng.randint(1, 2500), rng.randint(1, 2500)


@pytest.mark.witness(
    family="media:qwen2_vl",
    what="tokens of videos of random lengths",
    against="transformers 5.20's processor",
)
def test_qwen2_videos(source_functions: Sources) -> None:
    fit = source_functions("qwen2_vl/video_processing_qwen2_vl", "smart_resize").smart_resize
    config = find_family(MediaFiles(config={"model_type": "qwen2_5_vl"}, preprocessor={}))
    num_equal = 0
    for num_frames, width, height in clips():
        try:
            fit_height, fit_width = fit(height, width, 28, 128 * 28**2, 768 * 28**2)
        except ValueError:
            with pytest.raises(InvalidRequest):
                count_video(config, width, height, num_frames=num_frames)
            continue
        count = -(-num_frames // 2) * (fit_height // 28) * (fit_width // 28)
        runs = count_video(config, width, height, num_frames=num_frames)
        assert runs == (Run("<|video_pad|>", count, True),), (num_frames, width, height)
        num_equal += 1
    assert num_equal > NUM_RANDOM * 0.9


@pytest.mark.witness(
    family="media:qwen3_vl",
    what="tokens of videos of random lengths",
    against="transformers 5.20's processor",
)
def test_qwen3_videos(source_functions: Sources) -> None:
    fit = source_functions("qwen3_vl/video_processing_qwen3_vl", "smart_resize").smart_resize
    size = {"shortest_edge": 4096, "longest_edge": 25165824}
    processor = bare(
        module("qwen3_vl.processing_qwen3_vl").Qwen3VLProcessor,
        video_processor=SimpleNamespace(merge_size=2, temporal_patch_size=2),
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
        video_token="<|video_pad|>",
    )
    files = MediaFiles(
        config={"model_type": "qwen3_vl"},
        preprocessor={"patch_size": 16},
        video_preprocessor={"size": size},
    )
    config = find_family(files)
    for num_frames, width, height in clips():
        indices = [7 * number for number in range(num_frames)]
        try:
            fit_height, fit_width = fit(num_frames, height, width, 2, 32, 4096, 25165824)
        except ValueError:
            continue
        grid = np.array([[-(-num_frames // 2), fit_height // 16, fit_width // 16]])
        metadata = SimpleNamespace(fps=29.97, frames_indices=indices)
        inputs = {"video_grid_thw": grid, "video_metadata": [metadata]}
        times = tuple(index / 29.97 for index in indices)
        runs = count_video(config, width, height, num_frames=num_frames, timestamps=times)
        assert "".join(
            str(run.token) * run.num_tokens for run in runs
        ) == processor.replace_video_token(inputs, 0)


@pytest.mark.witness(
    family="media:qwen3_vl",
    what="which frames of a video file are shown",
    against="transformers 5.20's processor",
)
def test_qwen3_sampling(source_functions: Sources) -> None:
    theirs = source_functions("qwen3_vl/video_processing_qwen3_vl", "sample_frames", np=np)
    processor = SimpleNamespace(fps=2, min_frames=4, max_frames=768)
    config = find_family(
        MediaFiles(config={"model_type": "qwen3_vl"}, preprocessor={"patch_size": 16})
    )
    rng = random.Random(11)
    rates = [30.0, 30000 / 1001, 25.0, 24000 / 1001, 24.0, 60.0, 15.0, 10.0, 2.0, 1.0]
    for _ in range(NUM_RANDOM):
        num_frames = rng.randint(1, rng.choice([20, 400, 20_000]))
        rate = rng.choice([*rates, rng.uniform(0.5, 240)])
        metadata = SimpleNamespace(total_num_frames=num_frames, fps=rate)
        indices = theirs.sample_frames(processor, metadata).tolist()
        expected = tuple(index / rate for index in indices)
        assert sample_video(config, num_frames, rate) == expected, (num_frames, rate)


def lengths() -> list[int]:
    edges = [base + more for base in (160, 320, 16_000, 480_000) for more in (-1, 0, 1)]
    rng = random.Random(3)
    return [400, 640, *edges, *(rng.randint(700, 600_000) for _ in range(40))]


@pytest.mark.witness(
    family="media:qwen2_audio",
    what="tokens of audio of random lengths",
    against="transformers 5.20's processor",
)
def test_qwen2_audio_lengths() -> None:
    """The features are the processor's own; the encoder's two halvings are written out here."""
    extractor = importlib.import_module("transformers").WhisperFeatureExtractor()
    config = find_family(MediaFiles(config={"model_type": "qwen2_audio"}, preprocessor={}))
    for length in lengths():
        samples = np.zeros(length, dtype=np.float32)
        inputs = extractor(
            samples,
            sampling_rate=16_000,
            return_attention_mask=True,
            padding="max_length",
            return_tensors="np",
        )
        frames = int(inputs["attention_mask"].sum())
        expected = ((frames - 1) // 2 + 1 - 2) // 2 + 1
        if expected > 0:
            assert count_audio(config, length) == (Run("<|AUDIO|>", expected, True),), length


@pytest.mark.witness(
    family="media:qwen3_omni",
    what="tokens of audio of random lengths",
    against="transformers 5.20's processor",
)
def test_qwen3_omni_lengths(source_functions: Sources) -> None:
    omni = source_functions(
        "qwen3_omni_moe/processing_qwen3_omni_moe", "_get_feat_extract_output_lengths"
    )
    config = find_family(MediaFiles(config={"model_type": "qwen3_omni_moe"}, preprocessor={}))
    for length in lengths():
        expected = int(omni._get_feat_extract_output_lengths(np.array(-(-length // 160))))
        assert count_audio(config, length) == (Run("<|audio_pad|>", expected, True),), length


@pytest.mark.witness(
    family="media:gemma4",
    what="tokens of audio of random lengths",
    against="transformers 5.20's processor",
)
def test_gemma4_audio_lengths(source_functions: Sources) -> None:
    name = "_compute_audio_num_tokens"
    gemma4 = source_functions("gemma4/processing_gemma4", name)
    extractor = SimpleNamespace(frame_length=320, hop_length=160)
    processor = SimpleNamespace(feature_extractor=extractor, audio_seq_length=750)
    config = find_family(MediaFiles(config={"model_type": "gemma4"}, preprocessor={}))
    for length in lengths():
        expected = gemma4._compute_audio_num_tokens(processor, range(length), 16_000)
        if expected:
            assert count_audio(config, length)[1].num_tokens == expected, length


@pytest.mark.witness(
    family="media:voxtral",
    what="tokens of audio of random lengths",
    against="mistral-common 1.13",
)
def test_voxtral_lengths() -> None:
    audio = pytest.importorskip("mistral_common.tokens.tokenizers.audio")
    spectrogram = audio.AudioSpectrogramConfig(num_mel_bins=128, hop_length=160, window_size=400)
    settings = {"sampling_rate": 16_000, "frame_rate": 12.5, "chunk_length_s": 30.0}
    theirs = audio.AudioConfig(encoding_config=spectrogram, **settings)
    files = MediaFiles(config={"model_type": "voxtral"}, tekken={"audio": settings})
    config = find_family(files, tokenizer_mode="mistral")
    for length in lengths():
        padded = -(-length // theirs.chunk_frames) * theirs.chunk_frames
        assert count_audio(config, length)[0].num_tokens == theirs.num_audio_tokens(padded), length
