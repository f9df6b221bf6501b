"""The twin without a normalizer: the reference's ids, or it declines."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.normalized import TwinWithoutNormalizer, find_twin
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.tokenizer.tokenizer_file import read_tokenizer_file

ALPHABET = [
    *"abn .,\n\t\u2581'é\u00e9\u212b\u017f", "e\u0301", "  ", "   ", "\u2581\u2581", "<|end|>",
    "the quick", "nnn", "\u3000", "\u00a0", "東京", "🌤️", "<x y>",
]  # fmt: skip


def words_with_marks(*added: Any) -> Tokenizer:
    """Return a tokenizer such as Gemma's: one word a text, spaces written as a letter."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    special = ["<unk>", "<|end|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        [*small.CORPUS, "a  b   c    d" * 9],
        trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False),
    )
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:2]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.add_tokens(list(added))
    return tokenizer


def twin_of(tokenizer: Tokenizer) -> TwinWithoutNormalizer | None:
    return find_twin(tokenizer, read_tokenizer_file(tokenizer.to_str().encode()))


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return found


UNICODE_FORMS = {
    form: small.byte_level(normalizer=getattr(normalizers, form)())
    for form in ("NFC", "NFD", "NFKC", "NFKD")
}
PLAIN = {
    **UNICODE_FORMS,
    "a mark for a space": words_with_marks(),
    "runs of the mark are tokens": words_with_marks(
        small.marked("\u2581\u2581", normalized=False),
        small.marked("nnn", normalized=False),
        small.marked("nn", normalized=False),
    ),
    "a normalized token": small.byte_level(normalizer=normalizers.NFC(), special=("<|end|>", "nn")),
}
PLAIN["a normalized token"].add_tokens([small.marked("quick b", normalized=True)])


@pytest.mark.parametrize("name", PLAIN)
def test_a_twin_answers_as_the_reference(name: str) -> None:
    tokenizer, rng = PLAIN[name], random.Random(name)
    twin = twin_of(tokenizer)
    assert twin is not None
    num_answered = 0
    for _ in range(2000):
        text = "".join(rng.choices(ALPHABET, k=rng.randrange(12)))
        wanted = twin.text_for(text)
        if wanted is not None:
            assert ids(twin.tokenizer, wanted) == ids(tokenizer, text), text
            num_answered += 1
    assert 200 < num_answered < 2000


@pytest.mark.parametrize("text", ["\u2581", "a\u2581\u2581b", "the quick\u2581"])
def test_a_text_that_holds_the_mark_is_the_references(text: str) -> None:
    """`▁▁` spelled by somebody is an added token; two spaces are not, though they become it."""
    tokenizer = PLAIN["runs of the mark are tokens"]
    twin = twin_of(tokenizer)
    assert twin is not None
    assert twin.text_for(text) is None
    assert twin.text_for(text.replace("\u2581", " ")) == text.replace(" ", "\u2581")


@pytest.mark.parametrize("text", ["é", "e\u0301", "\u212a", "a\u0000\u0080"])
def test_a_text_beyond_ascii_is_the_references(text: str) -> None:
    twin = twin_of(UNICODE_FORMS["NFC"])
    assert twin is not None
    assert twin.text_for(text) is None
    assert twin.text_for("a\u0000\u007f") == "a\u0000\u007f"


def _folded_token() -> Tokenizer:
    # The normalizer makes its sign a K, which ASCII text holds.
    tokenizer = small.byte_level(normalizer=normalizers.NFC())
    tokenizer.add_tokens([small.marked("\u212a9", normalized=True)])
    return tokenizer


def _with(normalizer: Any) -> Tokenizer:
    tokenizer = words_with_marks()
    tokenizer.normalizer = normalizer
    return tokenizer


def _splits_special() -> Tokenizer:
    tokenizer = words_with_marks()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _prefixed() -> Tokenizer:
    tokenizer = words_with_marks()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return tokenizer


DECLINED = {
    "no normalizer": small.byte_level(),
    "lower case": small.byte_level(normalizer=normalizers.Lowercase()),
    "two steps": _with(
        normalizers.Sequence([normalizers.Replace(" ", "\u2581"), normalizers.NFC()])
    ),
    "a prefix": _with(
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    ),
    "two characters for one": _with(normalizers.Replace(" ", "\u2581\u2581")),
    "a token that takes white space": words_with_marks(
        small.marked("<x>", lstrip=True, normalized=False)
    ),
    "a token that is a word": words_with_marks(
        small.marked("nn", single_word=True, normalized=False)
    ),
    "a token with a space": words_with_marks(small.marked("<x y>", normalized=False)),
    "a normalized token": words_with_marks(small.marked("nn", normalized=True)),
    "a token left out that shifts an id": words_with_marks(
        small.marked("\u2581q\u2581q", normalized=False), small.marked("zz", normalized=False)
    ),
    "a token that becomes ASCII": _folded_token(),
    "special tokens are text": _splits_special(),
    "a pre-tokenizer that looks where a text begins": _prefixed(),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_not_proved_has_no_twin(name: str) -> None:
    assert twin_of(DECLINED[name]) is None


@pytest.mark.parametrize("name", PLAIN)
def test_a_tokenizer_with_a_twin_gives_the_references_ids(name: str) -> None:
    """Pieces for the twin and for the reference come back in their order."""
    reference = HuggingFaceTokenizer.from_assets(small.assets(PLAIN[name]))
    tokenizer = SegmentedTokenizer.over(reference, memo_bytes=0)
    assert tokenizer.twin is not None
    rng = random.Random(name)
    for num_parts in (3, 300, 3000):
        text = "".join(rng.choices([*ALPHABET, "the dogs jump over ", " budget"], k=num_parts))
        for with_offsets in (False, True):
            got = tokenizer.encode(text, add_special_tokens=False, with_offsets=with_offsets)
            want = reference.encode(text, add_special_tokens=False, with_offsets=with_offsets)
            assert (got.token_ids, got.offsets) == (want.token_ids, want.offsets)
