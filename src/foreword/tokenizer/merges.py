"""A vocabulary whose order is its merge order enters; the merges that make its tokens leave.

Rules of this file: only a token's own bytes (or characters) decide how it is made. Before a token
can be merged anywhere, everything inside it has been merged as if it stood alone, since whatever
crosses its ends would have broken them; so each token has at most one last merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

PieceT = TypeVar("PieceT", bytes, str)


def recover_merges(
    pieces: Iterable[PieceT], rank: Callable[[PieceT], float | None]
) -> list[tuple[PieceT, PieceT]]:
    """Return the pair each piece is made of, in the order the pieces are given.

    `rank` gives a piece's place in the order of merging (low first), None for what is no piece.
    Pieces of one symbol, and those that merging never reaches, have no pair.
    """
    merges = []
    for piece in pieces:
        pair = last_merge(piece, rank)
        if pair is not None:
            merges.append(pair)
    return merges


def last_merge(
    piece: PieceT, rank: Callable[[PieceT], float | None]
) -> tuple[PieceT, PieceT] | None:
    """Return the two pieces whose merge makes `piece`, or None when merging never makes it."""
    size = len(piece)
    if size == 2:
        return piece[:1], piece[1:]
    splits = [
        place
        for place in range(1, size)
        if (place == 1 or rank(piece[:place]) is not None)
        and (place == size - 1 or rank(piece[place:]) is not None)
    ]
    if len(splits) == 1:
        return piece[: splits[0]], piece[splits[0] :]
    return _merge_alone(piece, rank) if splits else None


def _merge_alone(
    piece: PieceT, rank: Callable[[PieceT], float | None]
) -> tuple[PieceT, PieceT] | None:
    parts = [piece[place : place + 1] for place in range(len(piece))]
    ranks = [rank(parts[i] + parts[i + 1]) for i in range(len(parts) - 1)]
    while len(parts) > 2:
        best: float | None = None
        at = -1
        for place, value in enumerate(ranks):
            if value is not None and (best is None or value < best):
                best, at = value, place
        if at < 0:
            return None
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del ranks[at]
        if at:
            ranks[at - 1] = rank(parts[at - 1] + parts[at])
        if at < len(ranks):
            ranks[at] = rank(parts[at] + parts[at + 1])
    return parts[0], parts[1]


def merge_runs(longest: int, ranked: Callable[[int, int], float | None]) -> list[list[int]]:
    """Return how runs of one symbol are merged: for each length up to `longest`, the parts'.

    `ranked` gives the rank of merging two neighbours of these lengths, None where they do not;
    of equals the leftmost pair is merged.
    """
    return [_merge_run([1] * length, ranked) for length in range(1, longest + 1)]


def _merge_run(parts: list[int], ranked: Callable[[int, int], float | None]) -> list[int]:
    while True:
        ranks = [ranked(left, right) for left, right in pairwise(parts)]
        known = [value for value in ranks if value is not None]
        if not known:
            return parts
        at = ranks.index(min(known))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
