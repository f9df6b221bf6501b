"""Families whose images cost the same at every size, or as another family's do, size by size."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foreword.media import MediaFiles, find_family

pytest.importorskip("transformers")
np = pytest.importorskip("numpy")
pytest.importorskip("PIL")

sys.path.insert(0, str(Path(__file__).parent))
from image_counts import bare, check, flat, module, without_pixels  # noqa: E402

pytestmark = pytest.mark.parity


@pytest.mark.witness(
    family="media:llava",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize(("strategy", "side"), [("default", 336), ("full", 224)])
def test_llava_images(monkeypatch: pytest.MonkeyPatch, strategy: str, side: int) -> None:
    """Every picture is cropped to one size, whatever its own."""
    kind = module("llava.image_processing_pil_llava").LlavaImageProcessorPil
    square = {"height": side, "width": side}
    crop = kind(size={"shortest_edge": side}, crop_size=square, do_pad=False).crop_size
    shown = np.broadcast_to(np.uint8(0), (3, crop["height"], crop["width"]))
    processor = bare(
        module("llava.processing_llava").LlavaProcessor,
        image_token="<image>",
        patch_size=14,
        num_additional_image_tokens=1,
        vision_feature_select_strategy=strategy,
    )
    file = {"crop_size": square, "image_processor_type": "CLIPImageProcessor"}
    config = find_family(
        MediaFiles(
            config={"model_type": "llava"},
            preprocessor=file,
            processor={"patch_size": 14, "vision_feature_select_strategy": strategy},
        )
    )
    check(config, lambda w, h: str(processor.replace_image_token({"pixel_values": [shown]}, 0)))


@pytest.mark.witness(
    family="media:gemma3n",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_gemma3n_images() -> None:
    tokens = SimpleNamespace(
        audio_token="<audio_soft_token>", boa_token="<boa>", eoa_token="<eoa>",
        image_token="<image_soft_token>", boi_token="<start_of_image>",
        eoi_token="<end_of_image>", audio_token_id=1, image_token_id=2,
    )  # fmt: skip
    kind = module("gemma3n.processing_gemma3n").Gemma3nProcessor
    made: Any = object.__new__(kind)
    base = kind.__mro__[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "__init__", lambda self, **given: None)
        kind.__init__(made, None, None, tokens)
    config = find_family(MediaFiles(config={"model_type": "gemma3n"}, preprocessor={}))
    check(config, lambda w, h: str(made.full_image_sequence))


@pytest.mark.witness(
    family=("media:qwen2_5_omni", "media:qwen3_omni"),
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize(
    ("model_type", "pad", "file"),
    [
        ("qwen2_5_omni", "<|IMAGE|>", {"min_pixels": 3136, "max_pixels": 12845056}),
        ("qwen3_omni_moe", "<|image_pad|>", {"patch_size": 16, "max_pixels": 12845056}),
    ],
)
def test_omni_images(model_type: str, pad: str, file: dict[str, Any]) -> None:
    processor = module("qwen2_vl.image_processing_pil_qwen2_vl").Qwen2VLImageProcessorPil(**file)
    config = find_family(MediaFiles(config={"model_type": model_type}, preprocessor=file))
    check(config, flat(pad, lambda w, h: processor.get_number_of_image_patches(h, w) // 4))


@pytest.mark.witness(
    family="media:internvl_chat",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor of the same model",
)
@pytest.mark.parametrize("most", [6, 12])
def test_internvl_chat_images(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The published files bring code of their own; transformers' copy of it is the witness."""
    kind = module("got_ocr2.image_processing_pil_got_ocr2").GotOcr2ImageProcessorPil
    tiles = without_pixels(
        monkeypatch,
        kind(size={"height": 448, "width": 448}, crop_to_patches=True, max_patches=most),
    )
    processor = bare(
        module("internvl.processing_internvl").InternVLProcessor,
        start_image_token="<img>",
        image_token="<IMG_CONTEXT>",
        end_image_token="</img>",
        image_seq_length=256,
    )

    def oracle(width: int, height: int) -> str:
        num_patches = tiles.get_number_of_image_patches(height, width)
        return str(processor.replace_image_token({"num_patches": [num_patches]}, 0))

    config = {
        "model_type": "internvl_chat",
        "force_image_size": 448,
        "vision_config": {"patch_size": 14},
        "downsample_ratio": 0.5,
        "min_dynamic_patch": 1,
        "max_dynamic_patch": most,
        "dynamic_image_size": True,
        "use_thumbnail": True,
    }
    check(find_family(MediaFiles(config=config)), oracle)
