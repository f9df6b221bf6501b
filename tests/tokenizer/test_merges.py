"""How a token is made is recovered from the order of merging alone."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from foreword.tokenizer.merges import last_merge, merge_runs, recover_merges


def by_rank(text: str, rank: dict[str, int]) -> list[str]:
    """Merge the leftmost pair of the lowest rank, as tiktoken and sentencepiece do."""
    parts = list(text)
    while True:
        pairs = [(rank.get(a + b), place) for place, (a, b) in enumerate(pairwise(parts))]
        known = [pair for pair in pairs if pair[0] is not None]
        if not known:
            return parts
        _, at = min(known)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def by_merges(text: str, merges: list[tuple[str, str]]) -> list[str]:
    """Merge the leftmost pair of the first merge listed, as the tokenizers library does."""
    order = {pair: place for place, pair in enumerate(merges)}
    parts = list(text)
    while True:
        pairs = [(order.get((a, b)), place) for place, (a, b) in enumerate(pairwise(parts))]
        known = [pair for pair in pairs if pair[0] is not None]
        if not known:
            return parts
        _, at = min(known)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.mark.parametrize("seed", range(60))
def test_merges_give_what_ranks_give(seed: int) -> None:
    # Any set of words in any order: parts may rank after the whole, or be no pieces at all.
    rng = random.Random(seed)
    letters = "ab" if seed % 2 else "abc"
    words = {"".join(rng.choices(letters, k=rng.randint(2, 6))) for _ in range(25)}
    rank = {word: place for place, word in enumerate(rng.sample(sorted(words), len(words)))}
    merges = recover_merges(sorted(rank, key=rank.__getitem__), rank.get)
    for _ in range(200):
        text = "".join(rng.choices(letters, k=rng.randint(1, 16)))
        assert by_merges(text, merges) == by_rank(text, rank), text


def test_the_way_that_ranks_prefer_is_found() -> None:
    assert last_merge("abc", {"bc": 0, "ab": 1, "abc": 2}.get) == ("a", "bc")
    assert last_merge("abc", {"ab": 0, "bc": 1, "abc": 2}.get) == ("ab", "c")


def test_what_merging_never_reaches_has_no_pair() -> None:
    assert last_merge("abcd", {"abcd": 0, "bc": 1}.get) is None


def test_runs_of_equals_grow_from_the_left() -> None:
    runs = merge_runs(7, lambda left, right: 0.0 if left + right <= 3 else None)
    assert runs == [[1], [2], [3], [3, 1], [3, 2], [3, 3], [3, 3, 1]]
