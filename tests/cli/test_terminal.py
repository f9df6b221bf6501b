"""What a terminal sees and a pipe does not; endings; start-up."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foreword.cli import main
from foreword.cli.arguments import make_parser
from foreword.demo import model_folder

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "foreword"]
MODEL = ["--model", model_folder()]


def environment(**changes: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    return {**kept, "TERM": "xterm-256color", **changes}


def in_terminal(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> str:
    """Run the command with a pseudo-terminal as stdout and stderr; give what it shows."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=follower,
        stderr=follower,
        env=env or environment(),
    )
    os.close(follower)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                data = os.read(leader, 65536)
            except OSError:  # Linux's way to say that the other end is closed
                break
            if not data:
                break
            shown += data
    os.close(leader)
    process.wait(timeout=60)
    return shown.decode()


def test_colours_and_layout_are_for_terminals():
    shown = in_terminal("demo")
    assert "\x1b[1;38;5;231;48;5;90m<|im_start|>\x1b[0m" in shown
    assert "│system│" not in shown
    piped = subprocess.run([*COMMAND, "demo"], capture_output=True, text=True, env=environment())
    assert piped.returncode == 0
    assert "\x1b" not in piped.stdout
    assert "│system│" in piped.stdout


def test_no_color_is_honoured_and_can_be_overruled():
    assert "\x1b" not in in_terminal("tokenize", "Hello", *MODEL, env=environment(NO_COLOR="1"))
    piped = [*COMMAND, "tokenize", "a", "--color", "always", *MODEL, "--max-model-len", "x"]
    failed = subprocess.run(piped, capture_output=True, text=True, env=environment())
    assert failed.returncode == 2
    assert failed.stderr.startswith("foreword: \x1b[31m")


def test_a_batch_draws_its_progress_on_a_terminal_only(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"prompt": "x"}\n{\n')
    arguments = ("render", "--batch", str(source), "--output", str(target), *MODEL)
    shown = in_terminal(*arguments)
    assert "2 done" in shown
    assert "1 failed" in shown
    assert "100%" in shown
    assert in_terminal(*arguments, "--quiet") == ""
    assert len(target.read_text().splitlines()) == 2


def test_json_on_a_terminal_is_for_a_reader(reference):
    body = json.dumps({"prompt": "word " * 200}).encode()
    shown = in_terminal("render", "-", *MODEL, stdin=body, env=environment(COLUMNS="80"))
    assert shown.startswith("{\r\n")
    lines = [line.rstrip("\r") for line in shown.split("\n")]
    assert len(lines) < 60  # the ids share lines
    assert max(map(len, lines)) <= 80
    expected = reference.encode("word " * 200).ids
    assert json.loads(shown)["token_ids"] == expected


def test_a_reader_that_goes_away_is_no_fault():
    process = subprocess.Popen(
        [*COMMAND, "render", "--batch", "-", *MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(b'{"prompt": "x"}\n' * 500, timeout=60)
    assert err == b""
    assert process.returncode == 141


def test_an_interrupt_ends_quietly():
    process = subprocess.Popen(
        [*COMMAND, "render", "--batch", "-", *MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"prompt": "x"}\n')
    process.stdin.flush()
    assert b'"status":200' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b""


def test_any_locale_gives_utf8():
    env = {**environment(), "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    answer = subprocess.run(
        [*COMMAND, "detokenize", "--json", *MODEL], input=b"[1]", env=env, capture_output=True
    )
    assert answer.returncode == 0
    demo = subprocess.run([*COMMAND, "demo"], env=env, capture_output=True)
    assert "東" in demo.stdout.decode()


# ---------------------------------------------------------------------------------------------
# The command as a whole.


def test_help_needs_none_of_the_heavy_modules():
    code = (
        "import sys; from foreword.cli import main; assert main(['--help']) == 0;"
        "heavy = {'tokenizers', 'jinja2', 'msgspec', 'huggingface_hub', 'asyncio'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "render" in answer.stdout


def test_version_help_and_no_command(capsys):
    from foreword import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"foreword {__version__}\n"
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().out
    assert main(["nope"]) == 2
    assert "invalid choice: 'nope'" in capsys.readouterr().err
    assert main(["render", "--json"]) == 2
    assert "--model" in json.loads(capsys.readouterr().err)["message"]


@pytest.mark.parametrize("command", ["render", "trace", "tokenize", "detokenize", "inspect"])
def test_every_command_explains_itself(command, capsys):
    assert main([command, "--help"]) == 0
    assert "--model M" in capsys.readouterr().out


def test_serve_without_the_service_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "foreword.service.serve", None)
    assert main(["serve", "--port", "1"]) == 2
    assert "pip install 'foreword[serve]'" in capsys.readouterr().err


def test_serve_passes_its_arguments_on(monkeypatch):
    class Service:
        @staticmethod
        def main(arguments):
            assert arguments == ["--port", "1", "--json"]
            return 7

    monkeypatch.setitem(sys.modules, "foreword.service.serve", Service)
    assert main(["serve", "--port", "1", "--json"]) == 7


def test_the_demo_needs_nothing(run):
    answer = run("demo", model=None)
    assert (answer.code, answer.err) == (0, "")
    assert "try next" in answer.out
    assert "foreword render REQUEST.json --model M" in answer.out
    assert run("demo", "--json", model=None).json()["num_tokens"] > 400


def test_docs_are_current():
    spec = importlib.util.spec_from_file_location(
        "make_cli_docs", ROOT / "scripts" / "make_cli_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == script.make_page(), "run python scripts/make_cli_docs.py"
    assert all(f"## foreword {name}" in page for name in script._commands(make_parser()))
