"""The rows of Gemma.

Rules of this file: as `table`.
"""

from __future__ import annotations

from foreword.media import layouts, lengths, shapes
from foreword.media.files import Constant, names
from foreword.media.rows import AudioRow, Family, VisualRow
from foreword.media.values import RESIZES

_NEWLINE_JOINS = (
    ("\n", "\n\n", "\n\n\n"),
    ("\n\n", "\n", "\n\n\n"),
    ("\n\n", "\n\n", "\n\n\n\n"),
)

_GEMMA3 = Family(
    name="gemma3",
    model_types=frozenset({"gemma3"}),
    architectures=frozenset({"Gemma3ForConditionalGeneration"}),
    classes=frozenset({"Gemma3Processor", "Gemma3ImageProcessor"}),
    image=VisualRow(
        placeholder="<start_of_image>",
        target="<start_of_image>",
        resize=shapes.crops,
        layout=layouts.newline_wrapped,
        embeds="<image_soft_token>",
        tokens={"begin": "<start_of_image>", "end": "<end_of_image>"},
        constants=(
            Constant("tile_tokens", ("processor:image_seq_length", "image:image_seq_length"), 256),
            Constant("splits", ("image:do_pan_and_scan",), False),
            Constant("min_crop", ("image:pan_and_scan_min_crop_size",), 256),
            Constant("max_crops", ("image:pan_and_scan_max_num_crops",), 4),
            Constant(
                "min_ratio",
                ("image:pan_and_scan_min_ratio_to_activate",),
                1.2,
                may_be_fraction=True,
            ),
        ),
    ),
    ignored=frozenset({"size", "do_resize"}),
    joins=_NEWLINE_JOINS,
)

_GEMMA3N = Family(
    name="gemma3n",
    model_types=frozenset({"gemma3n"}),
    architectures=frozenset({"Gemma3nForConditionalGeneration"}),
    classes=frozenset({"Gemma3nProcessor", "SiglipImageProcessor", "Gemma3nAudioFeatureExtractor"}),
    image=VisualRow(
        placeholder="<image_soft_token>",
        target="<image_soft_token>",
        resize=shapes.whole,
        layout=layouts.newline_wrapped,
        embeds="<image_soft_token>",
        tokens={"begin": "<start_of_image>", "end": "<end_of_image>"},
        constants=(Constant("tile_tokens", ("processor:image_seq_length",), 256),),
    ),
    audio=AudioRow(
        placeholder="<audio_soft_token>",
        target="<audio_soft_token>",
        length=lengths.constant,
        embeds="<audio_soft_token>",
        tokens={"begin": "<start_of_audio>", "end": "<end_of_audio>"},
        constants=(Constant("tokens", ("processor:audio_seq_length",), 188),),
        is_wrapped_in_newlines=True,
    ),
    ignored=names("size do_resize sampling_rate frame_length hop_length overlap_frames"),
    joins=_NEWLINE_JOINS,
)

_GEMMA4 = Family(
    name="gemma4",
    model_types=frozenset({"gemma4"}),
    architectures=frozenset({"Gemma4ForConditionalGeneration"}),
    classes=names(
        "Gemma4Processor Gemma4ImageProcessor Gemma4VideoProcessor Gemma4AudioFeatureExtractor"
    ),
    image=VisualRow(
        placeholder="<|image|>",
        target="<|image|>",
        resize=shapes.budget,
        layout=layouts.enclosed,
        embeds="<|image|>",
        constants=(
            Constant("max_tokens", ("image:max_soft_tokens",), 280, only=(70, 140, 280, 560, 1120)),
            Constant("patch_size", ("image:patch_size",), 16),
            Constant("pooling", ("image:pooling_kernel_size",), 3),
            Constant("begin", ("config:boi_token_id",), 255_999),
            Constant("end", ("config:eoi_token_id",), 258_882),
            RESIZES,
        ),
    ),
    audio=AudioRow(
        placeholder="<|audio|>",
        target="<|audio|>",
        length=lengths.semicausal_convolutions,
        embeds="<|audio|>",
        constants=(
            Constant("frame", ("audio:frame_length",), 320),
            Constant("hop", ("audio:hop_length",), 160),
            Constant("sampling_rate", ("audio:sampling_rate",), 16_000, only=(16_000,)),
            Constant("max_tokens", ("processor:audio_seq_length",), 750),
            Constant("begin", ("config:boa_token_id",), 256_000),
            Constant("end", ("config:eoa_token_id", "config:eoa_token_index"), 258_883),
        ),
    ),
    ignored=names("image_seq_length audio_ms_per_token size frame_length_ms hop_length_ms"),
)


GEMMA_FAMILIES: tuple[Family, ...] = (_GEMMA3, _GEMMA3N, _GEMMA4)
