"""Expansion on ids: at the items' own places only, everything parallel moved along."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import InvalidRequest
from foreword.media.runs import IdRun
from foreword.stages.media import ExpandedItem, expand
from foreword.types import MediaSpan, Offsets, TokenSequence, make_token_ids

PAD = 99


def sequence(*ids: int, offsets: bool = True) -> TokenSequence:
    positions = make_token_ids(range(len(ids)))
    ends = make_token_ids(range(1, len(ids) + 1))
    spans = Offsets(starts=positions, stops=ends) if offsets else None
    return TokenSequence(token_ids=make_token_ids(ids), offsets=spans, num_chars=len(ids))


def item(start: int, *runs: IdRun, index: int = 0, length: int = 1) -> ExpandedItem:
    return ExpandedItem(
        modality="image",
        index=index,
        start=start,
        stop=start + length,
        identity=f"id{index}",
        runs=runs,
    )


def test_only_an_items_own_place_is_expanded() -> None:
    made = expand(sequence(1, PAD, 2, PAD, 3), [item(3, IdRun(PAD, 3, True))])
    assert made.token_ids.tolist() == [1, PAD, 2, PAD, PAD, PAD, 3]
    assert made.spans == (MediaSpan(modality="image", index=0, start=3, stop=6, identity="id0"),)
    assert made.offsets is not None
    assert list(made.offsets) == [(0, 1), (1, 2), (2, 3), (0, 0), (0, 0), (0, 0), (4, 5)]


def test_structure_is_in_the_span_and_out_of_the_mask() -> None:
    runs = (IdRun(7, 1), IdRun(PAD, 2, True), IdRun(8, 1))
    made = expand(sequence(1, 5, 6, offsets=False), [item(1, *runs, length=2)])
    assert made.token_ids.tolist() == [1, 7, PAD, PAD, 8]
    assert made.offsets is None
    (span,) = made.spans
    assert (span.start, span.stop) == (1, 5)
    assert span.is_embed == ((1, False), (2, True), (1, False))


def test_no_items_change_nothing() -> None:
    tokens = sequence(1, PAD)
    assert expand(tokens, []) is tokens


# 1 is a newline, 2 two, 3 three and 4 four of them, as one token each.
JOINS = ((1, 2, 3), (2, 1, 3), (2, 2, 4))
IMAGE = (IdRun(2, 1), IdRun(PAD, 2, True), IdRun(2, 1))


@pytest.mark.parametrize(
    ("ids", "places", "expected", "spans"),
    [
        ((9, 0, 9), (1,), [9, 2, PAD, PAD, 2, 9], [(1, 5)]),
        ((9, 1, 0, 9), (2,), [9, 3, PAD, PAD, 2, 9], [(1, 5)]),
        ((9, 0, 1, 9), (1,), [9, 2, PAD, PAD, 3, 9], [(1, 5)]),
        ((0, 0), (0, 1), [2, PAD, PAD, 4, PAD, PAD, 2], [(0, 3), (3, 7)]),
        ((0, 1, 0), (0, 2), [2, PAD, PAD, 2, 3, PAD, PAD, 2], [(0, 4), (4, 8)]),
    ],
)
def test_newlines_join_as_the_engine_joins_them(
    ids: tuple[int, ...],
    places: tuple[int, ...],
    expected: list[int],
    spans: list[tuple[int, int]],
) -> None:
    items = [item(place, *IMAGE, index=number) for number, place in enumerate(places)]
    made = expand(sequence(*ids), items, joins=JOINS)
    assert made.token_ids.tolist() == expected
    assert [(span.start, span.stop) for span in made.spans] == spans
    assert made.offsets is not None
    assert len(made.offsets) == len(expected)
    for span in made.spans:
        assert span.is_embed is not None
        assert sum(length for length, _ in span.is_embed) == span.stop - span.start
        assert sum(length for length, embeds in span.is_embed if embeds) == 2


@pytest.mark.parametrize(
    "items",
    [
        [item(0, IdRun(PAD, 1), length=2), item(1, IdRun(PAD, 1), index=1)],
        [item(2, IdRun(PAD, 1), length=2)],
        [item(1, IdRun(PAD, 1), length=0)],
    ],
)
def test_places_that_are_none_are_refused(items: list[ExpandedItem]) -> None:
    with pytest.raises(InvalidRequest, match="no place of its own"):
        expand(sequence(1, 2, 3), items)


def test_tokens_that_stopped_early_are_refused() -> None:
    tokens = TokenSequence(token_ids=make_token_ids((1, 2)), is_complete=False)
    with pytest.raises(InvalidRequest, match="stopped early"):
        expand(tokens, [item(0, IdRun(PAD, 1))])


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=30),
    st.sets(st.integers(0, 29), max_size=8),
    st.lists(st.integers(1, 6), min_size=8, max_size=8),
)
def test_expansion_is_what_replacing_lists_gives(
    ids: list[int], places: set[int], lengths: list[int]
) -> None:
    chosen = sorted(place for place in places if place < len(ids))
    items = [
        item(place, IdRun(7, 1), IdRun(PAD, lengths[number], True), index=number)
        for number, place in enumerate(chosen)
    ]
    expected: list[int] = []
    spans: list[tuple[int, int]] = []
    for position, token_id in enumerate(ids):
        if position in chosen:
            start = len(expected)
            expected += [7] + [PAD] * lengths[chosen.index(position)]
            spans.append((start, len(expected)))
        else:
            expected.append(token_id)
    made = expand(sequence(*ids), items[::-1])
    assert made.token_ids.tolist() == expected
    assert [(span.start, span.stop) for span in made.spans] == spans
    assert made.offsets is not None
    assert len(made.offsets) == len(expected)
    for (start, stop), token_id in zip(made.offsets, expected, strict=True):
        assert (start, stop) == (0, 0) or ids[start] == token_id
