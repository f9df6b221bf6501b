"""Every recorded case (an image's size → its runs) of the private data equals ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from foreword.media import FamilyConfig, MediaFiles, Run, count_image, find_family

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "multimodal"

_LLAVA_NEXT_CANVASES = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_ONEVISION_CANVASES = [[384 * r, 384 * c] for r in range(1, 7) for c in range(1, 7)]


def _files(name: str, config: dict[str, Any]) -> MediaFiles:
    """Return the model folder that a case file's summary stands for."""
    preprocessor: dict[str, Any] = {}
    processor: dict[str, Any] = {}
    model: dict[str, Any] = {"model_type": config["model_type"]}
    if name in ("qwen2_vl", "qwen3_vl", "glm4v"):
        preprocessor = {k: v for k, v in config.items() if k != "model_type"}
    elif name.startswith("gemma3"):
        processor = {"image_seq_length": config["image_seq_length"]}
        preprocessor = {"do_pan_and_scan": config["pan_and_scan"]}
    elif name == "gemma4":
        preprocessor = {k: config[k] for k in ("max_soft_tokens", "patch_size")}
        preprocessor["pooling_kernel_size"] = config["pooling"]
    elif name in ("pixtral12b", "mistral3"):
        processor = {"patch_size": config["patch_size"], "processor_class": "PixtralProcessor"}
        processor["spatial_merge_size"] = config.get("spatial_merge_size", 1)
        preprocessor = {"size": {"longest_edge": config["longest_edge"]}}
    elif name == "internvl":
        preprocessor = {"size": {"height": 448, "width": 448}, "min_patches": config["min"]}
        preprocessor["max_patches"] = config["max"]
    elif name == "kimi_k25":
        limits = {k: config[k] for k in ("in_patch_limit", "patch_limit_on_one_side")}
        preprocessor = {"media_proc_cfg": {**limits, "patch_size": 14, "merge_kernel_size": 2}}
    elif name == "llava15":
        preprocessor = {"crop_size": {"height": 336, "width": 336}}
        processor = {"patch_size": 14, "vision_feature_select_strategy": "default"}
    elif name == "llava_next":
        preprocessor = {"crop_size": {"height": 336, "width": 336}}
        preprocessor["image_grid_pinpoints"] = _LLAVA_NEXT_CANVASES
        processor = {"patch_size": 14}
    elif name == "llava_onevision":
        preprocessor = {"image_grid_pinpoints": _ONEVISION_CANVASES}
        processor = {"num_image_tokens": 729, "vision_aspect_ratio": "anyres_max_9"}
    elif name in ("idefics3", "smolvlm"):
        preprocessor = {"size": {"longest_edge": config["longest_edge"]}}
        preprocessor["max_image_size"] = {"longest_edge": config["tile"]}
        processor = {"image_seq_len": config["image_seq_len"]}
    elif name == "llama4":
        preprocessor = {"size": {"height": 336, "width": 336}, "max_patches": 16}
    elif name == "phi4mm":
        preprocessor = {"dynamic_hd": config["dynamic_hd"]}
    else:
        assert name == "deepseek_ocr"
    return MediaFiles(config=model, preprocessor=preprocessor, processor=processor)


_OTHER_NAMES: dict[str, dict[str, str | int]] = {
    "gemma4": {"<boi>": 255_999, "<img>": "<|image|>", "<eoi>": 258_882},
    "phi4mm": {"<|endoftext10|>": 200_010},
}


def _joined(runs: Iterable[tuple[str | int, int]]) -> list[tuple[str | int, int]]:
    joined: list[tuple[str | int, int]] = []
    for token, count in runs:
        if joined and joined[-1][0] == token:
            joined[-1] = (token, joined[-1][1] + count)
        elif count:
            joined.append((token, count))
    return joined


def _ours(config: FamilyConfig, width: int, height: int) -> list[tuple[str | int, int]]:
    return _joined((run.token, run.num_tokens) for run in count_image(config, width, height))


@pytest.mark.witness(
    family=(
        "media:deepseek_ocr",
        "media:gemma3",
        "media:gemma4",
        "media:glm4v",
        "media:idefics3",
        "media:internvl",
        "media:kimi_k25",
        "media:llama4",
        "media:llava",
        "media:llava_next",
        "media:llava_onevision",
        "media:pixtral",
        "media:phi4mm",
        "media:qwen2_vl",
        "media:qwen3_vl",
        "media:smolvlm",
    ),
    what="recorded sizes and their runs of tokens",
    against="the families' own processors",
)
@pytest.mark.golden
@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_every_recorded_case_is_equal(path: Path) -> None:
    recorded = json.loads(path.read_text())
    config = find_family(_files(path.stem, recorded["config"]))
    names = _OTHER_NAMES.get(path.stem, {})
    assert len(recorded["cases"]) >= 35
    for case in recorded["cases"]:
        runs = [(names.get(token, token), count) for token, count in case["runs"]]
        assert _ours(config, case["w"], case["h"]) == _joined(runs), (case["w"], case["h"])
        embeds = recorded["embeds"]
        if embeds is not None:
            assert sum(
                r.num_tokens for r in count_image(config, case["w"], case["h"]) if r.is_embed
            ) == (sum(count for token, count in runs if token == names.get(embeds, embeds)))


@pytest.mark.golden
def test_the_recorded_cases_are_there() -> None:
    if not DATA.is_dir():
        pytest.skip("the private data folder is not beside the checkout")
    assert len(list(DATA.glob("*.json"))) >= 18


def test_a_run_is_one_token_repeated() -> None:
    config = find_family(MediaFiles(config={"model_type": "qwen2_vl"}, preprocessor={}))
    assert count_image(config, 448, 448) == (Run("<|image_pad|>", 256, True),)
