"""Cuts where a whole text is one word of the model, and what prefixes do to later pieces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from tokenizers import Tokenizer

from foreword.tokenizer.encode import assemble_offsets, make_segment
from foreword.tokenizer.segments import CutRules, prove

REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
LLAMA2 = {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
MERGES = [("▁", "a"), ("a", "b"), ("▁a", "b"), ("▁", "▁"), (".", "\n"), ("b", "▁")]


def metaspace(scheme: str, *, split: bool = False) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def token(index: int, content: str, **flags: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": 1000 + index, "content": content, "special": True, **plain, **flags}


def load(
    *,
    normalizer: dict[str, Any] | None = None,
    pre_tokenizer: dict[str, Any] | None = None,
    merges: list[tuple[str, str]] = MERGES,
    tokens: Iterable[dict[str, Any]] = (token(0, "<s>"), token(1, "<t>")),
    more: Iterable[str] = (),
    **model: Any,
) -> tuple[Tokenizer, CutRules]:
    """Build a small SentencePiece-like BPE: symbols `▁ab.` and newline, `Z` unknown."""
    symbols = ["<unk>", "▁", "a", "b", ".", "\n", "<", "s", ">"]
    products = [left + right for left, right in merges]
    vocab = {entry: i for i, entry in enumerate(dict.fromkeys([*symbols, *products, *more]))}
    file = {
        "version": "1.0",
        "added_tokens": list(tokens),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
            **model,
        },
    }
    raw = json.dumps(file)
    return Tokenizer.from_str(raw), prove(raw.encode())


def texts(alphabet: Iterable[str], max_atoms: int) -> Iterable[str]:
    for length in range(2, max_atoms + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


def check(tokenizer: Tokenizer, rules: CutRules, candidates: Iterable[str]) -> int:
    """Assert that ids and offsets of two pieces are those of the whole at each allowed cut."""
    num_cuts = 0
    seen: dict[str, Any] = {}

    def encode(text: str) -> Any:
        if text not in seen:
            seen[text] = tokenizer.encode_batch([text], add_special_tokens=False)[0]
        return seen[text]

    for text in candidates:
        for place in (p for p in range(1, len(text)) if rules.is_cut(text, p)):
            num_cuts += 1
            ends = ((0, place), (place, len(text)))
            pieces = [make_segment(rules, text, *span) for span in ends]
            parts = [encode(piece.of(text)) for piece in pieces]
            whole = encode(text)
            assert parts[0].ids + parts[1].ids == whole.ids, (text, place)
            if rules.offsets_gap is None:
                offsets = assemble_offsets(pieces, [part.offsets for part in parts])
                assert list(offsets) == whole.offsets, (text, place)
    return num_cuts


FAMILIES: dict[str, dict[str, Any]] = {
    "gemma": {
        "normalizer": REPLACE,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
    },
    "llama2": {"normalizer": LLAMA2},
    "metaspace-first": {"pre_tokenizer": metaspace("first")},
    "metaspace-always": {"pre_tokenizer": metaspace("always")},
    "metaspace-never": {"pre_tokenizer": metaspace("never")},
}
# Where runs of `b▁` are merged, a space after a `b` is no cut; elsewhere it is.
ATOMS = ["a", "b", " ", "Z", "\n", "<s>"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "model", [{}, {"fuse_unk": False}, {"unk_token": None}, {"byte_fallback": True}], ids=str
)
def test_every_allowed_cut_is_exact(family: str, model: dict[str, Any]) -> None:
    more = BYTE_TOKENS if model.get("byte_fallback") else ()
    tokenizer, rules = load(**FAMILIES[family], more=more, **model)
    assert rules.kind == "vocabulary", rules.reasons
    assert (rules.offsets_gap is None) == ("unk_token" not in model)
    assert check(tokenizer, rules, texts(ATOMS, 4)) > 100
    assert check(tokenizer, rules, texts(["a", ".", "\n", " ", "▁"], 4)) > 5


def test_a_pair_that_an_entry_holds_is_no_cut() -> None:
    _, rules = load(**FAMILIES["gemma"])
    assert rules.is_cut("aa ab", 2)  # `a▁` is in no entry
    assert not rules.is_cut("ab ab", 2)  # `b▁` is
    assert not rules.is_cut("aZ ab", 2)  # an unknown token might fuse


def test_a_prepend_normalizer_acts_after_every_added_token() -> None:
    tokenizer, rules = load(**FAMILIES["llama2"])
    pieces = ["a", " a", "a a", "<s> a", "<s>", "a<s>a"]
    a, spaced, two, after, token_only, both = (
        tokenizer.encode(p, add_special_tokens=False).ids for p in pieces
    )
    assert two == a + a  # the piece after the cut is encoded without its space
    assert two != a + spaced
    assert after == token_only + spaced  # but a section's own first space stays
    assert both == a + token_only + a
    assert rules.is_cut("a a", 1)
    assert not rules.is_cut("<s> a", 3)
    assert rules.is_cut("a<s>a", 1)


def test_tokens_that_begin_with_a_letter_refuse_a_prepended_space() -> None:
    _, rules = load(**FAMILIES["llama2"], tokens=[token(0, "ab")])
    assert rules.kind == "none"
    assert "begins with a letter" in rules.reasons[0]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"ignore_merges": True}, "ignore_merges"),
        ({"dropout": 0.5}, "dropout"),
        ({"continuing_subword_prefix": "#"}, "affix"),
        ({"end_of_word_suffix": "</w>"}, "affix"),
    ],
)
def test_models_that_look_across_a_word_are_refused(model: dict[str, Any], reason: str) -> None:
    extra = {"merges": [], "more": ["#a"]}
    _, rules = load(**FAMILIES["gemma"], **extra, **model)
    assert not rules.is_cut("aa ab", 2)
    assert reason in " ".join(rules.reasons)


def test_merges_of_byte_tokens_or_of_the_unknown_token_are_refused() -> None:
    bytes_merge = [("<0x5A>", "a")]
    _, rules = load(**FAMILIES["gemma"], merges=bytes_merge, more=["<0x5A>"])
    assert "byte tokens" in rules.reasons[0]
    _, rules = load(**FAMILIES["gemma"], merges=[("<unk>", "a")])
    assert "unknown token" in rules.reasons[0]


def test_a_unigram_model_is_not_cut_inside_a_word() -> None:
    unigram = {
        "type": "Unigram",
        "unk_id": 0,
        "byte_fallback": False,
        "vocab": [["<unk>", 0.0], ["▁", -1.0], ["a", -1.0], ["▁a", -1.5], ["aa", -2.0]],
    }
    for split, kind in ((False, "added-tokens"), (True, "segmentation")):
        file = {
            "version": "1.0",
            "added_tokens": [{**token(0, "<s>"), "id": 5}],
            "normalizer": None,
            "pre_tokenizer": metaspace("always", split=split),
            "post_processor": None,
            "decoder": None,
            "model": unigram,
        }
        raw = json.dumps(file)
        rules = prove(raw.encode())
        assert rules.kind == kind
        assert check(Tokenizer.from_str(raw), rules, texts(["a", " ", "<s>", "Z"], 5)) > 50


@pytest.mark.parametrize(
    ("normalizers", "pre_tokenizer", "reason"),
    [
        ([REPLACE], {**metaspace("never"), "replacement": "_"}, "spell the space differently"),
        ([{**PREPEND, "prepend": "x"}, REPLACE], None, "which is not its space"),
        ([PREPEND, PREPEND, REPLACE], None, "prepends twice"),
        ([REPLACE, {"type": "NFC"}], None, "follows a replaced space"),
        ([{"type": "NFC"}, REPLACE], None, "rewrites text that is one word"),
    ],
)
def test_pipelines_that_disagree_about_the_space_are_refused(
    normalizers: list[dict[str, Any]], pre_tokenizer: dict[str, Any] | None, reason: str
) -> None:
    normalizer = {"type": "Sequence", "normalizers": normalizers}
    _, rules = load(normalizer=normalizer, pre_tokenizer=pre_tokenizer)
    assert rules.kind == "added-tokens"
    assert reason in " ".join(rules.reasons)


def test_a_space_is_replaced_once() -> None:
    other = {"type": "Replace", "pattern": {"String": " "}, "content": "_"}
    tokenizer, rules = load(normalizer={"type": "Sequence", "normalizers": [REPLACE, other]})
    assert rules.is_cut("aa ab", 2)
    assert not rules.is_cut("ab ab", 2)
    assert check(tokenizer, rules, texts(ATOMS, 4)) > 100
