"""The command, called in this process: arguments in, exit code and both streams out."""

from __future__ import annotations

import io
import json
import sys
from typing import Any, NamedTuple

import pytest
from tokenizers import Tokenizer

import foreword
from foreword.cli import main
from foreword.demo import DEMO_REQUEST, model_folder


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Call `foreword` with the demo model; `stdin` is bytes."""

    def call(*arguments: str, stdin: bytes = b"", model: str | None = model_folder()) -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([*arguments, *(["--model", model] if model else [])])
        sys.stdout.flush()
        return Answer(code, *capfd.readouterr())

    return call


@pytest.fixture
def request_file(tmp_path):
    """Write a body to a file and give the file's name."""

    def write(body: Any, name: str = "request.json") -> str:
        path = tmp_path / name
        path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())
        return str(path)

    return write


@pytest.fixture(scope="session")
def reference() -> Tokenizer:
    return Tokenizer.from_file(f"{model_folder()}/tokenizer.json")


@pytest.fixture(scope="session")
def renderer():
    return foreword.load(model_folder())


@pytest.fixture
def chat() -> dict[str, Any]:
    return json.loads(json.dumps(DEMO_REQUEST))
