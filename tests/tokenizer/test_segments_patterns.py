"""Cuts between words: every known pattern breaks where its table says, whatever stands around."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tokenizers import Tokenizer

from foreword.tokenizer.segments import CutRules, patterns, prove

BYTES_ONLY = {
    "type": "ByteLevel",
    "trim_offsets": False,
    "add_prefix_space": False,
    "use_regex": False,
}
NAMES = ["GPT2", "QWEN", "LLAMA3", "CL100K", "O200K", "TEKKEN", "KIMI"]
PATTERNS = {name: getattr(patterns, name) for name in NAMES}


def split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


PRE_TOKENIZERS = {name: sequence(split(p), BYTES_ONLY) for name, p in PATTERNS.items()} | {
    "DEEPSEEK": sequence(
        split(patterns.DEEPSEEK_DIGITS),
        split(patterns.DEEPSEEK_CJK),
        split(patterns.DEEPSEEK_WORDS),
        BYTES_ONLY,
    ),
    "BYTE_LEVEL": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
    "DIGITS": sequence(
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "trim_offsets": False, "add_prefix_space": False, "use_regex": True},
    ),
    "PREFIXED": {"type": "ByteLevel", "trim_offsets": False, "add_prefix_space": True},
    "WHITESPACE": {"type": "Whitespace"},
    "WHITESPACE_SPLIT": {"type": "WhitespaceSplit"},
    "BERT": {"type": "BertPreTokenizer"},
    "PUNCTUATED": sequence(
        {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "WhitespaceSplit"}
    ),
    "METASPACE": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    "METASPACE_FIRST": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
    "T5": sequence(
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    ),
}

# One or two characters of every kind that a pattern or the library tells apart.
ALPHABET = "aA1 \n.'s中。か\u0301/_"
AWKWARD = (
    "aZsStTlLvVmMdDrRe019 \u00a0\t\n\r\x0b\u0085\u2028\u3000.,;:!?()[]{}\"'/\\-_=<>|#&%"
    "中文々〇ー・かがパ。、「」한ᄒ\u1161ابतक\u093c\u0958ไทยéßΣ\u0130\u017f\u0301\u0338\u200d\u00ad\x00\x1f٣½²Ⅷ😀"
)


def load(pre_tokenizer: dict[str, Any], **parts: Any) -> tuple[Tokenizer, CutRules]:
    file = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": pre_tokenizer,
        "normalizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
        **parts,
    }
    raw = json.dumps(file)
    return Tokenizer.from_str(raw), prove(raw.encode())


def random_texts(rng: random.Random, alphabet: str, count: int) -> Iterator[str]:
    for _ in range(count):
        few = [*rng.choices(alphabet, k=5), " ", "\n", "a"]
        yield "".join(rng.choices(few, k=rng.randint(2, 9)))


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    pieces: list[tuple[str, Any]] = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    return [word for word, _ in pieces if word]


def check(tokenizer: Tokenizer, rules: CutRules, texts: Iterable[str]) -> int:
    num_cuts = 0
    for text in texts:
        places = [p for p in range(1, len(text)) if rules.is_cut(text, p)]
        if not places:
            continue
        whole = words(tokenizer, text)
        for place in places:
            num_cuts += 1
            left = words(tokenizer, text[:place])
            right = words(tokenizer, text[place:])
            assert left + right == whole, (text[:place], text[place:])
    return num_cuts


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pieces_of_two_halves_are_those_of_the_whole(name: str) -> None:
    tokenizer, rules = load(PRE_TOKENIZERS[name])
    assert rules.kind == "segmentation", rules.reasons
    short = map("".join, itertools.product(ALPHABET, repeat=3))
    assert check(tokenizer, rules, short) > 50
    assert check(tokenizer, rules, random_texts(random.Random(name), AWKWARD, 2000)) > 250


COUNTER_EXAMPLES = [
    ("GPT2", "x\n\n", "bar"),  # `\s+(?!\S)` sees the end of the text
    ("GPT2", "x ", " bar"),
    ("LLAMA3", "12", "3"),  # digits group from the left
    ("QWEN", "}", "\n"),  # punctuation takes the newlines after it
    ("QWEN", "x\n", "\n"),
    ("QWEN", "x'", "s"),
    ("QWEN", "x", "'s y"),
    ("O200K", "!\n", "/"),  # here punctuation takes slashes too
    ("O200K", "x", "'s y"),
    ("DEEPSEEK", "!", "a"),
]


@pytest.mark.parametrize(("name", "left", "right"), COUNTER_EXAMPLES)
def test_known_counter_examples_are_no_cuts(name: str, left: str, right: str) -> None:
    _, rules = load(PRE_TOKENIZERS[name])
    assert not rules.is_cut(left + right, len(left))


def test_the_gpt2_counter_example_is_one() -> None:
    tokenizer, _ = load(PRE_TOKENIZERS["GPT2"])
    halves = words(tokenizer, "x\n\n") + words(tokenizer, "bar")
    assert halves != words(tokenizer, "x\n\nbar")


def test_nfc_may_make_a_mark_of_a_letter() -> None:
    tokenizer, rules = load(PRE_TOKENIZERS["QWEN"], normalizer={"type": "NFC"})
    text = "\u0958\n"  # a letter that NFC spells as a letter and a mark, which takes the newline
    assert not rules.is_cut(text, 1)
    normal = tokenizer.normalizer.normalize_str(text)
    assert words(tokenizer, normal)[-1] == "à¤¼Ċ"


@pytest.mark.parametrize(
    ("pre_tokenizer", "reason"),
    [
        (split(r"\w+|\s+"), "not one of those that are known"),
        ({**split(patterns.QWEN), "behavior": "MergedWithNext"}, "MergedWithNext"),
        ({"type": "UnicodeScripts"}, "UnicodeScripts"),
        (BYTES_ONLY, "no place that always breaks"),
        (
            sequence(
                {
                    "type": "ByteLevel",
                    "trim_offsets": False,
                    "use_regex": True,
                    "add_prefix_space": False,
                },
                {"type": "Digits", "individual_digits": True},
            ),
            "follows one that rewrites",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_its_reason(
    pre_tokenizer: dict[str, Any], reason: str
) -> None:
    _, rules = load(pre_tokenizer)
    assert rules.kind == "none"
    assert reason in " ".join(rules.reasons)
    assert not rules.is_cut("foo bar", 3)


NORMALIZERS: list[dict[str, Any]] = [
    *({"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")),
    {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
]


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: str(n["type"]))
@pytest.mark.parametrize("name", ["QWEN", "O200K", "BERT"])
def test_a_normalizer_does_not_act_across_a_cut(name: str, normalizer: dict[str, Any]) -> None:
    tokenizer, rules = load(PRE_TOKENIZERS[name], normalizer=normalizer)
    normalize = tokenizer.normalizer.normalize_str
    num_cuts = 0
    for text in random_texts(random.Random(7), AWKWARD + "`` ", 1200):
        for place in (p for p in range(1, len(text)) if rules.is_cut(text, p)):
            num_cuts += 1
            left, right = normalize(text[:place]), normalize(text[place:])
            whole = normalize(text)
            assert left + right == whole, (text, place)
            halves = words(tokenizer, left) + words(tokenizer, right)
            assert halves == words(tokenizer, whole), (text, place)
    assert num_cuts > 80


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Strip", "strip_left": True, "strip_right": False},
        {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
        {"type": "Replace", "pattern": {"String": "a"}, "content": " "},
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Nmt"},
    ],
    ids=lambda n: str(n["type"]),
)
def test_a_normalizer_that_acts_on_ends_or_spaces_is_refused(normalizer: dict[str, Any]) -> None:
    _, rules = load(PRE_TOKENIZERS["QWEN"], normalizer=normalizer)
    assert rules.kind == "none"
    assert rules.reasons


def test_dropout_draws_lots() -> None:
    model = {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1}
    _, rules = load(PRE_TOKENIZERS["QWEN"], model=model)
    assert (rules.kind, rules.reasons) == ("none", (rules.reasons[0],))
    assert "dropout" in rules.reasons[0]
