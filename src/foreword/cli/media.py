"""Sizes of images, or a prompt's stations, enter; what media cost in tokens leaves.

Rules of this file: every number was computed by the model's own family; layout only.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from foreword.cli.colour import Style, visible
from foreword.cli.json_output import write_json
from foreword.cli.model import load_renderer
from foreword.cli.output import Console
from foreword.diagnosis import Stations
from foreword.engines.routing import count_embeds
from foreword.errors import ForewordError, InvalidRequest
from foreword.media.items import MediaItem
from foreword.media.runs import count_embeds as count_run_embeds
from foreword.media.runs import materialise
from foreword.renderer import Renderer
from foreword.stages.media_items import media_tokens

_SIZE = re.compile(r"([0-9]{1,9})[xX×]([0-9]{1,9})")
_MAX_SHOWN = 40


def run_count_image(options: Namespace, console: Console) -> int:
    """Run `foreword count-image`."""
    sizes = [_read_size(written) for written in options.size]
    renderer = load_renderer(options)
    counts = count_images(renderer, sizes)
    if console.is_json:
        write_json(console, counts)
        return 0
    for one in counts:
        if len(counts) == 1 and not console.is_terminal:
            console.say(str(one["num_tokens"]))
            continue
        words = f"{one['num_tokens']:,} tokens, {one['num_embeds']:,} of them embeddings"
        console.say(f"{one['width']}x{one['height']}  {words}")
    return 0


def count_images(renderer: Renderer, sizes: list[tuple[int, int]]) -> list[dict[str, int]]:
    """Return what each image of a prompt with these images costs.

    Raises: `UnsupportedFeature` when the model takes no images; `InvalidRequest` for a size that
    its processor refuses.
    """
    tokens = media_tokens(renderer.media, renderer.tokenizer)
    items = [
        MediaItem(modality="image", identity="", width=width, height=height)
        for width, height in sizes
    ]
    counts = []
    for item, runs in zip(items, tokens.count(items), strict=True):
        by_id = tokens.to_ids(runs)
        counts.append(
            {
                "width": item.width,
                "height": item.height,
                "num_tokens": len(materialise(by_id)),
                "num_embeds": count_run_embeds(by_id),
            }
        )
    return counts


def _read_size(written: str) -> tuple[int, int]:
    found = _SIZE.fullmatch(written)
    if found is None:
        raise InvalidRequest(
            "An image's size is its width and height in pixels, such as 1024x768.", param="size"
        )
    return int(found[1]), int(found[2])


def media_facts(renderer: Renderer) -> dict[str, Any]:
    """Return what a model makes of media, as plain values."""
    try:
        rows = renderer.media.rows()
    except ForewordError as error:
        return {"family": None, "reason": error.message}
    family = renderer.media.require().family.name
    return {
        "family": family,
        "modalities": {
            modality: {"placeholder": bound.row.placeholder, "constants": dict(bound.constants)}
            for modality, bound in rows.items()
        },
    }


def media_lines(stations: Stations, style: Style) -> Iterator[str]:
    """Yield the section that lists a prompt's media; nothing without any."""
    if not stations.items:
        return
    spans = {} if stations.tokens is None else {s.index: s for s in stations.tokens.spans}
    yield style.title("media") + style.dim("  tokens before truncation")
    for index, item in enumerate(stations.items[:_MAX_SHOWN]):
        span = spans.get(index)
        place = "not expanded"
        if span is not None:
            place = (
                f"{span.start:,} to {span.stop:,}: {span.stop - span.start:,} tokens,"
                f" {count_embeds(span):,} embeddings"
            )
        yield f"  [{index}] {item.modality} {_measure(item)}  {place}  {style.dim(_short(item))}"
    if len(stations.items) > _MAX_SHOWN:
        yield f"  … {len(stations.items) - _MAX_SHOWN} more"


def _measure(item: MediaItem) -> str:
    if item.modality == "audio":
        return f"{item.num_frames / item.sample_rate:.2f} s"
    frames = f", {item.num_frames} frames" if item.num_frames else ""
    return f"{item.width}x{item.height}{frames}"


def _short(item: MediaItem) -> str:
    return visible(item.identity if len(item.identity) <= 16 else f"{item.identity[:12]}…")
