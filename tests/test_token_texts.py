"""The text of single tokens: whole characters only, at the token that completes them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import foreword
from foreword.token_texts import REPLACEMENT, TokenTexts

DEMO = Path(foreword.__file__).parent / "demo" / "model"


class Bytes:
    """Ids are bytes; 256 is a special token, 257 a word with spaces that decoding drops one of."""

    def __init__(self) -> None:
        self.num_decoded = 0

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        self.num_decoded += 1
        assert not skip_special_tokens
        pieces = {256: b"<s>", 257: b" word"}
        data = b"".join(pieces.get(one) or bytes([one]) for one in token_ids)
        return data.decode(errors="replace")

    def id_to_token(self, token_id: int) -> str | None:
        return {257: "▁▁word", 258: None}.get(token_id, "x")


def shown(texts: TokenTexts, token_ids: Sequence[int]) -> list[str]:
    return [texts.text(one, token_ids[:place]) for place, one in enumerate(token_ids)]


def test_a_character_is_shown_at_its_last_token() -> None:
    texts = TokenTexts(Bytes())
    assert shown(texts, list("a😀é".encode())) == ["a", "", "", "", "😀", "", "é"]
    # What stands before the character's own tokens is not shown again.
    assert texts.text(0x80, [97, 0xF0, 0x9F, 0x98]) == "😀"
    assert texts.text(0x80, [0xF0, 0x9F, 0x98]) == "😀"
    # Half a character that something else follows is shown with what follows it, or never.
    assert texts.text(97, [0xF0, 0x9F]) == "a"
    assert texts.text(0xA9, [97, 98]) == ""
    assert texts.text(0xA9) == ""
    # Another candidate for the same place.
    assert texts.text(0x81, [97, 0xF0, 0x9F, 0x98]) == "😁"


def test_special_tokens_and_spaces_are_shown() -> None:
    assert TokenTexts(Bytes()).text(256) == "<s>"
    assert TokenTexts(Bytes()).text(257) == " word"
    assert TokenTexts(Bytes(), space_marker="▁").text(257) == "  word"
    assert TokenTexts(Bytes(), space_marker="▁").text(97) == "a"


def test_a_token_is_decoded_once() -> None:
    vocabulary = Bytes()
    texts = TokenTexts(vocabulary)
    for _ in range(3):
        assert texts.text(97, [98]) == "a"
    assert vocabulary.num_decoded == 1


def test_of_random_bytes_what_is_shown_is_the_text() -> None:
    rng = random.Random(4)
    texts = TokenTexts(Bytes())
    for _ in range(200):
        text = "".join(rng.choice("aé中😀 ") for _ in range(20))
        assert "".join(shown(texts, list(text.encode()))) == text


def test_a_real_vocabulary() -> None:
    tokenizer = foreword.load(str(DEMO)).tokenizer
    texts = TokenTexts(tokenizer)
    for text in ("plain words", "中文 and 😀, é", "<|im_start|>user"):
        token_ids = tokenizer.encode(text, add_special_tokens=False).token_ids.tolist()
        pieces = shown(texts, token_ids)
        assert "".join(pieces) == text
        assert not any(REPLACEMENT in piece for piece in pieces)


@pytest.mark.parametrize(
    ("pre_tokenizer", "marker"),
    [
        (None, None),
        ({"type": "ByteLevel"}, None),
        ({"type": "Metaspace", "replacement": "▁"}, "▁"),
        ({"type": "Metaspace", "replacement": "_"}, "_"),
        ({"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "Metaspace"}]}, "▁"),
        ({"type": "Sequence", "pretokenizers": []}, None),
    ],
)
def test_the_marker_of_spaces_is_the_files(pre_tokenizer: object, marker: str | None) -> None:
    from dataclasses import replace

    import msgspec

    segmented = foreword.load(str(DEMO)).tokenizer
    reference = segmented.reference  # type: ignore[attr-defined]
    file = msgspec.structs.replace(reference.file, pre_tokenizer=pre_tokenizer)
    assert replace(reference, file=file).leading_space_marker == marker
    assert segmented.leading_space_marker is None  # type: ignore[attr-defined]
