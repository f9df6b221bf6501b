"""Compare tokenizer files read by foreword with the libraries that own their formats.

What enters: a folder of real tokenizer files and texts, a seed and a number of texts. What leaves:
a line a tokenizer, and exit status 1 when one id differs.

Half of the texts are stretches of real ones in many scripts, half are awkward on purpose.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import math
import random
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fuzz_cuts
import gguf
import sentencepiece
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers.normalizers import NFC

from foreword.assets.load import load_assets
from foreword.tokenizer.byte_alphabet import unspell
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.tokenizer_file import flatten
from foreword.types import ModelAssets, TokenizerInfo

Encode = Callable[[str], list[int]]


def texts(folder: Path, rng: random.Random) -> Iterator[str]:
    """Yield texts without end, real and awkward by turns."""
    sources = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.glob("text/**/*.txt"))
    ]
    awkward = fuzz_cuts.texts(rng, [])
    while True:
        source = rng.choice(sources)
        start = rng.randrange(len(source))
        yield source[start : start + rng.randint(1, 400)]
        yield next(awkward)


def load(folder: Path) -> HuggingFaceTokenizer:
    """Load a folder's tokenizer as if it had no tokenizer.json."""
    config = folder / "tokenizer_config.json"
    return HuggingFaceTokenizer.from_assets(
        ModelAssets(
            name=folder.name,
            folder=str(folder),
            file_names=frozenset(path.name for path in folder.iterdir()) - {"tokenizer.json"},
            tokenizer_config=json.loads(config.read_text()) if config.is_file() else {},
        )
    )


def compare(
    name: str,
    ours: HuggingFaceTokenizer,
    theirs: Encode,
    sample: Iterable[str],
    score: Callable[[list[int]], float] | None = None,
) -> int:
    """Print how many texts have other ids than the owner's library gives.

    With a `score`, two answers of the same score are a tie, which is counted apart.
    """
    began, num_texts, num_tokens, ties, different = time.monotonic(), 0, 0, 0, []
    for text in sample:
        ids = list(ours.encode(text, add_special_tokens=False).token_ids)
        num_texts, num_tokens = num_texts + 1, num_tokens + len(ids)
        if ids == (wanted := theirs(text)):
            continue
        if score is not None and math.isclose(score(ids), score(wanted), rel_tol=1e-6):
            ties += 1
        else:
            different.append(text)
    seconds = time.monotonic() - began
    tied = f"{ties} ties, " if score is not None else ""
    print(
        f"{name}: {num_texts} texts, {num_tokens} tokens, {tied}{len(different)} differ,"
        f" {seconds:.0f} s",
        flush=True,
    )
    for text in different[:5]:
        ids = list(ours.encode(text, add_special_tokens=False).token_ids)
        print(f"  {text!r}\n    ours   {ids}\n    theirs {theirs(text)}")
    return len(different)


# ---------------------------------------------------------------------------------------------
# tiktoken's files, read by tiktoken with the pattern as the family's own code spells it.

_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_WORD = r"[^\r\n\p{L}\p{N}]?"
KIMI = (
    r"[\p{Han}]+"
    rf"|{_WORD}[{_UPPER}&&[^\p{{Han}}]]*[{_LOWER}&&[^\p{{Han}}]]+{_CONTRACTIONS}?"
    rf"|{_WORD}[{_UPPER}&&[^\p{{Han}}]]+[{_LOWER}&&[^\p{{Han}}]]*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}" + _TAIL
)
QWEN = rf"{_CONTRACTIONS}|{_WORD}\p{{L}}+|\p{{N}}" + _TAIL


def tiktoken_encode(file: Path, pattern: str, special: dict[str, int]) -> Encode:
    ranks = load_tiktoken_bpe(str(file))
    encoding = tiktoken.Encoding(
        file.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special
    )
    return lambda text: encoding.encode(text, allowed_special="all", disallowed_special=())


def check_tiktoken(folder: Path, sample: Callable[[], Iterable[str]]) -> int:
    source = folder / "tokenizers" / "kimi_k2"
    config = json.loads((source / "tokenizer_config.json").read_text())
    special = {f"<|reserved_token_{i}|>": i for i in range(163584, 163840)}
    declared = {int(i): row["content"] for i, row in config["added_tokens_decoder"].items()}
    special = {declared.get(i, text): i for text, i in special.items()}
    theirs = tiktoken_encode(source / "tiktoken.model", KIMI, special)
    different = compare("kimi_k2 tiktoken.model", load(source), theirs, sample())
    different += compare("  its added tokens", load(source), theirs, (f"a{t} b" for t in special))
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "qwen.tiktoken"
        file.write_bytes(qwen_tiktoken(folder / "models" / "qwen3" / "tokenizer.json"))
        names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
        names += [f"<|extra_{i}|>" for i in range(205)]
        qwen = tiktoken_encode(file, QWEN, {text: 151643 + i for i, text in enumerate(names)})
        different += compare(
            "qwen.tiktoken",
            load(file.parent),
            lambda text: qwen(nfc(text)),
            # Python's NFC knows a newer Unicode than the engine's: some marks of after 2020.
            (text for text in sample() if nfc(text) == NFC().normalize_str(text)),
        )
    return different


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def qwen_tiktoken(tokenizer_json: Path) -> bytes:
    """Write Qwen's ranks as its first models shipped them; the vocabulary has never changed."""
    vocab = json.loads(tokenizer_json.read_text())["model"]["vocab"]
    lines = (base64.b64encode(unspell(token)) + b" %d" % i for token, i in vocab.items())
    return b"\n".join(lines)


# ---------------------------------------------------------------------------------------------
# SentencePiece models, read by sentencepiece: real ones, and one trained for every setting.

TRAINED: dict[str, dict[str, Any]] = {
    "bpe": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"},
    "bpe-unknown": {"model_type": "bpe", "normalization_rule_name": "identity"},
    "bpe-no-prefix": {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
    },
    "bpe-user-defined": {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
        "user_defined_symbols": ["<sep>", "\n\n", "12"],
        "control_symbols": ["<ctrl>"],
    },
    "bpe-nfkc": {"model_type": "bpe", "byte_fallback": True},
    "unigram": {"model_type": "unigram", "normalization_rule_name": "identity"},
    "unigram-inner-spaces": {
        "model_type": "unigram",
        "normalization_rule_name": "identity",
        "split_by_whitespace": False,
        "remove_extra_whitespaces": False,
    },
    "unigram-nfkc": {"model_type": "unigram"},
}


def train(settings: dict[str, Any], corpus: list[str]) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_writer=written,
        vocab_size=4000,
        character_coverage=0.98,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **settings,
    )
    return written.getvalue()


def check_sentencepiece(folder: Path, sample: Callable[[], Iterable[str]]) -> int:
    different = 0
    for name in ("llama2", "mistral03"):
        source = folder / "tokenizers" / name
        different += compare_pieces(
            f"{name} tokenizer.model", source, source / "tokenizer.model", sample()
        )
    corpus = [line for text in islice(sample(), 1500) for line in text.splitlines() if line.strip()]
    for name, settings in TRAINED.items():
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary) / "tokenizer.model"
            file.write_bytes(train(settings, corpus))
            different += compare_pieces(f"trained {name}", file.parent, file, sample())
    return different


def compare_pieces(name: str, folder: Path, file: Path, sample: Iterable[str]) -> int:
    """Compare, leaving out what is not text to one side: special tokens spelled out."""
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(file))
    ours = load(folder)
    special = [text for text in ours.info.all_special_tokens if text] + ["<unk>", "<s>", "</s>"]
    usable, rewritten = [], 0
    precompiled = any(s["type"] == "Precompiled" for s in flatten(ours.file.normalizer))
    for text in sample:
        if any(token in text for token in special):
            continue
        if precompiled:
            normalized = ours.tokenizer.normalizer.normalize_str(text)
            if normalized != theirs.normalize(text):
                rewritten += 1
                continue
        usable.append(text)
    if rewritten:
        print(f"{name}: {rewritten} texts left out, whose characters the libraries map differently")
    is_unigram = ours.file.model.type == "Unigram"
    score = (lambda ids: sum(map(theirs.get_score, ids))) if is_unigram else None
    return compare(name, ours, theirs.encode, usable, score)


# ---------------------------------------------------------------------------------------------
# GGUF headers, written by the gguf package from the tokenizer.json they are compared with.

GGUF_MODELS = {
    "models/qwen3": ("gpt2", "qwen2"),
    "models/llama3_1": ("gpt2", "llama-bpe"),
    "models/gptoss": ("gpt2", "gpt-4o"),
    "models/deepseek_v3": ("gpt2", "deepseek-v3"),
    "tokenizers/llama2": ("llama", "default"),
    "tokenizers/kimi_k2": ("gpt2", "kimi-k2"),
}


def check_gguf(folder: Path, sample: Callable[[], Iterable[str]]) -> int:
    different = 0
    for path, (kind, pre) in GGUF_MODELS.items():
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary) / "model.gguf"
            twin = HuggingFaceTokenizer.from_assets(load_assets(str(folder / path)))
            write_gguf(folder / path, file, kind, pre, twin.info)
            began = time.monotonic()
            ours = HuggingFaceTokenizer.from_assets(load_assets(str(file)))
            print(f"{path}: loaded in {time.monotonic() - began:.1f} s")
            for special in (True, False):
                probe = twin.encode("a", add_special_tokens=special).token_ids
                if ours.encode("a", add_special_tokens=special).token_ids != probe:
                    print(f"{path}: other special tokens around a text")
                    different += 1

            def theirs(text: str, twin: HuggingFaceTokenizer = twin) -> list[int]:
                return list(twin.encode(text, add_special_tokens=False).token_ids)

            added = [row.content for row in twin.file.added_tokens]
            different += compare(f"{path} as GGUF", ours, theirs, sample())
            different += compare("  its added tokens", ours, theirs, (f"a{t} b" for t in added))
    return different


def write_gguf(source: Path, file: Path, kind: str, pre: str, info: TokenizerInfo) -> None:
    """Write a header as llama.cpp's converter does: vocabulary, types, merges or scores, roles."""
    twin = json.loads((source / "tokenizer.json").read_text())
    vocab: dict[str, int] = dict(twin["model"]["vocab"])
    added = {row["content"]: row for row in twin["added_tokens"]}
    vocab |= {text: row["id"] for text, row in added.items()}
    by_id = {i: text for text, i in vocab.items()}
    size = max(by_id) + 8
    tokens = [by_id.get(i, f"[PAD{i}]") for i in range(size)]
    types = [
        (3 if added[t]["special"] else 4) if t in added else 1 if i in by_id else 5
        for i, t in enumerate(tokens)
    ]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(4096)
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(pre)
    if kind == "llama":
        model = sentencepiece.SentencePieceProcessor(model_file=str(source / "tokenizer.model"))
        tokens, size = [model.id_to_piece(i) for i in range(len(model))], len(model)
        types = [
            2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
            for i in range(size)
        ]
        writer.add_token_scores([model.get_score(i) for i in range(size)])
    else:
        writer.add_token_merges(
            [m if isinstance(m, str) else " ".join(m) for m in twin["model"]["merges"]]
        )
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for role in ("bos", "eos", "pad"):
        text = info.special_tokens.get(f"{role}_token", "")
        if text in vocab:
            getattr(writer, f"add_{role}_token_id")(vocab[text])
    writer.add_add_bos_token(info.num_prefix_special == 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


CHECKS = {"tiktoken": check_tiktoken, "sentencepiece": check_sentencepiece, "gguf": check_gguf}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds tokenizers/, models/ and text/")
    parser.add_argument("formats", nargs="*", choices=[[], *CHECKS], help="all, when none is given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", type=int, default=20_000)
    args = parser.parse_args()

    def sample() -> Iterable[str]:
        return islice(texts(args.folder, random.Random(args.seed)), args.texts)

    return 1 if sum(CHECKS[name](args.folder, sample) for name in args.formats or CHECKS) else 0


if __name__ == "__main__":
    sys.exit(main())
