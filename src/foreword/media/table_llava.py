"""The rows of LLaVA.

Rules of this file: as `table`.
"""

from __future__ import annotations

from foreword.media import layouts, shapes
from foreword.media.files import Constant, names
from foreword.media.rows import Family, VisualRow
from foreword.media.values import (
    RESIZES,
    canvases,
    is_default_strategy,
    max_tiles,
    number,
    square,
    square_root,
)

_STRATEGY_PATHS = (
    "processor:vision_feature_select_strategy",
    "config:vision_feature_select_strategy",
)
_DROPS_FIRST = Constant("drops_first", _STRATEGY_PATHS, True, read=is_default_strategy)

# CLIP gives one feature (CLS) beside its patches, and old files don't say so.
_ENCODER = Constant(
    "encoder", ("config:vision_config.model_type",), None, only=("clip_vision_model",)
)
_EXTRA = Constant("extra", ("processor:num_additional_image_tokens",), 1, read=number)

_LLAVA = Family(
    name="llava",
    model_types=frozenset({"llava"}),
    architectures=frozenset({"LlavaForConditionalGeneration"}),
    classes=frozenset({"LlavaProcessor", "CLIPImageProcessor"}),
    image=VisualRow(
        placeholder="<image>",
        target="<image>",
        resize=shapes.fixed,
        layout=layouts.fixed_size,
        embeds="<image>",
        constants=(
            Constant("tile", ("image:crop_size", "config:vision_config.image_size"), read=square),
            Constant(
                "patch_size",
                ("processor:patch_size", "config:vision_config.patch_size"),
                read=square,
            ),
            _EXTRA,
            _ENCODER,
            Constant("crops", ("image:do_center_crop",), True, only=(True,)),
            _DROPS_FIRST,
            RESIZES,
        ),
    ),
    ignored=frozenset({"size", "do_pad"}),
)

_LLAVA_NEXT = Family(
    name="llava_next",
    model_types=frozenset({"llava_next"}),
    architectures=frozenset({"LlavaNextForConditionalGeneration"}),
    classes=frozenset({"LlavaNextProcessor", "LlavaNextImageProcessor"}),
    image=VisualRow(
        placeholder="<image>",
        target="<image>",
        resize=shapes.canvas,
        layout=layouts.unpadded,
        embeds="<image>",
        constants=(
            Constant("tile", ("image:crop_size", "config:vision_config.image_size"), read=square),
            Constant(
                "patch_size",
                ("processor:patch_size", "config:vision_config.patch_size"),
                read=square,
            ),
            Constant(
                "canvases",
                ("image:image_grid_pinpoints", "config:image_grid_pinpoints"),
                read=canvases,
            ),
            _EXTRA,
            _ENCODER,
            Constant("crops", ("image:do_center_crop",), True, only=(True,)),
            _DROPS_FIRST,
            RESIZES,
        ),
    ),
    ignored=frozenset({"size", "do_pad"}),
)

_LLAVA_ONEVISION = Family(
    name="llava_onevision",
    model_types=frozenset({"llava_onevision"}),
    architectures=frozenset({"LlavaOnevisionForConditionalGeneration"}),
    classes=names(
        "LlavaOnevisionProcessor LlavaOnevisionImageProcessor LlavaOnevisionVideoProcessor"
        " SiglipImageProcessor"
    ),
    image=VisualRow(
        placeholder="<image>",
        target="<image>",
        resize=shapes.canvas,
        layout=layouts.unpadded,
        embeds="<image>",
        constants=(
            Constant("tile", ("image:size",), 384, read=square),
            Constant("side", ("processor:num_image_tokens",), read=square_root),
            Constant(
                "canvases",
                ("image:image_grid_pinpoints", "config:image_grid_pinpoints"),
                read=canvases,
            ),
            Constant(
                "max_tiles",
                ("processor:vision_aspect_ratio", "config:vision_aspect_ratio"),
                9,
                read=max_tiles,
            ),
            Constant("extra", default=0),
            Constant("drops_first", _STRATEGY_PATHS, False, read=is_default_strategy),
            RESIZES,
        ),
    ),
    ignored=frozenset({"do_pad"}),
)


LLAVA_FAMILIES: tuple[Family, ...] = (_LLAVA, _LLAVA_NEXT, _LLAVA_ONEVISION)
