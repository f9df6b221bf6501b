"""The stations of a prompt that does not fit enter; sentences that say what would fit leave.

Rules of this file: every sentence is computed for this prompt, and none repeats the error's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from foreword.diagnosis import Part, Stations
from foreword.errors import PromptTooLong
from foreword.options import RendererOptions


def find_remedies(
    stations: Stations, parts: Sequence[Part], options: RendererOptions
) -> tuple[str, ...]:
    """Return what would make a prompt fit, the most useful first; nothing for other faults."""
    error, tokens, params = stations.error, stations.tokens, stations.params
    if error is None or tokens is None or params is None:
        return ()
    num_tokens, limit = len(tokens.token_ids), options.max_model_len
    if error.param in ("max_tokens", "max_completion_tokens") and num_tokens < limit:
        return (
            f"This prompt has {num_tokens:,} tokens: ask for at most {limit - num_tokens:,} of"
            " output, or leave the field out.",
        )
    if not isinstance(error, PromptTooLong):
        return ()
    room = limit - 1 if options.runner == "generate" else limit
    return tuple(_shorter(num_tokens, room, parts))


def _shorter(num_tokens: int, room: int, parts: Sequence[Part]) -> Iterator[str]:
    excess = num_tokens - room
    if excess <= 0:
        return
    yield f"It is {excess:,} tokens over the {room:,} that leave room for an answer."
    largest = max(parts, key=lambda part: part.num_tokens, default=None)
    if largest is not None and largest.num_tokens >= excess and 2 * excess >= largest.num_tokens:
        yield f"The largest part, {largest.label}, has {largest.num_tokens:,} tokens."
    elif largest is not None and largest.num_tokens > excess:
        yield (
            f"The largest part, {largest.label}, has {largest.num_tokens:,} tokens: with"
            f" {largest.num_tokens - excess:,} of them it would fit."
        )
    dropped = _oldest_messages(parts, excess)
    if dropped:
        first, last = _indices(dropped[0])[0], _indices(dropped[-1])[-1]
        which = f"message {first}" if first == last else f"messages {first} to {last}"
        fewer = sum(part.num_tokens for part in dropped)
        yield f"Without the oldest, {which}, it would fit ({fewer:,} tokens less)."
    yield (
        f'"truncate_prompt_tokens": -1 keeps {room:,} tokens and cuts {excess:,};'
        ' "truncation_side" says where ("left" keeps the end).'
    )


def _oldest_messages(parts: Sequence[Part], excess: int) -> list[Part]:
    """Return the fewest messages after the system's and before the last that hold `excess`."""
    messages = [part for part in parts if part.label.startswith("[")]
    found: list[Part] = []
    for part in messages[:-1]:
        if part.label.startswith("[0] system"):
            continue
        found.append(part)
        if sum(one.num_tokens for one in found) >= excess:
            return found
    return []


def _indices(part: Part) -> list[str]:
    """Return the numbers of the messages a part stands for: its first and its last."""
    return re.findall(r"\[(\d+)\]", part.label)
