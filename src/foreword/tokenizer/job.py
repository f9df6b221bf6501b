"""One text enters, on its way through the memos and the encoder; its ids leave.

Rules of this file: only what is new is encoded, in pieces cut where that is proved. What is found
is remembered in the epoch it was begun in.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from foreword.tokenizer.encode import (
    TARGET_CHARS,
    Segment,
    assemble,
    assemble_offsets,
    batch,
    head_segments,
    make_segment,
    shorter_segments,
    tail_segments,
)
from foreword.tokenizer.huggingface import not_utf8
from foreword.tokenizer.segments import CutRules, previous_cut, previous_token_cut
from foreword.tokenizer.state import Line, Piece, Remembered, TokenizerState
from foreword.types import Offsets, Window

MIN_PREFIX_CHARS = 2048
"""Shorter texts are one piece; remembering how they grow would cost more than it saves."""
_WORD_PIECE_CHARS = 1000
"""Where the whole piece is one word of the model, its own cost grows faster than its length."""
_FAST_PIECE_CHARS = 100_000
"""A fast engine encodes these in less time than looking for a cut and a piece's own cost take."""
_FAST_WORD_PIECE_CHARS = 1_000_000
"""Where the whole piece is one word of the model, a fast engine shares it out among the cores."""
_CHARS_PER_TOKEN = 4
"""Where only so many ids are wanted, no piece need be longer."""
_LAST_PIECE_CHARS = 512
"""A longer last piece is cut once more, so that the next turn begins near this one's end."""


class _Known(NamedTuple):
    """The first `num_cuts` cuts of a remembered prompt that hold for a text too."""

    entry: Remembered
    num_cuts: int

    @property
    def place(self) -> int:
        return self.entry.cuts[self.num_cuts - 1]

    @property
    def num_tokens(self) -> int:
        return self.entry.counts[self.num_cuts - 1]


class PieceEncoder(Protocol):
    """What a text is encoded with: a tokenizer's rules, its memos, and its engines."""

    @property
    def rules(self) -> CutRules: ...

    @property
    def state(self) -> TokenizerState: ...

    @property
    def is_fast(self) -> bool: ...

    @property
    def max_uncut_chars(self) -> int | None: ...

    def encode_pieces(self, texts: list[str], with_offsets: bool) -> list[Piece]: ...

    def check_segments(self, segments: Sequence[Segment]) -> None: ...

    def check_uncut(self, num_chars: int) -> None: ...


class EncodeJob(NamedTuple):
    """One text on its way through the memos and the encoder."""

    tokenizer: PieceEncoder
    text: str
    with_offsets: bool
    scope: str
    epoch: int

    def encode(self, window: Window | None) -> tuple[Piece, bool]:
        """Encode the text, or as much of it as `window` can use; and say whether that is all."""
        if window is None:
            return self.encode_head(None)
        if window.keep == "head":
            return self.encode_head(window.num_tokens)
        return self.encode_tail(window.num_tokens)

    def encode_head(self, num_tokens: int | None) -> tuple[Piece, bool]:
        """Encode from the front, until `num_tokens` ids are found or the text ends."""
        target_chars = self._target_chars(num_tokens)
        if 0 < len(self.text) <= target_chars and not self._is_long():
            return self._encode_short(), True
        known = self._find_known()
        if known is not None and num_tokens is not None and known.num_tokens >= num_tokens:
            return self._take(known), known.place == len(self.text)
        start, count = (0, 0) if known is None else (known.place, known.num_tokens)
        segments: list[Segment] = []
        pieces: list[Piece] = []
        rest = self._head_segments(start, target_chars)
        for group in [tuple(rest)] if num_tokens is None else batch(rest, num_tokens=num_tokens):
            group = self._cut_last(group)
            encoded = self._encode(group, is_covered=self._is_covered(group))
            segments += group
            pieces += encoded
            count += sum(len(piece.token_ids) for piece in encoded)
            if num_tokens is not None and count >= num_tokens:
                break
        is_complete = not segments or segments[-1].stop == len(self.text)
        whole = self._join(known, segments, pieces)
        if segments:
            self._remember(known, segments, pieces, whole)
        return whole, is_complete

    def _encode_short(self) -> Piece:
        """Encode a text that is one piece, where every step beside the encoding would show."""
        state, key = self.tokenizer.state, (self.scope, self.with_offsets, self.text)
        (piece,) = state.find_segments((key,))
        if piece is None:
            (piece,) = self._encode_texts([self.text])
            state.remember_segments(((key, piece),), epoch=self.epoch)
        token_ids, offsets = piece
        return Piece(token_ids[:], None if offsets is None else offsets.cut(0, len(token_ids)))

    def encode_tail(self, num_tokens: int) -> tuple[Piece, bool]:
        """Encode from the end, until `num_tokens` ids are found or the text begins."""
        known = self._find_known()
        if known is not None and 2 * known.place >= len(self.text):
            return self.encode_head(None)  # most of it is known: the rest is less than a tail
        segments: list[Segment] = []
        pieces: list[Piece] = []
        count = 0
        rest = self._tail_segments(self._target_chars(num_tokens))
        for group in batch(rest, num_tokens=num_tokens):
            segments += group
            encoded = self._encode(group, is_covered=False)
            pieces += encoded
            count += sum(len(piece.token_ids) for piece in encoded)
            if count >= num_tokens:
                break
        segments.reverse()
        pieces.reverse()
        is_complete = not segments or segments[0].start == 0
        return self._join(None, segments, pieces), is_complete

    # -- what is remembered ---------------------------------------------------------------------

    def _is_long(self) -> bool:
        return len(self.text) >= MIN_PREFIX_CHARS and self.tokenizer.rules.kind != "none"

    def _find_known(self) -> _Known | None:
        if not self._is_long():
            return None
        found = self.tokenizer.state.find_prefix(self.scope, self.with_offsets, self.text)
        if found is None:
            return None
        entry, num_cuts = found
        # A cut is decided by what stands around it, and there the new text may differ.
        while num_cuts and not self._is_cut(entry.cuts[num_cuts - 1]):
            num_cuts -= 1
        return _Known(entry, num_cuts) if num_cuts else None

    def _is_cut(self, place: int) -> bool:
        return place == len(self.text) or self.tokenizer.rules.is_cut(self.text, place)

    def _remember(
        self,
        known: _Known | None,
        segments: Sequence[Segment],
        pieces: Sequence[Piece],
        whole: Piece,
    ) -> None:
        last = segments[-1].start
        if not self._is_long() or last == 0 or (known is not None and known.place == last):
            return
        cuts, counts, count = array("I"), array("I"), 0
        if known is not None:
            cuts, counts = known.entry.cuts[: known.num_cuts], known.entry.counts[: known.num_cuts]
            count = known.num_tokens
        for segment, piece in zip(segments[:-1], pieces[:-1], strict=True):
            count += len(piece.token_ids)
            cuts.append(segment.stop)
            counts.append(count)
        continues = known is not None and known.num_cuts == len(known.entry.cuts)
        old = known.entry if known is not None and continues else None
        entry = Remembered(
            scope=self.scope,
            text=self.text if segments[-1].stop == len(self.text) else self.text[:last],
            token_ids=whole.token_ids[:count],
            offsets=None if whole.offsets is None else whole.offsets.cut(0, count),
            cuts=cuts,
            counts=counts,
            line=Line() if old is None else old.line,
        )
        self.tokenizer.state.remember_prefix(entry, instead_of=old, epoch=self.epoch)

    def _takes_fast(self) -> bool:
        return self.tokenizer.is_fast and not self.with_offsets

    def _target_chars(self, num_tokens: int | None) -> int:
        is_one_word = self.tokenizer.rules.kind == "vocabulary"
        if self._takes_fast():
            target = _FAST_WORD_PIECE_CHARS if is_one_word else _FAST_PIECE_CHARS
            if num_tokens is not None:
                target = min(target, max(_CHARS_PER_TOKEN * num_tokens, TARGET_CHARS))
        else:
            target = _WORD_PIECE_CHARS if is_one_word else TARGET_CHARS
        limit = self.tokenizer.max_uncut_chars
        return target if limit is None else min(target, limit)

    # -- pieces -----------------------------------------------------------------------------------

    def _head_segments(self, start: int, target_chars: int) -> Iterator[Segment]:
        """Yield what follows `start` in pieces, from the front."""
        for segment in head_segments(
            self.tokenizer.rules,
            self.text,
            start=start,
            target_chars=target_chars,
            at_messages=not self._takes_fast(),
        ):
            yield from self._within_limit(segment)

    def _tail_segments(self, target_chars: int) -> Iterator[Segment]:
        """Yield the text in pieces, the last first."""
        for segment in tail_segments(self.tokenizer.rules, self.text, target_chars=target_chars):
            yield from reversed(self._within_limit(segment))

    def _within_limit(self, segment: Segment) -> Sequence[Segment]:
        """Return a piece, or where it is too long for a call the pieces it can be cut into."""
        limit = self.tokenizer.max_uncut_chars
        if limit is None or segment.stop - segment.start <= limit:
            return (segment,)
        target_chars = max(1, min(TARGET_CHARS, limit // 2))
        return tuple(
            shorter_segments(self.tokenizer.rules, self.text, segment, target_chars=target_chars)
        )

    def _cut_last(self, group: tuple[Segment, ...]) -> tuple[Segment, ...]:
        if not group or not self._is_long() or group[-1].stop != len(self.text):
            return group
        last, rules = group[-1], self.tokenizer.rules
        if last.stop - last.start <= _LAST_PIECE_CHARS:
            return group
        place = previous_token_cut(rules, self.text, last.start + 1, last.stop - 1)
        if place is None:
            place = previous_cut(rules, self.text, last.stop - _LAST_PIECE_CHARS, last.stop - 1)
        if place is None or place <= last.start:
            return group
        first = make_segment(rules, self.text, last.start, place)
        return (*group[:-1], first, make_segment(rules, self.text, place, last.stop))

    def _encode(self, segments: Sequence[Segment], *, is_covered: bool) -> list[Piece]:
        """Encode pieces, or find them; `is_covered`: the prompt itself is remembered."""
        tokenizer = self.tokenizer
        tokenizer.check_segments(segments)
        if is_covered:
            return self._encode_texts([segment.of(self.text) for segment in segments])
        keys = [(self.scope, self.with_offsets, segment.of(self.text)) for segment in segments]
        found = tokenizer.state.find_segments(keys)
        wanted = {key: None for key, piece in zip(keys, found, strict=True) if piece is None}
        if not wanted:
            return [piece for piece in found if piece is not None]
        encoded = self._encode_texts([key[2] for key in wanted])
        new = dict(zip(wanted, encoded, strict=True))
        tokenizer.state.remember_segments(new.items(), epoch=self.epoch)
        return [
            new[key] if piece is None else piece for key, piece in zip(keys, found, strict=True)
        ]

    def _is_covered(self, segments: Sequence[Segment]) -> bool:
        """Say whether the prompt is remembered, all but a short end, and its pieces need not be.

        Why: to hash and copy a long piece takes a tenth of the time a fast engine encodes it in.
        """
        if not segments or not self._takes_fast() or not self._is_long():
            return False
        last = segments[-1]
        is_short = last.stop - last.start <= MIN_PREFIX_CHARS
        return is_short and last.start > 0 and last.stop == len(self.text)

    def _encode_texts(self, texts: list[str]) -> list[Piece]:
        try:
            return self.tokenizer.encode_pieces(texts, self.with_offsets)
        except TypeError:
            raise not_utf8(self.text) from None

    def _take(self, known: _Known) -> Piece:
        entry, count = known.entry, known.num_tokens
        offsets = None if entry.offsets is None else entry.offsets.cut(0, count)
        return Piece(entry.token_ids[:count], offsets)

    def _join(
        self, known: _Known | None, segments: Sequence[Segment], pieces: Sequence[Piece]
    ) -> Piece:
        base = Piece(array("I"), None) if known is None else self._take(known)
        token_ids = assemble((piece.token_ids for piece in pieces), onto=base.token_ids)
        if not self.with_offsets:
            return Piece(token_ids, None)
        spans = [list(piece.offsets or ()) for piece in pieces]
        offsets = assemble_offsets(segments, spans)
        if base.offsets is not None:
            offsets = Offsets(
                starts=base.offsets.starts + offsets.starts,
                stops=base.offsets.stops + offsets.stops,
            )
        return Piece(token_ids, offsets)
