"""What tokenization costs, beside the reference, fastokens and toktier: `scripts/bench tokenize`.

    scripts/bench tokenize [--quick] [--models FOLDER ...] [--sizes 200 131072] [--json]
                           [--scenarios cold warm runs memory] [--out DIR]

What enters: model folders. What leaves: a table, what was to be shown and whether it was, and in
the output folder the same as markdown and JSON, with a plot.

Rules of this file: cold is a fresh process a call, engines in turn; warm is one process a model,
engines in turn at every prompt. Ratios are medians of ratios between neighbours in time, so that a
busy machine hits both sides. The exit status is 1 when a target that was measured is missed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tokenizing import edges, scenarios
from tokenizing.engines import ENGINES, FASTOKENS, REFERENCE, Unavailable, load_engine
from tokenizing.report import note, table, target_lines, write
from tokenizing.targets import judge
from tokenizing.workload import markers_of

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = ROOT.parent / "shared" / "data" / "models"
NAMES = ("qwen3", "llama3_1", "deepseek_v3", "gptoss", "gemma3")
SIZES = (200, 1024, 8192, 32768, 131072)
MAX_SMALL_TOKENS = 1000
"""Up to here what the processor's caches hold is a third of a first call's time."""
PARTS = ("cold", "warm", "runs", "memory")
# Its cold figure is that of `fastokens, flat` and a list more.
COLD_ENGINES = tuple(name for name in ENGINES if name != FASTOKENS)
TASK_SECONDS = 1800
MEMO_BYTES = 32 * 2**20


def do(task: dict[str, Any]) -> dict[str, Any]:
    """Do one task in this process."""
    folder, arguments = Path(task["folder"]), task["arguments"]
    try:
        return _TASKS[task["name"]](folder, **arguments)
    except Unavailable as error:
        return {"unavailable": str(error)}


def chars(folder: Path, sizes: list[int]) -> dict[str, Any]:
    """Return how many characters make each size."""
    encode = load_engine(REFERENCE, folder, remembers=False).encode
    markers = markers_of(folder)
    return {"chars": [scenarios.chars_of(markers, size, encode) for size in sizes]}


_TASKS: dict[str, Any] = {
    "chars": chars,
    "cold": scenarios.cold,
    "warm": scenarios.warm,
    "run": edges.single_run,
    "memory": edges.memory,
}


def in_a_process(task_name: str, folder: Path, /, **arguments: Any) -> dict[str, Any]:
    """Do a task in a fresh process."""
    task = json.dumps({"name": task_name, "folder": str(folder), "arguments": arguments})
    done = subprocess.run(
        [sys.executable, __file__, "--task", task],
        capture_output=True, text=True, timeout=TASK_SECONDS,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{task_name} {folder.name} {arguments} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure_cold(folder: Path, options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Time every engine in fresh processes, engines in turn within a round."""
    lengths = in_a_process("chars", folder, sizes=options.sizes)["chars"]
    shuffle = random.Random(0).shuffle
    engines = [name for name in COLD_ENGINES if name in options.engines]
    for size, num_chars in zip(options.sizes, lengths, strict=True):
        say(f"{folder.name}: cold, {size} tokens")
        times: dict[str, list[float]] = defaultdict(list)
        cpu: dict[str, list[float]] = defaultdict(list)
        emptied: dict[str, list[float]] = defaultdict(list)
        differs: set[str] = set()
        num_tokens = 0
        for seed in range(1, options.rounds + 1):
            shuffle(engines)
            digests = {}
            for engine in tuple(engines):
                made = in_a_process("cold", folder, engine=engine, num_chars=num_chars, seed=seed)
                if "unavailable" in made:
                    results["unavailable"].setdefault(folder.name, {})[engine] = made["unavailable"]
                    engines.remove(engine)
                    continue
                times[engine].append(made["ms"])
                cpu[engine].append(made["cpu_ms"])
                if size <= MAX_SMALL_TOKENS:
                    again = in_a_process(
                        "cold",
                        folder,
                        engine=engine,
                        num_chars=num_chars,
                        seed=seed,
                        is_emptied=True,
                    )
                    emptied[engine].append(again["ms"])
                digests[engine] = made["digest"]
                num_tokens = made["num_tokens"] if engine == REFERENCE else num_tokens
            differs |= {name for name, found in digests.items() if found != digests[REFERENCE]}
        results["cold"].append(
            {
                "model": folder.name,
                "size": size,
                "num_tokens": num_tokens,
                "ms": times,
                "cpu_ms": cpu,
                "emptied_ms": emptied,
                "differs": sorted(differs),
            }
        )


def measure_warm(folder: Path, options: argparse.Namespace, results: dict[str, Any]) -> None:
    say(f"{folder.name}: {', '.join(scenarios.SCENARIOS)}")
    made = in_a_process(
        "warm",
        folder,
        sizes=options.sizes,
        num_steps=options.steps,
        scenarios=scenarios.SCENARIOS,
        seed=1,
    )
    results["warm"] += [{"model": folder.name, **row} for row in made["rows"]]
    if made["unavailable"]:
        results["unavailable"].setdefault(folder.name, {}).update(made["unavailable"])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return every figure of the run."""
    results: dict[str, Any] = {
        "machine": machine(),
        "cold": [], "warm": [], "runs": [], "memory": [], "unavailable": {},
    }  # fmt: skip
    for folder in options.models:
        if "cold" in options.scenarios:
            measure_cold(folder, options, results)
        if "warm" in options.scenarios:
            measure_warm(folder, options, results)
        for name in edges.RUNS if "runs" in options.scenarios else ():
            say(f"{folder.name}: 2 million times {name}")
            made = in_a_process("run", folder, name=name, num_rounds=3)
            results["runs"].append({"model": folder.name, "run": name, **made})
    if "memory" in options.scenarios:
        folder = options.models[0]
        say(f"{folder.name}: the memory of {options.prompts} prompts")
        made = in_a_process("memory", folder, num_prompts=options.prompts, memo_bytes=MEMO_BYTES)
        results["memory"].append({"model": folder.name, **made})
    return results


def machine() -> dict[str, str]:
    packages = ("tokenizers", "fastokens", "toktier")
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    cpu = Path("/proc/cpuinfo")
    names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
    return {
        "Python": platform.python_version(),
        **found,
        "processor": names[0].split(":")[1].strip() if names else platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load at start": f"{os.getloadavg()[0]:.1f}",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def folders(names: list[str] | None) -> list[Path]:
    """Return the model folders: as given, or by name from the data beside the checkout."""
    found = []
    for name in names or NAMES:
        path = next((p for p in (Path(name), MODELS / name) if p.is_dir()), None)
        if path is None or not (path / "tokenizer.json").is_file():
            sys.exit(
                f"There is no model folder {name} (a folder with a tokenizer.json). Without"
                " --models the folders are expected in ../shared/data/models beside the checkout;"
                " give others with --models FOLDER ..."
            )
        found.append(path.resolve())
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench tokenize", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds, one model")
    parser.add_argument("--models", nargs="+", metavar="FOLDER")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="TOKENS")
    parser.add_argument("--scenarios", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES, help="cold only")
    parser.add_argument("--rounds", type=int, help="fresh processes of each engine and size")
    parser.add_argument("--steps", type=int, help="timed prompts of each warm scenario")
    parser.add_argument("--prompts", type=int, help="distinct prompts of the memory check")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.task:
        options.models = folders(options.models or (["qwen3"] if options.quick else None))
    options.engines = [REFERENCE, *options.engines]
    options.sizes = options.sizes or ([200, 8192, 131072] if options.quick else list(SIZES))
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.steps = options.steps or (5 if options.quick else 11)
    options.prompts = options.prompts or (2000 if options.quick else 10_000)
    return options


def main() -> int:
    options = parse()
    if options.task:
        print(json.dumps(do(json.loads(options.task))))
        return 0
    results = measure(options)
    targets = judge(results)
    files = write(results, targets, options.out)
    if options.json:
        print(json.dumps({**results, "targets": [target._asdict() for target in targets]}))
    else:
        print(table(results), note(results), target_lines(targets), sep="\n\n")
    say(f"written: {', '.join(str(file.name) for file in files)} in {options.out.name}/")
    return int(any(target.is_met is False for target in targets))


if __name__ == "__main__":
    sys.exit(main())
