"""A request file enters; the station it was asked for leaves on stdout, as JSON or text.

Rules of this file: the value printed is the renderer's, only its form is decided here.
"""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from foreword.cli.batch import render_batch
from foreword.cli.inputs import STDIN, read_request
from foreword.cli.json_output import write_json
from foreword.cli.model import load_renderer
from foreword.cli.output import Console
from foreword.cli.values import find_kind, find_station, render_one
from foreword.errors import InvalidRequest


def run_render(options: Namespace, console: Console) -> int:
    """Run `foreword render`."""
    if (options.request is None) == (options.batch is None):
        raise InvalidRequest(
            "Give one request file (- for standard input), or --batch with a file of them."
        )
    station = find_station(options)
    if options.indent is not None and not 0 <= options.indent <= 16:
        raise InvalidRequest(f"--indent is {options.indent}; it must be from 0 to 16.")
    if options.batch is not None:
        _check_output_is_not_input(options.output, options.batch)
        with _opened(options.output, console) as target:
            return render_batch(options, console, target, station)
    body = read_request(options.request)
    _check_output_is_not_input(options.output, options.request)
    renderer = load_renderer(options, console.warn)
    value = render_one(renderer, body, kind=find_kind(options, body), station=station)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    with _opened(options.output, console) as target:
        if isinstance(value, str):
            ending = "\n" if target.is_terminal and not value.endswith("\n") else ""
            target.out.write(value + ending)
        else:
            write_json(target, value, options.indent)
    return 0


def _check_output_is_not_input(output: str | None, source: str) -> None:
    if output is None or source == STDIN:
        return
    with contextlib.suppress(OSError):
        if Path(output).samefile(source):
            raise InvalidRequest(f"--output {output} is the file that is read. Name another.")


@contextlib.contextmanager
def _opened(output: str | None, console: Console) -> Iterator[Console]:
    if output is None:
        yield console
        return
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        yield replace(console, out=file)
