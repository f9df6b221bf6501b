"""Everything about tokenization that changes: memos, their counters, and the engine's standing.

What enters: texts and the ids found for them. What leaves: the same ids, when asked again.

Rules of this file: the one module of tokenization that locks, and never while anything is encoded
or a long text is compared. What a memo holds is never changed, only replaced or dropped; dropping
costs time, never correctness. Nothing is shared between scopes.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from foreword.types import Offsets, TokenIds

DEFAULT_MEMO_BYTES = 128 * 2**20
_ENTRY_BYTES = 400
"""What a memo's bookkeeping takes beside its texts and ids, about."""
_SAMPLE_BYTES = 330
"""What a sample takes: a key, its characters, and its place in the index."""
_MAX_ATTEMPTS = 4
"""Remembered texts looked at for one prompt: the most promising first."""
_SAMPLE_CHARS = 64


class Piece(NamedTuple):
    """The ids of a piece of text, with offsets from its first encoded character when kept."""

    token_ids: TokenIds
    offsets: Offsets | None

    @property
    def num_bytes(self) -> int:
        return 4 * len(self.token_ids) * (1 if self.offsets is None else 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoStats:
    """A moment's counters. `*_bytes` are what the memos hold now; the others only grow."""

    segment_hits: int = 0
    segment_misses: int = 0
    prefix_hits: int = 0
    prefix_misses: int = 0
    num_segments: int = 0
    num_prefixes: int = 0
    segment_bytes: int = 0
    prefix_bytes: int = 0
    evictions: int = 0
    engine_batches: int = 0
    shadow_checks: int = 0
    quarantine: str | None = None


# ---------------------------------------------------------------------------------------------
# Texts that grew: found by samples at fixed places, confirmed by comparing memory.


_Key: TypeAlias = tuple[str, bool, int, str]
"""Scope, with offsets or not, a place, and the characters before it."""


class Line:
    """A prompt as it grows: the latest of it, and all that it is found by."""

    __slots__ = ("keys", "latest")

    def __init__(self) -> None:
        self.latest: Remembered | None = None
        self.keys: list[_Key] = []


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remembered:
    """A prompt, of which the ids are known up to its last cut.

    Shapes: `cuts` are rising places of `text`; `counts[i]` is the number of ids before `cuts[i]`,
    the last of them `len(token_ids)`. `offsets` are absolute. `text` is the caller's own, with
    what follows the last cut: keeping it costs no copy, and the next turn often begins with it.
    """

    scope: str
    text: str
    token_ids: TokenIds
    offsets: Offsets | None
    cuts: TokenIds
    counts: TokenIds
    line: Line = field(default_factory=Line)

    @property
    def num_bytes(self) -> int:
        parallel = 1 if self.offsets is None else 3
        ids = 4 * (parallel * len(self.token_ids) + 2 * len(self.cuts))
        samples = _SAMPLE_BYTES * bisect_right(_PLACES, self.cuts[-1])
        return sys.getsizeof(self.text) + ids + samples + _ENTRY_BYTES

    def sample_keys(self, *, start: int = 0) -> tuple[_Key, ...]:
        """Return what the prompt is found by beyond `start`, up to its last cut."""
        return _sample_keys(
            self.scope, self.offsets is not None, self.text, start=start, stop=self.cuts[-1]
        )

    def common_cut(self, text: str) -> int:
        """Return how many of `cuts` lie where `text` is still the same, by bisection."""
        cuts = self.cuts
        if text.startswith(self.text):
            return len(cuts)
        low, high, same = 0, len(cuts), 0
        middle = high - 1  # what most often differs is what stood after the last cut
        while low < high:
            if text.startswith(self.text[same : cuts[middle]], same):
                low, same = middle + 1, cuts[middle]
            else:
                high = middle
            middle = (low + high) // 2
        return low


def _sample_places() -> list[int]:
    places, place = [], 256
    while place < 2**28:
        places.append(place)
        place += max(256, place // 16)
    return places


_PLACES = _sample_places()


def _sample_keys(
    scope: str, with_offsets: bool, text: str, *, start: int, stop: int
) -> tuple[_Key, ...]:
    """Return what `text` is found by: a few characters before fixed places in `(start, stop]`.

    Why: keys of their own for every depth make 10,000 prompts with one system prompt as quick to
    find as one; that a key fits proves nothing, and is not taken as proof.
    """
    places = _PLACES[bisect_right(_PLACES, start) : bisect_right(_PLACES, stop)]
    return tuple((scope, with_offsets, p, text[p - _SAMPLE_CHARS : p]) for p in places)


# ---------------------------------------------------------------------------------------------


SegmentKey: TypeAlias = tuple[str, bool, str]
"""Scope, with offsets or not, and the piece's text."""


class TokenizerState:
    """The memos of one tokenizer, bounded in bytes, and the standing of its fast engine.

    Three quarters of `memo_bytes` are for prompts that grow, the rest for pieces; 0 remembers
    nothing.
    """

    def __init__(self, memo_bytes: int = DEFAULT_MEMO_BYTES) -> None:
        self.memo_bytes = memo_bytes
        self._max_prefix_bytes = memo_bytes * 3 // 4  # 40 chats of 128k tokens fit the default
        self._lock = threading.Lock()
        self._segments: OrderedDict[SegmentKey, Piece] = OrderedDict()
        self._lines: OrderedDict[Line, None] = OrderedDict()
        self._index: dict[_Key, Line] = {}
        self._segment_bytes = self._prefix_bytes = 0
        self._counts = dict.fromkeys(
            (
                "segment_hits",
                "segment_misses",
                "prefix_hits",
                "prefix_misses",
                "evictions",
                "engine_batches",
                "shadow_checks",
            ),
            0,
        )
        self._quarantine: str | None = None
        self._epoch = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process starts with nothing remembered.
        return TokenizerState, (self.memo_bytes,)

    # -- pieces -------------------------------------------------------------------------------

    def find_segments(self, keys: Sequence[SegmentKey]) -> list[Piece | None]:
        """Return what is remembered of each piece, or None."""
        with self._lock:
            found = [self._segments.get(key) for key in keys]
            for key, piece in zip(keys, found, strict=True):
                if piece is not None:
                    self._segments.move_to_end(key)
            misses = sum(1 for piece in found if piece is None)
            self._counts["segment_misses"] += misses
            self._counts["segment_hits"] += len(found) - misses
        return found

    def remember_segments(self, pieces: Iterable[tuple[SegmentKey, Piece]], *, epoch: int) -> None:
        """Keep the ids of pieces found in `epoch`, dropping those not used for longest."""
        limit = self.memo_bytes - self._max_prefix_bytes
        with self._lock:
            if epoch != self._epoch:
                return
            for key, piece in pieces:
                size = _segment_bytes(key, piece)
                if size > limit or key in self._segments:
                    continue
                self._segments[key] = piece
                self._segment_bytes += size
            while self._segment_bytes > limit:
                key, piece = self._segments.popitem(last=False)
                self._segment_bytes -= _segment_bytes(key, piece)
                self._counts["evictions"] += 1

    # -- prompts that grow --------------------------------------------------------------------

    def find_prefix(
        self, scope: str, with_offsets: bool, text: str
    ) -> tuple[Remembered, int] | None:
        """Return the remembered prompt that shares most with `text`, and how many of its cuts.

        The caller still has to ask whether such a cut is one of `text` too.
        """
        best: tuple[Remembered, int] | None = None
        seen: list[Line] = []
        for place in reversed(_PLACES[: bisect_right(_PLACES, len(text))]):
            key = (scope, with_offsets, place, text[place - _SAMPLE_CHARS : place])
            line = self._index.get(key)  # one look-up: atomic without the lock
            entry = None if line is None or line in seen else line.latest
            if line is None or entry is None:
                continue
            seen.append(line)
            num_cuts = entry.common_cut(text)
            common = entry.cuts[num_cuts - 1] if num_cuts else 0
            if num_cuts and (best is None or common > best[0].cuts[best[1] - 1]):
                best = entry, num_cuts
            if len(seen) == _MAX_ATTEMPTS or (best and best[0].cuts[best[1] - 1] >= place):
                break
        with self._lock:
            self._counts["prefix_misses" if best is None else "prefix_hits"] += 1
            if best is not None and best[0].line in self._lines:
                self._lines.move_to_end(best[0].line)
        return best

    def remember_prefix(
        self, entry: Remembered, *, instead_of: Remembered | None, epoch: int
    ) -> None:
        """Keep a prompt of `epoch`; one that it continues, on the same line, is dropped for it."""
        limit, size, line = self._max_prefix_bytes, entry.num_bytes, entry.line
        if size > limit:
            return
        with self._lock:
            if epoch != self._epoch:
                return
            old = instead_of if instead_of is not None and line.latest is instead_of else None
            if old is None and line.latest is not None:
                return  # another thread has continued the line in the meantime
            if old is not None:
                self._prefix_bytes -= old.num_bytes
            new_keys = entry.sample_keys(start=0 if old is None else old.cuts[-1])
            line.keys += new_keys
            line.latest = entry
            self._lines[line] = None
            self._prefix_bytes += size
            self._index.update(dict.fromkeys(new_keys, line))
            while self._prefix_bytes > limit:
                self._drop_line(next(iter(self._lines)))
                self._counts["evictions"] += 1

    def _drop_line(self, line: Line) -> None:
        del self._lines[line]
        if line.latest is not None:
            self._prefix_bytes -= line.latest.num_bytes
        for key in line.keys:
            if self._index.get(key) is line:
                del self._index[key]
        line.latest, line.keys = None, []

    # -- the fast engine ----------------------------------------------------------------------

    @property
    def quarantine(self) -> str | None:
        """Why the fast engine is not used any more; None while it is trusted."""
        return self._quarantine

    @property
    def epoch(self) -> int:
        """How often all that was remembered has been forgotten.

        Why: ids found before that are not to be remembered after it.
        """
        return self._epoch

    def put_in_quarantine(self, reason: str) -> None:
        """Stop using the fast engine, and forget all that it may have answered."""
        with self._lock:
            self._quarantine = self._quarantine or reason
            self._forget()

    def reset(self) -> None:
        """Forget all texts, and count from 0."""
        with self._lock:
            self._forget()
            self._counts = dict.fromkeys(self._counts, 0)

    def _forget(self) -> None:
        self._epoch += 1
        self._segments.clear()
        for line in self._lines:
            line.latest, line.keys = None, []
        self._lines.clear()
        self._index.clear()
        self._segment_bytes = self._prefix_bytes = 0

    def count_engine_batch(self) -> int:
        """Count a batch the fast engine is given; return how many there have been."""
        with self._lock:
            self._counts["engine_batches"] += 1
            return self._counts["engine_batches"]

    def count_shadow_check(self) -> None:
        """Count a piece that was given to the reference as well."""
        with self._lock:
            self._counts["shadow_checks"] += 1

    # -- figures ------------------------------------------------------------------------------

    def stats(self) -> MemoStats:
        """Return the counters as they stand."""
        with self._lock:
            return MemoStats(
                **self._counts,
                num_segments=len(self._segments),
                num_prefixes=len(self._lines),
                segment_bytes=self._segment_bytes,
                prefix_bytes=self._prefix_bytes,
                quarantine=self._quarantine,
            )


def _segment_bytes(key: SegmentKey, piece: Piece) -> int:
    return sys.getsizeof(key[2]) + piece.num_bytes + _ENTRY_BYTES
