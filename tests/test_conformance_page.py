"""The page of witnesses: made from what tests declare, of families that exist, and up to date."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from foreword.tokenizer.load import MODE_BY_ARCHITECTURE

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "make_conformance_docs.py"
    spec = importlib.util.spec_from_file_location("make_conformance_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.make_page(page) == page, "run scripts/make_conformance_docs.py"


def test_every_declared_family_exists(script: ModuleType) -> None:
    families = set(script.registered_families())
    witnesses = script.declared_witnesses()
    assert len(witnesses) > 40
    for one in witnesses:
        assert one.family in families, f"{one.where} declares {one.family}, which nothing knows"


def test_families_without_a_witness_are_listed(script: ModuleType) -> None:
    witnesses = tuple(
        one for one in script.declared_witnesses() if not one.family.startswith("mode:")
    )
    text = script.conformance_tables(witnesses)
    assert "Tokenizer modes: no outside witness for alpamayo2_super; deepseek_v32; " in text
    assert "Refused by name" in text


def test_declarations_are_read_from_any_test(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "parity").mkdir()
    (tmp_path / "parity" / "test_one.py").write_text(
        "import pytest\n"
        '@pytest.mark.witness(family=("mode:hf", "mode:mistral"), what="w" " x", against="a")\n'
        "def test_x(): pass\n"
    )
    (tmp_path / "test_two.py").write_text(
        "import pytest\npytestmark = [\n"
        '    pytest.mark.witness(family="mode:hf", what="b", against="c", needs="luck")]\n'
    )
    found = script.declared_witnesses(tmp_path)
    assert [(one.family, one.what, one.against, one.where, one.needs) for one in found] == [
        ("mode:hf", "w x", "a", "tests/parity/test_one.py", "the group parity"),
        ("mode:mistral", "w x", "a", "tests/parity/test_one.py", "the group parity"),
        ("mode:hf", "b", "c", "tests/test_two.py", "luck"),
    ]
    assert "| hf; mistral | w x | a |" in script.conformance_tables(found)


@pytest.mark.parametrize(
    "arguments", ['what="w", against="a"', 'family=FAMILY, what="w", against="a"']
)
def test_a_declaration_that_cannot_be_read_names_its_place(
    script: ModuleType, tmp_path: Path, arguments: str
) -> None:
    (tmp_path / "test_one.py").write_text(f"\n@pytest.mark.witness({arguments})\ndef f(): 0\n")
    with pytest.raises(ValueError, match=r"test_one\.py:2"):
        script.declared_witnesses(tmp_path)


def test_the_modes_of_architectures_are_those_that_are_looked_up() -> None:
    rows = [
        line
        for line in (ROOT / "docs" / "conformance.md").read_text().splitlines()
        if line.lstrip().startswith("| `")
    ]
    listed = {
        (architecture, mode)
        for line in rows
        for left, right in [line.strip().strip("|").split("|")[:2]]
        for mode in re.findall(r"`(\w+)`", right)[:1]
        for architecture in re.findall(r"`([A-Z]\w+)`", left)
    }
    assert set(MODE_BY_ARCHITECTURE.items()) <= listed
    names = {name for name, _ in listed if name.endswith(("ForCausalLM", "Generation", "Super"))}
    assert names == set(MODE_BY_ARCHITECTURE)
