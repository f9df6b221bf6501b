"""The figures of a run enter; a table for people, one for programs, and a plot leave.

Rules of this file: times are medians in milliseconds, ratios medians of ratios; "x" counts how
many times faster than the reference's `encode` in the same round. Nothing is left out: an engine
that could not run is a dash, with its reason below.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizing.engines import ENGINES, REFERENCE
from tokenizing.targets import Results, Target, cold_ratio, median, warm_ratio

_COLORS = ("#444444", "#888888", "#0b6e4f", "#08a045", "#c8553d", "#e9a178", "#3d5a80")


def rows(results: Results) -> Iterator[tuple[str, str, int, int, dict[str, Any], Any]]:
    """Yield scenario, model, size, true number of tokens, the row, and its ratio function."""
    for row in results["cold"]:
        yield "cold", row["model"], row["size"], row["num_tokens"], row, cold_ratio
    for row in results["warm"]:
        yield row["scenario"], row["model"], row["size"], row["num_tokens"], row, warm_ratio


def cells(row: dict[str, Any], ratio: Any) -> list[str]:
    """Return one cell an engine: its median, and how many times faster than the reference."""
    made = []
    for engine in ENGINES:
        values = row["ms"].get(engine)
        faster = ratio(row, REFERENCE, engine) if values else None
        if not values:
            made.append("-")
        elif engine == REFERENCE or faster is None:
            made.append(f"{_ms(median(values))}")
        else:
            made.append(f"{_ms(median(values))} ({faster:.3g}x)")
        if engine in row["differs"]:
            made[-1] += " *"
    return made


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def table(results: Results) -> str:
    """Return the table as text of fixed width."""
    lines = [["scenario", "model", "tokens", *ENGINES]]
    for scenario, model, _, num_tokens, row, ratio in sorted_rows(results):
        lines.append([scenario, model, str(num_tokens), *cells(row, ratio)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def sorted_rows(results: Results) -> list[tuple[str, str, int, int, dict[str, Any], Any]]:
    return sorted(rows(results), key=lambda found: (found[0], found[1], found[2]))


def markdown(results: Results, targets: list[Target]) -> str:
    """Return everything as a markdown page."""
    machine = results["machine"]
    parts = [
        "# Tokenization, measured\n",
        "Medians in milliseconds; in brackets how many times faster than the reference's"
        " `Tokenizer.encode` in the same round (median of ratios). Every engine hands back all"
        " ids; `*` marks ids that differ from the reference's.\n",
        "; ".join(f"{name} {value}" for name, value in machine.items()) + ".\n",
        "| " + " | ".join(["scenario", "model", "tokens", *ENGINES]) + " |",
        "|" + "---|" * (3 + len(ENGINES)),
    ]
    for scenario, model, _, num_tokens, row, ratio in sorted_rows(results):
        parts.append(
            f"| {scenario} | {model} | {num_tokens} | " + " | ".join(cells(row, ratio)) + " |"
        )
    parts += ["\n## What was to be shown\n", target_lines(targets, mark="- "), ""]
    parts += [note(results)]
    return "\n".join(parts)


def target_lines(targets: list[Target], *, mark: str = "") -> str:
    words = {True: "met", False: "NOT MET", None: "figure"}
    return "\n".join(
        f"{mark}{words[target.is_met]}: {target.sentence}: {target.figures}" for target in targets
    )


def note(results: Results) -> str:
    """Return what the table does not say by itself: engines that could not run, and equal work."""
    lines = [
        "toktier's session append is told what was added, and never sees the generation prompt"
        " that the next turn replaces: less work than the others do, but like them it hands back"
        " all ids. A tokenizer.json it has not certified runs its reference path."
    ]
    for model, reasons in results["unavailable"].items():
        lines += [f"{model}: {name} did not run: {why}" for name, why in reasons.items()]
    return "\n".join(lines)


def write(results: Results, targets: list[Target], folder: Path) -> list[Path]:
    """Write markdown, JSON and the plot; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "tokenize.md", folder / "tokenize.json"
    page.write_text(markdown(results, targets), encoding="utf-8")
    judged = [target._asdict() for target in targets]
    data.write_text(json.dumps({**results, "targets": judged}, indent=1), encoding="utf-8")
    return [page, data, *plot(results, folder)]


def plot(results: Results, folder: Path) -> list[Path]:
    """Draw time over size, a row a scenario and a column a model."""
    found = sorted_rows(results)
    try:
        import matplotlib
    except ImportError:
        return []
    if not found:
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(dict.fromkeys(model for _, model, *_ in found))
    scenarios = list(dict.fromkeys(scenario for scenario, *_ in found))
    figure, axes = pyplot.subplots(
        len(scenarios),
        len(models),
        figsize=(3.6 * len(models), 2.6 * len(scenarios) + 0.6),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    for down, scenario in enumerate(scenarios):
        for across, model in enumerate(models):
            axis = axes[down][across]
            for engine, color in zip(ENGINES, _COLORS, strict=True):
                points = [
                    (num_tokens, median(row["ms"][engine]))
                    for name, other, _, num_tokens, row, _ in found
                    if name == scenario and other == model and row["ms"].get(engine)
                ]
                axis.plot(*zip(*points, strict=True), marker="o", ms=3, lw=1.2, color=color,
                          label=engine) if points else None  # fmt: skip
            axis.set(xscale="log", yscale="log", title=f"{model}: {scenario}")
            axis.title.set_size(9)
            axis.grid(alpha=0.25)
        axes[down][0].set_ylabel("ms")
    for axis in axes[-1]:
        axis.set_xlabel("tokens")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(ENGINES), fontsize=8)
    figure.tight_layout(rect=(0, 0.6 / figure.get_figheight(), 1, 1))
    files = [folder / "tokenize.svg", folder / "tokenize.png"]
    for file in files:
        figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return files
