"""A reference tokenizer enters; what its post-processor puts around and between two texts leaves.

Rules of this file: the shape is found by trying, and believed only when more than one trial agrees.
"""

from __future__ import annotations

from array import array

from tokenizers import Tokenizer

from foreword.errors import UnsupportedFeature
from foreword.tokenizer.panics import ask_library
from foreword.types import PairShape

_PROBES = (("a", "b"), ("b a", "a"))


def find_pair_shape(tokenizer: Tokenizer) -> PairShape:
    """Return the special tokens of a pair, and whether the two texts' token types differ.

    Raises: `UnsupportedFeature` when the two texts' own tokens are not found in order, unchanged.
    """
    shapes = {_try(tokenizer, first, second) for first, second in _PROBES}
    shape = shapes.pop()
    if shape is None or shapes:
        raise UnsupportedFeature(
            feature="a pair of texts with this model's tokenizer",
            remedy="Its post-processor does more than put special tokens around two texts.",
        )
    prefix, middle, suffix, needs_types = shape
    return PairShape(
        prefix=array("I", prefix),
        middle=array("I", middle),
        suffix=array("I", suffix),
        needs_types=needs_types,
    )


def _try(
    tokenizer: Tokenizer, first: str, second: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool] | None:
    (whole,) = ask_library(tokenizer.encode_batch, [(first, second)], add_special_tokens=True)
    alone = ask_library(tokenizer.encode_batch, [first, second], add_special_tokens=False)
    places = [[at for at, text in enumerate(whole.sequence_ids) if text == n] for n in (0, 1)]
    ids: list[int] = whole.ids
    for own, found in zip(alone, places, strict=True):
        if not found or [ids[at] for at in found] != own.ids:
            return None
        if found != list(range(found[0], found[-1] + 1)):
            return None
    (start, stop), (second_start, second_stop) = [(one[0], one[-1] + 1) for one in places]
    if stop > second_start:
        return None
    return (
        tuple(ids[:start]),
        tuple(ids[stop:second_start]),
        tuple(ids[second_stop:]),
        any(whole.type_ids),
    )
