"""A trace's report enters; a page that a person reads from top to bottom leaves.

Rules of this file: what decides comes first: numbers, what was cut, what failed; the prompt
itself comes last. Layout only; every number was computed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foreword.cli.colour import Style, visible
from foreword.cli.findings import Report
from foreword.cli.media import media_lines
from foreword.cli.output import Console
from foreword.cli.progress import bar
from foreword.cli.prompt_view import prompt_lines
from foreword.cli.remedies import find_remedies
from foreword.diagnosis import STATIONS
from foreword.types import EngineInput

_BAR_WIDTH = 30
_CONTEXT_WIDTH = 60
_MAX_ROWS, _END_ROWS = 40, 8


def print_report(report: Report, console: Console, *, is_full: bool) -> None:
    """Print the page."""
    style = console.style
    sections = [
        [_header(report, style)],
        [*_numbers(report, style)],
        [*_outcome(report, style)],
        [*_parts(report, style, is_full)],
        [*media_lines(report.stations, style)],
        [*_oddities(report, console)],
        [*prompt_lines(report.stations, report.renderer.tokenizer, style, is_full=is_full)],
    ]
    console.say("\n\n".join("\n".join(lines) for lines in sections if lines))


def count(number: int) -> str:
    """Return a number for a reader: 40,960."""
    return f"{number:,}"


def percent(share: float) -> str:
    """Return a share for a reader: 3.4 %, never 0 % for something."""
    return "<0.1 %" if 0 < share < 0.0005 else f"{share:.1%}".replace("%", " %")


def _header(report: Report, style: Style) -> str:
    renderer, stations = report.renderer, report.stations
    facts = [
        renderer.tokenizer.info.mode,
        f"context {count(renderer.options.max_model_len)}",
        stations.kind,
        f"fingerprint {renderer.assets.fingerprint[:12]}",
    ]
    if stations.num_prompts > 1:
        facts.insert(3, f"prompt {report.prompt_index} of {stations.num_prompts}")
    return f"{style.title(visible(report.model_name))}  {style.dim(' · '.join(facts))}"


def _numbers(report: Report, style: Style) -> Iterator[str]:
    """Yield the box of the three numbers, and how the prompt lies in the context."""
    stations = report.stations
    rendered, tokens, result = stations.rendered, stations.tokens, stations.engine_input
    kept = "—" if result is None else count(len(result.token_ids) - result.num_padded)
    if result is None and stations.error is not None:
        kept = "refused"
    cells = [
        ("—" if rendered is None else count(len(rendered.text)), "characters"),
        ("—" if tokens is None else count(len(tokens.token_ids)), "tokens"),
        (kept, "tokens after truncation"),
    ]
    widths = [max(len(number), len(label)) + 4 for number, label in cells]
    colour = style.red if kept == "refused" else style.bold
    paints = (style.bold, style.bold, colour)
    yield "╭" + "┬".join("─" * width for width in widths) + "╮"
    columns = list(zip(cells, widths, paints, strict=True))
    yield _row([paint(number.center(width)) for (number, _), width, paint in columns])
    yield _row([style.dim(label.center(width)) for (_, label), width, _ in columns])
    yield "╰" + "┴".join("─" * width for width in widths) + "╯"
    if tokens is not None:
        yield from _context(report, style)


def _row(cells: Sequence[str]) -> str:
    return "│" + "│".join(cells) + "│"


def _context(report: Report, style: Style) -> Iterator[str]:
    stations, limit = report.stations, report.renderer.options.max_model_len
    assert stations.tokens is not None
    result = stations.engine_input
    num_prompt = len((result or stations.tokens).token_ids)
    made = stations.engine_request
    num_output = (made.sampling_params.max_tokens or 0) if made is not None else 0
    words = f"{count(num_prompt)} prompt"
    if num_output:
        words += f" + {count(num_output)} output"
    words += f" of {count(limit)} tokens ({percent((num_prompt + num_output) / limit)})"
    columns = min(_CONTEXT_WIDTH, round(_CONTEXT_WIDTH * num_prompt / limit))
    columns = max(1, columns) if num_prompt else 0
    output = min(_CONTEXT_WIDTH - columns, -(-_CONTEXT_WIDTH * num_output // limit))
    paint = style.red if num_prompt > limit else style.cyan
    free = "·" * (_CONTEXT_WIDTH - columns - output)
    yield f"{paint('█' * columns)}{style.green('▒' * output)}{style.dim(free)}  {words}"


def _outcome(report: Report, style: Style) -> Iterator[str]:
    """Yield what was cut, how long it took, and what failed."""
    stations = report.stations
    if stations.engine_input is not None:
        yield f"cut     {_cut(report, stations.engine_input, style)}"
    if stations.seconds:
        together = sum(stations.seconds.values())
        laps = [f"{name} {_time(taken)}" for name, taken in stations.seconds.items()]
        line = f"time    {' · '.join(laps)} · together {_time(together)}"
        if report.compile_seconds:
            line += style.dim(f"  (template compiled once in {_time(report.compile_seconds)})")
        yield line
    error, station = stations.error, stations.stopped_at
    if error is None or station is None:
        return
    yield f"failed  {_stations(report, style)}"
    where = f" in {visible(error.param)}" if error.param else ""
    yield f"        {style.dim(f'{error.code}, HTTP {error.status}{where}')}"
    yield f"        {style.red(visible(error.message))}"
    for remedy in find_remedies(stations, report.parts, report.renderer.options):
        yield f"        {style.green('→')} {remedy}"


def _stations(report: Report, style: Style) -> str:
    stopped_at = report.stations.stopped_at
    assert stopped_at is not None
    names = []
    for name in STATIONS[: STATIONS.index(stopped_at)]:
        is_passed_by = report.stations.conversation is None and name in ("template", "conversation")
        if not (is_passed_by and report.stations.kind == "completion"):
            names.append(style.green(f"{name} ✓"))
    return " → ".join([*names, style.red(f"{stopped_at} ✗")])


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.1f} ms" if seconds >= 0.00005 else f"{seconds * 1e6:.0f} µs"


def _cut(report: Report, result: EngineInput, style: Style) -> str:
    if not result.num_truncated:
        cut = "nothing"
    else:
        kept = "end" if result.truncated_side == "left" else "beginning"
        share = percent(result.num_truncated / result.num_prompt_tokens)
        side = "first" if result.truncated_side == "left" else "last"
        cut = style.yellow(
            f"the {side} {count(result.num_truncated)} tokens ({share} of the prompt), from the"
            f" {result.truncated_side}: the {kept} is kept"
        )
    return cut + (f"; padded by {count(result.num_padded)}" if result.num_padded else "")


def _parts(report: Report, style: Style, is_full: bool) -> Iterator[str]:
    """Yield the table of tokens by part."""
    sums: dict[str, int] = {}
    for part in report.parts:
        sums[part.label] = sums.get(part.label, 0) + part.num_tokens
    total = sum(sums.values())
    if not total:
        return
    rows = [(visible(label), num_tokens) for label, num_tokens in sums.items()]
    largest = max(sums.values())
    rows = rows if is_full else _fold(rows)
    if report.num_tool_tokens and "tools" not in sums:
        rows.append(("of these, tools", report.num_tool_tokens))
    label_width = max(len(label) for label, _ in rows)
    number_width = max(len(count(total)), 6)
    yield style.title("tokens by part")
    for label, num_tokens in rows:
        drawn = style.cyan(bar(min(1.0, num_tokens / largest), _BAR_WIDTH).rstrip())
        share = percent(num_tokens / total)
        number = f"{count(num_tokens):>{number_width}}"
        yield f"  {label:<{label_width}}  {number}  {share:>7}  {drawn}"


def _fold(rows: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return few enough rows to read: the first, the last and the largest; others in sums."""
    if len(rows) <= _MAX_ROWS:
        return rows
    by_size = sorted(range(len(rows)), key=lambda index: -rows[index][1])
    kept = {*range(_END_ROWS), *range(len(rows) - _END_ROWS, len(rows)), *by_size[:_END_ROWS]}
    folded: list[tuple[str, int]] = []
    number = 0
    for index, (label, num_tokens) in enumerate(rows):
        if index in kept:
            folded.append((label, num_tokens))
            number = 0
            continue
        before = folded.pop()[1] if number else 0
        number += 1
        folded.append((f"… {number} more", before + num_tokens))
    return folded


def _oddities(report: Report, console: Console) -> Iterator[str]:
    shown = [one for one in report.oddities if not (console.is_quiet and one.code == "model")]
    if not shown:
        return
    yield console.style.title("worth a look")
    for oddity in shown:
        yield f"  {console.style.yellow('!')} {visible(oddity.sentence)}"
