"""Nothing enters; a built-in request's way through a built-in model leaves, with what to try next.

Rules of this file: no network, no files but the package's own; the same page as `trace`.
"""

from __future__ import annotations

from argparse import Namespace

from foreword.cli.findings import make_report
from foreword.cli.output import Console
from foreword.cli.trace import show
from foreword.demo import DEMO_REQUEST, model_folder
from foreword.loader import load

_NEXT = (
    ("foreword render REQUEST.json --model M", "what the engine gets: vLLM's GenerateRequest"),
    ("foreword trace REQUEST.json --model M", "this page for your request, also if it fails"),
    ("foreword tokenize TEXT --model M --count", "how many tokens is this?"),
    ("foreword inspect --model M", "what the model's files decide"),
)


def run_demo(options: Namespace, console: Console) -> int:
    """Run `foreword demo`."""
    renderer = load(model_folder(), served_model_name=DEMO_REQUEST["model"], offline=True)
    report = make_report(renderer, DEMO_REQUEST, kind="chat")
    code = show(report, console, is_full=options.full)
    if not console.is_json:
        width = max(len(command) for command, _ in _NEXT)
        console.say()
        console.say(console.style.title("try next") + console.style.dim("  M: a folder or hub id"))
        for command, purpose in _NEXT:
            console.say(f"  {console.style.bold(command.ljust(width))}  {purpose}")
    return code
