"""What must stay bounded: two million times one character, and the memory of the memos.

What enters: a model folder. What leaves: milliseconds, megabytes, and whether a limit refuses.
"""

from __future__ import annotations

import gc
import os
import time
from array import array
from pathlib import Path
from typing import Any

from tokenizing.engines import foreword_tokenizer
from tokenizing.scenarios import SYSTEM_CHARS
from tokenizing.workload import Writer, markers_of

RUN_CHARS = 2_000_000
RUNS = {"a": "a", "space": " ", "newline": "\n", "emoji": "😀"}
PROMPT_CHARS = 4000


def single_run(folder: Path, name: str, num_rounds: int) -> dict[str, Any]:
    """Time one character two million times, and its refusal above the limit."""
    text = RUNS[name] * RUN_CHARS
    tokenizer = foreword_tokenizer(folder, memo_bytes=0, max_uncut_chars=None)
    limited = foreword_tokenizer(folder)
    encode = tokenizer.reference.tokenizer.encode
    pairs: list[tuple[float, float]] = []
    for index in range(num_rounds):
        calls = [
            lambda: array("I", encode(text, add_special_tokens=False).ids),
            lambda: tokenizer.encode(text, add_special_tokens=False).token_ids,
        ]
        took, ids = [0.0, 0.0], [array("I"), array("I")]
        for which in (0, 1) if index % 2 else (1, 0):
            started = time.perf_counter()
            ids[which] = calls[which]()
            took[which] = (time.perf_counter() - started) * 1e3
        if ids[0] != ids[1]:
            raise AssertionError(f"{folder.name}: {name} x {RUN_CHARS} gives other ids")
        pairs.append((took[0], took[1]))
    started = time.perf_counter()
    refusal = ""
    try:
        limited.encode(text, add_special_tokens=False)
    except Exception as error:
        refusal = type(error).__name__
    return {
        "pairs": pairs,
        "refusal": refusal,
        "refusal_ms": (time.perf_counter() - started) * 1e3,
        "is_cut": tokenizer.rules.is_cut(text, RUN_CHARS // 2),
    }


def memory(folder: Path, num_prompts: int, memo_bytes: int) -> dict[str, Any]:
    """Tokenize distinct prompts with one system prompt; return what the memos and process hold."""
    tokenizer = foreword_tokenizer(folder, memo_bytes=memo_bytes)
    markers, writer = markers_of(folder), Writer(1)
    head = markers.system + writer.text(SYSTEM_CHARS) + markers.end + markers.user
    tail = markers.end + markers.assistant
    # The reference's own caches, the heap and the thread pool reach their size first.
    warm_up = foreword_tokenizer(folder, memo_bytes=0) if memo_bytes else tokenizer
    for _ in range(200):
        warm_up.encode(head + writer.text(PROMPT_CHARS) + tail, add_special_tokens=False)
    before, peak_memo, peak_rss = _rss_bytes(), 0, 0
    for index in range(num_prompts):
        prompt = head + f"{index} " + writer.text(PROMPT_CHARS) + tail
        tokenizer.encode(prompt, add_special_tokens=False)
        if index % 100 == 99:
            stats = tokenizer.state.stats()
            peak_memo = max(peak_memo, stats.segment_bytes + stats.prefix_bytes)
            peak_rss = max(peak_rss, _rss_bytes())
    gc.collect()
    stats = tokenizer.state.stats()
    return {
        "memo_bytes": memo_bytes,
        "num_prompts": num_prompts,
        "peak_counted_bytes": peak_memo,
        "peak_growth_bytes": peak_rss - before,
        "evictions": stats.evictions,
        "num_segments": stats.num_segments,
        "num_prefixes": stats.num_prefixes,
    }


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
