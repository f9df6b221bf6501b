"""Prompts of other shapes against transformers: pairs of texts, and tokens that code appends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.tokenizer.class_table import (
    CLASS_ALIASES,
    CLASS_BY_MODEL_TYPE,
    MODEL_OF_CLASS,
    PYTHON_CLASSES,
    TYPED_CLASSES,
)
from foreword.tokenizer.trajectory_tokens import SPECIAL

transformers = pytest.importorskip("transformers", reason="needs the parity group")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
QWEN, XLM_R = DATA / "models" / "qwen3", DATA / "tokenizers" / "xlm_roberta"


@pytest.mark.witness(
    family="mode:alpamayo2_super",
    what="ids of random texts with the tokens that its code appends to Qwen 3's",
    against="transformers 5.20's add_tokens",
)
@pytest.mark.skipif(not QWEN.is_dir(), reason="no private data folder beside the checkout")
def test_appended_trajectory_tokens() -> None:
    theirs: Any = transformers.AutoTokenizer.from_pretrained(QWEN)
    theirs.add_tokens([f"<i{place}>" for place in range(4000)])
    theirs.add_tokens(list(SPECIAL), special_tokens=True)
    ours = foreword.load(QWEN, tokenizer_mode="alpamayo2_super").tokenizer
    rng = random.Random(1)
    pieces = [*SPECIAL, *(f"<i{n}>" for n in range(0, 4200, 97)), "a word", " ", "\n", "<i", "|>"]
    for _ in range(300):
        text = "".join(rng.choices(pieces, k=rng.randrange(12)))
        expected = theirs(text)["input_ids"]
        assert list(ours.encode(text, add_special_tokens=True).token_ids) == expected
        said = theirs.decode(expected, skip_special_tokens=True)
        assert ours.decode(expected, skip_special_tokens=True) == said


@pytest.mark.witness(
    family="prompt:pooling",
    what="ids of pairs of real texts with XLM-R, whole and cut at either side",
    against="transformers 5.20",
)
@pytest.mark.skipif(not XLM_R.is_dir(), reason="no private data folder beside the checkout")
@pytest.mark.parametrize("side", ["left", "right"])
def test_pairs_of_texts(side: Any, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((XLM_R / name).read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    theirs: Any = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs.truncation_side = side
    ours = foreword.load(tmp_path, runner="pooling", max_model_len=512, truncation_side=side)
    rng = random.Random(1)
    words = [
        "the",
        "Größe",
        "",
        "wächst",
        "中文",
        "한국어",
        "don't\n\n",
        "12345",
        "é",
        "<s>",
        "</s>",
    ]
    for _ in range(200):
        first, second = (" ".join(rng.choices(words, k=rng.randrange(1, 30))) for _ in range(2))
        body = {"query": first, "documents": second}
        (made,) = ours.render_scoring(body)
        assert list(made.token_ids) == theirs(first, second)["input_ids"]
        limit = rng.randrange(6, 60)
        (cut,) = ours.render_scoring({**body, "truncate_prompt_tokens": limit})
        expected = theirs(first, second, truncation=True, max_length=limit)["input_ids"]
        assert list(cut.token_ids) == expected


@pytest.mark.witness(
    family="prompt:pooling",
    what="ids of pairs with Qwen 3, Gemma 3 and Llama 3.1, whose classes give no token types",
    against="transformers 5.20",
)
@pytest.mark.skipif(not QWEN.is_dir(), reason="no private data folder beside the checkout")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3", [64, 65]),
        ("gemma3", [2, 236746, 2, 236763]),
        ("llama3_1", [128000, 64, 128000, 65]),
    ],
)
def test_pairs_of_models_without_token_types(name: str, expected: list[int]) -> None:
    theirs: Any = transformers.AutoTokenizer.from_pretrained(DATA / "models" / name)
    ours = foreword.load(DATA / "models" / name, runner="pooling")
    for first, second in (("a", "b"), ("a b ", " Größe\n"), ("中文", "<|im_end|> x")):
        (made,) = ours.render_scoring({"query": first, "documents": [second]})
        told = theirs(first, second)
        assert list(made.token_ids) == told["input_ids"]
        assert "token_type_ids" not in told
    (made,) = ours.render_scoring({"query": "a", "documents": "b"})
    assert list(made.token_ids) == expected


def test_which_classes_give_token_types() -> None:
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    known = {*MODEL_OF_CLASS, *CLASS_ALIASES, *PYTHON_CLASSES, *CLASS_BY_MODEL_TYPE.values()}
    for name in sorted(known):
        theirs: Any = tokenizer_class_from_name(name)
        try:
            names = getattr(theirs, "model_input_names", None)
        except ImportError:  # it needs packages of its own
            continue
        if names is None:
            continue
        typed = CLASS_ALIASES.get(name, name) in TYPED_CLASSES
        assert ("token_type_ids" in names) == typed, name
        if name in CLASS_ALIASES:
            assert theirs.__name__ == CLASS_ALIASES[name]
