"""Options of the command and settings of the service reach the model they are about."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import foreword
import foreword.cli.model
from foreword.cli import main
from foreword.demo import model_folder
from foreword.service.models import load_models
from foreword.service.settings import Settings

GIVEN = {"trust_remote_code": True, "accelerated": True, "system_start_date": "2026-11-30"}
LEFT_OUT = {"trust_remote_code": False, "accelerated": False, "system_start_date": None}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], LEFT_OUT),
        (
            ["--trust-remote-code", "--accelerated", "on", "--system-start-date", "2026-11-30"],
            GIVEN,
        ),
    ],
)
def test_the_command_hands_them_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    expected: dict[str, Any],
) -> None:
    asked: dict[str, Any] = {}

    def load(model: str, **options: Any) -> foreword.Renderer:
        asked.update(options)
        return foreword.load(model)

    monkeypatch.setattr(foreword.cli.model, "load", load)
    assert main(["tokenize", "hello", "--count", "--model", str(model_folder()), *flags]) == 0
    assert {name: asked[name] for name in expected} == expected
    # An engine that was asked for and is not there is no secret.
    assert ("accelerated engine is not used" in capsys.readouterr().err) == bool(flags)


@pytest.mark.parametrize(("accelerated", "is_on"), [("auto", True), ("on", True), ("off", False)])
def test_the_service_hands_them_on(accelerated: Any, is_on: bool) -> None:
    asked: dict[str, Any] = {}

    def load_one(place: str, **options: Any) -> Any:
        asked.update(options)
        return SimpleNamespace(tokenizer=SimpleNamespace(fast=object()))

    settings = Settings(
        models=("m",),
        trust_remote_code=True,
        system_start_date="2026-11-30",
        accelerated=accelerated,
    )
    load_models(settings, load_one=load_one)
    expected = GIVEN | {"accelerated": is_on}
    assert {name: asked[name] for name in expected} == expected


def test_a_date_makes_renders_of_harmony_the_same_every_day(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((Path(model_folder()) / name).read_bytes())
    config = {"model_type": "gpt_oss", "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(config))
    body = {"messages": [{"role": "user", "content": "hello"}]}
    texts = []
    for date in ("2026-11-30", "2026-12-24"):
        rendered = foreword.load(tmp_path, system_start_date=date).trace(body).rendered
        assert rendered is not None
        assert f"Current date: {date}" in rendered.text
        texts.append(rendered.text.replace(date, ""))
    assert texts[0] == texts[1]
