"""What runs: tokenizer.json, with the parameters its declared class reads from its config."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.errors import AssetsInvalid
from foreword.tokenizer.declared_class import engine_class
from foreword.tokenizer.huggingface import HuggingFaceTokenizer

SENTENCEPIECE = small.as_dict(small.sentencepiece_bpe())
OLD_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
}
OLD_SENTENCEPIECE = {**SENTENCEPIECE, "normalizer": OLD_NORMALIZER, "pre_tokenizer": None}
LLAMA = {"tokenizer_class": "LlamaTokenizerFast"}


def load(tokenizer: Any, config: dict[str, Any], model_type: str = "") -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer.from_assets(
        small.assets(tokenizer, tokenizer_config=config, config={"model_type": model_type})
    )


def pieces(tokenizer: HuggingFaceTokenizer, text: str) -> list[str]:
    return tokenizer.tokens(tokenizer.encode(text, add_special_tokens=False).token_ids)


@pytest.mark.parametrize("file", [SENTENCEPIECE, OLD_SENTENCEPIECE])
@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        ({}, "first"),
        ({"legacy": False}, "first"),
        ({"legacy": True}, "always"),
        ({"legacy": True, "add_prefix_space": False}, "never"),
        ({"add_prefix_space": None}, "first"),
    ],
)
def test_legacy_and_add_prefix_space_act_as_the_llama_class_acts(
    file: dict[str, Any], config: dict[str, Any], scheme: str
) -> None:
    tokenizer = load(file, {**LLAMA, **config})
    assert (tokenizer.file.normalizer, tokenizer.warnings) == (None, ())
    assert (tokenizer.file.pre_tokenizer or {})["prepend_scheme"] == scheme
    joined = "".join(pieces(tokenizer, "dog</s>dog"))
    expected = {"first": "▁dog</s>dog", "always": "▁dog</s>▁dog", "never": "dog</s>dog"}
    assert joined == expected[scheme]


def test_the_generic_class_runs_the_file_whatever_the_config_says() -> None:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False}
    tokenizer = load(OLD_SENTENCEPIECE, config)
    assert tokenizer.file.normalizer == OLD_NORMALIZER
    assert "".join(pieces(tokenizer, "dog</s>dog")) == "▁dog</s>▁dog"


def test_a_llama_class_over_a_byte_level_file_runs_the_file_and_warns() -> None:
    plain = load(small.byte_level(), {})
    tokenizer = load(small.byte_level(), {**LLAMA, "add_bos_token": True, "bos_token": "<|end|>"})
    assert pieces(tokenizer, "the dog") == pieces(plain, "the dog")
    assert tokenizer.info.num_prefix_special == 0
    assert len(tokenizer.warnings) == 1
    assert "LlamaTokenizer, which builds another" in tokenizer.warnings[0]


def test_a_model_type_whose_declared_class_is_known_wrong_is_not_warned_of() -> None:
    tokenizer = load(small.byte_level(), LLAMA, "deepseek_v3")
    assert tokenizer.warnings == ()


def test_add_bos_and_add_eos_do_not_overrule_the_files_post_processor() -> None:
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    for flags in ({"add_bos_token": False}, {"add_eos_token": True}, {}):
        tokenizer = load(SENTENCEPIECE, {**LLAMA, **config, **flags})
        assert (tokenizer.info.num_prefix_special, tokenizer.info.num_suffix_special) == (1, 0)


def test_byte_level_prefix_space_follows_the_class_that_reads_it() -> None:
    file = small.as_dict(small.byte_level())
    file["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    for class_name, config, first in [
        ("GPT2Tokenizer", {}, "dog"),
        ("GPT2Tokenizer", {"add_prefix_space": True}, "Ġdog"),
        ("PreTrainedTokenizerFast", {"add_prefix_space": False}, "Ġdog"),
    ]:
        tokenizer = load(file, {"tokenizer_class": class_name, **config})
        assert "".join(pieces(tokenizer, "dog")) == first


def test_another_model_than_the_class_builds_is_warned_of() -> None:
    tokenizer = load(small.word_piece(), LLAMA)
    assert "builds a BPE model where tokenizer.json holds WordPiece" in tokenizer.warnings[0]
    python = load(small.word_piece(), {"tokenizer_class": "BertJapaneseTokenizer"})
    assert "tokenizes in Python" in python.warnings[0]


@pytest.mark.parametrize(("flag", "value"), [("ignore_merges", True), ("byte_fallback", False)])
def test_a_model_flag_the_class_does_not_build_is_warned_of(flag: str, value: bool) -> None:
    file = {**SENTENCEPIECE, "model": {**SENTENCEPIECE["model"], flag: value}}
    tokenizer = load(file, LLAMA)
    assert flag in tokenizer.warnings[0]
    assert getattr(tokenizer.file.model, flag) is value
    assert load(file, {"tokenizer_class": "PreTrainedTokenizerFast"}).warnings == ()


def test_added_tokens_a_class_would_not_know_are_warned_of() -> None:
    config = {**LLAMA, "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}}}
    tokenizer = load(SENTENCEPIECE, {**config, "bos_token": "<s>"})
    assert "lacks 1 of tokenizer.json's ('</s>'" in tokenizer.warnings[0]
    assert load(SENTENCEPIECE, {**config, "extra_special_tokens": ["<s>", "</s>"]}).warnings == ()


def test_own_code_is_never_run_and_said() -> None:
    config = {"auto_map": {"AutoTokenizer": ["tokenization_x.X", None]}}
    assert "auto_map" in load(small.byte_level(), config).warnings[0]


def test_truncation_and_padding_of_the_file_are_dropped_and_said() -> None:
    cutting = small.word_piece()
    cutting.enable_truncation(4)
    cutting.enable_padding(length=8)
    tokenizer = load(cutting, {})
    text = "the quick brown fox jumps over the lazy dog"
    assert tokenizer.tokenizer.truncation is None
    assert tokenizer.tokenizer.padding is None
    assert len(tokenizer.encode(text, add_special_tokens=True).token_ids) > 8
    assert len(tokenizer.encode("", add_special_tokens=True).token_ids) == 2
    assert [w.split(" section")[0] for w in tokenizer.warnings] == [
        "tokenizer.json carries a truncation",
        "tokenizer.json carries a padding",
    ]


def test_older_layouts_load() -> None:
    file = small.as_dict(small.byte_level())
    del file["model"]["type"]
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    tokenizer = load(file, {})
    assert tokenizer.file.model.type == "BPE"
    assert pieces(tokenizer, "the dog") == pieces(load(small.byte_level(), {}), "the dog")
    words = small.as_dict(small.word_piece())
    del words["model"]["type"]
    assert load(words, {}).file.model.type == "WordPiece"
    scores = small.as_dict(small.unigram())
    del scores["model"]["type"]
    assert load(scores, {}).file.model.type == "Unigram"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "not valid JSON"),
        (b'{"version": "1.0", "mod', "not valid JSON"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `model`"),
        (b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}', "empty"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}', "out of vocabulary"),
        (b'{"model": {"type": "Quantum", "vocab": {"a": 0}}}', "refuses it"),
        (b'{"added_tokens": [{"id": "x"}], "model": {}}', r"\$.added_tokens\[0\]"),
    ],
)
def test_a_broken_file_is_named_with_its_problem(raw: bytes, problem: str) -> None:
    with pytest.raises(AssetsInvalid, match=rf"tokenizer\.json: .*{problem}"):
        load(raw, {})


def test_a_post_processor_that_adds_inside_the_text_is_refused() -> None:
    file = small.as_dict(small.word_piece())
    file["post_processor"]["single"] = [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    with pytest.raises(AssetsInvalid, match="inside a text"):
        load(json.dumps(file).encode(), {})


@pytest.mark.parametrize(
    ("config", "tokenizer_config", "expected"),
    [
        ({}, {}, "TokenizersBackend"),
        ({}, {"tokenizer_class": "LlamaTokenizerFast"}, "LlamaTokenizer"),
        ({"model_type": "llama"}, {"tokenizer_class": "LlamaTokenizer"}, "LlamaTokenizer"),
        ({"model_type": "mistral"}, {"tokenizer_class": "LlamaTokenizer"}, "TokenizersBackend"),
        ({"model_type": "deepseek_v3"}, {"tokenizer_class": "LlamaTokenizer"}, "TokenizersBackend"),
        ({"model_type": "qwen3"}, {}, "Qwen2Tokenizer"),
        ({"model_type": "qwen2"}, {"tokenizer_class": "LlamaTokenizer"}, "Qwen2Tokenizer"),
        ({"model_type": "qwen3"}, {"tokenizer_class": "GPT2Tokenizer"}, "GPT2Tokenizer"),
        ({"model_type": "qwen3"}, {"tokenizer_class": "Unheard"}, "TokenizersBackend"),
        ({"model_type": "step3p7"}, {"tokenizer_class": "LlamaTokenizer"}, "TokenizersBackend"),
        ({"tokenizer_class": "T5TokenizerFast"}, {}, "T5Tokenizer"),
        (
            {"model_type": "mistral"},
            {"tokenizer_class": "LlamaTokenizer", "auto_map": {"AutoTokenizer": ["x", None]}},
            "LlamaTokenizer",
        ),
    ],
)
def test_the_class_an_engine_takes(
    config: dict[str, Any], tokenizer_config: dict[str, Any], expected: str
) -> None:
    assert engine_class(config, tokenizer_config) == expected
