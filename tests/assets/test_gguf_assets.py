"""A GGUF file as a model: what its header says of roles, templates and context."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.assets.gguf import choose_gguf
from foreword.assets.load import load_assets
from foreword.errors import AssetsInvalid, UnsupportedFeature

sys.path.insert(0, str(Path(__file__).parents[1] / "tokenizer"))
from vocabulary_makers import byte_level_pairs, gguf_bytes


def write(folder: Path, name: str = "m.gguf", **changes: Any) -> Path:
    (folder / name).write_bytes(gguf_bytes(byte_level_pairs(**changes)))
    return folder / name


def test_a_file_is_a_model(tmp_path: Path) -> None:
    renderer = foreword.load(str(write(tmp_path)))
    assert renderer.options.max_model_len == 2048
    assert renderer.tokenizer.info.special_tokens == {"eos_token": "<|end|>"}
    chat = {"messages": [{"role": "user", "content": "the dogs<|end|>"}]}
    ids = renderer.render_chat(chat).engine_input.token_ids
    assert ids[-1] == renderer.tokenizer.info.eos_token_id
    assert renderer.tokenizer.decode(ids) == "the dogs<|end|>"
    assert list(renderer.tokenize({"prompt": "the dogs<|end|>"}).tokens) == list(ids)


def test_a_folder_with_one_file_is_that_model(tmp_path: Path) -> None:
    write(tmp_path)
    assets = load_assets(str(tmp_path))
    assert assets.file_names == {"m.gguf"}
    assert assets.chat_templates == {
        "default": "{{ messages[0].content }}",
        "tool_use": "{{ tools }}",
    }
    assert assets.config["max_position_embeddings"] == 2048
    assert assets.config["vocab_size"] == len(byte_level_pairs()["tokenizer.ggml.tokens"])
    assert assets.config["model_type"] == "llama"


def test_a_folders_tokenizer_json_wins(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert load_assets(str(tmp_path)).tokenizer_json == b"{}"


def test_of_a_split_model_the_first_part_holds_the_header() -> None:
    parts = [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert choose_gguf([*parts, "config.json"]) == parts[0]
    assert choose_gguf(["config.json"]) is None
    with pytest.raises(AssetsInvalid, match=r"holds 2 GGUF models .*Give the path"):
        choose_gguf(["m-q4.gguf", "m-q8.gguf"])


def test_a_header_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetsInvalid, match="holds no vocabulary"):
        load_assets(str(write(tmp_path, **{"tokenizer.ggml.tokens": []})))


def test_the_fingerprint_follows_the_header_and_not_the_tensors(tmp_path: Path) -> None:
    pairs, prints = byte_level_pairs(), []
    for changes, tensors in (({}, b"1"), ({}, b"22"), ({"tokenizer.ggml.pre": "qwen2"}, b"1")):
        (tmp_path / "m.gguf").write_bytes(gguf_bytes({**pairs, **changes}, tensors=tensors))
        prints.append(foreword.load(str(tmp_path / "m.gguf")).assets.fingerprint)
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(
    ("architecture", "name", "model_type"),
    [
        ("gpt-oss", None, "gpt_oss"),
        ("qwen2moe", None, "qwen2_moe"),
        ("qwen3moe", None, "qwen3_moe"),
        ("minimax-m2", None, "minimax_m2"),
        ("gemma3", "Gemma 3", "gemma3_text"),
        ("gemma4", None, "gemma4_text"),
        ("llama", "Mistral 7B", "mistral"),
        ("llama", "Llama 3.1", "llama"),
        ("t5", "flan", "t5"),
        ("t5", "UMT5 xxl", "umt5"),
        ("qwen3", None, "qwen3"),
        ("nobody-knows", None, "nobody-knows"),
    ],
)
def test_an_architecture_is_told_by_its_model_type(
    tmp_path: Path, architecture: str, name: str | None, model_type: str
) -> None:
    changes: dict[str, Any] = {"general.architecture": architecture}
    if name is not None:
        changes["general.name"] = name
    changes[f"{architecture}.context_length"] = 64
    config = load_assets(str(write(tmp_path, **changes))).config
    assert (config["model_type"], config["max_position_embeddings"]) == (model_type, 64)


def test_gpt_oss_speaks_harmony_from_a_gguf_file_too(tmp_path: Path) -> None:
    changes = {"general.architecture": "gpt-oss", "gpt-oss.context_length": 4096}
    renderer = foreword.load(str(write(tmp_path, **changes)))
    assert renderer.chat_format is not None
    assert renderer.chat_format.name == "harmony"


def test_a_decoders_start_is_read_from_the_header(tmp_path: Path) -> None:
    changes = {"general.architecture": "t5", "t5.context_length": 64}
    changes["t5.decoder_start_token_id"] = 7
    renderer = foreword.load(str(write(tmp_path, **changes)))
    made = renderer.render_encoder_decoder({"encoder_prompt": [1, 2]})
    assert (list(made.encoder.token_ids), list(made.decoder.token_ids)) == ([1, 2], [7])


def test_an_encoder_alone_has_no_decoder(tmp_path: Path) -> None:
    changes = {"general.architecture": "t5encoder", "t5encoder.context_length": 64}
    renderer = foreword.load(str(write(tmp_path, **changes)), runner="pooling")
    assert renderer.assets.config["model_type"] == "t5"
    with pytest.raises(UnsupportedFeature, match="no encoder"):
        renderer.render_encoder_decoder({"encoder_prompt": [1]})
