"""Small tokenizers of every kind, trained in a blink, as the files a model folder holds."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from foreword.types import ModelAssets

CORPUS = [
    "the quick brown fox jumps over the lazy dog and the dogs jump back",
    "tokens are counted, cut and padded; the count of tokens is the budget",
    "naïve café señor über straße 123 4567",
] * 4
SPLIT = r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_level(*, normalizer: Any = None, special: tuple[str, ...] = ("<|end|>",)) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(special),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.WordPieceTrainer(
            vocab_size=200,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=120,
            special_tokens=["<unk>", "</s>"],
            unk_token="<unk>",
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def sentencepiece_bpe(*, byte_fallback: bool = True) -> Tokenizer:
    special = ["<unk>", "<s>", "</s>"]
    special += [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False),
    )
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def assets(tokenizer: Tokenizer | dict[str, Any] | bytes | None, **files: Any) -> ModelAssets:
    """Return a model's assets, as if read from a folder."""
    raw: bytes | None
    if isinstance(tokenizer, Tokenizer):
        raw = tokenizer.to_str().encode()
    elif isinstance(tokenizer, dict):
        raw = json.dumps(tokenizer).encode()
    else:
        raw = tokenizer
    names = files.pop("file_names", frozenset({"tokenizer.json"} if raw else ()))
    return ModelAssets(name="small", tokenizer_json=raw, file_names=names, **files)


def as_dict(tokenizer: Tokenizer) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(tokenizer.to_str())
    return loaded


def marked(text: str, **flags: bool) -> AddedToken:
    return AddedToken(text, **flags)
