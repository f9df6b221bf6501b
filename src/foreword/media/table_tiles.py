"""The rows of families that cut an image into tiles.

Rules of this file: as `table`.
"""

from __future__ import annotations

from foreword.media import layouts, shapes
from foreword.media.files import Constant, names
from foreword.media.rows import Family, VisualRow
from foreword.media.values import (
    RESIZES,
    flag,
    patches_per_token,
    square,
)

_INTERNVL_TOKENS: dict[str, str | int] = {"begin": "<img>", "end": "</img>"}

_INTERNVL_CHAT = Family(
    name="internvl_chat",
    model_types=frozenset({"internvl_chat"}),
    architectures=frozenset({"InternVLChatModel"}),
    classes=frozenset({"InternVLProcessor", "CLIPImageProcessor", "CLIPFeatureExtractor"}),
    image=VisualRow(
        placeholder="<image>",
        target="<image>",
        resize=shapes.aspect,
        layout=layouts.internvl,
        embeds="<IMG_CONTEXT>",
        tokens=_INTERNVL_TOKENS,
        constants=(
            Constant("tile", ("config:vision_config.image_size", "config:force_image_size")),
            Constant("patch_size", ("config:vision_config.patch_size",)),
            Constant("scale", ("config:downsample_ratio",), may_be_fraction=True),
            Constant("min_tiles", ("config:min_dynamic_patch",)),
            Constant("max_tiles", ("config:max_dynamic_patch",)),
            Constant("splits", ("config:dynamic_image_size",), read=flag),
            Constant("has_thumbnail", ("config:use_thumbnail",), read=flag),
        ),
        # The remote code ignores what the folder's CLIP preprocessor_config.json says.
        files=(),
    ),
)

_INTERNVL = Family(
    name="internvl",
    model_types=frozenset({"internvl"}),
    architectures=frozenset({"InternVLForConditionalGeneration"}),
    classes=frozenset({"InternVLProcessor", "GotOcr2ImageProcessor", "InternVLVideoProcessor"}),
    image=VisualRow(
        placeholder="<IMG_CONTEXT>",
        target="<IMG_CONTEXT>",
        resize=shapes.aspect,
        layout=layouts.tiles_and_thumbnail,
        embeds="<IMG_CONTEXT>",
        tokens=_INTERNVL_TOKENS,
        constants=(
            Constant("tile", ("image:size",), 384, read=square),
            Constant("tile_tokens", ("processor:image_seq_length",), 256),
            Constant("min_tiles", ("image:min_patches",), 1),
            Constant("max_tiles", ("image:max_patches",), 12),
            # The processor turns it on whatever the file says.
            Constant("splits", default=True),
            Constant("has_thumbnail", default=True),
            RESIZES,
        ),
    ),
    ignored=frozenset({"crop_to_patches"}),
)


def _numbered(name: str, classes: str, architecture: str) -> Family:
    return Family(
        name=name,
        model_types=frozenset({name}),
        architectures=frozenset({architecture}),
        classes=names(classes),
        image=VisualRow(
            placeholder="<image>",
            target="<image>",
            resize=shapes.upscaled,
            layout=layouts.numbered_tiles,
            embeds="<image>",
            constants=(
                Constant("longest", ("image:size.longest_edge",), 1456),
                Constant("tile", ("image:max_image_size.longest_edge",), 364),
                Constant("tile_tokens", ("processor:image_seq_len",), 169),
                Constant("splits", ("image:do_image_splitting",), True),
                RESIZES,
            ),
        ),
        ignored=frozenset({"do_pad", "return_row_col_info", "video_sampling"}),
    )


_IDEFICS3 = _numbered(
    "idefics3", "Idefics3Processor Idefics3ImageProcessor", "Idefics3ForConditionalGeneration"
)
_SMOLVLM = _numbered(
    "smolvlm",
    "SmolVLMProcessor SmolVLMImageProcessor SmolVLMVideoProcessor"
    " Idefics3Processor Idefics3ImageProcessor",
    "SmolVLMForConditionalGeneration",
)

_LLAMA4 = Family(
    name="llama4",
    model_types=frozenset({"llama4"}),
    architectures=frozenset({"Llama4ForConditionalGeneration"}),
    classes=frozenset({"Llama4Processor", "Llama4ImageProcessor"}),
    image=VisualRow(
        placeholder="<|image|>",
        target="<|image|>",
        resize=shapes.least_upscale,
        layout=layouts.separated_tiles,
        embeds="<|patch|>",
        constants=(
            Constant("tile", ("image:size",), 336, read=square),
            Constant("max_tiles", ("image:max_patches",), 16),
            Constant("to_largest", ("image:resize_to_max_canvas",), False),
            Constant("patch_size", ("processor:patch_size",), 14),
            Constant("shuffle", ("processor:pixel_shuffle_ratio",), 0.5, may_be_fraction=True),
            RESIZES,
        ),
    ),
)

_PHI4_TILE = (
    Constant("tile", ("image:size",), 448, only=(448,), read=square),
    Constant("patch_size", ("image:patch_size",), 14, only=(14,)),
    Constant("max_tiles", ("image:dynamic_hd",), 36),
    Constant("crop", ("config:embd_layer.image_embd_layer.crop_size",), 448, only=(448,)),
)

_PHI4MM = Family(
    name="phi4mm",
    model_types=frozenset({"phi4mm", "phi4_multimodal"}),
    architectures=frozenset({"Phi4MMForCausalLM", "Phi4MultimodalForCausalLM"}),
    classes=names(
        "Phi4MMProcessor Phi4MMImageProcessor Phi4MMAudioFeatureExtractor Phi4MultimodalProcessor"
        " Phi4MultimodalImageProcessor Phi4MultimodalFeatureExtractor"
    ),
    image=VisualRow(
        placeholder="<|image_{number}|>",
        target="<|image_{number}|>",
        resize=shapes.aspect_above_budget,
        layout=layouts.masked_tiles,
        embeds=200_010,
        constants=_PHI4_TILE,
    ),
    ignored=names("audio_compression_rate audio_downsample_rate audio_feat_stride"),
)

_MINICPM = Family(
    name="minicpmv4_6",
    model_types=frozenset({"minicpmv4_6"}),
    architectures=frozenset({"MiniCPMV4_6ForConditionalGeneration"}),
    classes=names("MiniCPMV4_6Processor MiniCPMV4_6ImageProcessor MiniCPMV4_6VideoProcessor"),
    image=VisualRow(
        placeholder="<|image_pad|>",
        target="<|image_pad|>",
        resize=shapes.sliced,
        layout=layouts.sliced,
        embeds="<|image_pad|>",
        constants=(
            Constant("tile", ("image:scale_resolution",), 448),
            Constant("max_tiles", ("image:max_slice_nums",), 9),
            Constant("patch_size", ("image:patch_size",), 14),
            Constant("splits", ("image:slice_mode",), True),
            Constant("numbers_items", ("image:use_image_id",), True),
            Constant("patches_per_token", ("image:downsample_mode",), 16, read=patches_per_token),
        ),
    ),
    ignored=frozenset({"do_resize"}),
)

_DEEPSEEK_OCR = Family(
    name="deepseek_ocr",
    model_types=frozenset({"deepseek_ocr"}),
    architectures=frozenset({"DeepseekOCRForCausalLM"}),
    classes=frozenset({"DeepseekOCRProcessor", "DeepseekVLV2Processor"}),
    image=VisualRow(
        placeholder="<image>",
        target="<image>",
        resize=shapes.aspect_above_tile,
        layout=layouts.global_and_rows,
        embeds="<image>",
        # Written in the model's code (base 1024, tiles of 640, 16 pixels a patch, 4 a token).
        constants=(
            Constant("whole_side", default=16),
            Constant("tile_side", default=10),
            Constant("tile", default=640),
            Constant("min_tiles", default=2),
            Constant("max_tiles", default=6),
            Constant("splits", default=True),
        ),
        files=(),
    ),
)

_DEEPSEEK_OCR2 = Family(
    name="deepseek_ocr2",
    model_types=frozenset({"deepseek_ocr2"}),
    architectures=frozenset({"DeepseekOCR2ForCausalLM", "DeepseekOcr2ForConditionalGeneration"}),
    classes=frozenset({"DeepseekOcr2Processor", "DeepseekOcr2ImageProcessor"}),
    image=VisualRow(
        placeholder="<image>",
        target="<image>",
        resize=shapes.aspect_above_tile,
        layout=layouts.global_and_tiles,
        embeds="<image>",
        constants=(
            Constant("whole", ("image:size",), 1024, read=square),
            Constant("tile", ("image:tile_size",), 768),
            Constant("min_tiles", ("image:min_patches",), 2),
            Constant("max_tiles", ("image:max_patches",), 6),
            Constant("splits", ("image:crop_to_patches",), True, only=(True,)),
            Constant("patch_size", ("processor:patch_size",), 16),
            Constant("shrink", ("processor:downsample_ratio",), 4),
            RESIZES,
        ),
    ),
)

INTERNVL_FAMILIES: tuple[Family, ...] = (_INTERNVL_CHAT, _INTERNVL)
TILE_FAMILIES: tuple[Family, ...] = (
    _IDEFICS3,
    _SMOLVLM,
    _LLAMA4,
    _PHI4MM,
    _MINICPM,
    _DEEPSEEK_OCR,
    _DEEPSEEK_OCR2,
)
