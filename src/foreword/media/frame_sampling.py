"""Which frames of a video a model is shown: a file's frames and rate in, moments in seconds out.

Rules of this file: one function a family, as the engine does it: its loader samples the file, and
where that took every frame, the model's own processor samples again. Floats are the engine's, step
by step, since a rounding decides about a frame.
"""

from __future__ import annotations

import math

from foreword.media.shapes import Constants

LOADER_FPS, LOADER_MIN_FRAMES, LOADER_MAX_FRAMES = 2, 4, 768
"""What the engine's loader goes by, whatever the model's files say."""


def spread_evenly(num_frames: int, frame_rate: float, constants: Constants) -> tuple[float, ...]:
    """Spread frames from the first to the last one. Qwen3-VL.

    Source: vLLM 0.33 `Qwen3VLVideoBackend`, then transformers 5.20 `Qwen3VLVideoProcessor`.
    """
    shown = _bounded(
        int(num_frames / frame_rate * LOADER_FPS), LOADER_MIN_FRAMES, LOADER_MAX_FRAMES, num_frames
    )
    if shown == num_frames:
        shown = _bounded(
            int(num_frames / frame_rate * constants["fps"]),
            constants["min_frames"],
            constants["max_frames"],
            num_frames,
        )
    if shown == 1:
        return (0.0,)
    step = (num_frames - 1) / (shown - 1)
    places = [round(number * step) for number in range(shown - 1)]
    return tuple(place / frame_rate for place in (*places, num_frames - 1))


def step_evenly(num_frames: int, frame_rate: float, constants: Constants) -> tuple[float, ...]:
    """Step through the frames, a whole number of pairs (none: nothing). Qwen2-VL and Qwen2.5-VL.

    Source: vLLM 0.33 `Qwen2VLVideoBackend`: as many frames as `torch.arange` has steps.
    """
    pair = 2
    most = min(LOADER_MAX_FRAMES, num_frames) // pair * pair
    wanted = min(max(num_frames / frame_rate * LOADER_FPS, LOADER_MIN_FRAMES), most, num_frames)
    shown = math.floor(wanted / pair) * pair
    if not shown:
        return ()
    step = num_frames / shown
    places = (int(number * step) for number in range(math.ceil(num_frames / step)))
    return tuple(min(place, num_frames - 1) / frame_rate for place in places)


def _bounded(wanted: int, least: int, most: int, num_frames: int) -> int:
    return min(max(wanted, least), most, num_frames)
