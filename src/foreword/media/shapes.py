"""A row's resize rule applied: an item and the family's constants in, a grid out.

Rules of this file: each function reads the constants its rule needs by name, and answers
(columns, rows): of tokens where the layout repeats a token, of tiles where it places tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from foreword.media import resize

Constants: TypeAlias = Mapping[str, Any]


class Item(NamedTuple):
    """One image, or one video by its sampled frames; `position` among `num_items` of its kind."""

    width: int
    height: int
    position: int = 0
    num_items: int = 1
    num_frames: int = 1
    timestamps: tuple[float, ...] = ()


class Grid(NamedTuple):
    """How many columns and rows; (0, 0) for an image that isn't split."""

    columns: int
    rows: int


Resize: TypeAlias = Callable[[Item, Constants], Grid]


def area(item: Item, constants: Constants) -> Grid:
    """Rule A on an image: merged patches after `area_fit`."""
    unit = constants["patch_size"] * constants["merge_size"]
    frames = constants.get("num_frames", 1)
    width, height = resize.area_fit(
        item.width,
        item.height,
        unit=unit,
        min_pixels=constants["min_pixels"],
        max_pixels=constants["max_pixels"],
        num_frames=frames,
        temporal_unit=frames,
        grows_to_unit=frames > 1,
    )
    return Grid(width // unit, height // unit)


def frame_area(item: Item, constants: Constants) -> Grid:
    """Rule A on each frame of a video by itself."""
    return area(item, constants)


def clip_area(item: Item, constants: Constants) -> Grid:
    """Rule A on all frames of a video together."""
    unit = constants["patch_size"] * constants["merge_size"]
    width, height = resize.area_fit(
        item.width,
        item.height,
        unit=unit,
        min_pixels=constants["min_pixels"],
        max_pixels=constants["max_pixels"],
        num_frames=item.num_frames,
        temporal_unit=constants["temporal_patch_size"],
        grows_to_unit=True,
    )
    return Grid(width // unit, height // unit)


def budget(item: Item, constants: Constants) -> Grid:
    """Gemma 4's own rule: pooled patches within a token budget."""
    unit = constants["patch_size"] * constants["pooling"]
    width, height = resize.budget_fit(
        item.width,
        item.height,
        patch=constants["patch_size"],
        pooling=constants["pooling"],
        max_tokens=constants["max_tokens"],
    )
    return Grid(width // unit, height // unit)


def side(item: Item, constants: Constants) -> Grid:
    """Rule B: merged patches below a longest side."""
    unit = constants["patch_size"] * constants["merge_size"]
    width, height = resize.side_fit(
        item.width,
        item.height,
        unit=unit,
        longest=constants["longest"],
        rounds_down=constants["rounds_down"],
    )
    return Grid(width // unit, height // unit)


def navit(item: Item, constants: Constants) -> Grid:
    """Rule C: merged patches after padding."""
    unit = constants["patch_size"] * constants["merge_size"]
    width, height = resize.navit_pad(
        item.width,
        item.height,
        patch=constants["patch_size"],
        merge=constants["merge_size"],
        max_patches=constants["max_patches"],
        max_side_patches=constants["max_side_patches"],
    )
    return Grid(width // unit, height // unit)


def aspect(item: Item, constants: Constants) -> Grid:
    """Rule D: the grid of tiles nearest the image's shape."""
    if not constants["splits"]:
        return Grid(1, 1)
    return Grid(
        *resize.aspect_grid(
            item.width,
            item.height,
            tile=constants["tile"],
            min_tiles=constants["min_tiles"],
            max_tiles=constants["max_tiles"],
        )
    )


def aspect_above_tile(item: Item, constants: Constants) -> Grid:
    """Rule D for images larger than a tile; (0, 0) for others."""
    if max(item.width, item.height) <= constants["tile"]:
        return Grid(0, 0)
    return aspect(item, constants) if constants["splits"] else Grid(0, 0)


def aspect_above_budget(item: Item, constants: Constants) -> Grid:
    """The tiles that cover the image; rule D where these would be over `max_tiles`."""
    tile, limit = constants["tile"], constants["max_tiles"]
    columns, rows = -(-item.width // tile), -(-item.height // tile)
    if columns * rows <= limit:
        return Grid(columns, rows)
    found = resize.aspect_grid(item.width, item.height, tile=tile, min_tiles=1, max_tiles=limit)
    return Grid(*found)


def canvas(item: Item, constants: Constants) -> Grid:
    """Rule E: the canvas of the family's list, in tiles."""
    tile = constants["tile"]
    canvases = constants["canvases"]
    width, height = resize.best_canvas(item.width, item.height, canvases)
    return Grid(width // tile, height // tile)


def least_upscale(item: Item, constants: Constants) -> Grid:
    """Llama 4's scoring of rule E."""
    return Grid(
        *resize.least_upscale(
            item.width,
            item.height,
            tile=constants["tile"],
            max_tiles=constants["max_tiles"],
            to_largest=constants["to_largest"],
        )
    )


def upscaled(item: Item, constants: Constants) -> Grid:
    """Idefics3's own rule: whole tiles of the enlarged image."""
    if not constants["splits"]:
        return Grid(0, 0)
    return Grid(
        *resize.upscaled_grid(
            item.width, item.height, longest=constants["longest"], tile=constants["tile"]
        )
    )


def sliced(item: Item, constants: Constants) -> Grid:
    """MiniCPM-V's own rule: slices beside an overview."""
    if not constants["splits"]:
        return Grid(0, 0)
    return Grid(
        *resize.sliced_grid(
            item.width, item.height, tile=constants["tile"], max_tiles=constants["max_tiles"]
        )
    )


def crops(item: Item, constants: Constants) -> Grid:
    """Gemma 3's own rule: one row of crops (0 columns: none)."""
    if not constants["splits"]:
        return Grid(0, 0)
    found = resize.num_crops(
        item.width,
        item.height,
        min_crop=constants["min_crop"],
        max_crops=constants["max_crops"],
        min_ratio=constants["min_ratio"],
    )
    return Grid(found, 1 if found else 0)


def fixed(item: Item, constants: Constants) -> Grid:
    """Every image has the same size."""
    patches = constants["tile"] // constants["patch_size"]
    return Grid(patches, patches)


def whole(item: Item, constants: Constants) -> Grid:
    """Every image is shown whole, once."""
    return Grid(0, 0)
