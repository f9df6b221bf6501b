"""Which chat template counts where several are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foreword.assets.files import list_files
from foreword.assets.templates import FoundTemplates, find_templates
from foreword.errors import AssetsInvalid

PROCESSOR = {"preprocessor_config.json": "{}"}


def find(folder: Path, config: Any = None, files: dict[str, str] | None = None) -> FoundTemplates:
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode())
    tokenizer_config = {} if config is None else {"chat_template": config}
    return find_templates(folder, list_files(folder), tokenizer_config)


def as_json(template: object) -> str:
    return json.dumps({"chat_template": template})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, {}),
        ("A", {"default": "A"}),
        ({"default": "A", "rag": "B"}, {"default": "A", "rag": "B"}),
        (
            [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}],
            {"default": "A", "tool_use": "B"},
        ),
        ([], {}),
    ],
)
def test_in_the_tokenizers_configuration(
    tmp_path: Path, config: Any, expected: dict[str, str]
) -> None:
    found = find(tmp_path, config)
    assert found.sources == expected
    assert found.warnings == ()


def test_files_replace_the_configurations_as_a_whole(tmp_path: Path) -> None:
    found = find(
        tmp_path,
        [{"name": "default", "template": "old"}, {"name": "tool_use", "template": "old tools"}],
        {"chat_template.jinja": "new"},
    )
    assert found.sources == {"default": "new"}
    assert len(found.warnings) == 1
    assert "tokenizer_config.json" in found.warnings[0]


def test_the_same_template_twice_is_not_worth_a_warning(tmp_path: Path) -> None:
    found = find(tmp_path, "A", {"chat_template.jinja": "A", "chat_template.json": as_json("A")})
    assert found.sources == {"default": "A"}
    assert found.warnings == ()


def test_additional_templates_are_named_by_their_file(tmp_path: Path) -> None:
    found = find(
        tmp_path,
        files={
            "chat_template.jinja": "A",
            "additional_chat_templates/tool_use.jinja": "B",
            "additional_chat_templates/rag.v2.jinja": "C",
            "additional_chat_templates/notes.txt": "no",
        },
    )
    assert found.sources == {"default": "A", "tool_use": "B", "rag.v2": "C"}


def test_an_additional_template_alone_still_replaces(tmp_path: Path) -> None:
    found = find(tmp_path, "old", {"additional_chat_templates/rag.jinja": "B"})
    assert found.sources == {"rag": "B"}


def test_a_dotted_file_adds_a_name_and_never_takes_one(tmp_path: Path) -> None:
    found = find(
        tmp_path,
        "A",
        {
            "chat_template.rag.jinja": "B",
            "chat_template.tool_use.jinja": "C",
            "chat_template.default.jinja": "D",
        },
    )
    assert found.sources == {"default": "A", "rag": "B"}
    assert [w.split()[0] for w in found.warnings] == [
        "chat_template.default.jinja",
        "chat_template.tool_use.jinja",
    ]


def test_dotted_files_alone_are_the_models_templates(tmp_path: Path) -> None:
    files = {"chat_template.default.jinja": "A", "chat_template.tool_use.jinja": "B"}
    assert find(tmp_path, files=files).sources == {"default": "A", "tool_use": "B"}


def test_the_legacy_file_is_used_where_nothing_else_is(tmp_path: Path) -> None:
    assert find(tmp_path, files={"chat_template.json": as_json("A")}).sources == {"default": "A"}


def test_the_processors_template_speaks_without_tools(tmp_path: Path) -> None:
    found = find(tmp_path, "tokenizer", {"chat_template.json": as_json("processor"), **PROCESSOR})
    assert found.sources == {"default": "processor", "tool_use": "tokenizer"}
    assert "with tools" in found.warnings[0]


def test_a_legacy_file_beside_additional_templates_is_ignored(tmp_path: Path) -> None:
    files = {"chat_template.json": as_json("legacy"), "additional_chat_templates/rag.jinja": "R"}
    found = find(tmp_path, files={"chat_template.jinja": "A", **files, **PROCESSOR})
    assert found.sources == {"default": "A", "rag": "R"}
    assert "not used" in found.warnings[0]


def test_a_legacy_file_without_a_processor_is_ignored(tmp_path: Path) -> None:
    found = find(tmp_path, "tokenizer", {"chat_template.json": as_json("other")})
    assert found.sources == {"default": "tokenizer"}
    assert "not used" in found.warnings[0]


def test_processor_config_comes_before_the_legacy_file(tmp_path: Path) -> None:
    found = find(
        tmp_path,
        files={"processor_config.json": as_json("A"), "chat_template.json": as_json("B")},
    )
    assert found.sources == {"default": "A"}


def test_line_endings_become_newlines(tmp_path: Path) -> None:
    found = find(tmp_path, files={"chat_template.jinja": "a\r\nb\rc\n"})
    assert found.sources == {"default": "a\nb\nc\n"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (7, "chat_template is a number"),
        (True, "chat_template is a boolean"),
        ({"default": None}, "'default' is null"),
        ([{"name": "default", "template": ["x"]}], "'default' is a list"),
        ([{"template": "A"}], r"chat_template\[0\]"),
        (["A"], r"chat_template\[0\]"),
    ],
)
def test_a_template_that_is_no_string(tmp_path: Path, config: Any, said: str) -> None:
    with pytest.raises(AssetsInvalid, match=said) as caught:
        find(tmp_path, config)
    assert caught.value.details["file"] == "tokenizer_config.json"


def test_a_legacy_template_that_is_no_string(tmp_path: Path) -> None:
    with pytest.raises(AssetsInvalid, match=r"^chat_template\.json: chat_template is a list"):
        find(tmp_path, files={"chat_template.json": as_json(["A"])})


def test_a_template_file_that_is_not_text(tmp_path: Path) -> None:
    templates = tmp_path / "additional_chat_templates"
    templates.mkdir()
    (templates / "rag.jinja").write_bytes(b"ok \xe9")
    with pytest.raises(AssetsInvalid, match="0xe9 at offset 3") as caught:
        find(tmp_path)
    assert caught.value.details["file"] == "additional_chat_templates/rag.jinja"
