"""A GGUF file's header enters; a tokenizer.json that gives its model's own ids leaves.

Rules of this file: the header names its pre-tokenizer; what a name means stands in a table, and
an unknown one is refused. The ids are those of the tokenizer the file was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foreword.errors import AssetsInvalid
from foreword.tokenizer.json_parts import Part, added_token, around, byte_level, split
from foreword.tokenizer.segments.patterns import (
    DEEPSEEK_CJK,
    DEEPSEEK_DIGITS,
    DEEPSEEK_WORDS,
    GPT2,
    KIMI,
    LLAMA3,
    O200K,
    QWEN,
    TEKKEN,
)
from foreword.tokenizer.sentencepiece_file import convert_sentencepiece
from foreword.tokenizer.sentencepiece_model import Algorithm, Kind, ScoredPiece, SentencePieceModel

_KEY = "tokenizer.ggml."
PIECES = {"llama": Algorithm.BPE, "t5": Algorithm.UNIGRAM}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreTokenizer:
    """What a pre-tokenizer's name stands for."""

    patterns: tuple[str, ...]
    is_nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False


_LLAMA3 = PreTokenizer(patterns=(LLAMA3,), ignore_merges=True, add_bos=True)
_GPT2 = PreTokenizer(patterns=(GPT2,))
_QWEN2 = PreTokenizer(patterns=(QWEN,), is_nfc=True)
_O200K = PreTokenizer(patterns=(O200K,), ignore_merges=True)
PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    "gpt-2": _GPT2,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "gpt-4o": _O200K,
    "llama4": _O200K,
    "tekken": PreTokenizer(patterns=(TEKKEN,), ignore_merges=True, add_bos=True),
    "kimi-k2": PreTokenizer(patterns=(KIMI,), ignore_merges=True),
    "deepseek-v3": PreTokenizer(patterns=(DEEPSEEK_DIGITS, DEEPSEEK_CJK, DEEPSEEK_WORDS)),
    "glm4": PreTokenizer(patterns=(LLAMA3,)),
    "chatglm-bpe": PreTokenizer(patterns=(LLAMA3,)),
}
"""llama.cpp's names of pre-tokenizers, with what the models' own tokenizer.json files do."""


def convert_gguf(values: Mapping[str, Any], name: str) -> Part:
    """Return the tokenizer.json, as an object, of the vocabulary in a GGUF header.

    Raises: `AssetsInvalid` for a vocabulary, or a pre-tokenizer, that is not known here.
    Source: llama.cpp's `tokenizer.ggml.*` keys and their defaults.
    """
    kind = values.get(f"{_KEY}model")
    tokens, types = values.get(f"{_KEY}tokens"), values.get(f"{_KEY}token_type")
    if not isinstance(tokens, list) or (types is not None and len(types) != len(tokens)):
        raise _broken(name, "its vocabulary is missing, or not as long as its list of types")
    kinds = [_kind(value, name) for value in types or [1] * len(tokens)]
    if kind == "gpt2":
        return _byte_level(values, tokens, kinds, name)
    if kind in PIECES:
        return _pieces(values, tokens, kinds, name)
    raise AssetsInvalid(
        file=name,
        problem=f"its vocabulary is of kind {kind!r}; kinds read here: gpt2,"
        f" {', '.join(sorted(PIECES))}.",
        remedy="Give the folder of the original model, with its tokenizer.json.",
    )


def _kind(value: int, name: str) -> Kind:
    try:
        return Kind(value)
    except ValueError:
        raise _broken(name, f"a token is of type {value}") from None


def _byte_level(values: Mapping[str, Any], tokens: list[str], kinds: list[Kind], name: str) -> Part:
    pre = _pre_tokenizer(values, name)
    merges = values.get(f"{_KEY}merges")
    if not isinstance(merges, list):
        raise _broken(name, "it has no merges (tokenizer.ggml.merges)")
    add_bos = bool(values.get(f"{_KEY}add_bos_token", pre.add_bos))
    add_eos = bool(values.get(f"{_KEY}add_eos_token", False))
    return {
        "version": "1.0",
        "added_tokens": _added_tokens(tokens, kinds),
        "normalizer": {"type": "NFC"} if pre.is_nfc else None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [*map(split, pre.patterns), byte_level()],
        },
        "post_processor": around(
            _token(values, tokens, name, "bos") if add_bos else None,
            _token(values, tokens, name, "eos") if add_eos else None,
        ),
        "decoder": byte_level(),
        "model": {
            "type": "BPE",
            "ignore_merges": pre.ignore_merges,
            # Special tokens too: the library gives an added token its own id only from here.
            "vocab": {
                token: place
                for place, token in enumerate(tokens)
                if kinds[place] is not Kind.UNUSED
            },
            "merges": [merge.split(" ", 1) for merge in merges],
        },
    }


def _pre_tokenizer(values: Mapping[str, Any], name: str) -> PreTokenizer:
    said = values.get(f"{_KEY}pre")
    if said in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[str(said)]
    raise AssetsInvalid(
        file=name,
        problem=f"its pre-tokenizer (tokenizer.ggml.pre) is {said!r}, whose pattern is not known"
        f" here. Known: {', '.join(sorted(PRE_TOKENIZERS))}.",
        remedy="Give the folder of the original model, with its tokenizer.json.",
    )


def _added_tokens(tokens: list[str], kinds: list[Kind]) -> list[Part]:
    return [
        added_token(place, tokens[place], is_special=kind is not Kind.USER_DEFINED)
        for place, kind in enumerate(kinds)
        if kind in (Kind.CONTROL, Kind.USER_DEFINED, Kind.UNKNOWN)
    ]


def _token(values: Mapping[str, Any], tokens: list[str], name: str, role: str) -> tuple[int, str]:
    token_id = values.get(f"{_KEY}{role}_token_id")
    if isinstance(token_id, int) and 0 <= token_id < len(tokens):
        return token_id, tokens[token_id]
    raise _broken(name, f"a text is to begin or end with {role.upper()}, which it does not name")


def _pieces(values: Mapping[str, Any], tokens: list[str], kinds: list[Kind], name: str) -> Part:
    scores = values.get(f"{_KEY}scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise _broken(name, "its scores are missing, or not as many as its tokens")
    algorithm = PIECES[values[f"{_KEY}model"]]
    is_bpe = algorithm is Algorithm.BPE
    model = SentencePieceModel(
        pieces=tuple(map(ScoredPiece, tokens, scores, kinds)),
        algorithm=algorithm,
        byte_fallback=Kind.BYTE in kinds,
        whitespace_is_suffix=bool(values.get(f"{_KEY}treat_whitespace_as_suffix", False)),
        unk_id=values.get(f"{_KEY}unknown_token_id", 0),
        bos_id=values.get(f"{_KEY}bos_token_id", 1 if is_bpe else -1),
        eos_id=values.get(f"{_KEY}eos_token_id", 2 if is_bpe else 1),
        pad_id=values.get(f"{_KEY}padding_token_id", -1),
        charsmap=bytes(byte % 256 for byte in values.get(f"{_KEY}precompiled_charsmap", ())),
        add_dummy_prefix=bool(values.get(f"{_KEY}add_space_prefix", True)),
        remove_extra_whitespaces=bool(values.get(f"{_KEY}remove_extra_whitespaces", not is_bpe)),
        escape_whitespaces=True,
    )
    return convert_sentencepiece(
        model,
        name,
        add_bos=bool(values.get(f"{_KEY}add_bos_token", is_bpe)),
        add_eos=bool(values.get(f"{_KEY}add_eos_token", not is_bpe)),
        cuts_at_user_defined=True,
    )


def _broken(name: str, problem: str) -> AssetsInvalid:
    return AssetsInvalid(file=name, problem=f"{problem}.", remedy="Convert it again.")
