"""What is timed, in a process of its own: a task enters, milliseconds and checked ids leave.

Rules of this file: all engines of a scenario are timed in turn, prompt by prompt, so that whatever
else the machine does hits them alike; a ratio compares two neighbours in time. Every timed answer
whose prompt the reference has seen is compared with the reference's ids.
"""

from __future__ import annotations

import gc
import hashlib
import random
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tokenizing.engines import BATCH_FAST, ENGINES, REFERENCE, Engine, Unavailable, load_engine
from tokenizing.workload import Chat, Markers, Writer, huge_message, markers_of

NUM_CHATS = 40
SYSTEM_CHARS = 600
SWEEP_BYTES = 256 * 2**20
SCENARIOS = ("repeated", "growing by a turn", "growing message", "40 chats")
_REFERENCES = (REFERENCE, BATCH_FAST)
_BLOCK = array("I", bytes(2**20))


class Step(NamedTuple):
    """One prompt of a scenario. The references are only asked when `is_checked`."""

    chat: str
    prompt: str
    added: str
    """What a session is told instead of the prompt: the text added to its transcript."""
    is_checked: bool = True
    is_timed: bool = True


def digest(ids: Sequence[int]) -> str:
    return hashlib.sha256(array("I", ids).tobytes()).hexdigest()


def chars_of(markers: Markers, num_tokens: int, encode: Callable[[str], Sequence[int]]) -> int:
    """Return how many characters of the workload make about `num_tokens`."""
    sample = Chat(markers, 40_000, Writer(0), "").transcript
    return max(100, round(num_tokens * len(sample) / len(encode(sample))))


# -- cold ------------------------------------------------------------------------------------------


def cold(
    folder: Path, engine: str, num_chars: int, seed: int, is_emptied: bool = False
) -> dict[str, Any]:
    """Time the first call of a fresh process, after a call with one letter.

    With `is_emptied` the processor's caches are emptied before it, of what the loading left there.
    """
    prompt = one_prompt(folder, num_chars, seed)
    encode = load_engine(engine, folder, remembers=False).encode
    if is_emptied:
        _sweep()
    gc.disable()  # one call: whether a collection falls into it is chance
    cpu, started = time.process_time(), time.perf_counter()
    ids = encode(prompt)
    ended, cpu_ended = time.perf_counter(), time.process_time()
    return {
        "ms": (ended - started) * 1e3,
        "cpu_ms": (cpu_ended - cpu) * 1e3,
        "num_tokens": len(ids),
        "digest": digest(ids),
    }


def _sweep() -> None:
    memory = bytearray(SWEEP_BYTES)
    memory[::64] = bytes(SWEEP_BYTES // 64)


def one_prompt(folder: Path, num_chars: int, seed: int) -> str:
    writer = Writer(seed)
    return Chat(markers_of(folder), num_chars, writer, writer.text(SYSTEM_CHARS // 6)).prompt


# -- warm ------------------------------------------------------------------------------------------


def warm(
    folder: Path, sizes: Sequence[int], num_steps: int, scenarios: Sequence[str], seed: int
) -> dict[str, Any]:
    """Time every scenario at every size, all engines in this process."""
    engines, unavailable = load_engines(folder)
    markers = markers_of(folder)
    reference = engines[0].encode
    results: list[dict[str, Any]] = []
    for size in sizes:
        num_chars = chars_of(markers, size, reference)
        for scenario in scenarios:
            if scenario == "40 chats" and size < 1000:
                continue
            steps = _STEPS[scenario](markers, num_chars, Writer(seed + size), num_steps)
            row = run(engines, steps, name=f"{scenario} {size}")
            results.append({"scenario": scenario, "size": size, **row})
    return {"rows": results, "unavailable": unavailable}


def load_engines(folder: Path) -> tuple[list[Engine], dict[str, str]]:
    engines, unavailable = [], {}
    for name in ENGINES:
        try:
            engines.append(load_engine(name, folder, remembers=True))
        except Unavailable as error:
            unavailable[name] = str(error)
    return engines, unavailable


def run(engines: Sequence[Engine], steps: Iterator[Step], *, name: str) -> dict[str, Any]:
    """Time `steps`; return each engine's times, its ratios to the reference's, and differences."""
    times: dict[str, list[float]] = defaultdict(list)
    ratios: dict[str, list[float]] = defaultdict(list)
    transcripts: dict[str, str] = defaultdict(str)
    differs: set[str] = set()
    num_tokens = 0
    order, shuffle = list(engines), random.Random(0).shuffle
    gc.collect()
    for step in steps:
        shuffle(order)
        took: dict[str, float] = {}
        answers: dict[str, Sequence[int]] = {}
        told: dict[Engine, Sequence[int]] = {}
        transcripts[step.chat] += step.added
        for engine in order:
            if engine.name in _REFERENCES and not step.is_checked:
                continue
            if engine.append is not None and step.added:
                started = time.perf_counter()
                told[engine] = engine.append(f"{name} {step.chat}", step.added)
            else:
                started = time.perf_counter()
                answers[engine.name] = engine.encode(step.prompt)
            took[engine.name] = (time.perf_counter() - started) * 1e3
            _settle()
        if step.is_timed:
            for engine_name, ms in took.items():
                times[engine_name].append(ms)
                if REFERENCE in took:
                    ratios[engine_name].append(took[REFERENCE] / ms)
        if REFERENCE in answers:
            expected = array("I", answers[REFERENCE])
            num_tokens = len(expected)
            differs |= {name for name, ids in answers.items() if array("I", ids) != expected}
    if step.added:
        whole = array("I", engines[0].encode(transcripts[step.chat]))
        differs |= {engine.name for engine, ids in told.items() if array("I", ids) != whole}
    return {
        "num_tokens": num_tokens,
        "ms": times,
        "ratios": ratios,
        "differs": sorted(differs),
    }


def _settle() -> None:
    """Let the heap sort what the last call has freed.

    Why: glibc puts it off until the next large allocations, so that the call after a full encode
    would pay milliseconds for hundreds of thousands of small pieces that are not its own.
    """
    for _ in range(64):
        _BLOCK[:]


def _repeated(markers: Markers, num_chars: int, writer: Writer, num: int) -> Iterator[Step]:
    prompt = Chat(markers, num_chars, writer, writer.text(SYSTEM_CHARS // 6)).prompt
    for index in range(num + 1):
        yield Step("0", prompt, "", is_timed=index > 0)


def _growing(markers: Markers, num_chars: int, writer: Writer, num: int) -> Iterator[Step]:
    chat = Chat(markers, num_chars, writer, writer.text(SYSTEM_CHARS // 6))
    added = chat.transcript
    for index in range(num + 1):
        yield Step("0", chat.prompt, added, is_timed=index > 0)
        added = chat.grow()


def _growing_message(markers: Markers, num_chars: int, writer: Writer, num: int) -> Iterator[Step]:
    for index, (prompt, added) in enumerate(huge_message(markers, num_chars, writer)):
        if index > num:
            return
        yield Step("0", prompt, added, is_timed=index > 0)


def _many_chats(markers: Markers, num_chars: int, writer: Writer, num: int) -> Iterator[Step]:
    system = writer.text(SYSTEM_CHARS)
    chats = [Chat(markers, num_chars, writer, system) for _ in range(NUM_CHATS)]
    for index, chat in enumerate(chats):
        yield Step(str(index), chat.prompt, chat.transcript, is_checked=False, is_timed=False)
    checked = set(range(0, NUM_CHATS, NUM_CHATS // min(num, NUM_CHATS)))
    for _ in range(2):
        for index, chat in enumerate(chats):
            added = chat.grow()
            yield Step(str(index), chat.prompt, added, is_checked=index in checked)


_STEPS: dict[str, Callable[[Markers, int, Writer, int], Iterator[Step]]] = {
    "repeated": _repeated,
    "growing by a turn": _growing,
    "growing message": _growing_message,
    "40 chats": _many_chats,
}
