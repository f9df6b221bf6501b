"""The layouts: a grid and the family's tokens in, runs of tokens out.

Rules of this file: runs, never lists of tokens; what repeats is built once and shared. Texts a
tokenizer must encode are marked as text. Every layout follows its family's own processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from foreword.media import resize
from foreword.media.runs import Run, text
from foreword.media.shapes import Constants, Grid, Item

Runs: TypeAlias = tuple[Run, ...]
Layout: TypeAlias = Callable[[Grid, Item, Constants], Runs]


def flat(grid: Grid, item: Item, constants: Constants) -> Runs:
    """One token a cell of the grid. Qwen, GLM-4V, Kimi."""
    return (Run(constants["pad"], grid.columns * grid.rows, True),)


def enclosed(grid: Grid, item: Item, constants: Constants) -> Runs:
    """A begin and an end token around one token a cell. Gemma 4."""
    return (
        Run(constants["begin"], 1),
        Run(constants["pad"], grid.columns * grid.rows, True),
        Run(constants["end"], 1),
    )


def lines(grid: Grid, item: Item, constants: Constants) -> Runs:
    """Rows of tokens with a break after each, the last one's an end token. Pixtral, Mistral 3."""
    row = Run(constants["pad"], grid.columns, True)
    broken = (row, Run(constants["break"], 1))
    return broken * (grid.rows - 1) + (row, Run(constants["end"], 1))


def tiles_and_thumbnail(grid: Grid, item: Item, constants: Constants) -> Runs:
    """All tiles' tokens in one run, plus an overview when there are several. InternVL."""
    num_tiles = grid.columns * grid.rows
    if num_tiles > 1 and constants["has_thumbnail"]:
        num_tiles += 1
    return (
        Run(constants["begin"], 1),
        Run(constants["pad"], num_tiles * constants["tile_tokens"], True),
        Run(constants["end"], 1),
    )


def internvl(grid: Grid, item: Item, constants: Constants) -> Runs:
    """InternVL's tiles, their tokens counted from the patches of a tile."""
    side = constants["tile"] // constants["patch_size"]
    tile_tokens = int(side * side * constants["scale"] ** 2)
    return tiles_and_thumbnail(grid, item, {**constants, "tile_tokens": tile_tokens})


def newline_wrapped(grid: Grid, item: Item, constants: Constants) -> Runs:
    """An image between blank lines, then its crops introduced by a sentence. Gemma 3."""
    blank = text("\n\n")
    image = (
        blank,
        Run(constants["begin"], 1),
        Run(constants["pad"], constants["tile_tokens"], True),
        Run(constants["end"], 1),
        blank,
    )
    if not grid.columns:
        return image
    sentences = (
        text("Here is the original image "),
        text(" and here are some crops to help you see better "),
    )
    crops = image + (text(" "), *image) * (grid.columns - 1)
    return (sentences[0], *image, sentences[1], *crops)


def unpadded(grid: Grid, item: Item, constants: Constants) -> Runs:
    """An overview, then the canvas without its padding, one newline a row. LLaVA-NeXT, -OneVision.

    Why: transformers shows each image of a nested batch of several by its overview alone; vLLM
    0.33 gives every image on its own, which is followed here.
    """
    side = constants.get("side") or constants["tile"] // constants["patch_size"]
    columns, rows = _without_padding(grid, item, side)
    columns, rows = _below_maximum(columns, rows, side, constants.get("max_tiles"))
    count = side * side + constants["extra"] + columns * rows + rows
    if constants["drops_first"]:
        count -= 1
    return (Run(constants["pad"], count, True),)


def _without_padding(grid: Grid, item: Item, side: int) -> tuple[int, int]:
    columns, rows = grid.columns * side, grid.rows * side
    if item.width / item.height > columns / rows:
        shown = int(round(item.height * (columns / item.width), 7))
        rows -= (rows - shown) // 2 * 2
    else:
        shown = int(round(item.width * (rows / item.height), 7))
        columns -= (columns - shown) // 2 * 2
    return columns, rows


def _below_maximum(columns: int, rows: int, side: int, max_tiles: int | None) -> tuple[int, int]:
    if max_tiles is None:
        return columns, rows
    ratio = math.sqrt(rows * columns / (max_tiles * side**2))
    if ratio > 1.1:
        return int(columns // ratio), int(rows // ratio)
    return columns, rows


def fixed_size(grid: Grid, item: Item, constants: Constants) -> Runs:
    """As many tokens as the encoder's patches, for any image. LLaVA 1.5."""
    count = grid.columns * grid.rows + constants["extra"] - int(constants["drops_first"])
    return (Run(constants["pad"], count, True),)


def numbered_tiles(grid: Grid, item: Item, constants: Constants) -> Runs:
    """Each tile named by its row and column, then the whole image. Idefics3, SmolVLM."""
    return _numbered_tiles(grid.columns, grid.rows, constants["pad"], constants["tile_tokens"])


@lru_cache(maxsize=512)
def _numbered_tiles(columns: int, rows: int, pad: str, tile_tokens: int) -> Runs:
    around, tile = Run("<fake_token_around_image>", 1), Run(pad, tile_tokens, True)
    whole = (around, Run("<global-img>", 1), tile, around)
    if not columns:
        return whole
    runs: list[Run] = []
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            runs += (around, Run(f"<row_{row}_col_{column}>", 1), tile)
        runs.append(text("\n"))
    return (*runs, text("\n"), *whole)


def separated_tiles(grid: Grid, item: Item, constants: Constants) -> Runs:
    """Tiles with separators across and down, then the whole image. Llama 4."""
    side = constants["tile"] // constants["patch_size"]
    tile_tokens = side * side // round(1 / constants["shuffle"] ** 2)
    return _separated_tiles(grid.columns, grid.rows, tile_tokens)


@lru_cache(maxsize=512)
def _separated_tiles(columns: int, rows: int, tile_tokens: int) -> Runs:
    tile = Run("<|patch|>", tile_tokens, True)
    row = (tile, Run("<|tile_x_separator|>", 1)) * (columns - 1)
    row = (*row, tile, Run("<|tile_y_separator|>", 1))
    whole = (Run("<|image|>", 1), tile, Run("<|image_end|>", 1))
    return (Run("<|image_start|>", 1), *(row * rows if columns * rows > 1 else ()), *whole)


def masked_tiles(grid: Grid, item: Item, constants: Constants) -> Runs:
    """Every second patch that isn't padding, a token a row, and an overview. Phi-4."""
    tile, patch = constants["tile"], constants["patch_size"]
    full_width, full_height = grid.columns * tile, grid.rows * tile
    if full_width / item.width < full_height / item.height:
        width, height = full_width, int(item.height * (full_width / item.width))
    else:
        width, height = int(item.width * (full_height / item.height)), full_height
    if min(width, height) < 10:
        resize.refuse_size(item.width, item.height, "it would be shown less than 10 pixels wide")
    per_tile = tile // patch
    columns = (grid.columns * per_tile - (full_width - width) // patch + 1) // 2
    rows = (grid.rows * per_tile - (full_height - height) // patch + 1) // 2
    base = (per_tile // 2 + per_tile % 2) ** 2
    count = base + 1 + rows * columns + rows + 16
    return (Run(constants["pad"], count, True),)


def sliced(grid: Grid, item: Item, constants: Constants) -> Runs:
    """A numbered overview and its slices, rows on lines of their own. MiniCPM-V 4.6."""
    tile, patch, pad = constants["tile"], constants["patch_size"], constants["pad"]
    unit, per_token = patch * 4, constants["patches_per_token"]
    is_whole = not grid.columns
    width, height = resize.unit_fit(
        item.width, item.height, tile=tile, unit=unit, enlarges=is_whole
    )
    overview = (width // patch) * (height // patch) // per_token
    runs: list[Run] = []
    if constants["numbers_items"]:
        runs += (Run("<image_id>", 1), text(str(item.position)), Run("</image_id>", 1))
    runs += (Run("<image>", 1), Run(pad, overview, True), Run("</image>", 1))
    if is_whole:
        return tuple(runs)
    part_width = max(round(item.width / grid.columns) * grid.columns, grid.columns) / grid.columns
    part_height = max(round(item.height / grid.rows) * grid.rows, grid.rows) / grid.rows
    width, height = resize.unit_fit(part_width, part_height, tile=tile, unit=unit, enlarges=True)
    count = (width // patch) * (height // patch) // per_token
    row = (Run("<slice>", 1), Run(pad, count, True), Run("</slice>", 1)) * grid.columns
    return (*runs, *((*row, text("\n")) * (grid.rows - 1)), *row)


def global_and_rows(grid: Grid, item: Item, constants: Constants) -> Runs:
    """An overview and the tiles as one picture, one token a row, one between. DeepSeek-OCR."""
    whole, part = constants["whole_side"], constants["tile_side"]
    count = whole * (whole + 1) + 1
    if grid.columns * grid.rows > 1:
        count += part * grid.rows * (part * grid.columns + 1)
    return (Run(constants["pad"], count, True),)


def global_and_tiles(grid: Grid, item: Item, constants: Constants) -> Runs:
    """An overview and tiles by patches, one token between. DeepSeek-OCR-2."""
    per_token = constants["patch_size"], constants["shrink"]
    whole = math.ceil(constants["whole"] / per_token[0] / per_token[1])
    part = math.ceil(constants["tile"] / per_token[0] / per_token[1])
    count = whole * whole + part * part * grid.columns * grid.rows + 1
    return (Run(constants["pad"], count, True),)


def frames(grid: Grid, item: Item, constants: Constants) -> Runs:
    """One token a cell and pair of frames. Qwen2-VL and Qwen2.5-VL videos."""
    num_steps = -(-item.num_frames // constants["temporal_patch_size"])
    return (Run(constants["pad"], num_steps * grid.columns * grid.rows, True),)


def stamped_frames(grid: Grid, item: Item, constants: Constants) -> Runs:
    """Each pair of frames after its time. Qwen3-VL videos."""
    step = constants["temporal_patch_size"]
    times = list(item.timestamps)
    times += times[-1:] * (-len(times) % step)
    frame = (
        Run(constants["begin"], 1),
        Run(constants["pad"], grid.columns * grid.rows, True),
        Run(constants["end"], 1),
    )
    runs: list[Run] = []
    for first in range(0, len(times), step):
        moment = (times[first] + times[first + step - 1]) / 2
        runs += (text(f"<{moment:.1f} seconds>"), *frame)
    return tuple(runs)
