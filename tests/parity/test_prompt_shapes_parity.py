"""Prompts of other shapes against transformers: pairs of texts, and tokens that code appends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import foreword
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
