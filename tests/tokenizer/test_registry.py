"""Modes: the table, registration, and what an absent mode says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from foreword.errors import AssetsInvalid, InvalidRequest, UnsupportedFeature
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.registry import NOT_BUILT, TOKENIZER_REGISTRY, TokenizerRegistry

NAMED_MODES = {
    "hf", "mistral", "deepseek_v32", "deepseek_v4", "deepseek_v41", "gpt_oss", "kimi_k3",
    "kimi_audio", "cohere", "inkling", "grok2", "qwen_vl", "alpamayo2_super",
}  # fmt: skip


def test_hf_loads() -> None:
    assert TOKENIZER_REGISTRY.load_tokenizer_class("hf") is HuggingFaceTokenizer


def test_every_named_mode_loads_or_says_what_it_needs() -> None:
    assert set(TOKENIZER_REGISTRY.modes) | set(NOT_BUILT) == NAMED_MODES
    for mode in NOT_BUILT:
        with pytest.raises(UnsupportedFeature, match=mode) as caught:
            TOKENIZER_REGISTRY.load_tokenizer_class(mode)
        assert caught.value.param == "tokenizer_mode"


@pytest.mark.parametrize(
    ("mode", "needed"),
    [
        ("gpt_oss", "model_type"),
        ("kimi_k3", "encoding_k3.py"),
        ("cohere", "package cohere_melody"),
        ("grok2", "tokenizer.tok.json"),
        ("qwen_vl", "tokenization_qwen.py"),
    ],
)
def test_a_mode_that_is_not_built_says_what_file_or_package_it_needs(
    mode: str, needed: str
) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        TOKENIZER_REGISTRY.load_tokenizer_class(mode)
    assert needed in caught.value.message
    assert mode in caught.value.message


def test_an_unknown_mode_lists_the_modes() -> None:
    with pytest.raises(
        InvalidRequest, match=r"'nope' is unknown.*auto, alpamayo2_super, deepseek_v32.*hf.*mistral"
    ):
        TOKENIZER_REGISTRY.load_tokenizer_class("nope")


def test_outside_code_registers_a_mode_and_a_second_time_warns() -> None:
    registry = TokenizerRegistry()
    registry.register("mine", "fractions", "Fraction")
    assert registry.load_tokenizer_class("mine").__name__ == "Fraction"
    with pytest.warns(UserWarning, match=r"fractions\.Fraction and is now decimal\.Decimal"):
        registry.register("mine", "decimal", "Decimal")
    assert registry.load_tokenizer_class("mine").__name__ == "Decimal"


@pytest.mark.parametrize("row", [("no_such_module", "X"), ("fractions", "NoSuchClass")])
def test_a_class_that_cannot_be_imported_is_named(row: tuple[str, str]) -> None:
    registry = TokenizerRegistry({"mine": row})
    with pytest.raises(AssetsInvalid, match=r"\.".join(row)):
        registry.load_tokenizer_class("mine")


def test_a_class_is_imported_only_when_it_is_asked_for() -> None:
    code = (
        "import sys; import foreword.tokenizer.registry as r;"
        "assert 'foreword.tokenizer.huggingface' not in sys.modules;"
        "r.TOKENIZER_REGISTRY.load_tokenizer_class('hf');"
        "assert 'foreword.tokenizer.huggingface' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
