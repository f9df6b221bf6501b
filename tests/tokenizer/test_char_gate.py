"""The character gate: proved where it holds, a stated gap where a text breaks it."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.tokenizer.huggingface import HuggingFaceTokenizer

GEMMA_STYLE = small.as_dict(small.sentencepiece_bpe())
GEMMA_STYLE["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
GEMMA_STYLE["pre_tokenizer"] = {
    "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False,
}  # fmt: skip


def load(tokenizer: Any) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer.from_assets(small.assets(tokenizer))


def gap(tokenizer: Any) -> str | None:
    return load(tokenizer).info.char_gate_gap


PROVED = {
    "byte-level": load(small.byte_level()),
    "byte-level NFC": load(small.byte_level(normalizer=normalizers.NFC())),
    "byte-level NFD": load(small.byte_level(normalizer=normalizers.NFD())),
    "lower-casing": load(small.byte_level(normalizer=normalizers.Lowercase())),
    "sentencepiece": load(small.sentencepiece_bpe()),
    "gemma style": load(GEMMA_STYLE),
}
AWKWARD = st.text(
    alphabet=st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("aαι \u0300\u0301\u0304\u0308\u0313\u0345\u1100\u1161\u11a8ᾂǕ"),
    ),
    max_size=80,
)


@pytest.mark.parametrize("name", PROVED)
@given(text=AWKWARD)
@settings(max_examples=150, deadline=None)
def test_where_it_is_proved_no_text_breaks_it(name: str, text: str) -> None:
    tokenizer = PROVED[name]
    assert tokenizer.info.char_gate_gap is None
    num_tokens = len(tokenizer.encode(text, add_special_tokens=False).token_ids)
    assert len(text) <= num_tokens * tokenizer.info.max_chars_per_token


def test_composition_packs_at_most_one_and_a_half_characters_into_a_byte() -> None:
    worst = 0.0
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or not unicodedata.is_normalized("NFC", character):
            continue
        decomposed = len(unicodedata.normalize("NFD", character))
        num_bytes = len(character.encode())
        assert num_bytes > 1 or decomposed == 1
        worst = max(worst, decomposed / num_bytes)
    assert worst == 1.5


def test_a_vocabulary_of_composed_letters_has_a_gap_under_nfc() -> None:
    letters = {symbol: place for place, symbol in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    first, second = "Ç", "ķ"  # the two bytes of U+01D5, which three characters compose to
    vocab = {**letters, first + second: len(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[(first, second)]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    loaded = load(tokenizer)
    text = "U\u0308\u0304" * 10
    num_tokens = len(loaded.encode(text, add_special_tokens=False).token_ids)
    assert len(text) > num_tokens * loaded.info.max_chars_per_token
    assert "NFC" in (loaded.info.char_gate_gap or "")


def with_parts(normalizer: Any = None, pre_tokenizer: Any = None) -> Tokenizer:
    tokenizer = small.byte_level(normalizer=normalizer)
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizer, pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "text", "why"),
    [
        (small.word_piece(), "ж" * 90, "unknown token"),
        (small.unigram(), "字" * 400, "unknown token"),
        (small.sentencepiece_bpe(byte_fallback=False), "字" * 400, "fuse"),
        (with_parts(normalizers.Strip()), " " * 400 + "a", "Strip"),
        (with_parts(normalizers.StripAccents()), "\u0301" * 400 + "a", "StripAccents"),
        (with_parts(normalizers.Replace("a" * 30, "b")), "a" * 900, "Replace"),
        (with_parts(pre_tokenizer=pre_tokenizers.WhitespaceSplit()), " " * 400 + "a", "delete"),
        (with_parts(pre_tokenizer=pre_tokenizers.Split("a", "removed")), "a" * 400, "removes"),
    ],
)
def test_a_text_that_breaks_the_gate_has_a_gap(tokenizer: Tokenizer, text: str, why: str) -> None:
    loaded = load(tokenizer)
    num_tokens = len(loaded.encode(text, add_special_tokens=False).token_ids)
    assert len(text) > num_tokens * loaded.info.max_chars_per_token
    assert why in (loaded.info.char_gate_gap or "")


def test_an_added_token_that_swallows_spaces_has_a_gap() -> None:
    tokenizer = small.byte_level()
    tokenizer.add_tokens([AddedToken("<hole>", lstrip=True)])
    loaded = load(tokenizer)
    text = " " * 500 + "<hole>"
    assert len(loaded.encode(text, add_special_tokens=False).token_ids) == 1
    assert "'<hole>' swallows" in (loaded.info.char_gate_gap or "")


def test_missing_byte_symbols_are_a_gap() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert len(load(tokenizer).encode("zzza", add_special_tokens=False).token_ids) == 1
    assert "dropped" in (gap(tokenizer) or "")
