"""The witnesses that tests declare in, their tables in docs/conformance.md out.

    scripts/make_conformance_docs.py            writes the page
    scripts/make_conformance_docs.py --check    exits 1 when the page is not up to date

A test declares what it holds foreword against:

    @pytest.mark.witness(family="mode:mistral", what="ids of chats", against="mistral-common")

`family` may be several; `needs` says what must be there, where its folder and marks do not.

Rules of this file: tests are read, never imported, so the page is the same wherever it is made.
Only what stands between the two marks is written. What no test declares is listed as not verified.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foreword.formats import BY_MODEL_TYPE
from foreword.media.table import FAMILIES as MEDIA_FAMILIES
from foreword.tokenizer.gguf_file import PIECES as GGUF_PIECES
from foreword.tokenizer.gguf_file import PRE_TOKENIZERS
from foreword.tokenizer.registry import NOT_BUILT, TOKENIZER_REGISTRY
from foreword.tokenizer.tiktoken_file import FAMILIES as TIKTOKEN_FAMILIES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
BEGIN = "<!-- witnesses: made by scripts/make_conformance_docs.py -->\n"
END = "<!-- end of witnesses -->\n"
TITLES = {
    "mode": "Tokenizer modes",
    "format": "Chat formats chosen by the model's type",
    "file": "Vocabulary files",
    "prompt": "Prompts of other shapes",
    "media": "Families of vision and audio models",
    "engine": "Engines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One declaration: `where` is its test's file, `needs` what must be there for it to run."""

    family: str
    what: str
    against: str
    where: str
    needs: str


def registered_families() -> tuple[str, ...]:
    """Return every family that the package knows by name, as `group:name`, in the page's order."""
    return (
        *(f"mode:{mode}" for mode in TOKENIZER_REGISTRY.modes),
        *(f"format:{model_type}" for model_type in BY_MODEL_TYPE),
        "file:tokenizer.json",
        *(f"file:tiktoken, {name}" for name in sorted(TIKTOKEN_FAMILIES)),
        "file:SentencePiece, BPE",
        "file:SentencePiece, Unigram",
        *(f"file:GGUF, {name}" for name in sorted({*GGUF_PIECES, *PRE_TOKENIZERS})),
        "file:code of the model's own",
        "prompt:encoder and decoder",
        "prompt:pooling",
        *(f"media:{family.name}" for family in MEDIA_FAMILIES),
        "engine:vLLM, generate",
        "engine:vLLM, core",
        "engine:vLLM, block hashes",
    )


def declared_witnesses(tests: Path = ROOT / "tests") -> tuple[Witness, ...]:
    """Return what the tests below a folder declare, by file and line.

    Raises: `ValueError` naming the file and line of a declaration that is not plain text.
    """
    return tuple(
        witness for path in sorted(tests.rglob("test_*.py")) for witness in _read(path, tests)
    )


def _read(path: Path, tests: Path) -> Iterator[Witness]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.mark.witness":
            continue
        try:
            given = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
            families = given["family"]
            for family in (families,) if isinstance(families, str) else families:
                yield Witness(
                    family=family,
                    what=given["what"],
                    against=given["against"],
                    where=f"tests/{path.relative_to(tests).as_posix()}",
                    needs=given.get("needs") or _needs(path.relative_to(tests).parts[0], marks),
                )
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{path.name}:{node.lineno}: a witness is family, what and against, as literals"
            ) from error


def _needs(folder: str, marks: set[str]) -> str:
    if folder == "engine":
        return "a vLLM engine"
    needs = ["the group parity"] if folder == "parity" or "pytest.mark.parity" in marks else []
    if "pytest.mark.golden" in marks or "golden.pytestmark" in marks:
        needs.append("the data folder")
    return " and ".join(needs) or "nothing"


def conformance_tables(witnesses: tuple[Witness, ...]) -> str:
    """Return a table for every group of families, then the families without a witness."""
    lines: list[str] = []
    families = registered_families()
    for group, title in TITLES.items():
        named: dict[tuple[str, str, str, str], list[str]] = {}
        for family in families:
            for one in witnesses:
                if one.family == family and family.startswith(f"{group}:"):
                    key = (one.what, one.against, f"`{one.where}`", one.needs)
                    named.setdefault(key, []).append(family.partition(":")[2])
        if named:
            head = ["| family | verified | against | by | needs |", "|---|---|---|---|---|"]
            rows = [f"| {'; '.join(names)} | {' | '.join(key)} |" for key, names in named.items()]
            lines += [f"### {title}", "", *head, *rows, ""]
    lines += ["### Not verified", ""]
    seen = {one.family for one in witnesses}
    for group, title in TITLES.items():
        names = [
            f.partition(":")[2] for f in families if f.startswith(f"{group}:") and f not in seen
        ]
        if names:
            lines.append(f"- {title}: no outside witness for {'; '.join(names)}.")
    refused = ", ".join(f"`{mode}`" for mode in sorted(NOT_BUILT.keys() - BY_MODEL_TYPE.keys()))
    lines += [f"- Refused by name, so there is nothing to verify: {refused}.", ""]
    return "\n".join(lines)


def make_page(page: str) -> str:
    """Return the page with its tables made anew."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}{conformance_tables(declared_witnesses())}{END}{rest.split(END)[1]}"


def main() -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = make_page(old)
    if "--check" in sys.argv[1:]:
        if old != new:
            print("docs/conformance.md is not up to date: run scripts/make_conformance_docs.py")
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
