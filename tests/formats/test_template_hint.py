"""A chat of a model without a template whose family has code for it: the refusal names the mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foreword
from foreword.errors import ChatTemplateMissing
from foreword.formats import template_hint

CHAT = {"messages": [{"role": "user", "content": "a"}]}


def load(folder: Path, model_type: str) -> foreword.Renderer:
    demo = Path(foreword.__file__).parent / "demo" / "model"
    (folder / "tokenizer.json").write_bytes((demo / "tokenizer.json").read_bytes())
    config = {"model_type": model_type, "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    return foreword.load(folder)


@pytest.mark.parametrize("model_type", ["deepseek_v3", "deepseek_v32", "deepseek_v4"])
def test_deepseeks_modes_are_named(tmp_path: Path, model_type: str) -> None:
    with pytest.raises(ChatTemplateMissing) as caught:
        load(tmp_path, model_type).render_chat(CHAT)
    for mode in ("--tokenizer-mode", "tokenizer_mode=", "deepseek_v32", "deepseek_v4"):
        assert mode in caught.value.message
    # With the mode it renders, with nothing else changed.
    renderer = foreword.load(tmp_path, tokenizer_mode="deepseek_v4")
    assert renderer.render_chat(CHAT).engine_input.token_ids


def test_other_families_are_told_no_mode(tmp_path: Path) -> None:
    with pytest.raises(ChatTemplateMissing) as caught:
        load(tmp_path, "llama").render_chat(CHAT)
    assert "tokenizer-mode" not in caught.value.message
    assert template_hint({}) == template_hint({"model_type": None}) == ""
    assert "inkling" in template_hint({"model_type": "inkling_mm_model"})


def test_tekken_without_a_mode_is_told_the_mode_that_works(tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(foreword.ForewordError, match=r"--tokenizer-mode mistral"):
        foreword.load(tmp_path)
