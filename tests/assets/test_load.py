"""Reading a model folder: what is kept as it is, and what each broken file says."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from foreword.assets.load import load_assets
from foreword.errors import AssetsInvalid

TOKENIZER = b'{"version": "1.0",  "model": {"type": "BPE", "vocab": {}, "merges": []}}\n'


def make_folder(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def complete(folder: Path, **more: Any) -> Path:
    files: dict[str, Any] = {
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": {"eos_token": "</s>", "chat_template": "{{ messages }}"},
        "special_tokens_map.json": {"eos_token": "</s>"},
        "config.json": {"model_type": "llama", "vocab_size": 10},
        "generation_config.json": {"temperature": 0.6},
        "model.safetensors": b"\x00" * 8,
    }
    return make_folder(folder, files | more)


def test_every_file_is_kept_as_it_is(tmp_path: Path) -> None:
    assets = load_assets(str(complete(tmp_path)), revision="v1")
    assert assets.name == assets.folder == str(tmp_path)
    assert assets.revision == "v1"
    assert assets.tokenizer_json == TOKENIZER
    assert assets.tokenizer_config["eos_token"] == "</s>"
    assert assets.special_tokens_map == {"eos_token": "</s>"}
    assert assets.chat_templates == {"default": "{{ messages }}"}
    assert assets.config == {"model_type": "llama", "vocab_size": 10}
    assert assets.generation_config == {"temperature": 0.6}
    assert "model.safetensors" in assets.file_names
    assert (assets.do_lower_case, assets.max_seq_length) == (False, None)
    assert assets.warnings == ()
    assert pickle.loads(pickle.dumps(assets)) == assets


def test_a_tokenizer_file_of_any_kind_is_enough(tmp_path: Path) -> None:
    for name in ("tekken.json", "tokenizer.model.v3", "qwen.tiktoken", "vocab.txt", "spiece.model"):
        folder = make_folder(tmp_path / name.replace(".", "_"), {name: b"x"})
        assets = load_assets(str(folder))
        assert assets.tokenizer_json is None
        assert assets.file_names == {name}


def test_no_tokenizer_at_all(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "m", {"config.json": {}, "merges.txt": "a b"})
    with pytest.raises(AssetsInvalid, match=r"^m: none of its 2 files is a tokenizer") as caught:
        load_assets(str(folder))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    "file",
    ["tokenizer_config.json", "special_tokens_map.json", "config.json", "generation_config.json"],
)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{\n "a": }', "line 2, column 7"),
        (b"", "line 1, column 1"),
        (b'{"a": "\xff"}', "0xff at offset 7"),
        (b"[1]", "a list where a JSON object"),
        (b"null", "null where"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    ],
)
def test_a_broken_file_is_named_and_described(
    tmp_path: Path, file: str, content: bytes, said: str
) -> None:
    with pytest.raises(AssetsInvalid) as caught:
        load_assets(str(complete(tmp_path, **{file: content})))
    assert caught.value.details["file"] == file
    assert said in caught.value.message
    assert str(tmp_path) not in caught.value.message


@pytest.mark.parametrize("content", [b"", b" \n", b"version https://git-lfs.github.com/spec/v1\n"])
def test_an_empty_tokenizer_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(AssetsInvalid, match=r"^tokenizer\.json: "):
        load_assets(str(complete(tmp_path, **{"tokenizer.json": content})))


def test_what_is_absent_is_said(tmp_path: Path) -> None:
    assets = load_assets(str(make_folder(tmp_path, {"tokenizer.json": TOKENIZER})))
    said = " ".join(assets.warnings)
    assert "no config.json" in said
    assert "no tokenizer_config.json" in said


def test_mistrals_own_format_gives_a_config(tmp_path: Path) -> None:
    params = {"dim": 8, "vocab_size": 100, "max_position_embeddings": None}
    folder = make_folder(tmp_path, {"tekken.json": b"{}", "params.json": params})
    config = load_assets(str(folder)).config
    assert config["max_position_embeddings"] == 128_000
    assert config["vocab_size"] == 100


def test_config_json_comes_before_params_json(tmp_path: Path) -> None:
    folder = complete(tmp_path, **{"params.json": {"vocab_size": 99}})
    assert load_assets(str(folder)).config["vocab_size"] == 10


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": True}},
            (True, 256),
        ),
        ({"sentence_xlm-roberta_config.json": {"max_seq_length": 512}}, (False, 512)),
        ({"sentence_bert_config.json": {"max_seq_length": None}}, (False, None)),
        # Without a length the configuration is not one of a tokenizer, and says nothing.
        ({"sentence_bert_config.json": {"do_lower_case": True}}, (False, None)),
        (
            {
                "sentence_bert_config.json": {},
                "sentence_roberta_config.json": {"max_seq_length": 8, "do_lower_case": True},
            },
            (True, 8),
        ),
        (
            {
                "sentence_bert_config.json": {"do_lower_case": True},
                "sentence_roberta_config.json": {"max_seq_length": 8, "do_lower_case": True},
            },
            (False, None),
        ),
        (
            {
                "sentence_bert_config.json": {"max_seq_length": 16},
                "sentence_roberta_config.json": {"max_seq_length": 8, "do_lower_case": True},
            },
            (False, 16),
        ),
    ],
)
def test_sentence_transformers(
    tmp_path: Path, files: dict[str, Any], expected: tuple[bool, int | None]
) -> None:
    assets = load_assets(str(complete(tmp_path, **files)))
    assert (assets.do_lower_case, assets.max_seq_length) == expected


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"max_seq_length": "256"}, "max_seq_length is '256'"),
        ({"max_seq_length": 0}, "max_seq_length is 0"),
        ({"max_seq_length": 8, "do_lower_case": "yes"}, "do_lower_case is a string"),
    ],
)
def test_sentence_transformers_of_a_wrong_type(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(AssetsInvalid, match=said):
        load_assets(str(complete(tmp_path, **{"sentence_bert_config.json": config})))


@pytest.mark.parametrize("name", ["chat_template.jinja", "config.json", "vocab.txt"])
def test_what_should_be_a_file_and_is_none_is_named(tmp_path: Path, name: str) -> None:
    folder = complete(tmp_path)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "gone")
    with pytest.raises(AssetsInvalid, match=rf"^{name}: it is a link to a file that is not there"):
        load_assets(str(folder))
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(AssetsInvalid, match=rf"^{name}: it is a folder, not a file") as caught:
        load_assets(str(folder))
    assert caught.value.details["file"] == name


def test_broken_links_to_what_is_never_read_do_not_matter(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    (folder / "model-00002.safetensors").symlink_to(tmp_path / "gone")
    (folder / "onnx").mkdir()
    assert load_assets(str(folder)).warnings == ()


def test_a_template_in_the_folder_of_templates_that_leads_nowhere(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "rag.jinja").symlink_to(tmp_path / "gone")
    with pytest.raises(AssetsInvalid, match=r"^additional_chat_templates/rag\.jinja: it is a link"):
        load_assets(str(folder))
