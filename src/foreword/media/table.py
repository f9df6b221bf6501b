"""The table of families, most used first.

Rules of this file: one row a family, many from the `table_*` files; every value is one
that the family's own processor has. A default is the processor class's, used where the file is
silent; where the class's default is not what checkpoints use, the file must say it.
"""

from __future__ import annotations

from foreword.media import layouts, shapes
from foreword.media.files import Constant, names
from foreword.media.rows import Family, VisualRow
from foreword.media.table_audio import AUDIO_FAMILIES
from foreword.media.table_gemma import GEMMA_FAMILIES
from foreword.media.table_llava import LLAVA_FAMILIES
from foreword.media.table_qwen import OMNI_FAMILIES, QWEN_FAMILIES
from foreword.media.table_tiles import INTERNVL_FAMILIES, TILE_FAMILIES
from foreword.media.values import RESIZES, square


def _pixtral(uses_tekken: bool, constants: tuple[Constant, ...]) -> VisualRow:
    return VisualRow(
        placeholder="[IMG]",
        target="[IMG]",
        resize=shapes.side,
        layout=layouts.lines,
        embeds="[IMG]",
        tokens={"break": "[IMG_BREAK]", "end": "[IMG_END]"},
        constants=(*constants, Constant("rounds_down", default=not uses_tekken)),
        files=() if uses_tekken else ("image", "processor"),
    )


_PIXTRAL = Family(
    name="pixtral",
    model_types=frozenset({"pixtral", "mistral3", "llava"}),
    architectures=names(
        "PixtralForConditionalGeneration Mistral3ForConditionalGeneration"
        " LlavaForConditionalGeneration"
    ),
    classes=frozenset({"PixtralProcessor", "PixtralImageProcessor"}),
    image=_pixtral(
        False,
        (
            Constant("longest", ("image:size.longest_edge",)),
            Constant("patch_size", ("processor:patch_size",), read=square),
            Constant("merge_size", ("processor:spatial_merge_size",), 1),
            RESIZES,
        ),
    ),
    ignored=frozenset({"patch_size", "spatial_merge_size", "do_pad"}),
)

_PIXTRAL_TEKKEN = Family(
    name="pixtral_tekken",
    model_types=frozenset({"pixtral", "mistral3"}),
    architectures=frozenset(
        {"PixtralForConditionalGeneration", "Mistral3ForConditionalGeneration"}
    ),
    classes=frozenset({"PixtralProcessor", "PixtralImageProcessor"}),
    image=_pixtral(
        True,
        (
            Constant("longest", ("tekken:image.max_image_size",)),
            Constant("patch_size", ("tekken:image.image_patch_size",)),
            Constant("merge_size", ("tekken:image.spatial_merge_size",), 1),
        ),
    ),
    uses_tekken=True,
)

# Of videos and pixels; read so that the block's every key is known.
_KIMI_VIDEO = tuple(
    Constant(name, (f"image:media_proc_cfg.{name}",), None, read=lambda value: value)
    for name in sorted(
        names(
            "in_patch_limit_each_frame in_patch_limit_video sample_fps image_mean image_std"
            " max_num_frames_each_video temporal_merge_kernel_size timestamp_mode config_type"
        )
    )
)

_KIMI_K25 = Family(
    name="kimi_k25",
    model_types=frozenset({"kimi_k25"}),
    architectures=frozenset({"KimiK25ForConditionalGeneration"}),
    classes=frozenset({"KimiK25Processor", "KimiK25VisionProcessor"}),
    image=VisualRow(
        placeholder="<|media_begin|>image<|media_content|><|media_pad|><|media_end|>",
        target="<|media_pad|>",
        resize=shapes.navit,
        layout=layouts.flat,
        embeds="<|media_pad|>",
        constants=(
            Constant("max_patches", ("image:media_proc_cfg.in_patch_limit",)),
            Constant("max_side_patches", ("image:media_proc_cfg.patch_limit_on_one_side",)),
            Constant("patch_size", ("image:media_proc_cfg.patch_size",)),
            Constant("merge_size", ("image:media_proc_cfg.merge_kernel_size",), read=square),
            # Present but null in every public copy; a number would replace the count.
            Constant("fixed", ("image:media_proc_cfg.fixed_output_tokens",), None, only=(None,)),
            *_KIMI_VIDEO,
        ),
    ),
)

FAMILIES: tuple[Family, ...] = (
    *QWEN_FAMILIES,
    *GEMMA_FAMILIES,
    _PIXTRAL,
    _PIXTRAL_TEKKEN,
    *INTERNVL_FAMILIES,
    _KIMI_K25,
    *LLAVA_FAMILIES,
    *TILE_FAMILIES,
    *AUDIO_FAMILIES,
    *OMNI_FAMILIES,
)
