"""File and function sizes against the house limits: Python files in, warnings and failures out.

Rules of this file: `src` is held to both limits, tests and scripts to the hard file limit only;
lines are physical lines, docstrings and comments included; a function is its `def` to its end.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Limit(NamedTuple):
    warn: int
    fail: int


FILE_LINES = Limit(warn=300, fail=500)
FUNCTION_LINES = Limit(warn=50, fail=80)


class Finding(NamedTuple):
    fails: bool
    sentence: str


def judge(what: str, num_lines: int, limit: Limit) -> Iterator[Finding]:
    """Yield a finding when `num_lines` is over the limit's warning or failing line."""
    if num_lines > limit.fail:
        yield Finding(True, f"{what}: {num_lines} lines, the limit is {limit.fail}")
    elif num_lines > limit.warn:
        yield Finding(False, f"{what}: {num_lines} lines, aim for {limit.warn} or fewer")


def check_source(name: str, source: str, *, is_strict: bool) -> Iterator[Finding]:
    """Yield what is too long in one file; function lengths count only when `is_strict`."""
    for finding in judge(name, len(source.splitlines()), FILE_LINES):
        if finding.fails or is_strict:
            yield finding
    if not is_strict:
        return
    try:
        tree = ast.parse(source, filename=name)
    except SyntaxError as error:
        yield Finding(True, f"{name}:{error.lineno}: is not Python: {error.msg}")
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield from judge(f"{name}:{node.lineno} {node.name}()", num_lines, FUNCTION_LINES)


def check_tree(root: Path) -> list[Finding]:
    """Return the findings of every Python file below `root`'s source folders."""
    findings: list[Finding] = []
    for folder in ("src", "tests", "scripts", "bench"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            source = path.read_text(encoding="utf-8")
            findings += check_source(name, source, is_strict=folder == "src")
    return findings


def main() -> int:
    findings = check_tree(ROOT)
    for finding in findings:
        print(f"{'error' if finding.fails else 'warning'}: {finding.sentence}")
    return int(any(finding.fails for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
