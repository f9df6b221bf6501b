"""Log lines: parseable, one a line, with the values given and nothing else."""

from __future__ import annotations

import json
import logging

import pytest

from foreword.service import logs


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logs("info", "json")
    logs.log(logging.INFO, "request answered", status=200, note='two\nlines "quoted"')
    logs.log(logging.DEBUG, "not shown")
    (line,) = capsys.readouterr().err.splitlines()
    values = json.loads(line)
    assert values["event"] == "request answered"
    assert values["level"] == "info"
    assert values["status"] == 200
    assert values["note"] == 'two\nlines "quoted"'
    assert values["time"].endswith("Z")


def test_text_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logs("debug", "text")
    logs.log(logging.DEBUG, "started", port=8000, name="a b\nc")
    (line,) = capsys.readouterr().err.splitlines()
    assert 'level=debug event=started port=8000 name="a b\\nc"' in line


def test_a_traceback_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logs("info", "json")
    try:
        raise ValueError("inside")
    except ValueError:
        logs.logger.exception("request failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: inside" in json.loads(line)["traceback"]
