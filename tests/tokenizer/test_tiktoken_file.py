"""A tiktoken file, its family's pattern and special tokens: the ids of tiktoken itself."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import AssetsInvalid
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.tokenizer.tiktoken_file import FAMILIES, is_tiktoken, read_ranks

sys.path.insert(0, str(Path(__file__).parent))
from vocabulary_makers import TEXTS, byte_ranks, folder_assets, tiktoken_bytes

KIMI = {
    "tokenizer_class": "TikTokenTokenizer",
    "bos_token": "[BOS]",
    "eos_token": "[EOS]",
}


def load(
    folder: Path, name: str, config: dict[str, Any], ranks: dict[bytes, int]
) -> HuggingFaceTokenizer:
    (folder / name).write_bytes(tiktoken_bytes(ranks))
    return HuggingFaceTokenizer.from_assets(folder_assets(folder, config))


def kimi(folder: Path) -> tuple[HuggingFaceTokenizer, dict[bytes, int]]:
    ranks = byte_ranks()
    first = len(ranks)
    decoder = {
        str(first): {"content": "[BOS]", "special": True},
        str(first + 1): {"content": "[EOS]", "special": True},
        str(first + 2): {"content": "<think>", "special": False},
    }
    return load(folder, "tiktoken.model", {**KIMI, "added_tokens_decoder": decoder}, ranks), ranks


@pytest.mark.witness(
    family=(
        "file:tiktoken, TikTokenTokenizer",
        "file:tiktoken, QWenTokenizer",
    ),
    what="ids of 20,000 texts of the real Kimi K2 file, and of one written from Qwen 3's vocabulary"
    " (`scripts/fuzz_files`); a sample of a small one here",
    against="tiktoken 0.14",
)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_ids_are_tiktokens(name: str, tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="needs the extra `mistral`")
    ranks, family = byte_ranks(), FAMILIES[name]
    decoder = {str(len(ranks)): {"content": "<|endoftext|>", "special": True}}
    ours = load(
        tmp_path, "x.tiktoken", {"tokenizer_class": name, "added_tokens_decoder": decoder}, ranks
    )
    special = {text: i for i, text in family.special(len(ranks)).items()}
    special = {t: i for t, i in special.items() if i != len(ranks)} | {"<|endoftext|>": len(ranks)}
    theirs = tiktoken.Encoding(
        name, pat_str=family.pattern, mergeable_ranks=ranks, special_tokens=special
    )
    for text in [*TEXTS, "x<|endoftext|> y<|extra_3|><|im_start|>"]:
        wanted = unicodedata.normalize("NFC", text) if family.is_nfc else text
        ids = list(ours.encode(text, add_special_tokens=True).token_ids)
        assert ids == theirs.encode(wanted, allowed_special="all", disallowed_special=())
        assert ours.decode(ids) == wanted


def test_special_tokens_are_declared_or_reserved(tmp_path: Path) -> None:
    tokenizer, ranks = kimi(tmp_path)
    first = len(ranks)
    assert (tokenizer.info.bos_token_id, tokenizer.info.eos_token_id) == (first, first + 1)
    assert tokenizer.id_to_token(first + 255) == f"<|reserved_token_{first + 255}|>"
    assert tokenizer.info.max_token_id == first + 255
    assert tokenizer.info.num_prefix_special == 0
    # Recognised in text, but kept when special tokens are left out.
    (think,) = tokenizer.encode("<think>", add_special_tokens=False).token_ids
    assert tokenizer.decode([think, first], skip_special_tokens=True) == "<think>"


def test_its_texts_are_cut_where_that_is_proved(tmp_path: Path) -> None:
    segmented = SegmentedTokenizer.over(kimi(tmp_path)[0])
    assert segmented.info.has_proved_cuts
    text = "the quick brown fox jumps\n" * 400
    whole = segmented.reference.encode(text, add_special_tokens=False).token_ids
    assert segmented.encode(text, add_special_tokens=False).token_ids == whole


def test_qwen_is_known_by_its_files_name(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, "qwen.tiktoken", {}, byte_ranks())
    assert tokenizer.token_to_id("<|extra_204|>") == len(byte_ranks()) + 207


def test_an_unknown_family_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AssetsInvalid, match=r"class HYTokenizer: its pattern .* TikTokenTokenizer"):
        load(tmp_path, "hy.tiktoken", {"tokenizer_class": "HYTokenizer"}, byte_ranks())


def test_special_tokens_must_be_known_and_free(tmp_path: Path) -> None:
    config = {"tokenizer_class": "ChatGLM4Tokenizer"}
    with pytest.raises(AssetsInvalid, match="no added_tokens_decoder"):
        load(tmp_path, "tokenizer.model", config, byte_ranks())
    config["added_tokens_decoder"] = {"7": {"content": "x"}}  # type: ignore[assignment]
    with pytest.raises(AssetsInvalid, match="declares id 7"):
        load(tmp_path, "tokenizer.model", config, byte_ranks())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"IQ== 0\nIg==\n", "line 2"),
        (b"IQ== zero\n", "line 1"),
        (b"I*== 0\n", "line 1"),
        (b"", "0 ranks"),
        (b"IQ== 0\nIg== 0\n", "same rank"),
        (b"IQ== 99999999999\n", "ranks are not between"),
        (b"IQ== 0\n", "255 of the 256 bytes"),
    ],
)
def test_a_broken_file_is_described(data: bytes, problem: str) -> None:
    with pytest.raises(AssetsInvalid, match=problem):
        read_ranks(data, "tiktoken.model")


def test_the_format_is_told_by_its_first_line() -> None:
    assert is_tiktoken(b"IQ== 0\r\nIg== 1\r\n")
    assert not is_tiktoken(b"\n\x0e\n\x05<unk>\x15\x00\x00")
    assert not is_tiktoken(b"")
