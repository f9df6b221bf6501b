"""Counts of images equal those of transformers' own processors, size by size.

The processors run as they are, on pictures that take no memory: what resizes or converts pixels
is replaced by an empty picture of the resulting size. Where a module needs torch, its functions
are taken from its source and run with numpy in torch's place (`source_functions`).
"""

from __future__ import annotations

import functools
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
from image_counts import (  # noqa: E402
    Oracle,
    Sources,
    bare,
    check,
    flat,
    module,
    picture,
    without_pixels,
)

pytestmark = pytest.mark.parity

QWEN = [
    ("qwen2_vl", {"patch_size": 14, "min_pixels": 3136, "max_pixels": 12845056}),
    ("qwen2_vl", {}),
    ("qwen3_vl", {"patch_size": 16, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}),
]


@pytest.mark.witness(
    family=(
        "media:qwen2_vl",
        "media:qwen3_vl",
    ),
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize(("model_type", "file"), QWEN)
def test_qwen_images(model_type: str, file: dict[str, Any]) -> None:
    kind = module("qwen2_vl.image_processing_pil_qwen2_vl").Qwen2VLImageProcessorPil
    processor = kind(**file)
    config = find_family(MediaFiles(config={"model_type": model_type}, preprocessor=file))
    pad = "<|image_pad|>"
    check(config, flat(pad, lambda w, h: processor.get_number_of_image_patches(h, w) // 4))


@pytest.mark.witness(
    family="media:glm4v",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_glm4v_images() -> None:
    size = {"shortest_edge": 12544, "longest_edge": 9633792}
    kind = module("glm4v.image_processing_pil_glm4v").Glm4vImageProcessorPil
    processor = kind(size=size)
    config = find_family(MediaFiles(config={"model_type": "glm4v"}, preprocessor={"size": size}))
    check(config, flat("<|image|>", lambda w, h: processor.get_number_of_image_patches(h, w) // 4))


@pytest.mark.witness(
    family="media:gemma3",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize("splits", [False, True])
def test_gemma3_images(splits: bool) -> None:
    processing = module("gemma3.processing_gemma3").Gemma3Processor
    kind = module("gemma3.image_processing_pil_gemma3").Gemma3ImageProcessorPil
    image = "\n\n<start_of_image>" + "<image_soft_token>" * 256 + "<end_of_image>\n\n"
    processor, cropper = bare(processing, full_image_sequence=image), kind()

    def oracle(width: int, height: int) -> str:
        crops = cropper.pan_and_scan(picture(height, width), 256, 4, 1.2) if splits else []
        return str(processor.replace_image_token({"num_crops": [len(crops)]}, 0))

    file = {"do_pan_and_scan": splits}
    check(find_family(MediaFiles(config={"model_type": "gemma3"}, preprocessor=file)), oracle)


@pytest.mark.witness(
    family="media:gemma4",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize("max_tokens", [70, 280, 1120])
def test_gemma4_images(max_tokens: int) -> None:
    fit = module("gemma4.image_processing_pil_gemma4").get_aspect_ratio_preserving_size

    def oracle(width: int, height: int) -> str:
        height, width = fit(height, width, 16, max_tokens * 9, 3)
        return "B" + "<|image|>" * (height * width // 48**2) + "E"

    file = {"max_soft_tokens": max_tokens}
    config = find_family(MediaFiles(config={"model_type": "gemma4"}, preprocessor=file))
    check(config, oracle, rename={255_999: "B", 258_882: "E"})


@pytest.mark.witness(
    family="media:pixtral",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize(("patch", "merge", "longest"), [(16, 1, 1024), (14, 2, 1540)])
def test_pixtral_images(patch: int, merge: int, longest: int) -> None:
    pixtral = module("pixtral.image_processing_pil_pixtral")
    unit = patch * merge

    def oracle(width: int, height: int) -> str:
        picture_hwc = np.broadcast_to(np.uint8(0), (height, width, 3))
        fit_height, fit_width = pixtral.get_resize_output_image_size(
            picture_hwc, size=longest, patch_size=unit, input_data_format="channels_last"
        )
        if not fit_height or not fit_width:
            raise ValueError
        rows = fit_height // unit * ("[IMG]" * (fit_width // unit) + "[IMG_BREAK]")
        return rows.removesuffix("[IMG_BREAK]") + "[IMG_END]"

    files = MediaFiles(
        config={"model_type": "mistral3"},
        processor={"patch_size": patch, "spatial_merge_size": merge},
        preprocessor={"size": {"longest_edge": longest}},
    )
    check(find_family(files), oracle)


@pytest.mark.witness(
    family="media:pixtral_tekken",
    what="tokens of images of random sizes",
    against="mistral-common 1.13",
)
def test_mistral_common_images() -> None:
    image = pytest.importorskip("mistral_common.tokens.tokenizers.image")
    block = {"image_patch_size": 14, "max_image_size": 1540, "spatial_merge_size": 2}
    encoder = bare(image.ImageEncoder, image_config=image.ImageConfig(**block))

    def oracle(width: int, height: int) -> str:
        columns, rows = encoder._image_to_num_tokens(SimpleNamespace(size=(width, height)))
        text = rows * ("[IMG]" * columns + "[IMG_BREAK]")
        return text.removesuffix("[IMG_BREAK]") + "[IMG_END]"

    files = MediaFiles(config={"model_type": "mistral3"}, tekken={"image": block})
    check(find_family(files, tokenizer_mode="mistral"), oracle)


@pytest.mark.witness(
    family=("media:internvl",),
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_internvl_images() -> None:
    tiles = module("got_ocr2.image_processing_pil_got_ocr2").GotOcr2ImageProcessorPil(
        size={"height": 448, "width": 448}, crop_to_patches=True
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

    file = {"size": {"height": 448, "width": 448}}
    check(find_family(MediaFiles(config={"model_type": "internvl"}, preprocessor=file)), oracle)


def llava(kind: Any, image_processor: Any, **attributes: Any) -> Oracle:
    processor = bare(kind, image_processor=image_processor, image_token="<image>", **attributes)

    def oracle(width: int, height: int) -> str:
        inputs = {
            "image_sizes": [(height, width)],
            "pixel_values": [[np.broadcast_to(0, (3, TILE, TILE))]],
            "batch_num_images": [1],
        }
        return str(processor.replace_image_token(inputs, 0))

    return oracle


TILE = 336


@pytest.mark.witness(
    family="media:llava_next",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_llava_next_images() -> None:
    kind = module("llava_next.processing_llava_next").LlavaNextProcessor
    grid = module("llava_next.image_processing_pil_llava_next").LlavaNextImageProcessorPil
    canvases = grid.image_grid_pinpoints
    oracle = llava(
        kind,
        SimpleNamespace(image_grid_pinpoints=canvases),
        patch_size=14,
        num_additional_image_tokens=1,
        vision_feature_select_strategy="default",
    )
    files = MediaFiles(
        config={"model_type": "llava_next"},
        preprocessor={
            "crop_size": {"height": 336, "width": 336},
            "image_grid_pinpoints": canvases,
        },
        processor={"patch_size": 14},
    )
    check(find_family(files), oracle)


@pytest.mark.witness(
    family="media:llava_onevision",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_llava_onevision_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TILE", 384)
    kind = module("llava_onevision.processing_llava_onevision").LlavaOnevisionProcessor
    canvases = [[384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)]
    oracle = llava(
        kind,
        SimpleNamespace(image_grid_pinpoints=canvases),
        num_image_tokens=729,
        vision_aspect_ratio="anyres_max_9",
        vision_feature_select_strategy="full",
    )
    files = MediaFiles(
        config={"model_type": "llava_onevision"},
        preprocessor={"image_grid_pinpoints": canvases},
        processor={"num_image_tokens": 729},
    )
    check(find_family(files), oracle)


IDEFICS = [("idefics3", 1456, 364, 169), ("smolvlm", 2048, 512, 64), ("smolvlm", 1536, 384, 81)]


@pytest.mark.witness(
    family=(
        "media:idefics3",
        "media:smolvlm",
    ),
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize(("model_type", "longest", "tile", "tokens"), IDEFICS)
def test_idefics3_images(
    monkeypatch: pytest.MonkeyPatch, model_type: str, longest: int, tile: int, tokens: int
) -> None:
    kind = module("idefics3.image_processing_pil_idefics3").Idefics3ImageProcessorPil
    tiles = without_pixels(monkeypatch, kind())
    processor = bare(
        module("idefics3.processing_idefics3").Idefics3Processor,
        fake_image_token="<fake_token_around_image>",
        global_image_tag="<global-img>",
        image_token="<image>",
        image_seq_len=tokens,
    )
    sized = SimpleNamespace(longest_edge=longest, height=None, width=None)

    def oracle(width: int, height: int) -> str:
        image = tiles.resize(picture(height, width), size=sized)
        backend = type(tiles).__mro__[1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(tiles), "resize", backend.resize)
            image = tiles.resize_for_vision_encoder(image, tile)
            _, rows, columns = tiles.split_images(image, {"longest_edge": tile})
        return str(processor.replace_image_token({"rows": [[rows]], "cols": [[columns]]}, 0))

    files = MediaFiles(
        config={"model_type": model_type},
        preprocessor={
            "size": {"longest_edge": longest},
            "max_image_size": {"longest_edge": tile},
        },
        processor={"image_seq_len": tokens},
    )
    check(find_family(files), oracle)


@pytest.mark.witness(
    family="media:minicpmv4_6",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize("mode", ["16x", "4x"])
def test_minicpm_images(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    kind = module("minicpmv4_6.image_processing_pil_minicpmv4_6").MiniCPMV4_6ImageProcessorPil
    slicer = without_pixels(monkeypatch, kind())
    monkeypatch.setattr(kind, "reshape_by_patch", lambda self, image, size: np.zeros((3, 1, 1)))
    processor = bare(
        module("minicpmv4_6.processing_minicpmv4_6").MiniCPMV4_6Processor,
        slice_mode=True,
        image_token="<|image_pad|>",
        image_start_token="<image>",
        image_end_token="</image>",
        slice_start_token="<slice>",
        slice_end_token="</slice>",
        image_id_start_token="<image_id>",
        image_id_end_token="</image_id>",
    )
    options = {"do_resize": True, "resample": None, "do_rescale": False, "rescale_factor": 1}
    options |= {"do_normalize": False, "image_mean": None, "image_std": None}
    options |= {"max_slice_nums": 9, "scale_resolution": 448, "patch_size": 14, "slice_mode": True}
    divisor = int(mode.removesuffix("x"))

    def oracle(width: int, height: int) -> str:
        inputs = slicer._preprocess([picture(height, width)], **options)
        made = processor.replace_image_token(inputs, 0, image_token_divisor=divisor)
        return str(processor._prepend_local_ids(["<|image_pad|>"], [made], "<|image_pad|>")[0])

    file = {"downsample_mode": mode}
    check(find_family(MediaFiles(config={"model_type": "minicpmv4_6"}, preprocessor=file)), oracle)


@pytest.mark.witness(
    family="media:deepseek_ocr2",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_deepseek_ocr2_images(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = module("deepseek_ocr2.image_processing_pil_deepseek_ocr2").DeepseekOcr2ImageProcessorPil
    tiles = without_pixels(monkeypatch, kind())
    monkeypatch.setattr(kind, "pad_to_square", lambda self, image, **kwargs: image)
    processor = bare(
        module("deepseek_ocr2.processing_deepseek_ocr2").DeepseekOcr2Processor,
        image_token="<image>",
        patch_size=16,
        downsample_ratio=4,
        image_processor=SimpleNamespace(size={"height": 1024}, tile_size=768),
    )
    options = {"size": SimpleNamespace(height=1024, width=1024), "resample": None}
    options |= {"do_rescale": False, "rescale_factor": 1, "do_normalize": False}
    options |= {"image_mean": None, "image_std": None, "return_tensors": None}

    def oracle(width: int, height: int) -> str:
        inputs = tiles._preprocess([picture(height, width)], **options)
        return str(processor.replace_image_token(inputs, 0))

    check(find_family(MediaFiles(config={"model_type": "deepseek_ocr2"}, preprocessor={})), oracle)


@pytest.mark.witness(
    family="media:kimi_k25",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_kimi_images(source_functions: Sources) -> None:
    kimi = source_functions("kimi_k25/image_processing_kimi_k25", "navit_resize")

    def count(width: int, height: int) -> int:
        _, (fit_height, fit_width) = kimi.navit_resize(height, width, 14, 2, 16384, 512)
        return int(fit_height // 28 * (fit_width // 28))

    block = {"in_patch_limit": 16384, "patch_limit_on_one_side": 512, "patch_size": 14}
    file = {"media_proc_cfg": {**block, "merge_kernel_size": 2}}
    config = find_family(MediaFiles(config={"model_type": "kimi_k25"}, preprocessor=file))
    check(config, flat("<|media_pad|>", count))


class Float32Torch:
    """The few functions Llama 4's choice of a canvas uses, on 32-bit floats."""

    where = staticmethod(np.where)
    max, min, argmin = staticmethod(np.max), staticmethod(np.min), staticmethod(np.argmin)


@pytest.mark.witness(
    family="media:llama4",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
@pytest.mark.parametrize("to_largest", [False, True])
def test_llama4_images(to_largest: bool, source_functions: Sources) -> None:
    llama4 = source_functions(
        "llama4/image_processing_llama4",
        *("get_factors", "find_supported_resolutions", "get_best_fit"),
        torch=Float32Torch,
    )
    prompt = source_functions("llama4/processing_llama4", "_prompt_split_image")
    canvases = llama4.find_supported_resolutions(16, SimpleNamespace(height=336, width=336))
    canvases = np.array(canvases, dtype=np.float32)

    def oracle(width: int, height: int) -> str:
        best = llama4.get_best_fit((height, width), canvases, to_largest)
        grid = int(best[0]) // 336, int(best[1]) // 336
        return str(prompt._prompt_split_image(None, grid, 144))

    file = {"resize_to_max_canvas": to_largest}
    check(find_family(MediaFiles(config={"model_type": "llama4"}, preprocessor=file)), oracle)


@pytest.mark.witness(
    family="media:phi4mm",
    what="tokens of images of random sizes",
    against="transformers 5.20's processor",
)
def test_phi4_images(source_functions: Sources) -> None:
    """The mask is the processor's own; what is counted of it is written out here."""
    phi4 = source_functions(
        "phi4_multimodal/image_processing_phi4_multimodal",
        *("find_closest_aspect_ratio", "dynamic_preprocess"),
        torch=SimpleNamespace(ones=lambda shape, device: np.ones(shape, dtype=np.int64)),
        tvF=SimpleNamespace(resize=lambda image, size: image, pad=lambda image, *a, **k: image),
    )
    self = SimpleNamespace(
        find_closest_aspect_ratio=functools.partial(phi4.find_closest_aspect_ratio, None)
    )

    def count(width: int, height: int) -> int:
        image = SimpleNamespace(shape=(3, height, width), device=None)
        _, mask = phi4.dynamic_preprocess(self, image, 448, 14, 32, max_num=36)
        kept = mask[0::2, 0::2]
        return int(256 + 1 + kept.sum() + kept[:, 0].sum() + 16)

    config = find_family(MediaFiles(config={"model_type": "phi4mm"}, preprocessor={}))
    check(config, flat("I", count), rename={200_010: "I"})
