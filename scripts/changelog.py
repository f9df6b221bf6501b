"""The changelog from its fragments: `changelog.d/*.md` in, one section of CHANGELOG.md out.

    scripts/changelog.py check            every fragment is well named and not empty
    scripts/changelog.py draft            print the section the fragments make
    scripts/changelog.py release 0.2.0    put it on top of CHANGELOG.md, delete the fragments

Rules of this file: a fragment is `<name>.<kind>.md`; entries are ordered by kind, then name.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("added", "changed", "fixed", "removed", "security")
FRAGMENT_NAME = re.compile(rf"[a-z0-9][a-z0-9-]*\.({'|'.join(KINDS)})\.md")
HEADER = "# Changelog\n"


def fragments(folder: Path) -> list[Path]:
    """Return every file of the folder that is meant to be a fragment."""
    return sorted(p for p in folder.iterdir() if p.name != "README.md" and p.name[0] != ".")


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the folder's fragments, one sentence each."""
    found = []
    for path in fragments(folder):
        if not FRAGMENT_NAME.fullmatch(path.name):
            found.append(f"{path.name}: must be called <name>.<kind>.md, kind: {', '.join(KINDS)}")
        elif not path.read_text(encoding="utf-8").strip():
            found.append(f"{path.name}: is empty; say what changes for a user")
    return found


def entry(text: str) -> str:
    """Return a fragment's text as one list item, its further lines indented."""
    first, *rest = text.strip().splitlines()
    return "\n".join([f"- {first}", *(f"  {line}" if line else "" for line in rest)])


def section(folder: Path, title: str) -> str:
    """Return the fragments as one section of the changelog."""
    parts = [f"## {title}"]
    for kind in KINDS:
        texts = [
            path.read_text(encoding="utf-8")
            for path in fragments(folder)
            if path.name.endswith(f".{kind}.md")
        ]
        if texts:
            parts.append("\n".join([f"### {kind.capitalize()}", "", *map(entry, texts)]))
    return "\n\n".join(parts) + "\n"


def release(root: Path, version: str, day: datetime.date) -> None:
    """Move the fragments into CHANGELOG.md as the newest section."""
    folder, changelog = root / "changelog.d", root / "CHANGELOG.md"
    older = changelog.read_text(encoding="utf-8").removeprefix(HEADER).strip()
    newest = section(folder, f"{version} ({day.isoformat()})")
    changelog.write_text("\n".join(filter(None, [HEADER, newest, older])).rstrip() + "\n")
    for path in fragments(folder):
        path.unlink()


def main(arguments: list[str]) -> int:
    folder = ROOT / "changelog.d"
    found = faults(folder)
    match arguments:
        case _ if found:
            print("\n".join(f"changelog.d/{fault}" for fault in found))
            return 1
        case ["check"]:
            pass
        case ["draft"]:
            print(section(folder, "Unreleased"), end="")
        case ["release", version]:
            release(ROOT, version, datetime.datetime.now(datetime.UTC).date())
        case _:
            print("usage: scripts/changelog.py check | draft | release VERSION")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
