"""The parsers of the command `foreword` enter; docs/cli.md leaves.

    python scripts/make_cli_docs.py           writes docs/cli.md
    python scripts/make_cli_docs.py --check   fails when it is not current

Rules of this file: made from the arguments' definitions, not from the help text, whose layout
differs between versions of Python.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from foreword.cli.arguments import DESCRIPTION, EXIT_CODES, make_parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

INTRODUCTION = """\
Results go to stdout, everything else to stderr. Colours and progress bars appear on a terminal
only. An error is one sentence on stderr, or with `--json` one JSON line: `{"code", "status",
"message", "param", "details"}` ([errors.md](errors.md)).

`foreword demo` needs nothing but the package: it is `trace` for a built-in request and model.
"""
BATCH = """\
### A batch

One line of answer for each line of `REQUESTS.jsonl`, in the same order, whatever a line is:

```
{"index": 0, "status": 200, "response": {"request_id": "chatcmpl-…", "token_ids": […], …}}
{"index": 1, "status": 400, "error": {"message": "…", "type": "…", "param": "…", "code": 400}}
```

`response` is a list for a completion request, one entry a prompt. A line may also be that of an
OpenAI batch file, `{"custom_id", "url", "body"}`: its `custom_id` comes back, its `url` says which
API it is for. The exit code is 0 if every line succeeded, else that of the gravest fault (3, 4,
then 2); all lines are written in any case.
"""


def make_page() -> str:
    """Return the text of docs/cli.md."""
    lines = ["<!-- Made by scripts/make_cli_docs.py; edit src/foreword/cli/arguments.py. -->", ""]
    lines += ["# The command `foreword`", "", DESCRIPTION, "", INTRODUCTION]
    lines += ["| exit code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    for name, command in _commands(make_parser()).items():
        lines += ["", f"## foreword {name}", "", command.description or "", *_tables(command)]
        if name == "render":
            lines += ["", BATCH.rstrip()]
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # argparse has no public way to ask for these
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has no commands")


def _tables(command: argparse.ArgumentParser) -> Iterator[str]:
    for group in command._action_groups:
        rows = [
            action
            for action in group._group_actions
            if action.help != argparse.SUPPRESS and action.dest != "help"
        ]
        if rows:
            title = {"positional arguments": "argument", "options": "option"}
            yield ""
            yield f"| {title.get(group.title or '', f'{group.title} option')} | |"
            yield "|---|---|"
            yield from (f"| `{_name(action)}` | {action.help} |" for action in rows)


def _name(action: argparse.Action) -> str:
    value = str(action.metavar or action.dest.upper())
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return value
    takes_value = action.nargs != 0
    name = ", ".join(action.option_strings)
    return (f"{name} {value}" if takes_value else name).replace("|", "\\|")


def main() -> int:
    """Write the page, or check it."""
    page = make_page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print("docs/cli.md is not current: run python scripts/make_cli_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
