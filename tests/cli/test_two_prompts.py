"""`foreword render` of bodies with two kinds of prompts: an encoder's, and pairs to be scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foreword.cli import main
from foreword.demo import model_folder
from foreword.protocols.bodies import two_prompts_of


def render(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Any, config: Any, *flags: str
) -> tuple[int, Any, str]:
    model = tmp_path / "model"
    model.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model / name).write_bytes((Path(model_folder()) / name).read_bytes())
    (model / "config.json").write_text(json.dumps({"max_position_embeddings": 64, **config}))
    (tmp_path / "body.json").write_text(json.dumps(body))
    code = main(["render", str(tmp_path / "body.json"), "--model", str(model), *flags])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


def test_an_encoders_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "t5", "decoder_start_token_id": 0}
    body = {"encoder_prompt": [5, 6], "decoder_prompt": [7]}
    code, made, _ = render(tmp_path, capsys, body, config)
    assert code == 0
    assert made["encoder"]["token_ids"] == [5, 6]
    assert made["decoder"]["token_ids"] == [0, 7]
    code, _, said = render(tmp_path, capsys, body, config, "--to", "text")
    assert code == 2
    assert "--to text" in said


def test_pairs_to_be_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"query": "a ", "documents": ["b", "c"]}
    config = {"use_sep_token": False}
    code, made, _ = render(tmp_path, capsys, body, config, "--runner", "pooling")
    assert code == 0
    assert len(made) == 2
    assert made[0]["token_ids"] != made[1]["token_ids"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"encoder_prompt": "a"}, "encoder_decoder"),
        ({"query": "a", "documents": ["b"]}, "scoring"),
        ({"text_1": "a", "text_2": "b"}, "scoring"),
        ({"messages": [], "documents": [{}]}, None),  # documents for the template
        ({"prompt": "a", "items": 1}, None),
        ({"input": "a"}, None),
        ({}, None),
    ],
)
def test_bodies_are_told_apart_by_their_keys(body: dict[str, Any], expected: str | None) -> None:
    assert two_prompts_of(body) == expected
    assert two_prompts_of(json.dumps(body)) == expected


@pytest.mark.parametrize(
    ("body", "words"), [({"input": "a"}, "--runner pooling"), ({}, "prompt is empty")]
)
def test_an_input_to_embed_is_told_the_runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Any, words: str
) -> None:
    code, _, said = render(tmp_path, capsys, body, {})
    assert code == 2
    assert words in said
    # Beside a prompt it is a field that nobody knows.
    code, made, _ = render(tmp_path, capsys, {"prompt": "a", "max_tokens": 2, **body}, {})
    assert code == 0
    assert made["token_ids"]
