"""What parity tests of images share: sizes, processors without pixels, and the comparison."""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.media import FamilyConfig, Run, count_image

np = pytest.importorskip("numpy")

NUM_RANDOM = 2000
EDGES = (1, 2, 13, 14, 27, 28, 29, 48, 55, 224, 255, 256, 257, 335, 336, 337, 364, 384, 448, 449)
MORE_EDGES = (512, 640, 672, 768, 1008, 1024, 1025, 1540, 2800, 4096, 8192)

Size = tuple[int, int]
Oracle = Callable[[int, int], str]
Sources = Callable[..., SimpleNamespace]


def sizes() -> Iterator[Size]:
    """Yield every pair of edges, then random sizes of all shapes."""
    yield from itertools.product(EDGES + MORE_EDGES, repeat=2)
    rng = random.Random(20261130)
    for number in range(NUM_RANDOM):
        limit = (600, 2500, 6000, 12_000)[number % 4]
        yield rng.randint(1, limit), rng.randint(1, limit)


def module(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name}")


def picture(height: int, width: int) -> Any:
    return np.broadcast_to(np.uint8(0), (3, height, width))


def without_pixels(monkeypatch: pytest.MonkeyPatch, processor: Any) -> Any:
    """Let the processor handle sizes only."""
    backend = type(processor).__mro__[1]

    def resize(self: Any, image: Any, size: Any, *args: Any, **kwargs: Any) -> Any:
        return picture(size.height, size.width)

    monkeypatch.setattr(backend, "resize", resize)
    for name in ("rescale", "normalize"):
        monkeypatch.setattr(backend, name, lambda self, image, *a, **k: image)
    return processor


def bare(kind: Any, **attributes: Any) -> Any:
    """Return a processor that was never initialised."""
    made = object.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made


def check(
    config: FamilyConfig, oracle: Oracle, *, rename: dict[str | int, str] | None = None
) -> None:
    num_equal = num_refused = 0
    for width, height in sizes():
        try:
            theirs = oracle(width, height)
        except (ValueError, ZeroDivisionError, TypeError, IndexError):
            with pytest.raises(InvalidRequest):
                count_image(config, width, height)
            num_refused += 1
            continue
        ours = written(count_image(config, width, height), rename or {})
        assert ours == theirs, (width, height)
        num_equal += 1
    assert num_equal >= NUM_RANDOM
    print(f"{config.family.name}: {num_equal} equal, {num_refused} refused by both")


def written(runs: tuple[Run, ...], rename: dict[str | int, str]) -> str:
    return "".join(rename.get(run.token, str(run.token)) * run.num_tokens for run in runs)


def flat(token: str, count: Callable[[int, int], int]) -> Oracle:
    return lambda width, height: token * count(width, height)
