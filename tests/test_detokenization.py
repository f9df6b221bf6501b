"""Text of a growing answer: never taken back, equal to decoding it whole, cut at stop strings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foreword
from foreword.detokenization import (
    MAX_WINDOW_TOKENS,
    REPLACEMENT,
    Detokenizer,
    OutputText,
    find_stop,
    num_open,
)
from foreword.errors import InvalidTokenIds

DEMO = Path(foreword.__file__).parent / "demo" / "model"


class Pieces:
    """A tokenizer whose tokens are given texts, so that a test says where tokens end."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(self.pieces[token_id] for token_id in token_ids)


class Bytes:
    """Ids are bytes; 256 is a special token. As byte-level models decode."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        kept = [one for one in token_ids if one < 256 or not skip_special_tokens]
        return b"".join(bytes([one]) if one < 256 else b"<s>" for one in kept).decode(
            errors="replace"
        )


class FallbackBytes:
    """As SentencePiece models decode: a run of byte tokens is text as a whole, or not at all."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        text, run = "", b""
        for token_id in [*token_ids, None]:
            if token_id is not None and token_id < 256:
                run += bytes([token_id])
                continue
            try:
                text += run.decode()
            except UnicodeDecodeError:
                text += REPLACEMENT * len(run)
            run = b""
            if token_id is not None:
                text += {256: " ", 257: "a", 258: "é"}[token_id]
        return text.removeprefix(" ")


def stream(detokenizer: Detokenizer, token_ids: Sequence[int]) -> list[str]:
    return [*map(detokenizer.add, token_ids), detokenizer.finish()]


@pytest.fixture(scope="module")
def renderer() -> foreword.Renderer:
    return foreword.load(str(DEMO))


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40), seed=st.integers(0, 2**32))
def test_every_unicode_text_byte_by_byte(text: str, seed: int) -> None:
    token_ids: list[int] = []
    for byte in text.encode():
        token_ids += [byte] if random.Random(seed).random() < 0.9 else [256, byte]
    parts = stream(Detokenizer(Bytes(), skip_special_tokens=True), token_ids)
    assert "".join(parts) == text
    if REPLACEMENT not in text:
        assert not any(REPLACEMENT in part for part in parts)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 256), max_size=120))
def test_bytes_that_are_no_text_give_what_decoding_gives(token_ids: list[int]) -> None:
    parts = stream(Detokenizer(Bytes()), token_ids)
    assert "".join(parts) == Bytes().decode(token_ids, skip_special_tokens=True)


@settings(max_examples=200, deadline=None)
@given(st.text("aé😀 中\u0301", max_size=20), st.booleans())
def test_byte_fallback(text: str, has_prompt: bool) -> None:
    known = {" ": 256, "a": 257, "é": 258}
    token_ids = [
        token_id
        for char in text
        for token_id in ([known[char]] if char in known else char.encode())
    ]
    prompt = [257] if has_prompt else []
    parts = stream(Detokenizer(FallbackBytes(), prompt_token_ids=prompt), token_ids)
    whole = FallbackBytes().decode([*prompt, *token_ids])
    assert "".join(parts) == whole.removeprefix("a" if has_prompt else "")
    assert REPLACEMENT not in "".join(parts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2815), max_size=60), st.booleans())
def test_any_ids_of_a_real_tokenizer(
    renderer: foreword.Renderer, token_ids: list[int], skip: bool
) -> None:
    parts = stream(Detokenizer(renderer.tokenizer, skip_special_tokens=skip), token_ids)
    assert "".join(parts) == renderer.tokenizer.decode(token_ids, skip_special_tokens=skip)


def test_text_is_given_as_soon_as_it_is_certain() -> None:
    parts = stream(Detokenizer(Bytes()), [*"a😀b".encode()])
    assert parts == ["a", "", "", "", "😀", "b", ""]


def test_an_unfinished_character_is_told_at_the_end_only() -> None:
    assert stream(Detokenizer(Bytes()), [97, 0xF0, 0x9F]) == ["a", "", "", REPLACEMENT]


def test_endless_bytes_without_a_character_are_not_held_for_ever() -> None:
    detokenizer = Detokenizer(Bytes())
    parts = [detokenizer.add(0x80) for _ in range(300)]
    assert len("".join(parts)) >= 290
    assert len(detokenizer._window) <= 2 * (MAX_WINDOW_TOKENS + 1)


def test_skipped_tokens_cost_nothing_and_lose_no_context() -> None:
    detokenizer = Detokenizer(Bytes(), prompt_token_ids=[98])
    assert "".join(detokenizer.add(256) for _ in range(1000)) == ""
    assert len(detokenizer._window) == 1
    assert detokenizer.add(97) == "a"


def test_the_prompt_decides_whether_a_text_begins() -> None:
    first_of_all = Detokenizer(FallbackBytes())
    after_some_text = Detokenizer(FallbackBytes(), prompt_token_ids=[257])
    assert [first_of_all.add(256), first_of_all.add(257)] == ["", "a"]
    assert [after_some_text.add(256), after_some_text.add(257)] == [" ", "a"]


def test_an_id_that_is_none_is_refused_and_leaves_no_trace(renderer: foreword.Renderer) -> None:
    detokenizer = Detokenizer(renderer.tokenizer)
    first = detokenizer.add(97)
    with pytest.raises(InvalidTokenIds, match="-1"):
        detokenizer.add(-1)
    whole = first + detokenizer.add(98) + detokenizer.finish()
    assert whole == renderer.tokenizer.decode([97, 98])


def output(decoder: Pieces, stop: Sequence[str], **options: bool | int) -> tuple[list[str], str]:
    """Feed all pieces, one at a time; give the deltas and the stop string (or nothing)."""
    made = OutputText(decoder, stop=stop, **options)  # type: ignore[arg-type]
    deltas = []
    for place in range(len(decoder.pieces)):
        delta = made.add([place], is_last=place == len(decoder.pieces) - 1)
        deltas.append(delta.text)
        if delta.stop is not None:
            return deltas, delta.stop
    return deltas, ""


def test_only_a_real_prefix_is_held_back() -> None:
    assert output(Pieces("say ", "the", "n EN", "Ds"), ["END"]) == (
        ["say ", "the", "n ", ""],
        "END",
    )
    assert output(Pieces("a long text ", "E", "x"), ["END"]) == (["a long text ", "", "Ex"], "")
    assert output(Pieces("EN", "EN", "D"), ["END"]) == (["", "EN", ""], "END")
    assert output(Pieces("x", "EN"), ["END"]) == (["x", "EN"], "")


def test_a_stop_string_that_is_included_is_not_held_back() -> None:
    got = output(Pieces("a EN", "D more"), ["END"], include_stop=True)
    assert got == (["a EN", "D"], "END")


def test_what_completes_first_stops() -> None:
    assert find_stop("one two", ["two", "one tw", "ne"]) == ("ne", 1)
    assert find_stop("aXY", ["XY", "Y"]) == ("XY", 1)
    assert find_stop("aXY", ["Y", "XY"]) == ("Y", 2)
    assert find_stop("ab", ["ab"], num_old=2) is None
    assert num_open("say E", ["END", "Elf!"]) == 1
    assert num_open("say ENEN", ["ENENX", "EN!"]) == 4
    assert num_open("END", ["END"]) == 0


def test_stop_strings_wait_for_min_tokens() -> None:
    assert output(Pieces("E", "E", "x", "E"), ["E"], min_tokens=2) == (["E", "E", "x", ""], "E")
    # One that began before and is complete after it counts.
    assert output(Pieces("a", "E", "N", "D"), ["END"], min_tokens=3)[1] == "END"


def test_tokens_after_the_stop_do_not_count() -> None:
    made = OutputText(Pieces("a", "END", "b", "c"), stop=["END"])
    delta = made.add([0, 1, 2, 3])
    assert (delta.text, delta.num_tokens, delta.stop) == ("a", 2, "END")


def test_the_token_that_ended_an_answer_has_text_only_when_wanted() -> None:
    for include, text in ((False, "a"), (True, "a<end>")):
        made = OutputText(Pieces("a", "<end>"), include_stop=include)
        delta = made.add([0, 1], is_last=True, ends_in_stop_token=True)
        assert (delta.text, delta.num_tokens) == (text, 2)


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(st.text("abE", min_size=1, max_size=3), min_size=1, max_size=12),
    stop=st.lists(st.text("abE", min_size=1, max_size=4), max_size=3),
    include=st.booleans(),
    at_once=st.booleans(),
)
def test_streamed_text_is_the_whole_text_cut_at_its_first_stop(
    pieces: list[str], stop: list[str], include: bool, at_once: bool
) -> None:
    whole, expected = "", None
    for piece in pieces:
        whole += piece
        found = [(whole.index(one) + len(one), stop.index(one)) for one in stop if one in whole]
        if found:
            end, place = min(found)
            expected = whole[: end if include else end - len(stop[place])], stop[place]
            break
    made = OutputText(Pieces(*pieces), stop=stop, include_stop=include)
    groups = [list(range(len(pieces)))] if at_once else [[place] for place in range(len(pieces))]
    text, stopped = "", None
    for group in groups:
        delta = made.add(group, is_last=group[-1] == len(pieces) - 1)
        text += delta.text
        if delta.stop is not None:
            stopped = delta.stop
            break
    assert (text, stopped) == (expected or (whole, None))
