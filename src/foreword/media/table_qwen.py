"""The rows of Qwen and GLM-4V, which fit an area.

Rules of this file: as `table`.
"""

from __future__ import annotations

from typing import Any

from foreword.media import frame_sampling, layouts, lengths, shapes
from foreword.media.files import REQUIRED, Constant, names
from foreword.media.rows import AudioRow, Family, VisualRow
from foreword.media.table_audio import WHISPER_POOLED
from foreword.media.values import RESIZES, positive


def _bounds(document: str, old: str, new: str) -> tuple[str, ...]:
    """Return the spellings of a bound; the old one wins, and may stand within `size` too."""
    return f"{document}:{old}", f"{document}:size.{new}", f"{document}:size.{old}"


def _qwen_image(pad: str, *, patch: Any = 14) -> VisualRow:
    return VisualRow(
        placeholder=f"<|vision_start|>{pad}<|vision_end|>",
        target=pad,
        resize=shapes.area,
        layout=layouts.flat,
        embeds=pad,
        constants=(
            Constant("min_pixels", _bounds("image", "min_pixels", "shortest_edge"), 56 * 56),
            Constant("max_pixels", _bounds("image", "max_pixels", "longest_edge"), 28 * 28 * 1280),
            Constant("patch_size", ("image:patch_size",), patch),
            Constant("merge_size", ("image:merge_size",), 2),
            RESIZES,
        ),
    )


def _qwen_video(pad: str) -> VisualRow:
    return VisualRow(
        placeholder=f"<|vision_start|>{pad}<|vision_end|>",
        target=pad,
        resize=shapes.frame_area,
        layout=layouts.frames,
        embeds=pad,
        constants=(
            Constant("min_pixels", _bounds("video", "min_pixels", "shortest_edge"), 128 * 28 * 28),
            Constant("max_pixels", _bounds("video", "max_pixels", "longest_edge"), 768 * 28 * 28),
            Constant("patch_size", ("video:patch_size",), 14),
            Constant("merge_size", ("video:merge_size",), 2),
            Constant("temporal_patch_size", ("video:temporal_patch_size",), 2),
            Constant("samples_again", ("video:do_sample_frames",), False),
            _NO_CAP,
        ),
        files=("video",),
        sample=frame_sampling.step_evenly,
    )


# transformers announces that this will be on by default in 5.22, and change counts.
_NO_CAP = Constant("cap", ("video:cap_pixels_per_frame",), False, only=(False,))

_QWEN3_VIDEO = VisualRow(
    placeholder="<|vision_start|><|video_pad|><|vision_end|>",
    target="<|video_pad|>",
    resize=shapes.clip_area,
    layout=layouts.stamped_frames,
    embeds="<|video_pad|>",
    tokens={"begin": "<|vision_start|>", "end": "<|vision_end|>"},
    constants=(
        Constant("min_pixels", ("video:size.shortest_edge",), 128 * 32 * 32),
        Constant("max_pixels", ("video:size.longest_edge",), 768 * 32 * 32),
        Constant("patch_size", ("video:patch_size",), 16),
        Constant("merge_size", ("video:merge_size",), 2),
        Constant("temporal_patch_size", ("video:temporal_patch_size",), 2),
        Constant("min_frames_taken", default=2),
        Constant("writes_times", default=True),
        Constant("fps", ("video:fps",), 2, may_be_fraction=True),
        Constant("min_frames", ("video:min_frames",), 4, read=positive),
        Constant("max_frames", ("video:max_frames",), 768, read=positive),
        # Beside fps the processor takes no number of frames.
        Constant("fixed_frames", ("video:num_frames",), None, only=(None,)),
        _NO_CAP,
    ),
    files=("video",),
    sample=frame_sampling.spread_evenly,
)

_SAMPLING_KEYS = names(
    "fps min_frames max_frames num_frames do_sample_frames max_video_tokens temporal_patch_size"
    " max_image_size do_center_crop crop_size do_pad size_divisor max_pixels min_pixels"
)

_QWEN_CLASSES = names(
    "Qwen2VLProcessor Qwen2_5_VLProcessor Qwen3VLProcessor Qwen3_5Processor Qwen2VLImageProcessor"
    " Qwen2VLVideoProcessor Qwen3VLVideoProcessor"
)

_QWEN2_VL = Family(
    name="qwen2_vl",
    model_types=frozenset({"qwen2_vl", "qwen2_5_vl"}),
    architectures=frozenset(
        {"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"}
    ),
    classes=_QWEN_CLASSES,
    image=_qwen_image("<|image_pad|>"),
    video=_qwen_video("<|video_pad|>"),
    ignored=_SAMPLING_KEYS,
)

_QWEN3_VL = Family(
    name="qwen3_vl",
    model_types=frozenset({"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}),
    architectures=names(
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration"
        " Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration"
    ),
    classes=_QWEN_CLASSES,
    image=_qwen_image("<|image_pad|>", patch=REQUIRED),
    video=_QWEN3_VIDEO,
    ignored=_SAMPLING_KEYS,
)

_GLM4V = Family(
    name="glm4v",
    model_types=frozenset({"glm4v", "glm4v_moe", "glm46v", "glm_ocr"}),
    architectures=names(
        "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration"
        " GlmOcrForConditionalGeneration Glm46VForConditionalGeneration"
    ),
    classes=names(
        "Glm4vProcessor Glm46VProcessor GlmOcrProcessor Glm4vImageProcessor Glm46VImageProcessor"
        " Glm4vVideoProcessor Glm46VVideoProcessor"
    ),
    image=VisualRow(
        placeholder="<|begin_of_image|><|image|><|end_of_image|>",
        target="<|image|>",
        resize=shapes.area,
        layout=layouts.flat,
        embeds="<|image|>",
        constants=(
            Constant("min_pixels", ("image:size.shortest_edge",)),
            Constant("max_pixels", ("image:size.longest_edge",)),
            Constant("patch_size", ("image:patch_size",), 14),
            Constant("merge_size", ("image:merge_size",), 2),
            Constant("num_frames", ("image:temporal_patch_size",), 2),
            RESIZES,
        ),
    ),
)

_OMNI_CLASSES = names("Qwen2VLImageProcessor Qwen2VLVideoProcessor WhisperFeatureExtractor")
_OMNI_IGNORED = _SAMPLING_KEYS | names(
    "sampling_rate n_samples nb_max_frames chunk_length image_token_id"
)

_QWEN25_OMNI = Family(
    name="qwen2_5_omni",
    model_types=frozenset({"qwen2_5_omni", "qwen2_5_omni_thinker"}),
    architectures=frozenset({"Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"}),
    classes=_OMNI_CLASSES | {"Qwen2_5OmniProcessor"},
    image=_qwen_image("<|IMAGE|>"),
    audio=AudioRow(
        placeholder="Audio {number}: <|audio_bos|><|AUDIO|><|audio_eos|>",
        target="<|AUDIO|>",
        length=lengths.whisper_pooled,
        embeds="<|AUDIO|>",
        constants=WHISPER_POOLED,
    ),
    ignored=_OMNI_IGNORED,
)

_QWEN3_OMNI = Family(
    name="qwen3_omni",
    model_types=frozenset({"qwen3_omni_moe", "qwen3_omni_moe_thinker"}),
    architectures=frozenset({"Qwen3OmniMoeForConditionalGeneration"}),
    classes=_OMNI_CLASSES | {"Qwen3OmniMoeProcessor"},
    image=_qwen_image("<|image_pad|>", patch=16),
    audio=AudioRow(
        placeholder="<|audio_start|><|audio_pad|><|audio_end|>",
        target="<|audio_pad|>",
        length=lengths.chunked_convolutions,
        embeds="<|audio_pad|>",
        constants=(Constant("hop", ("audio:hop_length",), 160),),
    ),
    ignored=_OMNI_IGNORED,
)


QWEN_FAMILIES: tuple[Family, ...] = (_QWEN2_VL, _QWEN3_VL, _GLM4V)
OMNI_FAMILIES: tuple[Family, ...] = (_QWEN25_OMNI, _QWEN3_OMNI)
