"""Cuts near added tokens: whatever is allowed is exact, on every short text of an alphabet."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from foreword.tokenizer.segments import CutRules, prove, prove_file, stable_prefix
from foreword.tokenizer.tokenizer_file import read_tokenizer_file

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}


def token(index: int, content: str, **flags: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": 1000 + index, "content": content, "special": True, **plain, **flags}


def load(*tokens: dict[str, Any], **parts: Any) -> tuple[Tokenizer, CutRules]:
    """Build a byte-level tokenizer whose pre-tokens merge, so that a wrong split is seen."""
    words = ["a", "n", "b", "<", ">", "Ġ", "Ċ", "Q"]
    pairs = [(x, y) for x, y in itertools.product(words, repeat=2)]
    vocab = {w: i for i, w in enumerate([*words, *("".join(p) for p in pairs)])}
    file = {
        "version": "1.0",
        "added_tokens": list(tokens),
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab,
            "merges": [" ".join(p) for p in pairs],
        },
        **parts,
    }
    raw = json.dumps(file)
    return Tokenizer.from_str(raw), prove(raw.encode())


def every_text(alphabet: str, max_chars: int) -> Iterable[str]:
    for length in range(2, max_chars + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def check_every_cut(tokenizer: Tokenizer, rules: CutRules, texts: Iterable[str]) -> int:
    """Assert that each allowed cut is exact; return how many were."""
    texts = list(texts)
    parts = sorted({t[a:b] for t in texts for a in range(len(t)) for b in range(a, len(t) + 1)})
    ids = dict(zip(parts, encode(tokenizer, parts), strict=True))
    num_cuts = 0
    for text in texts:
        for place in range(1, len(text)):
            if rules.is_cut(text, place):
                num_cuts += 1
                assert ids[text[:place]] + ids[text[place:]] == ids[text], (text, place)
    return num_cuts


@pytest.mark.parametrize(
    ("tokens", "alphabet"),
    [
        ([token(0, "nnn"), token(1, "nn")], "n a"),
        ([token(0, "<b>"), token(1, "<b>n"), token(2, "b>na")], "<b>na"),
        ([token(0, "<a>", lstrip=True)], "<a> "),
        ([token(0, "<a>", rstrip=True)], "<a> "),
        ([token(0, "<a>", rstrip=True), token(1, "<b>", lstrip=True)], "<ab> "),
        ([token(0, "<a>", single_word=True)], "<a> "),
        ([token(0, "<a>"), token(1, "<a>n", single_word=True)], "<a>n "),
        ([token(0, "<a>"), token(1, "<a>n", lstrip=True)], "<a>n "),
        ([token(0, "an", single_word=True)], "an b"),
        ([token(0, "<a>", normalized=True), token(1, "a>b")], "<a>b "),
        ([token(0, "<a>", normalized=True), token(1, "n<")], "<a>n "),
        ([token(0, "a b"), token(1, "b a")], "ab "),
        ([token(0, "a "), token(1, " b")], "ab \n"),
    ],
)
def test_every_allowed_cut_is_exact(tokens: list[dict[str, Any]], alphabet: str) -> None:
    tokenizer, rules = load(*tokens)
    assert check_every_cut(tokenizer, rules, every_text(alphabet, 6)) > 0


def test_a_run_of_overlapping_tokens_is_never_cut_inside() -> None:
    tokenizer, rules = load(token(0, "nnn"), token(1, "nn"))
    whole = encode(tokenizer, ["nnnnn", "nn", "nnn"])
    assert whole[1] + whole[2] != whole[0]  # what a scan from the right would give
    assert [p for p in range(1, 8) if rules.is_cut("annnnn b", p)] == [6]


def test_a_cut_stands_before_an_added_token_whatever_the_words_do() -> None:
    _, rules = load(token(0, "<|x|>"), pre_tokenizer={"type": "UnicodeScripts"})
    assert rules.kind == "added-tokens"
    assert "UnicodeScripts" in rules.reasons[0]
    assert [p for p in range(1, 12) if rules.is_cut("a b<|x|>a b<|x|>", p)] == [3, 11]


@pytest.mark.parametrize("more", ["end|>", "en", "start|>", " x"])
def test_a_text_that_may_still_grow_a_token_has_no_stable_cut_in_it(more: str) -> None:
    tokenizer, rules = load(token(0, "a <|im_end|>"), token(1, "<|im_start|>"))
    text = "b a a <|im_"
    assert rules.is_cut(text, 5)  # as the text stands, between `a` and ` <|im_`
    assert not rules.is_cut(text, 5, is_open=True)
    place = stable_prefix(rules, text, target_chars=2)
    assert place == 3
    grown = text + more
    ids = encode(tokenizer, [grown, grown[:place], grown[place:]])
    assert ids[1] + ids[2] == ids[0]


def test_a_long_list_of_tokens_with_the_same_neighbours_is_refused_unseen() -> None:
    tokens = [token(i, f"a b{i}>") for i in range(40)]
    _, rules = load(*tokens)
    assert not rules.is_cut("na ban", 2)
    assert rules.is_cut("nn ban", 2)


def test_normalized_tokens_under_a_normalizer_are_looked_for_in_what_it_makes() -> None:
    tokenizer, rules = load(
        token(0, "a b", normalized=True),
        token(1, "q<", normalized=True),
        normalizer={"type": "Lowercase"},
    )
    ids = encode(tokenizer, ["nA Bn", "nA", " Bn"])
    assert ids[1] + ids[2] != ids[0]
    assert not rules.is_cut("nA Bn", 2)
    assert check_every_cut(tokenizer, rules, every_text("aABn ", 5)) > 0


@pytest.mark.parametrize(
    ("flags", "reason"),
    [({"lstrip": True}, "flags"), ({}, "may change")],
)
def test_normalized_tokens_that_cannot_be_seen_refuse_cuts_between_words(
    flags: dict[str, bool], reason: str
) -> None:
    content = "a b" if flags else "é"
    _, rules = load(token(0, content, normalized=True, **flags), normalizer={"type": "NFC"})
    assert rules.kind == "none"
    assert reason in " ".join(rules.reasons)


def test_special_tokens_that_are_split_are_no_place_for_a_cut() -> None:
    special, plain = token(0, "<a>b"), token(1, "<b>", special=False)
    tokenizer, _ = load(special, plain, token(2, "<a>", special=False))
    tokenizer.encode_special_tokens = True
    file = read_tokenizer_file(tokenizer.to_str().encode())
    rules = prove_file(file, tokenizer.get_vocab, splits_special_tokens=True)
    assert not rules.is_cut("a\n<a>b", 2)
    assert not rules.is_cut("n<a>", 1)  # `<a>b` may be found here, and given up
    assert not rules.is_cut("n<b>", 1)  # what was ever special is given up; the file does not say
    assert check_every_cut(tokenizer, rules, every_text("<a>b ", 6)) >= 0


def test_a_token_that_was_special_once_is_given_up_for_good() -> None:
    """The library keeps the first row's word, and shows the second's."""
    tokenizer, _ = load(token(0, "<a>"))
    tokenizer.add_tokens([AddedToken("<a>", special=False, normalized=False)])
    tokenizer.encode_special_tokens = True
    file = read_tokenizer_file(tokenizer.to_str().encode())
    assert not file.added_tokens[0].special
    rules = prove_file(file, tokenizer.get_vocab, splits_special_tokens=True)
    assert not rules.is_cut("n<a>", 1)
