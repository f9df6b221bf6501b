"""The six resize rules: an image's size and a family's constants in, the size it is shown at out.

Rules of this file: plain numbers only, width before height, sizes in pixels. Every rounding is
the one the family's own processor does (`round` is half-even). A size that the processor itself
would refuse raises `InvalidRequest`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import NoReturn

from foreword.errors import InvalidRequest

MAX_ASPECT_RATIO = 200


def refuse_size(width: int, height: int, why: str) -> NoReturn:
    """Raise `InvalidRequest` for a size the model's processor does not take."""
    raise InvalidRequest(
        f"The model cannot take an image of {width}x{height} pixels: {why}."
        " Send one with a less extreme shape.",
        param="messages",
        details={"width": width, "height": height},
    )


def area_fit(
    width: int,
    height: int,
    *,
    unit: int,
    min_pixels: int,
    max_pixels: int,
    num_frames: int = 1,
    temporal_unit: int = 1,
    grows_to_unit: bool = False,
) -> tuple[int, int]:
    """Round both sides to `unit`, then scale so that the pixels of all frames are in bounds.

    With `grows_to_unit` both sides first reach one unit. A frame count is rounded to
    `temporal_unit` for the comparison, yet the scale is made from the true count.

    Source: transformers 5.20, Qwen2-VL images and videos (one frame), GLM-4V images (two frames),
    Qwen3-VL videos (all frames).
    """
    shown_width, shown_height = width, height
    if grows_to_unit and (height < unit or width < unit):
        scale = max(unit / height, unit / width)
        width, height = int(width * scale), int(height * scale)
    if max(height, width) / min(height, width) > MAX_ASPECT_RATIO:
        refuse_size(
            shown_width, shown_height, f"one side is over {MAX_ASPECT_RATIO} times the other"
        )
    fit_height = round(height / unit) * unit
    fit_width = round(width / unit) * unit
    frames = round(num_frames / temporal_unit) * temporal_unit
    pixels = frames * fit_height * fit_width
    if pixels > max_pixels:
        shrink = math.sqrt((num_frames * height * width) / max_pixels)
        fit_height = max(unit, math.floor(height / shrink / unit) * unit)
        fit_width = max(unit, math.floor(width / shrink / unit) * unit)
    elif pixels < min_pixels:
        grow = math.sqrt(min_pixels / (num_frames * height * width))
        fit_height = math.ceil(height * grow / unit) * unit
        fit_width = math.ceil(width * grow / unit) * unit
    return fit_width, fit_height


def budget_fit(
    width: int, height: int, *, patch: int, pooling: int, max_tokens: int
) -> tuple[int, int]:
    """Scale to the largest size whose patches fit the budget, both sides floored to whole tokens.

    Source: transformers 5.20, Gemma 4.
    """
    unit = pooling * patch
    budget = max_tokens * pooling**2 * patch**2
    scale = math.sqrt(budget / (height * width))
    fit_height = math.floor(scale * height / unit) * unit
    fit_width = math.floor(scale * width / unit) * unit
    if fit_height == 0 and fit_width == 0:
        refuse_size(width, height, "it would shrink to nothing")
    if fit_height == 0:
        fit_height, fit_width = unit, min(width // height, max_tokens) * unit
    elif fit_width == 0:
        fit_width, fit_height = unit, min(height // width, max_tokens) * unit
    if fit_height * fit_width > budget:
        refuse_size(width, height, f"it would need more than {max_tokens} tokens")
    return fit_width, fit_height


def side_fit(
    width: int, height: int, *, unit: int, longest: int, rounds_down: bool
) -> tuple[int, int]:
    """Scale the longest side down to `longest`, then count whole units, a started one included.

    Source: transformers 5.20 floors (`rounds_down`), mistral-common 1.13 rounds half-even and
    keeps at least one pixel. The same image can differ by a row: the rule goes with the tokenizer.
    """
    ratio = max(height / longest, width / longest)
    fit_width, fit_height = width, height
    if ratio > 1 and rounds_down:
        fit_width, fit_height = math.floor(width / ratio), math.floor(height / ratio)
        if not fit_width or not fit_height:
            refuse_size(width, height, "one side would shrink to nothing")
    elif ratio > 1:
        fit_width = max(round(width / ratio), 1)
        fit_height = max(round(height / ratio), 1)
    return -(-fit_width // unit) * unit, -(-fit_height // unit) * unit


def navit_pad(
    width: int, height: int, *, patch: int, merge: int, max_patches: int, max_side_patches: int
) -> tuple[int, int]:
    """Scale down only, to a number of patches and a longest side, then pad to whole tokens.

    Source: transformers 5.20, Kimi K2.5.
    """
    num_patches = max(1.0, height // patch) * max(1.0, width // patch)
    longest = max_side_patches * patch
    scale = min(1.0, math.sqrt(max_patches / num_patches), longest / height, longest / width)
    fit_width = min(max(1, int(width * scale)), longest)
    fit_height = min(max(1, int(height * scale)), longest)
    unit = patch * merge
    return -(-fit_width // unit) * unit, -(-fit_height // unit) * unit


def aspect_grid(
    width: int, height: int, *, tile: int, min_tiles: int, max_tiles: int
) -> tuple[int, int]:
    """Choose the grid (columns, rows) of square tiles whose shape is nearest the image's.

    Of grids equally near, a larger one wins while it is less than twice the image's area.

    Source: transformers 5.20, GOT-OCR2 (InternVL) and DeepSeek-OCR-2; vLLM 0.33 InternVL.
    """
    aspect = width / height
    pixels, half_tile = width * height, 0.5 * tile * tile
    best, best_difference = (1, 1), math.inf
    for grid, ratio, num_tiles in _grids(min_tiles, max_tiles):
        difference = abs(aspect - ratio)
        if difference < best_difference:
            best, best_difference = grid, difference
        elif difference == best_difference and pixels > half_tile * num_tiles:
            best = grid
    return best


@lru_cache(maxsize=64)
def _grids(min_tiles: int, max_tiles: int) -> tuple[tuple[tuple[int, int], float, int], ...]:
    sides = range(1, max_tiles + 1)
    grids = [(c, r) for c in sides for r in sides if min_tiles <= c * r <= max_tiles]
    grids.sort(key=lambda grid: grid[0] * grid[1])
    return tuple((grid, grid[0] / grid[1], grid[0] * grid[1]) for grid in grids)


def best_canvas(width: int, height: int, canvases: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Choose the canvas (width, height) that shows most of the image's pixels, then wastes least.

    Source: transformers 5.20, LLaVA-NeXT and OneVision.
    """
    best, most_shown, least_wasted = canvases[0], 0, math.inf
    pixels = width * height
    for canvas_width, canvas_height in canvases:
        scale = min(canvas_width / width, canvas_height / height)
        shown = min(int(width * scale) * int(height * scale), pixels)
        wasted = canvas_width * canvas_height - shown
        if shown > most_shown or (shown == most_shown and wasted < least_wasted):
            best, most_shown, least_wasted = (canvas_width, canvas_height), shown, wasted
    return best


def least_upscale(
    width: int, height: int, *, tile: int, max_tiles: int, to_largest: bool = False
) -> tuple[int, int]:
    """Choose the grid (columns, rows) that enlarges least, else shrinks least; ties: least area.

    `to_largest` enlarges most instead. Scales are compared as 32-bit floats, as there.

    Source: transformers 5.20, Llama 4.
    """
    grids = _upscale_grids(max_tiles)
    scales = array("f", [min(c * tile / width, r * tile / height) for c, r in grids])
    enlarging = [scale for scale in scales if scale >= 1]
    chosen = max(enlarging or scales) if to_largest or not enlarging else min(enlarging)
    fitting = [grid for grid, scale in zip(grids, scales, strict=True) if scale == chosen]
    return min(fitting, key=lambda grid: grid[0] * grid[1])


@lru_cache(maxsize=16)
def _upscale_grids(max_tiles: int) -> tuple[tuple[int, int], ...]:
    # By shape (rows / columns), shapes in the order they first appear: the order decides ties.
    by_shape: dict[float, list[tuple[int, int]]] = {}
    for num_tiles in range(max_tiles, 0, -1):
        for rows in range(1, num_tiles + 1):
            if num_tiles % rows == 0:
                columns = num_tiles // rows
                by_shape.setdefault(rows / columns, []).append((columns, rows))
    return tuple(grid for grids in by_shape.values() for grid in grids)


def upscaled_grid(width: int, height: int, *, longest: int, tile: int) -> tuple[int, int]:
    """Scale the longest side to `longest`, then to whole tiles: the grid (columns, rows).

    (0, 0) means the image fits one tile and is not split.

    Source: transformers 5.20, Idefics3 and SmolVLM.
    """
    width, height = _to_longest(width, height, longest, evens=True)
    if max(width, height) > _IDEFICS_MAX_SIDE:
        width, height = _to_longest(width, height, _IDEFICS_MAX_SIDE, evens=False)
    aspect = width / height
    if width >= height:
        width = math.ceil(width / tile) * tile
        height = math.ceil(int(width / aspect) / tile) * tile
    else:
        height = math.ceil(height / tile) * tile
        width = math.ceil(int(height * aspect) / tile) * tile
    if width <= tile and height <= tile:
        return 0, 0
    return width // tile, height // tile


_IDEFICS_MAX_SIDE = 4096


def _to_longest(width: int, height: int, longest: int, *, evens: bool) -> tuple[int, int]:
    aspect = width / height
    if width >= height:
        width, height = longest, int(longest / aspect)
        height += height % 2 if evens else 0
    else:
        width, height = int(longest * aspect), longest
        width += width % 2 if evens else 0
    return max(width, 1), max(height, 1)


def sliced_grid(width: int, height: int, *, tile: int, max_tiles: int) -> tuple[int, int]:
    """Choose how many (columns, rows) slices keep about `tile`² pixels each; (0, 0): unsliced.

    Source: transformers 5.20, MiniCPM-V 4.6.
    """
    wanted = min(math.ceil(width * height / (tile * tile)), max_tiles)
    if wanted <= 1:
        return 0, 0
    shape = math.log(width / height)
    best_columns, best_rows, least = 1, 1, math.inf
    for num_slices in (wanted - 1, wanted, wanted + 1):
        if num_slices == 1 or num_slices > max_tiles:
            continue
        for rows in range(1, num_slices + 1):
            if num_slices % rows == 0:
                columns = num_slices // rows
                difference = abs(shape - math.log(columns / rows))
                if difference < least or (difference == least and rows > best_rows):
                    best_columns, best_rows, least = columns, rows, difference
    return best_columns, best_rows


def unit_fit(
    width: float, height: float, *, tile: int, unit: int, enlarges: bool
) -> tuple[int, int]:
    """Scale to about `tile`² pixels (only down, unless `enlarges`), sides rounded to `unit`.

    Source: transformers 5.20, MiniCPM-V 4.6.
    """
    if enlarges or height * width > tile * tile:
        aspect = width / height
        height = int(tile / math.sqrt(aspect))
        width = int(height * aspect)
    return max(round(width / unit) * unit, unit), max(round(height / unit) * unit, unit)


def num_crops(width: int, height: int, *, min_crop: int, max_crops: int, min_ratio: float) -> int:
    """Return how many crops are shown beside the image (pan and scan); 0 for none.

    Source: transformers 5.20, Gemma 3.
    """
    longest, shortest = max(width, height), min(width, height)
    if longest / shortest < min_ratio:
        return 0
    crops = min(longest // min_crop, math.floor(longest / shortest + 0.5))
    crops = min(max_crops, max(2, crops))
    if min(math.ceil(longest / crops), shortest) < min_crop:
        return 0
    return crops
