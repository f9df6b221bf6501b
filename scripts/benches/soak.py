"""Is memory flat and every answer right, over hours: `scripts/bench soak --model DIR`.

    scripts/bench soak --model DIR [--minutes 60] [--output FOLDER] [-- flags of foreword serve]

What enters: a model folder. What leaves: a line a minute (requests, errors, resident memory,
threads), the same as JSON, and exit code 1 when an answer was wrong or memory grew.

Rules of this file: growing chats, new chats, broken bodies, clients that vanish, and /health, all
at once. The memos are small here, so that their filling up is not taken for a leak.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from _serving import Client, Talk, foreword_command, free_port, request, resident_megabytes, running

SMALL_MEMO = ("--memo-bytes", str(16 * 2**20))

MAX_GROWTH = 0.10
"""How much more memory the last third may need than the second."""


class Counts:
    """What the clients saw."""

    def __init__(self) -> None:
        self.requests = 0
        self.vanished = 0
        self.errors: list[str] = []


def grow(port: int, model: str, seed: int, stop: threading.Event, counts: Counts) -> None:
    """A chat that grows by a turn, and begins anew at 32k tokens."""
    talk, client = Talk(seed), Client(port)
    while not stop.is_set():
        chat = talk.chat(2_000)
        last = 0
        while sum(len(one["content"]) for one in chat) < 100_000 and not stop.is_set():
            made = json.loads(client.send(request(chat, model))[1])
            counts.requests += 1
            if len(made["token_ids"]) <= last:
                counts.errors.append("a chat that grew has no more tokens")
            last = len(made["token_ids"])
            chat += [{"role": "assistant", "content": talk.text(800)},
                     {"role": "user", "content": talk.text(200)}]  # fmt: skip


def disturb(port: int, model: str, seed: int, stop: threading.Event, counts: Counts) -> None:
    """Clients that send half a body, or leave before the answer."""
    talk, chance = Talk(seed), random.Random(seed)
    while not stop.is_set():
        data = request(talk.chat(chance.choice((200, 8_000))), model)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(data[: chance.choice((len(data), len(data) // 2))])
        counts.vanished += 1
        time.sleep(0.05)


def ask(port: int, stop: threading.Event, counts: Counts) -> None:
    """Small requests and /health, by one kept connection."""
    client = Client(port)
    while not stop.is_set():
        seconds, _ = client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        if seconds > 1:
            counts.errors.append(f"/health took {seconds:.1f} s")
        time.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--output", type=Path)
    parser.add_argument("flags", nargs="*", help="flags of foreword serve, after --")
    options = parser.parse_args()
    port, model = free_port(), Path(options.model).name
    counts, stop = Counts(), threading.Event()
    rows: list[dict[str, Any]] = []
    with running(foreword_command(options, port, *SMALL_MEMO), port, "/ready") as process:
        threads = [
            *(threading.Thread(target=guarded(counts, grow, port, model, seed, stop, counts))
              for seed in range(4)),
            threading.Thread(target=guarded(counts, disturb, port, model, 99, stop, counts)),
            threading.Thread(target=guarded(counts, ask, port, stop, counts)),
        ]  # fmt: skip
        for thread in threads:
            thread.start()
        end = time.monotonic() + options.minutes * 60
        while time.monotonic() < end and process.poll() is None:
            time.sleep(min(15.0, max(0.1, end - time.monotonic())))
            rows.append(row(process.pid, counts))
            print(rows[-1], flush=True)
        stop.set()
        for thread in threads:
            thread.join()
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "soak.json").write_text(json.dumps(rows, indent=1))
    return verdict(rows, counts)


def guarded(counts: Counts, function: Any, *args: Any) -> Any:
    """Return a thread's target that reports what goes wrong instead of ending silently."""

    def run() -> None:
        try:
            function(*args)
        except Exception as error:
            counts.errors.append(f"{function.__name__}: {error!r}"[:300])

    return run


def row(pid: int, counts: Counts) -> dict[str, Any]:
    status = Path(f"/proc/{pid}/status").read_text()
    return {
        "requests": counts.requests,
        "vanished": counts.vanished,
        "errors": len(counts.errors),
        "memory_mb": round(resident_megabytes(pid), 1),
        "threads": int(status.split("Threads:")[1].split()[0]),
    }


def verdict(rows: list[dict[str, Any]], counts: Counts) -> int:
    for error in counts.errors[:5]:
        print("error:", error)
    third = max(1, len(rows) // 3)
    middle = max(one["memory_mb"] for one in rows[third : 2 * third] or rows)
    last = max(one["memory_mb"] for one in rows[-third:])
    print(f"memory: {middle} MB in the second third, {last} MB in the last")
    grew = last > middle * (1 + MAX_GROWTH)
    return 1 if counts.errors or grew else 0


if __name__ == "__main__":
    sys.exit(main())
