"""Small vocabularies in other libraries' formats, made in a blink, as the bytes of their files."""

from __future__ import annotations

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any

import small_models

from foreword.tokenizer.byte_alphabet import unspell
from foreword.types import ModelAssets

TEXTS = [
    "",
    "a",
    "Hello world, the quick brown fox",
    "  two  spaces and trailing  ",
    "\n\n  \tindented\r\n",
    "naïve café, e\u0301 vs é; ｆｕｌｌ ﬁ №",
    "12345 3.14159 1e-9",
    "don't I'LL ’s ſ'S",
    "中文字符 and かな, 한국어",
    "👩‍👩‍👧 🇩🇪 \ufeffbom \u200bzero",
    "nul\0here",
    "supercalifragilisticexpialidocious" * 3,
    "▁already ▁ marked▁",
    "▁",
    " ",
    "     ",
    *(" " * n + "x" + " " * n for n in range(1, 40)),
    "the dogs jump back " * 30,
]


def byte_ranks() -> dict[bytes, int]:
    """All 256 bytes, then what a little training merges, in the order of merging."""
    trained = json.loads(small_models.byte_level(special=()).to_str())["model"]
    ranks = {bytes([byte]): byte for byte in range(256)}
    for left, right in trained["merges"]:
        token = (unspell(left) or b"") + (unspell(right) or b"")
        ranks.setdefault(token, len(ranks))
    return ranks


def tiktoken_bytes(ranks: dict[bytes, int]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


def train_sentencepiece(**settings: Any) -> bytes:
    import sentencepiece

    written = io.BytesIO()
    corpus = [line for line in (*small_models.CORPUS * 3, *TEXTS) if line.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_writer=written,
        vocab_size=settings.pop("vocab_size", 400),
        hard_vocab_limit=False,
        character_coverage=0.98,
        minloglevel=3,
        num_threads=1,
        **settings,
    )
    return written.getvalue()


def folder_assets(folder: Path, config: dict[str, Any] | None = None) -> ModelAssets:
    """A folder's files as assets, without reading a configuration."""
    return ModelAssets(
        name="m",
        folder=str(folder),
        file_names=frozenset(path.name for path in folder.iterdir()),
        tokenizer_config=config or {},
    )


# ---------------------------------------------------------------------------------------------
# GGUF, version 3: written here so that what is read is not also what wrote it.

_CODES = {bool: (7, "?"), int: (5, "i"), float: (6, "f")}


def gguf_bytes(pairs: dict[str, Any], *, version: int = 3, tensors: bytes = b"\0" * 64) -> bytes:
    body = b"".join(_string(key) + _value(value) for key, value in pairs.items())
    return b"GGUF" + struct.pack("<IQQ", version, 1, len(pairs)) + body + tensors


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if not isinstance(value, list):
        kind, code = _CODES[type(value)]
        return struct.pack(f"<I{code}", kind, value)
    head = struct.pack("<I", 9)
    if value and isinstance(value[0], str):
        return head + struct.pack("<IQ", 8, len(value)) + b"".join(map(_string, value))
    kind, code = _CODES[type(value[0]) if value else int]
    return head + struct.pack(f"<IQ{len(value)}{code}", kind, len(value), *value)


def byte_level_pairs(**changes: Any) -> dict[str, Any]:
    """The header a small byte-level model would have, pre-tokenized as GPT-2's."""
    trained = json.loads(small_models.byte_level().to_str())
    special = {row["id"]: row["content"] for row in trained["added_tokens"]}
    by_id = {i: token for token, i in trained["model"]["vocab"].items()} | special
    tokens = [by_id[i] for i in range(len(by_id))]
    return {
        "general.architecture": "llama",
        "llama.context_length": 2048,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*tokens, "[PAD0]"],
        "tokenizer.ggml.token_type": [*(3 if i in special else 1 for i in range(len(tokens))), 5],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in trained["model"]["merges"]],
        "tokenizer.ggml.eos_token_id": min(special),
        "tokenizer.chat_template": "{{ messages[0].content }}",
        "tokenizer.chat_template.tool_use": "{{ tools }}",
        **changes,
    }
