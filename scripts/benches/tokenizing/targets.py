"""The figures of a run enter; what was to be shown, and whether it was, leaves.

Rules of this file: a target is judged on medians of ratios, worst model first; one that this run
did not measure is left out and said to be.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tokenizing.engines import (
    FASTOKENS,
    FASTOKENS_FLAT,
    FOREWORD,
    FOREWORD_FAST,
    REFERENCE,
    TOKTIER,
)

Results = dict[str, Any]


class Target(NamedTuple):
    """One thing to show. `is_met` is None for a figure shown beside, having no target."""

    sentence: str
    figures: str
    is_met: bool | None


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def judge(results: Results) -> list[Target]:
    """Return every target that the run measured."""
    return [target for check in _CHECKS for target in check(results)]


def warm_ratio(row: dict[str, Any], slow: str, fast: str) -> float | None:
    """Return how many times faster `fast` is than `slow`, from neighbouring calls."""
    if slow not in row["ms"] or fast not in row["ms"]:
        return None
    if slow == REFERENCE:
        return median(row["ratios"][fast])
    pairs = zip(row["ms"][slow], row["ms"][fast], strict=True)
    return median(a / b for a, b in pairs)


def cold_ratio(row: dict[str, Any], slow: str, fast: str) -> float | None:
    """Return how many times faster `fast` is than `slow`, from rounds of fresh processes."""
    if slow not in row["ms"] or fast not in row["ms"]:
        return None
    return median(a / b for a, b in zip(row["ms"][slow], row["ms"][fast], strict=True))


def _emptied_ratio(row: dict[str, Any], slow: str, fast: str) -> float | None:
    return cold_ratio({"ms": row["emptied_ms"]}, slow, fast)


def _warm_rows(results: Results, scenario: str, size: int) -> list[dict[str, Any]]:
    return [r for r in results["warm"] if r["scenario"] == scenario and r["size"] == size]


def _compare(
    sentence: str,
    rows: list[dict[str, Any]],
    ratio: Callable[[dict[str, Any], str, str], float | None],
    slow: str,
    fast: str,
    least: float | None,
) -> list[Target]:
    found = {row["model"]: ratio(row, slow, fast) for row in rows}
    ratios = {model: value for model, value in found.items() if value is not None}
    if not ratios:
        return []
    figures = ", ".join(f"{model} {value:.3g}x" for model, value in ratios.items())
    return [Target(sentence, figures, None if least is None else min(ratios.values()) >= least)]


def _growing(results: Results) -> list[Target]:
    targets: list[Target] = []
    for size in (131072,):
        rows = _warm_rows(results, "growing by a turn", size)
        for engine in (FOREWORD, FOREWORD_FAST):
            for slow, least in ((REFERENCE, 200.0), (FASTOKENS, 1.0), (TOKTIER, 1.0)):
                what = {REFERENCE: "the full encode", FASTOKENS: "fastokens with its cache"}
                targets += _compare(
                    f"growing by a turn at 128k: {engine} at least {least:.0f}x faster than"
                    f" {what.get(slow, 'toktier session append')}",
                    rows,
                    warm_ratio,
                    slow,
                    engine,
                    least,
                )
            targets += _compare(
                f"beside it: {engine} to fastokens with its cache, ids as bytes",
                rows,
                warm_ratio,
                FASTOKENS_FLAT,
                engine,
                None if engine == FOREWORD else 1.0,
            )
    return targets


def _cold(results: Results) -> list[Target]:
    rows = [row for row in results["cold"] if row["size"] == 131072]
    return [
        *_compare(
            "cold 128k on 2 cores: foreword without fastokens at least 3x faster than encode",
            rows,
            cold_ratio,
            REFERENCE,
            FOREWORD,
            3.0,
        ),
        *_compare(
            "cold 128k: foreword with fastokens at most 10 % slower than fastokens alone",
            rows,
            cold_ratio,
            FASTOKENS_FLAT,
            FOREWORD_FAST,
            1 / 1.1,
        ),
    ]


def _small(results: Results) -> list[Target]:
    targets: list[Target] = []
    for engine in (FOREWORD, FOREWORD_FAST):
        targets += _compare(
            f"200 tokens, first call of a process: {engine} not slower than encode",
            [row for row in results["cold"] if row["size"] == 200],
            cold_ratio,
            REFERENCE,
            engine,
            1.0,
        )
        targets += _compare(
            f"beside it: the same with the processor's caches emptied before, {engine} to encode",
            [row for row in results["cold"] if row["size"] == 200],
            _emptied_ratio,
            REFERENCE,
            engine,
            None,
        )
        targets += _compare(
            f"200 tokens, repeated: {engine} not slower than encode",
            _warm_rows(results, "repeated", 200),
            warm_ratio,
            REFERENCE,
            engine,
            1.0,
        )
    return targets


def _runs(results: Results) -> list[Target]:
    targets = []
    for row in results["runs"]:
        ratio = median(b / a for a, b in row["pairs"])
        took = median(b for _, b in row["pairs"])
        targets.append(
            Target(
                f"2 million times {row['run']}, {row['model']}: at most 1.2x encode's time, and"
                " refused above the limit",
                f"{ratio:.2f}x ({took:.0f} ms), "
                + (
                    f"refused in {row['refusal_ms']:.1f} ms"
                    if row["refusal"]
                    else "cut, so never too long"
                    if row["is_cut"]
                    else "NOT refused"
                ),
                ratio <= 1.2 and bool(row["refusal"] or row["is_cut"]),
            )
        )
    return targets


def _memory(results: Results) -> list[Target]:
    return [
        Target(
            f"memory: {row['num_prompts']} distinct prompts, {row['model']}, memo of"
            f" {row['memo_bytes'] / 2**20:.0f} MiB",
            f"counted {row['peak_counted_bytes'] / 2**20:.1f} MiB, the process grew by"
            f" {row['peak_growth_bytes'] / 2**20:.1f} MiB at most ({row['evictions']} evictions)",
            row["peak_counted_bytes"] <= row["memo_bytes"]
            and row["peak_growth_bytes"] <= row["memo_bytes"],
        )
        for row in results["memory"]
    ]


def _same_ids(results: Results) -> list[Target]:
    differs = sorted(
        {
            f"{name} ({row['model']}, {row['size']})"
            for row in (*results["warm"], *results["cold"])
            for name in row["differs"]
        }
    )
    ours = [name for name in differs if name.startswith("foreword")]
    others = f"; others differ: {', '.join(differs)}" if differs and not ours else ""
    return [Target("every id is the reference's", ", ".join(ours) + others or "all", not ours)]


_CHECKS = (_same_ids, _growing, _cold, _small, _runs, _memory)
