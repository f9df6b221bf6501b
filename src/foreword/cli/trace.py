"""A request file enters; everything that becomes of it leaves, for a person or as JSON.

Rules of this file: a request that is refused is shown as far as it came; its error decides the
exit code all the same.
"""

from __future__ import annotations

from argparse import Namespace

from foreword.cli.findings import Report, make_report, report_dict
from foreword.cli.inputs import read_request
from foreword.cli.json_output import write_json
from foreword.cli.model import load_renderer
from foreword.cli.output import Console, exit_code
from foreword.cli.report import print_report
from foreword.cli.values import find_kind


def run_trace(options: Namespace, console: Console) -> int:
    """Run `foreword trace`."""
    body = read_request(options.request)
    renderer = load_renderer(options)
    kind = find_kind(options, body)
    report = make_report(renderer, body, kind=kind, prompt_index=options.prompt_index)
    return show(report, console, is_full=options.full)


def show(report: Report, console: Console, *, is_full: bool) -> int:
    """Print a report and return the exit code."""
    if console.is_json:
        write_json(console, report_dict(report))
    else:
        print_report(report, console, is_full=is_full)
    error = report.stations.error
    if error is None:
        return 0
    if console.is_json or not console.is_terminal:
        console.report(error)
    return exit_code(error)
