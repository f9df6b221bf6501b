"""What an installation costs: the built wheel in, megabytes and import milliseconds out.

    scripts/bench install [--json] [--runs 10]

Rules of this file: a fresh environment with the core dependencies only; sizes are MB of 10**6 bytes
as pip leaves them, bytecode included, without pip and setuptools; every import is a new process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_SIZE_MB = 60
MAX_IMPORT_MS = 250
UNWANTED = ("torch", "transformers")

# `foreword.load` is what a program uses, so it is loaded too when names are imported lazily.
STATEMENTS = {
    "import foreword": "import foreword",
    "from foreword import load": "from foreword import load",
}

DEMO = """
from pathlib import Path
from foreword.demo import model_folder
names = {path.name for path in Path(model_folder()).iterdir()}
assert {"tokenizer.json", "chat_template.jinja", "config.json"} <= names
"""

SIZES = """
import importlib.metadata as metadata, json, sys, sysconfig
from pathlib import Path
site = Path(sysconfig.get_paths()["purelib"])
owners = {}
for distribution in metadata.distributions(path=[str(site)]):
    for file in distribution.files or ():
        owners[str(file.locate().resolve())] = distribution.name
sizes = {}
for path in site.rglob("*"):
    if path.is_file():
        owner = owners.get(str(path.resolve()), "other")
        sizes[owner] = sizes.get(owner, 0) + path.stat().st_size
print(json.dumps(sizes))
"""

TIMED = """
import time
started = time.perf_counter()
{statement}
print((time.perf_counter() - started) * 1000)
"""


def run(*command: str | Path) -> str:
    """Run a command outside the checkout and return what it printed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, cwd="/"
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command[1:4]))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def install(folder: Path) -> tuple[Path, Path]:
    """Build the wheel, install it in a new environment; return its Python and the wheel."""
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", ROOT)
    (wheel,) = (folder / "dist").glob("foreword-*.whl")
    run(*pip, "install", "--quiet", wheel)
    return python, wheel


def sizes_mb(python: Path) -> dict[str, float]:
    """Return the installed size of each distribution, largest first."""
    sizes: Counter[str] = Counter(json.loads(run(python, "-c", SIZES)))
    for name in ("pip", "setuptools"):
        sizes.pop(name, None)
    return {name: round(size / 1e6, 2) for name, size in sizes.most_common()}


def import_ms(python: Path, statement: str, num_runs: int) -> dict[str, float]:
    """Time a statement in new processes: the first run and the median of the following ones."""
    times = [
        float(run(python, "-c", TIMED.format(statement=statement))) for _ in range(num_runs + 1)
    ]
    return {"first": round(times[0], 1), "median": round(statistics.median(times[1:]), 1)}


def can_run(python: Path, statement: str) -> bool:
    return subprocess.run([python, "-c", statement], capture_output=True, cwd="/").returncode == 0


def measure(num_runs: int) -> dict[str, Any]:
    """Return every figure of this benchmark."""
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as name:
        started = time.perf_counter()
        python, wheel = install(Path(name))
        sizes = sizes_mb(python)
        return {
            "install_seconds": round(time.perf_counter() - started, 1),
            "wheel_mb": round(wheel.stat().st_size / 1e6, 2),
            "size_mb": round(sum(sizes.values()), 1),
            "sizes_mb": sizes,
            "unwanted": [package for package in UNWANTED if package in sizes],
            "import_ms": {
                label: import_ms(python, statement, num_runs)
                for label, statement in STATEMENTS.items()
                if can_run(python, statement)
            },
            "has_demo_model": can_run(python, DEMO),
            "python": run(
                python, "-c", "import platform; print(platform.python_version())"
            ).strip(),
        }


def missed(result: dict[str, Any]) -> list[str]:
    """Return the targets the figures miss, one sentence each."""
    sentences = [f"{package} was installed" for package in result["unwanted"]]
    if not result["has_demo_model"]:
        sentences.append("the demo model is not in the wheel")
    if result["size_mb"] >= MAX_SIZE_MB:
        sentences.append(f"installed size {result['size_mb']} MB, target under {MAX_SIZE_MB}")
    for label, times in result["import_ms"].items():
        if times["median"] >= MAX_IMPORT_MS:
            sentences.append(f"{label}: {times['median']} ms, target under {MAX_IMPORT_MS}")
    return sentences


def table(result: dict[str, Any]) -> str:
    """Return the figures as a small table for a person."""
    rows = [
        ("wheel", f"{result['wheel_mb']:.2f} MB"),
        ("installed, all", f"{result['size_mb']:.1f} MB  (target < {MAX_SIZE_MB})"),
        *((f"  {name}", f"{size:.2f} MB") for name, size in result["sizes_mb"].items()),
    ]
    for label, times in result["import_ms"].items():
        figures = (
            f"{times['median']:.1f} ms  (first {times['first']:.1f}; target < {MAX_IMPORT_MS})"
        )
        rows.append((label, figures))
    rows.append(("torch, transformers", ", ".join(result["unwanted"]) or "absent"))
    return "\n".join(f"{label:<28}{figures}" for label, figures in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench install", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=10, help="processes each import is timed in")
    options = parser.parse_args()
    result = measure(options.runs)
    result["missed"] = missed(result)
    print(json.dumps(result, indent=2) if options.json else table(result))
    for sentence in result["missed"]:
        print(f"missed: {sentence}", file=sys.stderr)
    return int(bool(result["missed"]))


if __name__ == "__main__":
    sys.exit(main())
