"""The fingerprint changes with every input that may change an id, and with nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foreword.assets import fingerprint as module
from foreword.assets.fingerprint import fingerprint
from foreword.errors import AssetsInvalid
from foreword.types import ModelAssets

ASSETS = ModelAssets(
    name="m",
    tokenizer_json=b"{}",
    tokenizer_config={"add_bos_token": True, "bos_token": "<s>", "name_or_path": "x"},
    special_tokens_map={"bos_token": "<s>"},
    chat_templates={"default": "A"},
    config={"model_type": "llama", "vocab_size": 10, "eos_token_id": 2},
    generation_config={"temperature": 0.5},
)


def of(assets: ModelAssets = ASSETS, **more: Any) -> str:
    settings: dict[str, Any] = {"mode": "hf", "max_model_len": 4096, "chat_template": None}
    return fingerprint(assets, **(settings | more))


def test_is_a_sha256() -> None:
    assert len(of()) == 64
    assert int(of(), 16) >= 0


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer_json": b"{ }"},
        {"tokenizer_json": None},
        {"tokenizer_config": {"add_bos_token": False, "bos_token": "<s>"}},
        {"tokenizer_config": {"add_bos_token": True, "bos_token": "<t>"}},
        {"tokenizer_config": {}},
        {"special_tokens_map": {}},
        {"chat_templates": {"default": "B"}},
        {"chat_templates": {"default": "A", "tool_use": "A"}},
        {"chat_templates": {}},
        {"config": {"model_type": "qwen", "vocab_size": 10, "eos_token_id": 2}},
        {"config": {"model_type": "llama", "vocab_size": 11, "eos_token_id": 2}},
        {"config": {"model_type": "llama", "vocab_size": 10, "eos_token_id": 3}},
        {"generation_config": {"temperature": 0.6}},
        {"generation_config": {}},
        {"do_lower_case": True},
    ],
)
def test_every_asset_counts(change: dict[str, Any]) -> None:
    assert of(replace(ASSETS, **change)) != of()


@pytest.mark.parametrize(
    "change",
    [{"mode": "mistral"}, {"max_model_len": 4097}, {"chat_template": "B"}, {"chat_template": "A"}],
)
def test_every_setting_counts(change: dict[str, Any]) -> None:
    assert of(**change) != of()


@pytest.mark.parametrize("package", ["jinja2", "tokenizers", "foreword"])
def test_every_version_counts(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    before = of()
    if package == "foreword":
        monkeypatch.setattr("foreword.assets.fingerprint.__version__", "99")
    else:
        real = module.version
        monkeypatch.setattr(module, "version", lambda p: "99" if p == package else real(p))
    assert of() != before


def test_the_format_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = of()
    monkeypatch.setattr(module, "_FORMAT", 2)
    assert of() != before


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other", "revision": "r", "folder": "/elsewhere", "warnings": ("w",)},
        {"file_names": frozenset({"model.safetensors", "README.md", "tokenizer.json"})},
        {"tokenizer_config": {"bos_token": "<s>", "name_or_path": "y", "add_bos_token": True}},
        {"config": {"eos_token_id": 2, "vocab_size": 10, "model_type": "llama", "num_layers": 3}},
        {"fingerprint": "f"},
    ],
)
def test_what_changes_no_id_does_not_count(change: dict[str, Any]) -> None:
    assert of(replace(ASSETS, **change)) == of()


def test_an_override_makes_the_models_templates_irrelevant() -> None:
    other = replace(ASSETS, chat_templates={"default": "B"})
    assert of(chat_template="source") == of(other, chat_template="source")
    assert of(chat_template="default") != of(other, chat_template="default")


def test_tokenizer_files_that_are_not_in_memory_count(tmp_path: Path) -> None:
    file = tmp_path / "tekken.json"
    file.write_bytes(b"1")
    assets = replace(
        ASSETS, tokenizer_json=None, folder=str(tmp_path), file_names=frozenset({"tekken.json"})
    )
    before = of(assets)
    file.write_bytes(b"2")
    assert of(assets) != before
    file.unlink()
    with pytest.raises(AssetsInvalid, match=r"^tekken\.json: it can no longer be read") as caught:
        of(assets)
    assert str(tmp_path) not in caught.value.message


def test_is_the_same_in_another_process_and_key_order() -> None:
    code = """
import sys, json
from foreword.assets.fingerprint import fingerprint
from foreword.types import ModelAssets
given = json.loads(sys.stdin.read())
assets = ModelAssets(name="m", tokenizer_json=b"{}", **given)
print(fingerprint(assets, mode="hf", max_model_len=4096, chat_template=None))
"""
    names = (
        "generation_config",
        "config",
        "chat_templates",
        "special_tokens_map",
        "tokenizer_config",
    )
    given = {n: dict(reversed(list(getattr(ASSETS, n).items()))) for n in names}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.strip() == of()


def test_text_of_any_kind_can_be_named() -> None:
    assert of(chat_template="\ud800 \x00 é") != of(chat_template="\ud801 \x00 é")
