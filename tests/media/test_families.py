"""A model's files find their family; what isn't known is refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from foreword.errors import AssetsInvalid, InvalidRequest, UnsupportedFeature
from foreword.media import MediaFiles, Run, count_audio, count_image, count_video, find_family
from foreword.media.count import num_samples
from foreword.media.table import FAMILIES

QWEN_FILE = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "merge_size": 2}


def qwen(**more: Any) -> MediaFiles:
    return MediaFiles(config={"model_type": "qwen2_5_vl"}, preprocessor={**QWEN_FILE, **more})


def num_tokens(files: MediaFiles, width: int, height: int, **more: Any) -> int:
    return sum(run.num_tokens for run in count_image(find_family(files, **more), width, height))


def test_the_table_is_sound() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names) >= 20
    for family in FAMILIES:
        assert family.image or family.video or family.audio
        for row in (family.image, family.video):
            assert row is None or row.target in row.placeholder


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(448, 448, 256), (1024, 768, 999), (1920, 1080, 2691), (1, 1, 4), (8192, 8192, 16384)],
)
def test_a_qwen_image(width: int, height: int, expected: int) -> None:
    assert num_tokens(qwen(), width, height) == expected


def test_constants_nested_in_the_processor_file_win() -> None:
    nested = {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16}
    files = MediaFiles(
        config={"model_type": "qwen3_5"},
        preprocessor=QWEN_FILE,
        processor={"image_processor": nested, "processor_class": "Qwen3VLProcessor"},
    )
    assert num_tokens(files, 1024, 768) == 768


def test_an_architecture_wins_over_a_model_type() -> None:
    config = {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"]}
    assert num_tokens(MediaFiles(config=config), 1024, 768) == 893


def test_a_processor_class_tells_pixtral_from_llava() -> None:
    size = {"longest_edge": 1024}
    pixtral = MediaFiles(
        config={"model_type": "llava"},
        preprocessor={"size": size, "image_processor_type": "PixtralImageProcessorFast"},
        processor={"patch_size": 16},
    )
    llava = MediaFiles(
        config={"model_type": "llava"},
        preprocessor={"crop_size": 336, "image_processor_type": "CLIPImageProcessor"},
        processor={"patch_size": 14},
    )
    assert find_family(pixtral).family.name == "pixtral"
    assert num_tokens(llava, 5, 5) == 576


def test_the_rounding_goes_with_the_tokenizer() -> None:
    block = {"image_patch_size": 14, "max_image_size": 1540, "spatial_merge_size": 2}
    files = MediaFiles(
        config={"model_type": "mistral3"},
        preprocessor={"size": {"longest_edge": 1540}},
        processor={"patch_size": 14, "spatial_merge_size": 2},
        tekken={"image": block},
    )
    floored = num_tokens(files, 1541, 729)
    rounded = num_tokens(files, 1541, 729, tokenizer_mode="mistral")
    # 728.53 pixels: 26 rows of 28 when floored, 27 when rounded.
    assert (floored, rounded) == (26 * 56, 27 * 56)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (MediaFiles(config={"model_type": "bert"}), "bert"),
        (qwen(processor_class="Qwen9VLProcessor"), "Qwen9VLProcessor"),
        (qwen(tile_overlap=8), "tile_overlap"),
        (qwen(size={"height": 448}), "size.height"),
        (qwen(do_resize=False), "do_resize"),
        (
            MediaFiles(
                config={"model_type": "qwen2_vl"},
                preprocessor=QWEN_FILE,
                video_preprocessor={"cap_pixels_per_frame": True},
            ),
            "cap_pixels_per_frame",
        ),
        (
            MediaFiles(config={"model_type": "gemma4"}, preprocessor={"max_soft_tokens": 300}),
            "max_soft_tokens",
        ),
    ],
)
def test_what_is_not_known_is_refused_by_name(files: MediaFiles, named: str) -> None:
    with pytest.raises(UnsupportedFeature, match=named):
        find_family(files)


def test_bounds_are_found_in_every_spelling() -> None:
    for bounds in (
        {"min_pixels": 3136, "max_pixels": 12845056},
        {"size": {"shortest_edge": 3136, "longest_edge": 12845056}},
        {
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "size": {"min_pixels": 3136, "max_pixels": 12845056},
        },
    ):
        files = MediaFiles(config={"model_type": "qwen2_vl"}, preprocessor=bounds)
        assert num_tokens(files, 1920, 1080) == 2691


def test_another_encoder_is_refused() -> None:
    config = {"model_type": "llava", "vision_config": {"model_type": "siglip_vision_model"}}
    files = MediaFiles(config=config, preprocessor={"crop_size": 336}, processor={"patch_size": 14})
    with pytest.raises(UnsupportedFeature, match="siglip_vision_model"):
        find_family(files)


def test_an_operator_can_tolerate_a_key() -> None:
    config = find_family(qwen(tile_overlap=8), tolerated_keys=["tile_overlap"])
    assert count_image(config, 448, 448) == (Run("<|image_pad|>", 256, True),)


@pytest.mark.parametrize("value", [0, -3, "many", [1], {"height": 1}])
def test_an_unfit_value_names_its_key(value: object) -> None:
    with pytest.raises((AssetsInvalid, UnsupportedFeature), match="patch_size"):
        find_family(qwen(patch_size=value))


def test_a_missing_constant_names_its_file() -> None:
    with pytest.raises(AssetsInvalid, match=r"preprocessor_config\.json.*shortest_edge"):
        find_family(MediaFiles(config={"model_type": "glm4v"}, preprocessor={}))


def test_sizes_the_processor_refuses_are_refused() -> None:
    config = find_family(qwen())
    with pytest.raises(InvalidRequest, match="200"):
        count_image(config, 2010, 10)
    with pytest.raises(InvalidRequest, match="no content"):
        count_image(config, 0, 10)
    phi = find_family(MediaFiles(config={"model_type": "phi4mm"}, preprocessor={}))
    with pytest.raises(InvalidRequest, match="less than 10 pixels"):
        count_image(phi, 4000, 9)


def test_an_image_knows_its_number() -> None:
    config = find_family(MediaFiles(config={"model_type": "minicpmv4_6"}, preprocessor={}))
    runs = count_image(config, 448, 448, position=3, num_images=5)
    assert [run.token for run in runs[:3]] == ["<image_id>", "3", "</image_id>"]
    assert runs[1].is_text
    assert runs[-2:] == (Run("<|image_pad|>", 64, True), Run("</image>", 1))


def test_detail_changes_nothing() -> None:
    config = find_family(qwen())
    assert count_image(config, 999, 999, detail="low") == count_image(config, 999, 999)


def audio_files(model_type: str, **tekken: Any) -> MediaFiles:
    return MediaFiles(config={"model_type": model_type}, preprocessor={}, tekken=tekken or None)


@pytest.mark.parametrize(
    ("model_type", "seconds", "expected"),
    [
        ("qwen2_audio", 1, 25),
        ("qwen2_audio", 10, 250),
        ("qwen2_audio", 60, 750),
        ("qwen3_omni_moe", 1, 13),
        ("qwen3_omni_moe", 60, 780),
        ("gemma3n", 3, 188),
        ("gemma4", 1, 25),
        ("gemma4", 100, 750),
        ("whisper", 5, 1500),
    ],
)
def test_audio_tokens(model_type: str, seconds: int, expected: int) -> None:
    runs = count_audio(find_family(audio_files(model_type)), seconds * 16_000)
    assert sum(run.num_tokens for run in runs if run.is_embed) == expected


def test_omni_hears_as_long_as_its_chunk() -> None:
    files = MediaFiles(
        config={"model_type": "qwen2_5_omni"},
        preprocessor={"chunk_length": 300, "feature_extractor_type": "WhisperFeatureExtractor"},
    )
    runs = count_audio(find_family(files), 60 * 16_000)
    assert runs == (Run("<|AUDIO|>", 1500, True),)


@pytest.mark.parametrize(("seconds", "expected"), [(1, 375), (30, 375), (31, 750), (300, 3750)])
def test_voxtral_pads_to_chunks(seconds: int, expected: int) -> None:
    block = {"sampling_rate": 16_000, "frame_rate": 12.5, "chunk_length_s": 30.0}
    config = find_family(audio_files("voxtral", audio=block), tokenizer_mode="mistral")
    assert count_audio(config, seconds * 16_000) == (Run("[AUDIO]", expected, True),)


def test_a_clip_that_is_too_short_is_refused() -> None:
    config = find_family(audio_files("qwen2_audio"))
    with pytest.raises(InvalidRequest, match="too few"):
        count_audio(config, 100)
    with pytest.raises(UnsupportedFeature, match="audio"):
        count_audio(find_family(qwen()), 16_000)


def test_a_length_is_resampled_upwards() -> None:
    config = find_family(audio_files("qwen2_audio"))
    assert num_samples(44_101, 44_100, config) == 16_001


def test_qwen_videos() -> None:
    config = find_family(qwen())
    assert sum(r.num_tokens for r in count_video(config, 640, 360, num_frames=8)) == 1196
    config = find_family(
        MediaFiles(config={"model_type": "qwen3_vl"}, preprocessor={"patch_size": 16})
    )
    runs = count_video(config, 640, 360, num_frames=3, timestamps=(0.0, 0.5, 1.0))
    assert [run.token for run in runs if run.is_text] == ["<0.2 seconds>", "<1.0 seconds>"]
    with pytest.raises(InvalidRequest, match="timestamps"):
        count_video(config, 640, 360, num_frames=3)
    with pytest.raises(InvalidRequest, match="at least 2"):
        count_video(config, 640, 360, num_frames=1, timestamps=(0.0,))


def test_internvl_by_its_own_config() -> None:
    config = {
        "model_type": "internvl_chat",
        "force_image_size": 448,
        "vision_config": {"patch_size": 14},
        "downsample_ratio": 0.5,
        "min_dynamic_patch": 1,
        "max_dynamic_patch": 12,
        "dynamic_image_size": True,
        "use_thumbnail": True,
    }
    assert num_tokens(MediaFiles(config=config), 1024, 768) == 3330
    plain = MediaFiles(config={**config, "dynamic_image_size": False})
    assert num_tokens(plain, 1024, 768) == 258


# ---------------------------------------------------------------------------------------------
# Files that are missing, or say odd things.


@pytest.mark.parametrize(
    ("model_type", "file"),
    [
        ("qwen2_vl", "preprocessor_config"),
        ("qwen3_vl", "preprocessor_config"),
        ("pixtral", "preprocessor_config"),
        ("gemma3", "preprocessor_config"),
        ("qwen2_audio", "preprocessor_config"),
    ],
)
def test_a_model_without_its_file_is_refused(model_type: str, file: str) -> None:
    with pytest.raises(AssetsInvalid, match=f"{file}.json: there is none"):
        find_family(MediaFiles(config={"model_type": model_type}))


def test_what_the_class_says_otherwise_must_be_written() -> None:
    size = {"shortest_edge": 65536, "longest_edge": 16777216}
    files = MediaFiles(config={"model_type": "qwen3_vl"}, preprocessor={"size": size})
    with pytest.raises(AssetsInvalid, match=r"preprocessor_config\.json.*patch_size"):
        find_family(files)
    config = {"model_type": "mistral3"}
    with pytest.raises(AssetsInvalid, match=r"preprocessor_config\.json.*size\.longest_edge"):
        find_family(MediaFiles(config=config, preprocessor={}, processor={"patch_size": 14}))
    preprocessor = {"size": {"longest_edge": 1540}}
    with pytest.raises(AssetsInvalid, match=r"processor_config\.json.*patch_size"):
        find_family(MediaFiles(config=config, preprocessor=preprocessor))


def test_a_block_of_the_processors_file_stands_for_the_file() -> None:
    files = MediaFiles(config={"model_type": "qwen2_vl"}, processor={"image_processor": QWEN_FILE})
    assert num_tokens(files, 448, 448) == num_tokens(qwen(), 448, 448)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"patch_size": 14.5}, "patch_size is 14.5"),
        ({"patch_size": True}, "patch_size is True"),
        ({"patch_size": float("inf")}, "patch_size is inf"),
        ({"patch_size": 10**400}, "patch_size is a number of 1329 bits"),
        ({"patch_size": [14] * 50}, "patch_size is a list"),
        ({"size": 5}, "size is 5"),
        ({"size": [1, 2]}, "size is"),
        ({"max_pixels": 65.5}, "max_pixels is 65.5"),
        ({"image_processor_type": 5}, "image_processor_type is no name"),
    ],
)
def test_an_odd_value_names_its_file_and_key(change: dict[str, Any], named: str) -> None:
    with pytest.raises(AssetsInvalid, match=rf"preprocessor_config\.json: {re.escape(named)}"):
        find_family(qwen(**change))


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"config": {"model_type": ["qwen2_vl"]}}, "config.json: model_type"),
        ({"config": {"architectures": 5}}, "config.json: architectures"),
        ({"config": {"architectures": [["x"]]}}, "config.json: architectures"),
        ({"config": [1]}, "config.json: the whole is"),
        ({"preprocessor": [1]}, "preprocessor_config.json: the whole is"),
        ({"processor": {"image_processor": 5}}, "processor_config.json: image_processor is 5"),
        ({"processor": {"video_processor": "x"}}, "processor_config.json: video_processor is"),
        ({"tekken": {"image": 5}}, "tekken.json: image is 5"),
    ],
)
def test_a_file_of_another_shape_is_named(files: dict[str, Any], named: str) -> None:
    given = {"config": {"model_type": "qwen2_vl"}, "preprocessor": QWEN_FILE, **files}
    with pytest.raises(AssetsInvalid, match=re.escape(named)):
        find_family(MediaFiles(**given))


def test_a_model_that_comes_without_ears_still_sees() -> None:
    block = {"image_processor_type": "Gemma4ImageProcessor", "max_soft_tokens": 280}
    config = find_family(
        MediaFiles(config={"model_type": "gemma4"}, processor={"image_processor": block})
    )
    assert config.image is not None
    with pytest.raises(UnsupportedFeature, match="Input of audio"):
        count_audio(config, 16_000)


@pytest.mark.parametrize("size", [("a", 3), (True, 5), (1.5, 2)])
def test_a_size_is_whole_numbers(size: Any) -> None:
    with pytest.raises(InvalidRequest, match="whole numbers"):
        count_image(find_family(qwen()), *size)


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), -1.0])
def test_a_timestamp_is_a_number_of_seconds(moment: float) -> None:
    with pytest.raises(InvalidRequest, match="seconds from 0 on"):
        count_video(find_family(qwen()), 64, 64, num_frames=2, timestamps=(0.0, moment))
