"""Answer times over HTTP, side by side with vLLM's Rust renderer: `scripts/bench http --model DIR`.

    scripts/bench http --model DIR [--vllm-rs PROGRAM] [--connections 8] [--seconds 5]
                       [--output FOLDER] [-- flags of foreword serve]

What enters: a model folder and, when there is one, the program `vllm-rs` from vLLM's wheel. What
leaves: a table of medians and 99th percentiles, and the same as JSON in the output folder.

Rules of this file: both servers run in the same run, one after the other, and get the same bytes.
The client is a bare socket with prepared requests, so that it adds little; throughput is measured
by wrk, where it is installed. Cold means text that no request before it held.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _serving import (
    PATH,
    Client,
    Talk,
    foreword_command,
    free_port,
    request,
    resident_megabytes,
    running,
    vllm_command,
    workloads,
)

QUIET_SECONDS = 2.5
"""After the load, before memory is read: what a server gives back in a quiet moment is not held."""


def measure(port: int, requests: list[bytes], *, warm: int) -> list[float]:
    """Send requests one by one; leave out the first `warm`."""
    client = Client(port)
    return [client.send(data)[0] for data in requests][warm:]


def measure_many(port: int, model: str, name: str, connections: int, seed: int) -> list[float]:
    """The same from several connections at a time, each with requests of its own."""
    prepared = [workloads(model, 4, seed + index)[name] for index in range(connections)]
    seconds: list[float] = []
    gate = threading.Barrier(connections)

    def run(requests: list[bytes]) -> None:
        gate.wait()
        seconds.extend(measure(port, requests, warm=1))

    threads = [threading.Thread(target=run, args=(requests,)) for requests in prepared]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds


# -- the run ---------------------------------------------------------------------------------------


def figures(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median_ms": statistics.median(ordered) * 1e3,
        "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3,
        "requests": len(ordered),
    }


def run_server(
    name: str, command: Callable[[int], list[str]], path: str, options: argparse.Namespace
) -> dict[str, Any]:
    port, model = free_port(), Path(options.model).name
    results: dict[str, Any] = {}
    with running(command(port), port, path) as process:
        results["memory_mb at start"] = resident_megabytes(process.pid)
        for data in workloads(model, 1, 999)["200 tokens"]:
            Client(port).send(data)
        for workload, requests in workloads(model, options.count, 1).items():
            results[f"{workload}, 1 connection"] = figures(measure(port, requests, warm=1))
        for connections in options.connections:
            for workload in ("200 tokens", "8k", "128k cold", "128k growing"):
                found = measure_many(port, model, workload, connections, 5000)
                results[f"{workload}, {connections} connections"] = figures(found)
        time.sleep(QUIET_SECONDS)
        results["memory_mb after"] = resident_megabytes(process.pid)
        if name == "foreword":
            results["health"] = health_under_load(port, model, options)
    return results


def health_under_load(port: int, model: str, options: argparse.Namespace) -> dict[str, Any]:
    """Ask /health while two connections send 128k-token requests; and idle, for comparison."""
    idle = ask_health(port, options.seconds, threading.Event())
    script = Path(__file__).resolve()
    load = subprocess.Popen(
        [sys.executable, str(script), "--load-only", str(port), "--model", options.model]
    )
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(load.pid, {0})
    time.sleep(3)
    busy = ask_health(port, options.seconds, threading.Event())
    load.kill()
    load.wait()
    return {"idle": figures(idle), "while 128k requests run": figures(busy)}


def ask_health(port: int, seconds: float, _: threading.Event) -> list[float]:
    client = Client(port)
    stop_at, found = time.monotonic() + seconds, []
    while time.monotonic() < stop_at:
        found.append(client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")[0])
        time.sleep(0.005)
    return found


def load_only(port: int, model: str) -> None:
    """Send 128k-token requests, cold and growing, until killed."""

    def run(seed: int) -> None:
        prepared = workloads(model, 6, seed)
        client = Client(port)
        while True:
            for data in prepared["128k cold"] + prepared["128k growing"]:
                client.send(data)

    for seed in (71, 72):
        threading.Thread(target=run, args=(seed,)).start()


def by_wrk(
    command: Callable[[int], list[str]],
    path: str,
    options: argparse.Namespace,
    loads: Sequence[tuple[int, int]],
) -> dict[str, dict[str, Any]]:
    """Measure (tokens, connections) by wrk, which adds little; no text is ever sent twice."""
    port, model = free_port(), Path(options.model).name
    found: dict[str, dict[str, Any]] = {}
    with running(command(port), port, path), tempfile.TemporaryDirectory() as folder:
        for num_tokens, connections in loads:
            script = Path(folder) / f"{num_tokens}.lua"
            script.write_text(numbered_requests(model, num_tokens))
            done = subprocess.run(
                ["wrk", "-t1", f"-c{connections}", f"-d{options.seconds}s", "--latency", "-s",
                 str(script), f"http://127.0.0.1:{port}"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            key = f"{num_tokens} tokens, {connections} connections, by wrk"
            found[key] = read_wrk(done.stdout)
    return found


def numbered_requests(model: str, num_tokens: int) -> str:
    """Write wrk's script: real chats in turn, with a number of its own at the start of each."""
    talk, mark = Talk(7), "@@number@@"
    bodies = []
    for _ in range(16):
        messages = talk.chat(num_tokens)
        messages[0]["content"] = f"{mark} {messages[0]['content']}"
        bodies.append(json.dumps({"model": model, "messages": messages, "max_tokens": 16}))
    entries = ",\n".join(f"[==[{body}]==]" for body in bodies)
    return (
        f"local bodies = {{{entries}}}\nlocal heads, tails, at = {{}}, {{}}, 0\n"
        "for i, body in ipairs(bodies) do\n"
        f'  local from, to = body:find("{mark}", 1, true)\n'
        "  heads[i], tails[i] = body:sub(1, from - 1), body:sub(to + 1)\nend\n"
        "request = function()\n  at = at + 1\n  local i = at % #bodies + 1\n"
        f'  return wrk.format("POST", "{PATH}", {{["Content-Type"] = "application/json"}},'
        " heads[i] .. at .. tails[i])\nend\n"
    )


def read_wrk(printed: str) -> dict[str, Any]:
    """Read what wrk printed."""
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    words = {line.split()[0]: line.split()[-1] for line in printed.splitlines() if line.split()}

    def milliseconds(percentile: str) -> float:
        value = words[percentile]
        unit = next(unit for unit in units if value.endswith(unit))
        return float(value.removesuffix(unit)) * units[unit]

    errors = [s.strip() for s in printed.splitlines() if "Non-2xx" in s or "Socket errors" in s]
    if errors:
        raise SystemExit(f"wrk met errors: {errors}")
    return {
        "median_ms": milliseconds("50%"),
        "p99_ms": milliseconds("99%"),
        "requests_per_second": float(words["Requests/sec:"]),
    }


def measure_by_wrk(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Small and middling requests from many connections; foreword also with two workers."""
    loads = ((200, 1), (200, 8), (200, 32), (8000, 1), (8000, 8))
    rates: dict[str, dict[str, Any]] = {}
    for workers in ("1", "2"):
        rates[f"foreword, {workers} workers"] = by_wrk(
            lambda port, n=workers: foreword_command(options, port, "--workers", n),
            "/ready",
            options,
            loads,
        )
    if options.vllm_rs:
        rates["vllm-rs"] = by_wrk(
            lambda port: vllm_command(options, port), "/health", options, loads
        )
    return rates


def same_ids(options: argparse.Namespace) -> None:
    """Check that both servers give the same ids for one large chat."""
    model, ports = Path(options.model).name, (free_port(), free_port())
    data = request(Talk(3).chat(8_000), model)
    with (
        running(foreword_command(options, ports[0]), ports[0], "/ready"),
        running(vllm_command(options, ports[1]), ports[1], "/health"),
    ):
        ours, theirs = (json.loads(Client(port).send(data)[1])["token_ids"] for port in ports)
    if ours != theirs:
        raise SystemExit("The two servers give different ids.")
    print(f"both give the same {len(ours)} ids\n")


def show(results: dict[str, dict[str, Any]]) -> None:
    names = list(results)
    width = max(len(key) for key in results[names[0]]) + 2
    print("".ljust(width) + "".join(name.rjust(30) for name in names) + "ratio".rjust(16))
    for key, first in results[names[0]].items():
        cells, medians = [], []
        for name in names:
            value = results[name].get(key)
            if isinstance(value, dict) and "median_ms" in value:
                rate = value.get("requests_per_second")
                told = f", {rate:.0f}/s" if rate else ""
                cells.append(f"{value['median_ms']:.2f} / {value['p99_ms']:.2f} ms{told}")
                medians.append(value["median_ms"])
            elif isinstance(value, float):
                cells.append(f"{value:.0f}")
        # How many times faster than the last, which is the one compared with.
        ratio = ", ".join(f"{medians[-1] / median:.2f}x" for median in medians[:-1])
        print(key.ljust(width) + "".join(cell.rjust(30) for cell in cells) + ratio.rjust(16))
        if isinstance(first, dict) and "median_ms" not in first:
            print("   ", json.dumps(first))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--vllm-rs", help="the program of that name from vLLM's wheel")
    parser.add_argument("--connections", type=int, nargs="*", default=[8])
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--load-only", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("flags", nargs="*", help="flags of foreword serve, after --")
    options = parser.parse_args()
    if options.load_only:
        load_only(options.load_only, Path(options.model).name)
        return
    results: dict[str, dict[str, Any]] = {}
    rates: dict[str, dict[str, Any]] = {}
    if options.vllm_rs:
        same_ids(options)
    results["foreword"] = run_server(
        "foreword", lambda port: foreword_command(options, port), "/ready", options
    )
    if options.vllm_rs:
        results["vllm-rs"] = run_server(
            "vllm-rs", lambda port: vllm_command(options, port), "/health", options
        )
    show(results)
    if shutil.which("wrk"):
        rates = measure_by_wrk(options)
        show(rates)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        made = {"latency": results, "throughput": rates}
        (options.output / "http.json").write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
