"""SentencePiece models: the ids of the sentencepiece library, or a refusal that says why."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import AssetsInvalid
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.sentencepiece_file import convert_sentencepiece
from foreword.tokenizer.sentencepiece_model import (
    Algorithm,
    Kind,
    ScoredPiece,
    SentencePieceModel,
    read_model,
)

sys.path.insert(0, str(Path(__file__).parent))
from vocabulary_makers import TEXTS, folder_assets, train_sentencepiece

sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra `mistral`")

IDENTITY = {"normalization_rule_name": "identity"}
BPE = {"model_type": "bpe", "byte_fallback": True, **IDENTITY}
KEPT_SPACES = {"remove_extra_whitespaces": False}
SETTINGS: dict[str, dict[str, Any]] = {
    "llama": {**BPE, **KEPT_SPACES, "allow_whitespace_only_pieces": True},
    "bpe": BPE,
    "bpe-unknown": {"model_type": "bpe", **IDENTITY},
    "bpe-suffixless": {**BPE, **KEPT_SPACES, "add_dummy_prefix": False},
    "gemma": {
        **BPE,
        **KEPT_SPACES,
        "add_dummy_prefix": False,
        "user_defined_symbols": ["<sep>", "\n\n", "12"],
        "control_symbols": ["<ctrl>"],
    },
    "unigram": {"model_type": "unigram", **IDENTITY},
    "unigram-inner-spaces": {
        "model_type": "unigram",
        **IDENTITY,
        **KEPT_SPACES,
        "split_by_whitespace": False,
    },
    "nfkc": {"model_type": "bpe", "byte_fallback": True},
}


def load(
    folder: Path, data: bytes, config: dict[str, Any] | None = None, name: str = "tokenizer.model"
) -> HuggingFaceTokenizer:
    (folder / name).write_bytes(data)
    return HuggingFaceTokenizer.from_assets(folder_assets(folder, config))


@pytest.mark.witness(
    family=(
        "file:SentencePiece, BPE",
        "file:SentencePiece, Unigram",
    ),
    what="ids of 20,000 texts: Llama 2, Mistral 0.3 and a model trained for each of 8 settings "
    "(`scripts/fuzz_files`); a sample here",
    against="sentencepiece 0.2",
)
@pytest.mark.parametrize("name", list(SETTINGS))
def test_the_ids_and_the_text_are_sentencepieces(name: str, tmp_path: Path) -> None:
    data = train_sentencepiece(**SETTINGS[name])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    ours = load(tmp_path, data)
    num_compared = 0
    for text in [*TEXTS, "a<sep>12\n\n<0x0A> 12<sep>"]:
        if name == "nfkc" and ours.tokenizer.normalizer.normalize_str(text) != theirs.normalize(
            text
        ):
            continue  # a known difference: see the test of its warning
        ids = list(ours.encode(text, add_special_tokens=False).token_ids)
        assert ids == theirs.encode(text), text
        assert list(ours.encode(text, add_special_tokens=True).token_ids) == [1, *ids]
        if name != "bpe-unknown" and 0 not in ids:
            assert ours.decode(ids) == theirs.decode(ids), text
        num_compared += 1
    assert num_compared > len(TEXTS) - 8


def test_control_symbols_are_special_tokens(tmp_path: Path) -> None:
    ours = load(tmp_path, train_sentencepiece(**SETTINGS["gemma"]))
    assert ours.info.special_tokens["bos_token"] == "<s>"
    assert (ours.info.bos_token_id, ours.info.eos_token_id) == (1, 2)
    control, symbol = (ours.token_to_id(text) for text in ("<ctrl>", "<sep>"))
    assert list(ours.encode("<ctrl><sep>", add_special_tokens=False).token_ids) == [control, symbol]
    assert ours.decode([control or 0, symbol or 0], skip_special_tokens=True) == "<sep>"


def test_differences_of_the_engine_are_warned_of(tmp_path: Path) -> None:
    ours = load(tmp_path, train_sentencepiece(model_type="unigram"))
    assert [warning.split(":")[0] for warning in ours.warnings] == [
        "tokenizer.model is a Unigram model",
        "tokenizer.model maps characters before encoding",
    ]


# -- what a class adds --------------------------------------------------------------------------


def test_a_t5_class_ends_a_text_and_has_extra_ids(tmp_path: Path) -> None:
    data = train_sentencepiece(model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    ours = load(tmp_path, data, {"tokenizer_class": "T5Tokenizer"}, "spiece.model")
    size = sentencepiece.SentencePieceProcessor(model_proto=data).vocab_size()
    assert ours.encode("the dog", add_special_tokens=True).token_ids[-1] == 1
    assert ours.token_to_id("<extra_id_0>") == size + 99
    assert ours.token_to_id("<extra_id_99>") == size


def test_the_configuration_decides_what_is_around_a_text(tmp_path: Path) -> None:
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "add_eos_token": True}
    ours = load(tmp_path, train_sentencepiece(**BPE), config)
    assert (ours.info.num_prefix_special, ours.info.num_suffix_special) == (0, 1)
    with pytest.raises(AssetsInvalid, match="begin or end with BOS"):
        load(tmp_path, train_sentencepiece(**BPE, bos_id=-1), {"add_bos_token": True})


def test_tokens_behind_the_last_piece_are_added(tmp_path: Path) -> None:
    data = train_sentencepiece(**BPE)
    size = sentencepiece.SentencePieceProcessor(model_proto=data).vocab_size()
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<pad>": size, "<new>": size + 1}))
    ours = load(tmp_path, data, {"pad_token": "<pad>"})
    assert ours.info.pad_token_id == size
    assert list(ours.encode("<new>", add_special_tokens=False).token_ids) == [size + 1]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<pad>": size + 5}))
    with pytest.raises(AssetsInvalid, match=f"do not follow on the {size} pieces"):
        load(tmp_path, data)


def test_a_class_that_moves_ids_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetsInvalid, match="XLMRobertaTokenizer, which arranges the ids"):
        load(tmp_path, train_sentencepiece(**BPE), {"tokenizer_class": "XLMRobertaTokenizer"})


# -- what cannot be converted exactly -----------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"model_type": "word"}, "the algorithm WORD"),
        ({"model_type": "char"}, "the algorithm CHAR"),
        ({**BPE, "treat_whitespace_as_suffix": True}, "spaces written behind words"),
        ({"model_type": "unigram", "byte_fallback": True}, "byte fallback in a Unigram model"),
        ({**BPE, "user_defined_symbols": ["<sep>"]}, "user-defined symbols"),
    ],
)
def test_what_cannot_be_done_alike_is_refused(
    settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(AssetsInvalid, match=f"it has {problem}.*cannot be converted exactly"):
        load(tmp_path, train_sentencepiece(**settings))


def hand_made(*pieces: ScoredPiece) -> SentencePieceModel:
    return SentencePieceModel(
        pieces=(ScoredPiece("<unk>", 0.0, Kind.UNKNOWN), *pieces),
        algorithm=Algorithm.BPE,
        byte_fallback=False,
        whitespace_is_suffix=False,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        charsmap=b"",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=True,
    )


def normal(text: str, score: float) -> ScoredPiece:
    return ScoredPiece(text, score, Kind.NORMAL)


def test_runs_of_one_character_may_share_the_lowest_score() -> None:
    runs = [normal("▁" * n, -9.0) for n in (2, 3, 4, 6)]
    model = hand_made(normal("▁", -1.0), normal("a", -2.0), normal("▁a", -3.0), *runs)
    merges = convert_sentencepiece(model, "m", add_bos=False, add_eos=False)["model"]["merges"]
    assert merges[0] == ("▁", "a")
    # The longest first, so that a run grows from its left as the library's leftmost pair does.
    assert [len(left + right) for left, right in merges[1:]] == [6, 6, 6, 4, 4, 4, 3, 3, 2]


@pytest.mark.parametrize(
    "pieces",
    [
        [normal("ab", -3.0), normal("bc", -3.0)],
        [normal("ab", -4.0), normal("▁▁", -3.0), normal("▁▁▁", -3.0)],
        [normal("aa", -3.0), normal("▁▁", -3.0)],
    ],
)
def test_other_equal_scores_are_refused(pieces: list[ScoredPiece]) -> None:
    with pytest.raises(AssetsInvalid, match="2 pieces with the same score"):
        convert_sentencepiece(hand_made(*pieces), "m", add_bos=False, add_eos=False)


# -- the file itself ----------------------------------------------------------------------------


def test_a_model_is_read_as_the_library_reads_it() -> None:
    data = train_sentencepiece(**SETTINGS["gemma"], pad_id=3)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    model = read_model(data, "m")
    assert [p.text for p in model.pieces] == [theirs.id_to_piece(i) for i in range(len(theirs))]
    assert [p.score for p in model.pieces] == [theirs.get_score(i) for i in range(len(theirs))]
    assert (model.unk_id, model.bos_id, model.eos_id, model.pad_id) == (0, 1, 2, 3)
    assert [p.kind is Kind.BYTE for p in model.pieces] == [
        theirs.is_byte(i) for i in range(len(theirs))
    ]
    assert (model.add_dummy_prefix, model.byte_fallback) == (False, True)
    assert model.algorithm is Algorithm.BPE


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no pieces"),
        (b"not a protocol buffer", "no SentencePiece model"),
        (b"\x0a\xff\x01x", "ends after the file"),
        (b"\x0a\x03\x0a\x01\xff", "no SentencePiece model"),
        (b"\x0a\x03\x0a\x01a" * 2, "two of its pieces"),
        (b"\x0a\x07\x0a\x01a\x18\x63" + b"\x00", "no SentencePiece model"),
        (b"\x80" * 20, "does not end"),
        (b"\x0a\x06\x0a\x01a\x15" + struct.pack("<H", 1), "no SentencePiece model"),
    ],
)
def test_a_broken_model_is_described(data: bytes, problem: str) -> None:
    with pytest.raises(AssetsInvalid, match=problem):
        read_model(data, "tokenizer.model")
