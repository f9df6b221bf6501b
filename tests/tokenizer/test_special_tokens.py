"""Special and added tokens that only the configurations declare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.errors import AssetsInvalid
from foreword.tokenizer.huggingface import HuggingFaceTokenizer

BYTE_LEVEL = small.byte_level()
SIZE = BYTE_LEVEL.get_vocab_size()


def load(config: dict[str, Any] | None = None, **files: Any) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer.from_assets(
        small.assets(BYTE_LEVEL, tokenizer_config=config or {}, **files)
    )


def ids(tokenizer: HuggingFaceTokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).token_ids)


def test_declared_added_tokens_come_by_id_then_roles_then_the_rest() -> None:
    tokenizer = load(
        {
            "added_tokens_decoder": {
                "90010": {"content": "<b>", "special": False},
                "90002": {"content": "<a>", "special": True},
                "0": {"content": "<|end|>", "special": True},
            },
            "extra_special_tokens": ["<c>"],
            "eos_token": "<|end|>",
            "pad_token": "<p>",
        }
    )
    assert [tokenizer.token_to_id(t) for t in ("<a>", "<b>", "<p>", "<c>")] == [
        SIZE,
        SIZE + 1,
        SIZE + 2,
        SIZE + 3,
    ]
    assert ids(tokenizer, "<a><c>") == [SIZE, SIZE + 3]
    assert "'<a>' (90002, here" in tokenizer.warnings[0]


def test_a_vocabulary_string_that_becomes_an_added_token_keeps_its_id() -> None:
    known = BYTE_LEVEL.token_to_id("Ġdog")
    assert known is not None
    tokenizer = load({"added_tokens_decoder": {"7": {"content": "Ġdog", "special": True}}})
    assert ids(tokenizer, "Ġdog") == [known]
    assert len(ids(load(), "Ġdog")) > 1
    assert tokenizer.info.vocab_size == SIZE


@pytest.mark.parametrize(
    "value",
    [
        "<e>",
        {"__type": "AddedToken", "content": "<e>", "lstrip": False},
        {"content": "<e>", "special": True, "normalized": False},
    ],
)
def test_a_special_token_is_text_or_an_added_token(value: object) -> None:
    tokenizer = load({"eos_token": value})
    assert tokenizer.info.special_tokens == {"eos_token": "<e>"}
    assert tokenizer.info.eos_token_id == SIZE
    assert tokenizer.tokenizer.get_added_tokens_decoder()[SIZE].special


def test_roles_keep_transformers_order_and_own_roles_follow() -> None:
    tokenizer = load(
        {
            "image_token": "<img>",
            "pad_token": "<pad>",
            "bos_token": None,
            "eos_token": "<|end|>",
            "extra_special_tokens": {"boi_token": "<boi>"},
            "additional_special_tokens": ["<x>"],
            "add_bos_token": True,
        }
    )
    assert list(tokenizer.info.special_tokens.items()) == [
        ("eos_token", "<|end|>"),
        ("pad_token", "<pad>"),
        ("image_token", "<img>"),
        ("boi_token", "<boi>"),
    ]
    assert tokenizer.info.all_special_tokens == ("<|end|>", "<pad>", "<img>", "<boi>", "<x>")


def test_special_tokens_map_counts_only_without_added_tokens_decoder() -> None:
    special = {"eos_token": {"content": "<z>", "lstrip": False}, "pad_token": "<|end|>"}
    old = load({"eos_token": "<|end|>"}, special_tokens_map=special)
    assert old.info.special_tokens == {"eos_token": "<z>", "pad_token": "<|end|>"}
    new = load({"eos_token": "<|end|>", "added_tokens_decoder": {}}, special_tokens_map=special)
    assert new.info.special_tokens == {"eos_token": "<|end|>"}


def test_a_classes_own_defaults_are_special_tokens_too() -> None:
    tokenizer = load(
        {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|end|>", "pad_token": None}
    )
    assert tokenizer.info.special_tokens == {
        "eos_token": "<|end|>",
        "unk_token": "<|endoftext|>",
    }
    assert ids(tokenizer, "<|endoftext|>") == [SIZE]


def test_lower_casing_adds_lower_cased_special_tokens() -> None:
    words = small.word_piece()
    tokenizer = HuggingFaceTokenizer.from_assets(
        small.assets(words, tokenizer_config={"cls_token": "[CLS]"}, do_lower_case=True)
    )
    assert tokenizer.info.do_lower_case
    assert tokenizer.info.special_tokens == {"cls_token": "[cls]"}
    assert ids(tokenizer, "[cls]") == [words.get_vocab_size()]
    # The post-processor is the file's and keeps its own.
    assert tokenizer.encode("", add_special_tokens=True).token_ids[0] == words.token_to_id("[CLS]")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"eos_token": 3}, "eos_token is neither"),
        ({"added_tokens_decoder": ["<a>"]}, "added_tokens_decoder is not a mapping"),
        ({"added_tokens_decoder": {"x": {"content": "<a>"}}}, r"added_tokens_decoder\['x'\]"),
        ({"added_tokens_decoder": {"1": {"special": True}}}, r"added_tokens_decoder\['1'\]"),
        ({"extra_special_tokens": [["a"]]}, "extra_special_tokens is neither"),
    ],
)
def test_a_declaration_that_is_no_token_is_named(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssetsInvalid, match=rf"tokenizer_config\.json: {problem}"):
        load(config)
