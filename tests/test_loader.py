"""Loading: what the caller gives is checked by its name, and what is odd is said."""

from __future__ import annotations

import inspect
import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.demo import model_folder
from foreword.errors import AssetsInvalid, InvalidRequest, TemplateFailed
from foreword.options import FurtherOptions

CHAT = {"messages": [{"role": "user", "content": "Hello"}]}


def copy_model(folder: Path, **files: Any) -> Path:
    shutil.copytree(model_folder(), folder, dirs_exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def refuse(**options: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        foreword.load(**{"model": model_folder(), **options})
    return caught.value


def test_a_path_is_as_good_as_its_text() -> None:
    renderer = foreword.load(Path(model_folder()))
    assert renderer.assets.name == model_folder()
    assert renderer.render_chat(CHAT).engine_input.num_prompt_tokens == 9


@pytest.mark.parametrize(
    ("written", "length"), [("4k", 4000), ("4K", 4096), ("auto", 8192), (-1, 8192), (17, 17)]
)
def test_a_length_is_written_as_on_the_command_line(written: Any, length: int) -> None:
    assert foreword.load(model_folder(), max_model_len=written).options.max_model_len == length


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("model", [5, None, b"m", "", "a" * 5000, "a/" * 3000, "x\0y", "/nope/nope"]),
        ("revision", [5]),
        ("offline", ["no"]),
        ("allow_longer", ["yes"]),
        ("max_model_len", ["x", 1.5, True, 0, -2, []]),
        ("runner", ["x", [], None]),
        ("truncation_side", ["up", []]),
        ("tokenizer_mode", ["x", [], 5]),
        ("served_model_name", [5, ("a", 5), ("",), [""]]),
        ("chat_template", [5, "nope", ""]),
        ("generation_config", [5, "x", []]),
        ("memo_bytes", [-1, "x", 1.5, None, True]),
        ("max_uncut_chars", [-1, 0, "x"]),
        ("accelerated", ["on", None]),
        ("content_format", ["x", None, []]),
        ("default_chat_template_kwargs", [5, None, []]),
        ("trust_request_chat_template", ["yes", None]),
        ("exclude_tools_when_tool_choice_none", [1]),
        ("system_start_date", [5]),
        ("max_new_tokens", [0, "x", True]),
        ("refuse_overflow", [1]),
        ("max_body_bytes", [-1, "x"]),
        ("template_limits", [None, 5]),
        ("no_such_option", [1]),
    ],
)
def test_an_option_that_is_none_is_refused_by_its_name(option: str, values: list[Any]) -> None:
    for value in values:
        error = refuse(**{option: value})
        assert error.param == option, value
        assert len(error.message) < 500


def test_a_template_that_the_model_does_not_have_lists_those_it_has() -> None:
    message = refuse(chat_template="nope").message
    assert "no chat template named 'nope' (it has: default)" in message


def test_an_unknown_option_lists_the_known_ones() -> None:
    message = refuse(trust_requests_chat_template=True).message
    assert "'trust_requests_chat_template'" in message
    assert "trust_request_chat_template" in message.split(":")[1]


def test_every_option_of_a_renderer_can_be_given() -> None:
    named = set(inspect.signature(foreword.load).parameters) | set(FurtherOptions.__annotations__)
    derived = {"served_model_names", "sampling_defaults"}
    assert {field.name for field in fields(foreword.RendererOptions)} - derived <= named


@pytest.mark.parametrize("config", [{"temperature": "hot"}, {"top_p": 0}, {"max_new_tokens": 0}])
def test_a_broken_generation_config_is_told_at_load(tmp_path: Path, config: dict[str, Any]) -> None:
    (key,) = config
    folder = copy_model(tmp_path, generation_config__json=config)
    with pytest.raises(AssetsInvalid, match=rf"^generation_config\.json: {key} "):
        foreword.load(folder)
    assert foreword.load(folder, generation_config={key: 1}).options.sampling_defaults
    assert refuse(generation_config=config).param == f"generation_config.{key}"


def test_a_template_that_does_not_compile_is_a_warning_and_completions_go_on(
    tmp_path: Path,
) -> None:
    config = json.loads((Path(model_folder()) / "tokenizer_config.json").read_text())
    config["chat_template"] = "line\n{% if %}"
    folder = copy_model(tmp_path, tokenizer_config__json=config)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    sound = foreword.load(model_folder())
    for renderer in (
        foreword.load(folder),
        foreword.load(model_folder(), chat_template="line\n{% if %}"),
    ):
        (warning,) = set(renderer.assets.warnings) - set(sound.assets.warnings)
        assert "does not compile (line 2)" in warning
        assert renderer.render_cmpl({"prompt": "Hello"})[0].token_ids
        with pytest.raises(TemplateFailed):
            renderer.render_chat(CHAT)
