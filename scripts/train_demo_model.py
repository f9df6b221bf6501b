"""The demo model's tokenizer and configurations: the frozen corpus in, `demo/model/` out.

    scripts/train_demo_model.py                   train on the corpus and write the model folder
    scripts/train_demo_model.py --check           train and compare with the committed folder
    scripts/train_demo_model.py --refresh-corpus  first freeze the project's present text anew

Rules of this file: the same corpus gives the same bytes; the corpus is text of this project only
(its documents and docstrings, beside `phrases.md`, written for this); ids of the control tokens
come first, so that retraining leaves them alone.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "scripts" / "demo_corpus"
FOLDER = ROOT / "src" / "foreword" / "demo" / "model"

MAX_MODEL_LEN = 8192
VOCAB_SIZE = 4096
MAX_CORPUS_BYTES = 160_000

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END_OF_TEXT, IM_START, IM_END)
# Text a model writes and a reader may want to see: added tokens, but not special ones.
TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)

# Contractions; letters with one leading symbol; single digits; punctuation; line ends; spaces.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


# ---------------------------------------------------------------------------------------------
# The corpus.


def project_texts() -> Iterator[str]:
    """Yield the project's documents, then the docstrings of its sources, in a fixed order."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        yield page.read_text(encoding="utf-8")
    for source in sorted((ROOT / "src" / "foreword").rglob("*.py")):
        tree = ast.parse(source.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield ast.get_docstring(node) or ""


def refresh_corpus() -> None:
    """Freeze the project's present text as `project.md`."""
    text = "\n\n".join(filter(None, map(str.strip, project_texts()))) + "\n"
    data = text.encode("utf-8")[:MAX_CORPUS_BYTES].decode("utf-8", errors="ignore")
    (CORPUS / "project.md").write_text(data, encoding="utf-8", newline="\n")


def corpus_texts() -> list[str]:
    """Return the frozen texts in a fixed order."""
    return [path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.md"))]


# ---------------------------------------------------------------------------------------------
# The model folder.


def train(texts: list[str]) -> dict[str, Any]:
    """Return the content of tokenizer.json: byte-level BPE with NFC and control tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        min_frequency=2,
        special_tokens=[AddedToken(token, normalized=False) for token in (*SPECIAL, *TAGS)],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    for added in content["added_tokens"]:
        added["special"] = added["content"] in SPECIAL
    return content


def tokenizer_config(added_tokens: list[dict[str, Any]]) -> dict[str, Any]:
    """Return tokenizer_config.json for the tokens the trainer added."""
    return {
        "added_tokens_decoder": {
            str(added["id"]): {key: value for key, value in added.items() if key != "id"}
            for added in added_tokens
        },
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": IM_END,
        "model_max_length": MAX_MODEL_LEN,
        "pad_token": END_OF_TEXT,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def model_files(texts: list[str]) -> dict[str, str]:
    """Return the generated files of the model folder by name (the template is kept by hand)."""
    content = train(texts)
    ids: dict[str, int] = content["model"]["vocab"]
    rows_of = 128  # engines pad the embedding's rows, so vocab_size may exceed the tokenizer's
    ends = {"eos_token_id": ids[IM_END], "pad_token_id": ids[END_OF_TEXT]}
    config = {
        "architectures": ["ForewordDemoForCausalLM"],
        **ends,
        "max_position_embeddings": MAX_MODEL_LEN,
        "model_type": "foreword_demo",
        "vocab_size": -(-len(ids) // rows_of) * rows_of,
    }
    generation = {
        **ends,
        "eos_token_id": [ids[IM_END], ids[END_OF_TEXT]],
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.9,
    }
    return {
        "config.json": _pretty(config),
        "generation_config.json": _pretty(generation),
        "tokenizer.json": json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n",
        "tokenizer_config.json": _pretty(tokenizer_config(content["added_tokens"])),
    }


def _pretty(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"], ["--refresh-corpus"]):
        print("usage: scripts/train_demo_model.py [--check | --refresh-corpus]")
        return 2
    if arguments == ["--refresh-corpus"]:
        refresh_corpus()
    files = model_files(corpus_texts())
    if arguments == ["--check"]:
        stale = [n for n, text in files.items() if (FOLDER / n).read_text("utf-8") != text]
        print(f"not what the corpus gives: {', '.join(stale)}" if stale else "all as trained")
        return int(bool(stale))
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{name}: {len(text.encode('utf-8'))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
