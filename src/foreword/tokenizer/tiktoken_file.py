"""A tiktoken file and a model's configuration enter; an equal tokenizer.json leaves.

Rules of this file: the file holds bytes and ranks alone. The pattern and the special tokens are in
the model's own code, which is never run: they stand here for the families that are known, and any
other is refused by name. Nothing is guessed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foreword.errors import AssetsInvalid
from foreword.tokenizer.byte_alphabet import spell
from foreword.tokenizer.json_parts import added_token, byte_level, split
from foreword.tokenizer.merges import recover_merges
from foreword.tokenizer.segments.patterns import KIMI, LLAMA3, QWEN

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+")
_MAX_RANK = 2**24
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def _reserved(first: int) -> dict[int, str]:
    return {first + i: f"<|reserved_token_{first + i}|>" for i in range(256)}


def _qwen(first: int) -> dict[int, str]:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    names += [f"<|extra_{i}|>" for i in range(205)]
    return dict(enumerate(names, start=first))


def _declared_only(first: int) -> dict[int, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family's code decides beside its file: the pattern, and tokens after the last rank.

    `special` gives the texts by id, from the first id after the ranks; a declaration in
    tokenizer_config.json's `added_tokens_decoder` wins over them.
    """

    pattern: str
    special: Callable[[int], dict[int, str]] = _declared_only
    is_nfc: bool = False


FAMILIES: Mapping[str, Family] = {
    "TikTokenTokenizer": Family(pattern=KIMI, special=_reserved),
    "QWenTokenizer": Family(pattern=QWEN, special=_qwen, is_nfc=True),
    "ChatGLM4Tokenizer": Family(pattern=LLAMA3),
}
"""Tokenizer classes by name: Kimi K2 and its relatives, Qwen 1, GLM-4."""
KIMI_AUDIO = Family(pattern=QWEN)
"""Known by the tokenizer mode of its name, and not by a class."""
_CLASS_OF_FILE = {"qwen.tiktoken": "QWenTokenizer"}


def is_tiktoken(data: bytes) -> bool:
    """Tell a tiktoken file by its first line: base64 and a rank."""
    return _LINE.fullmatch(data[:4096].split(b"\n", 1)[0].rstrip(b"\r")) is not None


def convert_tiktoken(
    data: bytes,
    name: str,
    tokenizer_config: Mapping[str, Any],
    *,
    family: Family | None = None,
) -> dict[str, Any]:
    """Return the tokenizer.json, as an object, that gives the ids of tiktoken on this file.

    `family` None follows from the configuration, or the file's name.

    Raises: `AssetsInvalid` for a broken file, or a family whose pattern is not known here.
    Source: tiktoken 0.14, and the families' published tokenizer code for patterns and tokens.
    """
    family = family or _find_family(name, tokenizer_config)
    ranks = read_ranks(data, name)
    added = _added_tokens(family, ranks, tokenizer_config, name)
    in_order = sorted(ranks, key=ranks.__getitem__)
    merges = recover_merges((token for token in in_order if len(token) > 1), ranks.get)
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if family.is_nfc else None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split(family.pattern), byte_level()],
        },
        "post_processor": None,
        "decoder": byte_level(),
        "model": {
            "type": "BPE",
            # A piece that is itself a token is that token, however its merges would go.
            "ignore_merges": True,
            # Special tokens too: the library gives an added token its own id only from here.
            "vocab": {spell(token): ranks[token] for token in in_order}
            | {row["content"]: row["id"] for row in added},
            "merges": [(spell(left), spell(right)) for left, right in merges],
        },
    }


def read_ranks(data: bytes, name: str) -> dict[bytes, int]:
    """Return the tokens of a tiktoken file with their ranks.

    Raises: `AssetsInvalid` naming the line that is no token and rank, or is said twice.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise _broken(name, f"line {number} is not a token in base64 and a rank") from error
    if b"" in ranks:
        raise _broken(name, "it has an empty token")
    if len(set(ranks.values())) != len(ranks):
        raise _broken(name, "two tokens have the same rank")
    if not ranks or not 0 <= min(ranks.values()) <= max(ranks.values()) < _MAX_RANK:
        raise _broken(name, f"its {len(ranks)} ranks are not between 0 and {_MAX_RANK}")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise _broken(name, f"{len(missing)} of the 256 bytes are no tokens")
    return ranks


def _find_family(name: str, tokenizer_config: Mapping[str, Any]) -> Family:
    declared = tokenizer_config.get("tokenizer_class") or _CLASS_OF_FILE.get(name)
    family = FAMILIES.get(str(declared))
    if family is not None:
        return family
    known = ", ".join(sorted(FAMILIES))
    raise AssetsInvalid(
        file=name,
        problem=f"a tiktoken file of class {declared}: its pattern is in the model's own code,"
        f" which is never run here. Known classes: {known}.",
        remedy="Convert it once to a tokenizer.json with transformers, on a machine that may run"
        " the model's code.",
    )


def _added_tokens(
    family: Family, ranks: Mapping[bytes, int], tokenizer_config: Mapping[str, Any], name: str
) -> list[dict[str, Any]]:
    texts = family.special(max(ranks.values()) + 1)
    rows = {i: added_token(i, text, is_special=True) for i, text in texts.items()}
    declared = tokenizer_config.get("added_tokens_decoder")
    for key, value in (declared if isinstance(declared, Mapping) else {}).items():
        if str(key).isdecimal() and isinstance(value, Mapping):
            said = {flag: bool(value[flag]) for flag in _FLAGS if flag in value}
            row = added_token(int(key), str(value.get("content")), is_special=False)
            rows[int(key)] = {**row, **said}
    taken = set(ranks.values()) & rows.keys()
    if taken:
        raise AssetsInvalid(
            file="tokenizer_config.json",
            problem=f"added_tokens_decoder declares id {min(taken)}, which {name} gives to"
            " another token.",
        )
    if not rows:
        raise AssetsInvalid(
            file="tokenizer_config.json",
            problem=f"it declares no added_tokens_decoder, and {name} holds no special tokens.",
        )
    return [rows[key] for key in sorted(rows)]


def _broken(name: str, problem: str) -> AssetsInvalid:
    return AssetsInvalid(
        file=name, problem=f"not a tiktoken file: {problem}.", remedy="Download it again."
    )
