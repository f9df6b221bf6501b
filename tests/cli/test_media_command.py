"""`foreword count-image`, and media in `trace` and `inspect`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from foreword.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "media"))
from media_models import CHATML, QWEN_FILES, QWEN_TOKENS, byte_level, picture, words, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("vision")
    write_model(folder, QWEN_FILES, byte_level(QWEN_TOKENS), CHATML)
    return str(folder)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_an_images_tokens(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "count-image", "--model", model, "84x84")
    assert (code, out) == (0, "9\n")
    code, out, _ = run(capsys, "count-image", "--model", model, "64x128", "84X84", "--json")
    assert json.loads(out) == [
        {"width": 64, "height": 128, "num_tokens": 8, "num_embeds": 8},
        {"width": 84, "height": 84, "num_tokens": 9, "num_embeds": 9},
    ]


@pytest.mark.parametrize("size", ["84", "0x5", "1x-1", "7000x1"])
def test_a_size_that_is_none(model: str, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "count-image", "--model", model, size)
    assert (code, out) == (2, "")
    assert err


def test_a_model_without_media(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"config.json": {"model_type": "qwen3", "max_position_embeddings": 100}}
    write_model(tmp_path, config, byte_level(QWEN_TOKENS), CHATML)
    code, _, err = run(capsys, "count-image", "--model", str(tmp_path), "84x84")
    assert code == 2
    assert "the model type qwen3" in err
    code, out, _ = run(capsys, "inspect", "--model", str(tmp_path))
    assert code == 0
    assert "none: Media input" in out


def trace(model: str, folder: Path, *more: str) -> list[str]:
    body: dict[str, Any] = {
        "messages": [
            {"role": "system", "content": "be"},
            {"role": "user", "content": [words("a <|image_pad|>"), picture(84, 84)]},
            {"role": "user", "content": [picture(64, 128), words("b")]},
        ]
    }
    (folder / "request.json").write_text(json.dumps(body))
    return ["trace", "--model", model, str(folder / "request.json"), *more]


def test_a_trace_shows_media(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, *trace(model, tmp_path))
    assert code == 0
    assert "<|image_pad|>⟨×9⟩" in out
    assert "9 tokens, 9 embeddings" in out
    code, out, _ = run(capsys, *trace(model, tmp_path, "--json"))
    told = json.loads(out)
    assert [item["width"] for item in told["media"]] == [84, 64]
    assert sum(part["num_tokens"] for part in told["parts"]) == told["num_tokens"]
    by_label = {part["label"]: part["num_tokens"] for part in told["parts"]}
    assert set(by_label) == {"[0] system", "[1] user", "[2] user", "generation prompt"}
    first, second = told["tokens"]["spans"]
    assert (first["stop"] - first["start"], second["stop"] - second["start"]) == (9, 8)


def test_a_prompt_that_is_too_long_shows_its_media_all_the_same(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *trace(model, tmp_path, "--max-model-len", "40"))
    assert code == 2
    assert "9 tokens, 9 embeddings" in out
    assert "The prompt has" in err


def test_inspect_tells_the_family(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "inspect", "--model", model, "--json")
    media = json.loads(out)["media"]
    assert media["family"] == "qwen3_vl"
    assert media["modalities"]["image"]["constants"]["patch_size"] == 16


def test_a_key_can_be_tolerated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    processor = {**QWEN_FILES["preprocessor_config.json"], "novel_rule": 7}
    files = {**QWEN_FILES, "preprocessor_config.json": processor}
    write_model(tmp_path, files, byte_level(QWEN_TOKENS), CHATML)
    code, _, err = run(capsys, "count-image", "--model", str(tmp_path), "84x84")
    assert code == 2
    assert "novel_rule" in err
    assert "--media-tolerated-key" in err
    known = ("--media-tolerated-key", "novel_rule")
    code, out, _ = run(capsys, "count-image", "--model", str(tmp_path), "84x84", *known)
    assert (code, out) == (0, "9\n")
