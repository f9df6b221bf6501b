"""The reference tokenizer: ids, offsets, special counts, decoding, and that it never changes."""

from __future__ import annotations

import ast
import inspect
import pickle
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.errors import InvalidRequest, InvalidTokenIds
from foreword.tokenizer import huggingface
from foreword.tokenizer.huggingface import HuggingFaceTokenizer

KINDS = {
    "byte_level": small.byte_level(),
    "word_piece": small.word_piece(),
    "unigram": small.unigram(),
    "sentencepiece": small.sentencepiece_bpe(),
}
LOADED = {
    kind: HuggingFaceTokenizer.from_assets(small.assets(tokenizer))
    for kind, tokenizer in KINDS.items()
}


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=60), special=st.booleans())
@settings(max_examples=60, deadline=None)
def test_ids_and_offsets_are_the_librarys(kind: str, text: str, special: bool) -> None:
    expected = KINDS[kind].encode(text, add_special_tokens=special)
    sequence = LOADED[kind].encode(text, add_special_tokens=special, with_offsets=True)
    assert sequence.token_ids == array("I", expected.ids)
    assert list(sequence.offsets or ()) == expected.offsets
    assert LOADED[kind].encode(text, add_special_tokens=special).token_ids == sequence.token_ids
    assert sequence.num_chars == len(text)
    assert sequence.is_complete


@pytest.mark.parametrize(
    ("kind", "prefix", "suffix"),
    [("byte_level", 0, 0), ("word_piece", 1, 1), ("unigram", 0, 1), ("sentencepiece", 1, 0)],
)
def test_the_post_processors_ids_are_counted(kind: str, prefix: int, suffix: int) -> None:
    tokenizer = LOADED[kind]
    assert (tokenizer.info.num_prefix_special, tokenizer.info.num_suffix_special) == (
        prefix,
        suffix,
    )
    for text in ("", "the dog"):
        bare = tokenizer.encode(text, add_special_tokens=False)
        whole = tokenizer.encode(text, add_special_tokens=True)
        assert (bare.num_prefix_special, bare.num_suffix_special) == (0, 0)
        assert (whole.num_prefix_special, whole.num_suffix_special) == (prefix, suffix)
        stop = len(whole.token_ids) - suffix
        assert whole.token_ids[prefix:stop] == bare.token_ids


def test_special_tokens_have_empty_offsets() -> None:
    sequence = LOADED["word_piece"].encode("dog", add_special_tokens=True, with_offsets=True)
    offsets = list(sequence.offsets or ())
    assert offsets[0] == offsets[-1] == (0, 0)
    assert offsets[1][0] == 0
    assert offsets[-2][1] == 3


@pytest.mark.parametrize("with_offsets", [False, True])
def test_a_lone_surrogate_is_refused_with_its_place(with_offsets: bool) -> None:
    with pytest.raises(InvalidRequest, match=r"U\+D800\) at character 2 of 4") as caught:
        LOADED["byte_level"].encode(
            "ab\ud800c", add_special_tokens=False, with_offsets=with_offsets
        )
    assert caught.value.details == {"position": 2, "num_chars": 4}


def test_nul_is_kept() -> None:
    tokenizer = LOADED["byte_level"]
    ids = tokenizer.encode("a\0b", add_special_tokens=False).token_ids
    assert tokenizer.decode(ids) == "a\0b"


@pytest.mark.parametrize("bad", [-1, 2**32, 2**70])
def test_decoding_what_no_id_can_be_is_a_clear_error(bad: int) -> None:
    with pytest.raises(InvalidTokenIds, match=f"{bad} at position 1"):
        LOADED["byte_level"].decode([1, bad])


def test_strings_and_ids_of_the_vocabulary() -> None:
    tokenizer = LOADED["byte_level"]
    assert tokenizer.token_to_id("<|end|>") == 0
    assert tokenizer.id_to_token(0) == "<|end|>"
    assert tokenizer.id_to_token(10**6) is None
    assert tokenizer.id_to_token(-1) is None
    assert tokenizer.id_to_token(2**40) is None
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.token_to_id("\udfff") is None
    ids = tokenizer.encode(" dog", add_special_tokens=False).token_ids
    assert "".join(tokenizer.tokens(ids)) == "Ġdog"


def test_decoding_may_skip_special_tokens() -> None:
    tokenizer = LOADED["byte_level"]
    ids = tokenizer.encode("dog<|end|>", add_special_tokens=False).token_ids
    assert tokenizer.decode(ids) == "dog<|end|>"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "dog"


def test_clean_up_applies_to_word_models_only() -> None:
    config = {"clean_up_tokenization_spaces": True}
    words = Tokenizer.from_str(KINDS["word_piece"].to_str())
    words.decoder = None  # type: ignore[assignment]
    cleaning = HuggingFaceTokenizer.from_assets(small.assets(words, tokenizer_config=config))
    plain = HuggingFaceTokenizer.from_assets(small.assets(words))
    ids = plain.encode("dog, fox", add_special_tokens=False).token_ids
    assert (" ," in plain.decode(ids), " ," in cleaning.decode(ids)) == (True, False)
    pieces = HuggingFaceTokenizer.from_assets(
        small.assets(KINDS["byte_level"], tokenizer_config=config)
    )
    ids = pieces.encode("dog , fox", add_special_tokens=False).token_ids
    assert pieces.decode(ids) == "dog , fox"


def test_the_shared_tokenizer_is_never_changed_after_load() -> None:
    for tokenizer in LOADED.values():
        before = tokenizer.tokenizer.to_str()
        for special in (True, False):
            tokenizer.encode("the dog", add_special_tokens=special, with_offsets=True)
            tokenizer.encode("the dog", add_special_tokens=special)
        tokenizer.decode([1, 2], skip_special_tokens=True)
        tokenizer.tokens([1, 2])
        assert tokenizer.tokenizer.to_str() == before


def test_the_module_calls_nothing_that_changes_or_blocks() -> None:
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(inspect.getsource(huggingface)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    forbidden = {"enable_truncation", "enable_padding", "add_tokens", "add_special_tokens"}
    assert not called & forbidden
    # `Tokenizer.encode` holds the GIL for the whole call.
    assert not [
        node
        for node in ast.walk(ast.parse(inspect.getsource(huggingface)))
        if isinstance(node, ast.Attribute)
        and node.attr == "encode"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "tokenizer"
    ]


def test_it_pickles_whole() -> None:
    config = {"split_special_tokens": True, "eos_token": "<|end|>"}
    tokenizer = HuggingFaceTokenizer.from_assets(
        small.assets(KINDS["byte_level"], tokenizer_config=config)
    )
    copy = pickle.loads(pickle.dumps(tokenizer))
    text = "dog<|end|>"
    ids = tokenizer.encode(text, add_special_tokens=True).token_ids
    assert copy.encode(text, add_special_tokens=True).token_ids == ids
    assert copy.info == tokenizer.info
    assert copy.file == tokenizer.file


def test_split_special_tokens_encodes_them_as_text() -> None:
    config = {"split_special_tokens": True}
    tokenizer = HuggingFaceTokenizer.from_assets(
        small.assets(KINDS["byte_level"], tokenizer_config=config)
    )
    assert len(tokenizer.encode("<|end|>", add_special_tokens=False).token_ids) > 1
    whole = LOADED["byte_level"].encode("<|end|>", add_special_tokens=False)
    assert list(whole.token_ids) == [0]


def test_derived_values() -> None:
    tokenizer = HuggingFaceTokenizer.from_assets(
        small.assets(
            KINDS["sentencepiece"],
            tokenizer_config={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        ),
        truncation_side="right",
        model_vocab_size=4096,
    )
    info = tokenizer.info
    size = KINDS["sentencepiece"].get_vocab_size()
    longest = max(map(len, KINDS["sentencepiece"].get_vocab()))
    assert (info.vocab_size, info.max_token_id, info.max_chars_per_token) == (size, 4095, longest)
    assert (info.bos_token_id, info.eos_token_id, info.pad_token_id) == (1, 2, None)
    assert info.all_special_tokens == ("<s>", "</s>", "<unk>")
    assert info.all_special_ids == {0, 1, 2}
    assert (info.mode, info.truncation_side) == ("hf", "right")
    small_rows = HuggingFaceTokenizer.from_assets(
        small.assets(KINDS["sentencepiece"]), model_vocab_size=3
    )
    assert small_rows.info.max_token_id == size - 1
