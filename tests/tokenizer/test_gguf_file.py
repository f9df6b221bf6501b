"""A vocabulary in a GGUF header: the ids of the tokenizer.json it was made from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from foreword.errors import AssetsInvalid
from foreword.tokenizer.gguf_file import PRE_TOKENIZERS, convert_gguf
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.segmented import SegmentedTokenizer

sys.path.insert(0, str(Path(__file__).parent))
import small_models
from vocabulary_makers import (
    TEXTS,
    byte_level_pairs,
    folder_assets,
    gguf_bytes,
    train_sentencepiece,
)


def load(folder: Path, pairs: dict[str, Any]) -> HuggingFaceTokenizer:
    (folder / "m.gguf").write_bytes(gguf_bytes(pairs))
    return HuggingFaceTokenizer.from_assets(folder_assets(folder))


@pytest.mark.witness(
    family=(
        "file:GGUF, qwen2",
        "file:GGUF, llama-bpe",
        "file:GGUF, gpt-4o",
        "file:GGUF, deepseek-v3",
        "file:GGUF, kimi-k2",
    ),
    what="ids of 20,000 texts and every added token of a header written from the real model's "
    "tokenizer.json by the package gguf (`scripts/fuzz_files`); a sample of a small one here",
    against="the tokenizer.json itself",
)
def test_a_byte_level_vocabulary_has_its_twins_ids(tmp_path: Path) -> None:
    ours, twin = load(tmp_path, byte_level_pairs()), small_models.byte_level()
    for text in [*TEXTS, "x<|end|> y"]:
        wanted = twin.encode_batch([text], add_special_tokens=False)[0].ids
        assert list(ours.encode(text, add_special_tokens=True).token_ids) == wanted, text
        assert ours.decode(wanted) == text
    assert ours.token_to_id("[PAD0]") is None


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_every_known_pre_tokenizer_builds_and_is_cut(pre: str, tmp_path: Path) -> None:
    changes = {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": False}
    ours = load(tmp_path, byte_level_pairs(**changes))
    assert SegmentedTokenizer.over(ours).info.has_proved_cuts
    for text in TEXTS:
        ids = ours.encode(text, add_special_tokens=False).token_ids
        import unicodedata

        wanted = unicodedata.normalize("NFC", text) if PRE_TOKENIZERS[pre].is_nfc else text
        assert ours.decode(ids) == wanted


def test_what_stands_around_a_text_follows_the_header_then_the_pre_tokenizer(
    tmp_path: Path,
) -> None:
    bos = {"tokenizer.ggml.bos_token_id": 5, "tokenizer.ggml.eos_token_id": 6}
    for changes, wanted in (
        ({}, (0, 0)),
        ({"tokenizer.ggml.pre": "llama-bpe"}, (1, 0)),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, (0, 0)),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}, (1, 1)),
    ):
        info = load(tmp_path, byte_level_pairs(**bos, **changes)).info
        assert (info.num_prefix_special, info.num_suffix_special) == wanted
    with pytest.raises(AssetsInvalid, match="begin or end with BOS, which it does not name"):
        load(tmp_path, byte_level_pairs(**{"tokenizer.ggml.add_bos_token": True}))


def sentencepiece_pairs(data: bytes, **changes: Any) -> dict[str, Any]:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra `mistral`")
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    kinds = [
        2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
        for i in range(len(model))
    ]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [model.id_to_piece(i) for i in range(len(model))],
        "tokenizer.ggml.scores": [model.get_score(i) for i in range(len(model))],
        "tokenizer.ggml.token_type": kinds,
        **changes,
    }


@pytest.mark.witness(
    family="file:GGUF, llama",
    what="the same of Llama 2; a sample of a small model here",
    against="sentencepiece 0.2, and the tokenizer.json itself",
)
def test_a_sentencepiece_vocabulary_has_the_librarys_ids(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra `mistral`")
    data = train_sentencepiece(
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    ours = load(tmp_path, sentencepiece_pairs(data))
    for text in TEXTS:
        assert list(ours.encode(text, add_special_tokens=True).token_ids) == [
            1,
            *theirs.encode(text),
        ]


def test_user_defined_tokens_cut_the_text_first(tmp_path: Path) -> None:
    data = train_sentencepiece(
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    pairs = sentencepiece_pairs(data)
    pairs["tokenizer.ggml.tokens"] = [*pairs["tokenizer.ggml.tokens"], "<turn>"]
    pairs["tokenizer.ggml.scores"] = [*pairs["tokenizer.ggml.scores"], 0.0]
    pairs["tokenizer.ggml.token_type"] = [*pairs["tokenizer.ggml.token_type"], 4]
    ours = load(tmp_path, pairs)
    turn = ours.token_to_id("<turn>")
    the = list(ours.encode("the", add_special_tokens=False).token_ids)
    assert list(ours.encode("<turn>the", add_special_tokens=False).token_ids) == [turn, *the]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tokenizer.ggml.model": "bert"}, "of kind 'bert'; kinds read here: gpt2, llama, t5"),
        ({"tokenizer.ggml.pre": "falcon"}, "'falcon', whose pattern is not known"),
        ({"tokenizer.ggml.token_type": [1]}, "not as long as its list of types"),
        ({"tokenizer.ggml.merges": "a b"}, "it has no merges"),
        ({"tokenizer.ggml.merges": ["q zq"]}, "the tokenizers library refuses it"),
        ({"tokenizer.ggml.model": "llama"}, "its scores are missing"),
        ({"tokenizer.ggml.tokens": []}, "not as long as its list of types"),
    ],
)
def test_what_is_not_known_or_broken_is_named(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(AssetsInvalid, match=rf"m\.gguf: .*{problem}"):
        load(tmp_path, byte_level_pairs(**changes))


def test_a_header_without_a_pre_tokenizer_is_refused() -> None:
    pairs = byte_level_pairs()
    del pairs["tokenizer.ggml.pre"]
    with pytest.raises(AssetsInvalid, match=r"tokenizer.ggml.pre\) is None"):
        convert_gguf(pairs, "m.gguf")


def test_types_may_be_absent(tmp_path: Path) -> None:
    pairs = byte_level_pairs()
    del pairs["tokenizer.ggml.token_type"]
    file = convert_gguf(pairs, "m.gguf")
    assert file["added_tokens"] == []
    assert "[PAD0]" in file["model"]["vocab"]
    assert isinstance(load(tmp_path, pairs).tokenizer, Tokenizer)
