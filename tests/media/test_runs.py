"""Runs become ids as a tokenizer would make them."""

from __future__ import annotations

import pytest

from foreword.errors import AssetsInvalid
from foreword.media.runs import IdRun, Run, embed_mask, materialise, text, to_id_runs

VOCABULARY = {"<a>": 7, "<b>": 8}


def encode(piece: str) -> list[int]:
    return [ord(char) for char in piece]


def test_neighbouring_texts_are_encoded_as_one() -> None:
    seen: list[str] = []

    def spy(piece: str) -> list[int]:
        seen.append(piece)
        return encode(piece)

    runs = (text("x"), text("\n"), Run("<a>", 3, True), text("y"))
    ids = to_id_runs(runs, token_to_id=VOCABULARY.get, encode_text=spy)
    assert seen == ["x\n", "y"]
    assert materialise(ids).tolist() == [120, 10, 7, 7, 7, 121]
    assert embed_mask(ids) == ((2, False), (3, True), (1, False))


def test_a_token_can_be_given_by_id() -> None:
    runs = to_id_runs((Run(200, 2, True),), token_to_id=VOCABULARY.get, encode_text=encode)
    assert runs == (IdRun(200, 2, True),)
    assert embed_mask(runs) is None


def test_a_token_the_tokenizer_lacks_is_named() -> None:
    with pytest.raises(AssetsInvalid, match="<c>"):
        to_id_runs((Run("<c>", 1),), token_to_id=VOCABULARY.get, encode_text=encode)
