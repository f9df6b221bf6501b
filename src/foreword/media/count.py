"""How many tokens an item costs: a bound family and plain numbers in, runs out.

Rules of this file: nothing is decoded; a modality the model doesn't take is refused by name.
"""

from __future__ import annotations

import math
from typing import Literal, NoReturn

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.media.families import BoundAudio, BoundVisual, FamilyConfig
from foreword.media.runs import Run, text
from foreword.media.shapes import Item

Detail = Literal["auto", "low", "high"]


def count_image(
    config: FamilyConfig,
    width: int,
    height: int,
    *,
    detail: Detail | None = None,
    position: int = 0,
    num_images: int = 1,
) -> tuple[Run, ...]:
    """Return what an image of this size expands to.

    Shapes: `width` and `height` as shown (EXIF orientation applied), in pixels; `position` is
    the image's place among the `num_images` of the prompt.

    Raises: `InvalidRequest` for a size the model's processor refuses, `UnsupportedFeature` when
    the model takes no images.

    Source: the processors of transformers 5.20, or mistral-common 1.13 for the mode `mistral`.
    `detail` changes nothing, as in vLLM 0.33.
    """
    bound = _visual(config.image, "images", config)
    _check_size(width, height)
    item = Item(width, height, position, num_images)
    return bound.row.layout(bound.row.resize(item, bound.constants), item, bound.constants)


def count_video(
    config: FamilyConfig,
    width: int,
    height: int,
    *,
    num_frames: int,
    timestamps: tuple[float, ...] = (),
) -> tuple[Run, ...]:
    """Return what a video of `num_frames` sampled frames expands to.

    Shapes: `timestamps` in seconds, one a sampled frame; needed where times are written out.

    Raises: as `count_image`.
    """
    bound = _visual(config.video, "videos", config)
    _check_size(width, height)
    if type(num_frames) is not int:
        raise InvalidRequest("A number of frames must be whole.", param="messages")
    least = bound.constants.get("min_frames_taken", 1)
    if num_frames < least:
        raise InvalidRequest(
            f"The video has {num_frames} sampled frames; the model needs at least {least}.",
            param="messages",
        )
    if bound.constants.get("writes_times") and len(timestamps) != num_frames:
        raise InvalidRequest(
            f"The video has {num_frames} sampled frames but {len(timestamps)} timestamps;"
            " give one for each.",
            param="messages",
        )
    if not all(0 <= moment < math.inf for moment in timestamps):
        raise InvalidRequest(
            "A frame's timestamp must be a number of seconds from 0 on.", param="messages"
        )
    item = Item(width, height, num_frames=num_frames, timestamps=timestamps)
    return bound.row.layout(bound.row.resize(item, bound.constants), item, bound.constants)


def sample_video(config: FamilyConfig, num_frames: int, frame_rate: float) -> tuple[float, ...]:
    """Return the moments, in seconds, of the frames of a video file that the model is shown.

    Raises: `UnsupportedFeature` when the model takes no videos, or how it samples isn't known;
    `InvalidRequest` for a video without frames, or a rate that is none.
    """
    bound = _visual(config.video, "videos", config)
    if bound.row.sample is None:
        raise UnsupportedFeature(
            feature=f"Sampling the frames of a video for the family {config.family.name}",
            remedy="Give the sampled frames with their timestamps, or send them as images.",
        )
    if bound.constants.get("samples_again"):
        raise UnsupportedFeature(
            feature="do_sample_frames=true in video_preprocessor_config.json",
            remedy="Give the frames that are shown, or send them as images.",
        )
    if num_frames < 1 or not 0 < frame_rate < math.inf:
        raise InvalidRequest(
            f"A video of {num_frames} frames at {frame_rate:g} a second can't be sampled.",
            param="messages",
        )
    return bound.row.sample(num_frames, frame_rate, bound.constants)


def count_audio(config: FamilyConfig, num_samples: int) -> tuple[Run, ...]:
    """Return what a clip of `num_samples` (at the model's own sampling rate) expands to.

    Raises: `InvalidRequest` for a clip too short to be heard, `UnsupportedFeature` when the model
    takes no audio.
    """
    bound = config.audio
    if bound is None:
        _refuse_modality("audio", config)
    count = bound.row.length(num_samples, bound.constants)
    if count <= 0 or num_samples <= 0:
        raise InvalidRequest(
            f"The audio has {num_samples} samples, too few for one token of this model."
            " Send a longer clip.",
            param="messages",
            details={"num_samples": num_samples},
        )
    return _audio_runs(bound, count)


def num_samples(num_frames: int, sample_rate: int, config: FamilyConfig) -> int:
    """Return a clip's length at the model's sampling rate, a started sample included.

    Engines' resamplers may differ by one sample, so counts at a boundary by one token.
    """
    if config.audio is None:
        _refuse_modality("audio", config)
    return -(-num_frames * config.audio.row.sampling_rate // sample_rate)


def _audio_runs(bound: BoundAudio, count: int) -> tuple[Run, ...]:
    constants = bound.constants
    runs = [Run(constants["pad"], count, True)]
    if "begin" in constants:
        runs = [Run(constants["begin"], 1), *runs, Run(constants["end"], 1)]
    if bound.row.is_wrapped_in_newlines:
        runs = [text("\n\n"), *runs, text("\n\n")]
    return tuple(runs)


def _visual(bound: BoundVisual | None, modality: str, config: FamilyConfig) -> BoundVisual:
    if bound is None:
        _refuse_modality(modality, config)
    return bound


def _refuse_modality(modality: str, config: FamilyConfig) -> NoReturn:
    raise UnsupportedFeature(
        feature=f"Input of {modality} for the family {config.family.name}",
        remedy="Send what the model takes.",
    )


def _check_size(width: int, height: int) -> None:
    if type(width) is not int or type(height) is not int:
        raise InvalidRequest(
            "An image's width and height are whole numbers of pixels.", param="messages"
        )
    if width < 1 or height < 1:
        raise InvalidRequest(
            f"An image of {width}x{height} pixels has no content.", param="messages"
        )
