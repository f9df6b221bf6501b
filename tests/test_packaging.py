"""The scripts, the demo model and the changelog do what CONTRIBUTING.md says of them."""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from tokenizers import Tokenizer

import foreword
from foreword.demo import DEMO_REQUEST, model_folder
from foreword.errors import TemplateRejected
from foreword.stages.template import render_conversation
from foreword.templating.compiled import compile_template
from foreword.types import Conversation, RenderedText

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ("check", "test", "demo", "bench", "goldens")
MAX_MODEL_BYTES = 400_000


def load_script(name: str) -> ModuleType:
    """Import a file of scripts/ that is no package's module."""
    spec = importlib.util.spec_from_file_location(
        f"scripts_{name}", ROOT / "scripts" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_json(name: str) -> dict:
    return json.loads((Path(model_folder()) / name).read_text(encoding="utf-8"))


def test_version_is_the_same_in_the_package_and_its_metadata():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (
        runpy.run_path(str(ROOT / "src/foreword/version.py"))["__version__"] == declared["version"]
    )


# ---------------------------------------------------------------------------------------------
# The demo model and request.


def test_retraining_gives_the_committed_model_byte_for_byte():
    script = load_script("train_demo_model")
    trained = script.model_files(script.corpus_texts())
    assert set(trained) == {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    for name, text in trained.items():
        assert (Path(model_folder()) / name).read_text(encoding="utf-8") == text, name


def test_another_corpus_gives_another_tokenizer():
    script = load_script("train_demo_model")
    texts = script.corpus_texts()
    assert script.model_files([*texts, "zyx " * 50]) != script.model_files(texts)


def test_model_folder_is_small_and_has_no_weights():
    files = {path.name: path.stat().st_size for path in Path(model_folder()).iterdir()}
    assert sum(files.values()) < MAX_MODEL_BYTES
    assert set(files) == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_control_tokens_have_the_first_ids_and_only_turn_marks_are_special():
    tokenizer = Tokenizer.from_file(str(Path(model_folder()) / "tokenizer.json"))
    added = tokenizer.get_added_tokens_decoder()
    assert {i: (t.content, t.special) for i, t in added.items()} == {
        0: ("<|endoftext|>", True),
        1: ("<|im_start|>", True),
        2: ("<|im_end|>", True),
        3: ("<think>", False),
        4: ("</think>", False),
        5: ("<tool_call>", False),
        6: ("</tool_call>", False),
        7: ("<tool_response>", False),
        8: ("</tool_response>", False),
    }
    assert tokenizer.encode("<|im_start|>user<think>").ids[::2] == [1, 3]


def test_any_text_survives_the_demo_tokenizer():
    tokenizer = Tokenizer.from_file(str(Path(model_folder()) / "tokenizer.json"))
    text = "caf\u00e9  12345\r\n\t東京🌤️ \u0000 \u202e <|im_\n\n  x"
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_configurations_agree_with_the_tokenizer():
    tokenizer = Tokenizer.from_file(str(Path(model_folder()) / "tokenizer.json"))
    config, generation = model_json("config.json"), model_json("generation_config.json")
    names = model_json("tokenizer_config.json")
    assert config["vocab_size"] >= tokenizer.get_vocab_size()
    assert config["vocab_size"] % 128 == 0
    assert config["max_position_embeddings"] == names["model_max_length"] == 8192
    assert config["eos_token_id"] == tokenizer.token_to_id(names["eos_token"]) == 2
    assert config["pad_token_id"] == tokenizer.token_to_id(names["pad_token"]) == 0
    assert generation["eos_token_id"] == [2, 0]


def test_demo_request_is_a_well_formed_tool_conversation():
    body = json.loads(json.dumps(DEMO_REQUEST))
    assert body == DEMO_REQUEST
    names = {tool["function"]["name"] for tool in body["tools"]}
    calls = [call for message in body["messages"] for call in message.get("tool_calls", [])]
    assert {call["function"]["name"] for call in calls} == names
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    results = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
    assert results == [call["id"] for call in calls]
    assert body["messages"][-1]["role"] == "user"


def render(messages, **fields) -> RenderedText:
    template = (Path(model_folder()) / "chat_template.jinja").read_text(encoding="utf-8")
    conversation = Conversation(messages=tuple(messages), **fields)
    return render_conversation(compile_template(template), conversation, special_tokens={})


def test_demo_template_places_every_kind_of_message():
    call = {"name": "sum", "arguments": {"a": 1}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"function": call}, {"function": {**call, "arguments": '{"a":2}'}}],
        },
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
    ]
    turn = (
        "<think>\nhm\n</think>\n\n"
        '<tool_call>\n{"name": "sum", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "sum", "arguments": {"a":2}}\n</tool_call><|im_end|>'
    )
    rendered = render(messages, chat_template_kwargs={"enable_thinking": False})
    assert rendered.text == (
        f"<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n{turn}\n"
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n"
        "<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    assert [rendered.text[start:stop] for start, stop in rendered.assistant_spans] == [turn]


def test_demo_template_puts_tools_into_the_system_turn():
    tool = {"type": "function", "function": {"name": "sum"}}
    user = {"role": "user", "content": "a"}
    listed = '<tools>\n{"type": "function", "function": {"name": "sum"}}\n</tools>'
    for messages in ([user], [{"role": "system", "content": "Be brief."}, user]):
        text = render(messages, tools=(tool,), add_generation_prompt=False).text
        system, rest = text.split("<|im_end|>\n", 1)
        assert system.startswith("<|im_start|>system\n")
        assert listed in system
        assert ("Be brief.\n\n" in system) == (len(messages) == 2)
        assert rest == "<|im_start|>user\na<|im_end|>\n"


@pytest.mark.parametrize(
    ("roles", "reason"),
    [(("user", "system"), "Only the first message"), (("user", "judge"), "Unknown role judge")],
)
def test_demo_template_says_why_it_refuses(roles, reason):
    with pytest.raises(TemplateRejected, match=reason):
        render([{"role": role, "content": "a"} for role in roles])


def test_demo_request_passes_along_the_whole_line():
    trace = foreword.load(model_folder()).trace(DEMO_REQUEST)
    reference = Tokenizer.from_file(str(Path(model_folder()) / "tokenizer.json"))
    expected = reference.encode(trace.rendered.text, add_special_tokens=False).ids
    assert list(trace.engine_input.token_ids) == expected
    assert trace.rendered.text.endswith("<|im_start|>assistant\n")
    assert trace.engine_input.num_truncated == 0


# ---------------------------------------------------------------------------------------------
# Sizes.


@pytest.mark.parametrize(
    ("num_lines", "is_strict", "fails"),
    [
        (300, True, []),
        (301, True, [False]),
        (500, True, [False]),
        (501, True, [True]),
        (301, False, []),
        (501, False, [True]),
    ],
)
def test_file_limits(num_lines, is_strict, fails):
    findings = load_script("check_sizes").check_source(
        "a.py", "\n" * num_lines, is_strict=is_strict
    )
    assert [finding.fails for finding in findings] == fails


@pytest.mark.parametrize(
    ("num_lines", "fails"), [(50, []), (51, [False]), (80, [False]), (81, [True])]
)
def test_function_limits(num_lines, fails):
    source = "class A:\n    async def f(self):\n" + "        pass\n" * (num_lines - 1)
    check = load_script("check_sizes").check_source
    findings = list(check("a.py", source, is_strict=True))
    assert [finding.fails for finding in findings] == fails
    assert all(f"a.py:2 f(): {num_lines} lines" in finding.sentence for finding in findings)
    assert list(check("a.py", source, is_strict=False)) == []


def test_a_file_that_is_not_python_is_a_finding():
    findings = list(load_script("check_sizes").check_source("a.py", "def f(:\n", is_strict=True))
    assert [finding.fails for finding in findings] == [True]
    assert findings[0].sentence.startswith("a.py:1: is not Python")


# ---------------------------------------------------------------------------------------------
# The changelog.


@pytest.fixture
def project(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0 (2026-01-01)\n\n- First.\n")
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("how to\n")
    (folder / "b.fixed.md").write_text("A fault is\ngone.\n")
    (folder / "2.added.md").write_text("Something is new.\n")
    return tmp_path


def test_release_moves_the_fragments_to_the_top(project):
    load_script("changelog").release(project, "0.2.0", datetime.date(2026, 2, 3))
    assert (project / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n"
        "## 0.2.0 (2026-02-03)\n\n"
        "### Added\n\n- Something is new.\n\n"
        "### Fixed\n\n- A fault is\n  gone.\n\n"
        "## 0.1.0 (2026-01-01)\n\n- First.\n"
    )
    assert [path.name for path in (project / "changelog.d").iterdir()] == ["README.md"]


def test_badly_named_and_empty_fragments_are_faults(project):
    folder = project / "changelog.d"
    faults = load_script("changelog").faults
    assert faults(folder) == []
    (folder / "new.feature.md").write_text("x\n")
    (folder / "void.added.md").write_text(" \n")
    assert [fault.split(":")[0] for fault in faults(folder)] == ["new.feature.md", "void.added.md"]


def test_the_committed_fragments_are_sound():
    assert load_script("changelog").faults(ROOT / "changelog.d") == []


# ---------------------------------------------------------------------------------------------
# The set-up. Stand-ins for python and uv show what would be run, so nothing is installed.


def executable(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the set-up script, and a PATH without any Python or uv."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "_setup.sh", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "cat", "cksum", "dirname", "tr", "mkdir"):
        (tools / name).symlink_to(shutil.which(name) or pytest.skip(f"no {name} here"))
    return tmp_path


def set_up(checkout: Path, level: str = "core", **environment: str):
    return subprocess.run(
        ["bash", "-euc", f". '{checkout}/scripts/_setup.sh'; set_up {level}"],
        env={"PATH": str(checkout / "bin"), **environment},
        capture_output=True,
        text=True,
        cwd="/",
        timeout=60,
    )


def add_uv(checkout: Path) -> None:
    """Put a uv on PATH that writes its arguments down and makes a .venv with this Python."""
    executable(
        checkout / "bin" / "uv",
        f'[ "$1" = --version ] && exit 0\necho "$*" >>"{checkout}/uv.log"\n'
        'mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"\n'
        f'printf \'#!/bin/sh\\nexec "{sys.executable}" "$@"\\n\''
        ' >"$UV_PROJECT_ENVIRONMENT/bin/python"\n'
        f'"{shutil.which("chmod")}" +x "$UV_PROJECT_ENVIRONMENT/bin/python"',
    )


def test_no_python_is_said_with_the_way_out(checkout):
    result = set_up(checkout)
    assert result.returncode == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert "apt-get install" in result.stderr
    assert not (checkout / ".venv").exists()


def test_too_old_pythons_and_dead_shims_are_passed_over(checkout):
    executable(checkout / "bin" / "python3.13", 'echo "command not found" >&2; exit 127')
    executable(checkout / "bin" / "python3", "exit 1")  # what the version question answers if old
    assert "needs Python 3.11 or newer" in set_up(checkout).stderr
    executable(checkout / "bin" / "python3.11", f'exec "{sys.executable}" "$@"')
    found = subprocess.run(
        ["bash", "-euc", f". '{checkout}/scripts/_setup.sh'; find_python"],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == str(checkout / "bin" / "python3.11")


def test_set_up_happens_once_and_again_when_the_project_changed(checkout):
    add_uv(checkout)
    log = checkout / "uv.log"
    for _ in range(2):
        assert set_up(checkout).returncode == 0
    assert len(log.read_text().splitlines()) == 1
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert set_up(checkout).returncode == 0
    assert len(log.read_text().splitlines()) == 2


def test_a_richer_environment_serves_a_poorer_level_and_is_kept_rich(checkout):
    add_uv(checkout)
    log = checkout / "uv.log"
    assert set_up(checkout, "core").returncode == 0
    assert "--group" not in log.read_text()
    assert set_up(checkout, "dev").returncode == 0
    assert set_up(checkout, "core").returncode == 0
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert "--group dev" in lines[1]
    assert "--inexact" in lines[1]
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert set_up(checkout, "core").returncode == 0
    assert "--group dev" in log.read_text().splitlines()[-1]


def test_a_venv_that_does_not_run_is_reported_and_left_alone(checkout):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    executable(checkout / ".venv" / "bin" / "python", "exit 1")
    result = set_up(checkout)
    assert result.returncode == 1
    assert "Remove it" in result.stderr
    assert (checkout / ".venv" / "bin" / "python").exists()


@pytest.mark.parametrize("name", [*(f"scripts/{name}" for name in SCRIPTS), ".ci/run"])
def test_scripts_can_be_run_and_parse(name):
    path = ROOT / name
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", path], capture_output=True).stderr == b""


def test_unknown_arguments_and_benchmarks_are_refused_before_any_set_up(tmp_path):
    copy = tmp_path / "scripts"
    shutil.copytree(ROOT / "scripts", copy)
    for command in (["check", "--fast"], ["bench"], ["bench", "nothing"]):
        result = subprocess.run([copy / command[0], *command[1:]], capture_output=True, text=True)
        assert result.returncode == 2, command
        assert "install" in result.stdout + result.stderr or "usage" in result.stderr
    assert not (tmp_path / ".venv").exists()
