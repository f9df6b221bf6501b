"""Text enters, token ids leave at the cost of what is new: the reference's ids, piece by piece.

Rules of this file: every id is the reference's (or an admitted engine's, shadowed by it), on
pieces cut where that is proved. What cannot be cut is encoded whole, up to a limit. No list of
ids but the reference's own is ever built.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from foreword.errors import InvalidRequest
from foreword.tokenizer.apart import ApartEncoder, encode_batch
from foreword.tokenizer.encode import (
    TARGET_CHARS,
    Segment,
    assemble,
    assemble_offsets,
    batch,
    head_segments,
    make_segment,
    tail_segments,
)
from foreword.tokenizer.huggingface import HuggingFaceTokenizer, not_utf8
from foreword.tokenizer.literal import LiteralRules, literal_rules
from foreword.tokenizer.segments import (
    CutRules,
    no_cuts,
    previous_cut,
    previous_token_cut,
    prove_file,
)
from foreword.tokenizer.self_check import FAILED_SELF_CHECK, passes_self_check
from foreword.tokenizer.state import (
    DEFAULT_MEMO_BYTES,
    Line,
    Piece,
    Remembered,
    TokenizerState,
)
from foreword.tokenizer.trusted import DEFAULT_SHADOW_EVERY, TrustedEngine, admit_fastokens
from foreword.types import Offsets, PairShape, Span, TokenIds, TokenizerInfo, TokenSequence, Window

MIN_PREFIX_CHARS = 2048
"""Shorter texts are one piece; remembering how they grow would cost more than it saves."""
DEFAULT_MAX_UNCUT_CHARS = 1_000_000
_WORD_PIECE_CHARS = 1000
"""Where the whole piece is one word of the model, its own cost grows faster than its length."""
_FAST_PIECE_CHARS = 100_000
"""A fast engine encodes these in less time than looking for a cut and a piece's own cost take."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentedTokenizer:
    """A tokenizer whose cost follows what is new, and whose ids are the reference's.

    `max_uncut_chars` bounds a stretch of text without a single cut, which is encoded in one call
    that nothing can stop (None: no bound).
    """

    reference: HuggingFaceTokenizer
    rules: CutRules
    literal: LiteralRules
    state: TokenizerState
    info: TokenizerInfo
    max_uncut_chars: int | None = DEFAULT_MAX_UNCUT_CHARS
    prefix_ids: TokenIds
    suffix_ids: TokenIds
    fast: TrustedEngine | None = None
    engine_report: str = "not asked for"

    def __reduce__(self) -> tuple[Any, ...]:
        # Memos and engine are this process's own; a copy builds its own.
        return _restore, (
            self.reference,
            self.state.memo_bytes,
            self.max_uncut_chars,
            self.fast is not None,
        )

    def pair_shape(self) -> PairShape:
        """Return the special tokens around and between two texts that are one prompt."""
        return self.reference.pair_shape()

    @classmethod
    def over(
        cls,
        reference: HuggingFaceTokenizer,
        *,
        memo_bytes: int = DEFAULT_MEMO_BYTES,
        max_uncut_chars: int | None = DEFAULT_MAX_UNCUT_CHARS,
        is_accelerated: bool = False,
        shadow_every: int = DEFAULT_SHADOW_EVERY,
    ) -> SegmentedTokenizer:
        """Return a tokenizer that gives the ids of `reference`, cut where its file allows.

        With `is_accelerated` a fast engine is used, if there is one and it is admitted;
        `engine_report` says what became of it. The cuts are tried on a short text before they are
        used, which also warms what a first request would find cold.
        """
        rules = prove_file(
            reference.file,
            lambda: reference.tokenizer.get_vocab(with_added_tokens=False),
            splits_special_tokens=reference.tokenizer.encode_special_tokens,
        )
        info = replace(reference.info, has_proved_cuts=rules.kind != "none")
        probe = reference.encode("a", add_special_tokens=True).token_ids
        state, fast, report = TokenizerState(memo_bytes), None, "not asked for"
        if is_accelerated:
            encode = partial(_encode_ids, reference.tokenizer)
            engine, guard, report = admit_fastokens(reference, encode)
            if engine is not None:
                fast = TrustedEngine(
                    engine=engine,
                    guard=guard,
                    encode_reference=encode,
                    state=state,
                    shadow_every=shadow_every,
                )
        tokenizer = cls(
            reference=reference,
            rules=rules,
            literal=literal_rules(
                reference.file,
                splits_special_tokens=reference.tokenizer.encode_special_tokens,
            ),
            state=state,
            info=info,
            max_uncut_chars=max_uncut_chars,
            prefix_ids=probe[: info.num_prefix_special],
            suffix_ids=probe[len(probe) - info.num_suffix_special :],
            fast=fast,
            engine_report=report,
        )
        is_sound = passes_self_check(tokenizer, reference)
        state.reset()
        if is_sound:
            return tokenizer
        return replace(
            tokenizer,
            rules=no_cuts(FAILED_SELF_CHECK),
            info=replace(info, has_proved_cuts=False),
            fast=None,
            engine_report=f"not used: {FAILED_SELF_CHECK}",
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.reference.warnings

    @property
    def cut_report(self) -> dict[str, object]:
        """Where texts may be cut, and what could not be proved and why: for `foreword inspect`."""
        return {
            "kind": self.rules.kind,
            "contexts": list(self.rules.contexts),
            "reasons": list(self.rules.reasons),
            "offsets_gap": self.rules.offsets_gap,
        }

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        with_offsets: bool = False,
        window: Window | None = None,
        scope: str = "",
        literal_spans: Sequence[Span] = (),
    ) -> TokenSequence:
        """Return the tokens of `text`, as `types.Tokenizer` says.

        Raises: `InvalidRequest` for a lone surrogate, or a stretch too long for one call.
        """
        parts = self.literal.plan(text, literal_spans) if literal_spans else ()
        if len(parts) > 1 or (parts and parts[0].is_literal):
            piece = self._apart(text, with_offsets, scope).encode(parts)
            return self._with_special(piece, len(text), True, add_special_tokens)
        if with_offsets and self.rules.offsets_gap is not None:
            self.check_uncut(len(text))
            return self.reference.encode(
                text, add_special_tokens=add_special_tokens, with_offsets=True
            )
        while True:
            job = _Job(self, text, with_offsets, scope, self.state.epoch)
            piece, is_complete = job.encode(window)
            if job.epoch == self.state.epoch:
                break
            # The fast engine was found out meanwhile, and some of these ids may be its own.
        return self._with_special(piece, len(text), is_complete, add_special_tokens)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return self.reference.decode(token_ids, skip_special_tokens=skip_special_tokens)

    @property
    def leading_space_marker(self) -> str | None:
        return self.reference.leading_space_marker

    def id_to_token(self, token_id: int) -> str | None:
        return self.reference.id_to_token(token_id)

    def token_to_id(self, token: str) -> int | None:
        return self.reference.token_to_id(token)

    def encode_pieces(self, texts: list[str], with_offsets: bool) -> list[Piece]:
        """Encode texts in one call, on every core, without special tokens."""
        if self.fast is not None and not with_offsets:
            return [Piece(token_ids, None) for token_ids in self.fast.encode_batch(texts)]
        return encode_batch(self.reference.tokenizer, texts, with_offsets)

    def _apart(self, text: str, with_offsets: bool, scope: str) -> ApartEncoder:
        def encode_long(piece: str) -> Piece:
            tokens = self.encode(
                piece, add_special_tokens=False, with_offsets=with_offsets, scope=scope
            )
            return Piece(tokens.token_ids, tokens.offsets)

        return ApartEncoder(
            library=self.reference.tokenizer,
            text=text,
            with_offsets=with_offsets,
            encode_long=encode_long,
            check_literal=self.check_uncut,
        )

    def check_segments(self, segments: Sequence[Segment]) -> None:
        """Refuse a stretch that offers no cut and is too long for one call."""
        if self.max_uncut_chars is not None:
            for segment in segments:
                self.check_uncut(segment.stop - segment.start)

    def check_uncut(self, num_chars: int) -> None:
        """Refuse a stretch that is too long for one call."""
        if self.max_uncut_chars is not None and num_chars > self.max_uncut_chars:
            raise InvalidRequest(
                f"The prompt has a stretch of {num_chars} characters at which its text cannot be"
                f" cut for tokenization; at most {self.max_uncut_chars} are accepted in one"
                " stretch. Put spaces or line breaks into it, or shorten it.",
                details={"num_chars": num_chars, "max_uncut_chars": self.max_uncut_chars},
            )

    def _with_special(
        self, piece: Piece, num_chars: int, is_complete: bool, add_special_tokens: bool
    ) -> TokenSequence:
        token_ids, offsets = piece
        num_prefix = num_suffix = 0
        if add_special_tokens and (self.prefix_ids or self.suffix_ids):
            num_prefix, num_suffix = len(self.prefix_ids), len(self.suffix_ids)
            token_ids = self.prefix_ids + token_ids + self.suffix_ids
            if offsets is not None:
                before, after = array("I", bytes(4 * num_prefix)), array("I", bytes(4 * num_suffix))
                offsets = Offsets(
                    starts=before + offsets.starts + after, stops=before + offsets.stops + after
                )
        return TokenSequence(
            token_ids=token_ids,
            offsets=offsets,
            num_prefix_special=num_prefix,
            num_suffix_special=num_suffix,
            is_complete=is_complete,
            num_chars=num_chars,
        )


def _restore(
    reference: HuggingFaceTokenizer,
    memo_bytes: int,
    max_uncut_chars: int | None,
    is_accelerated: bool,
) -> SegmentedTokenizer:
    return SegmentedTokenizer.over(
        reference,
        memo_bytes=memo_bytes,
        max_uncut_chars=max_uncut_chars,
        is_accelerated=is_accelerated,
    )


def _encode_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenIds]:
    return [piece.token_ids for piece in encode_batch(tokenizer, list(texts), False)]


# ---------------------------------------------------------------------------------------------
# One text.


class _Job(NamedTuple):
    """One text on its way through the memos and the encoder."""

    tokenizer: SegmentedTokenizer
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
        if 0 < len(self.text) <= self._target_chars() and not self._is_long():
            return self._encode_short(), True
        known = self._find_known()
        if known is not None and num_tokens is not None and known.num_tokens >= num_tokens:
            return self._take(known), known.place == len(self.text)
        start, count = (0, 0) if known is None else (known.place, known.num_tokens)
        segments: list[Segment] = []
        pieces: list[Piece] = []
        rest = head_segments(
            self.tokenizer.rules, self.text, start=start, target_chars=self._target_chars()
        )
        for group in [tuple(rest)] if num_tokens is None else batch(rest, num_tokens=num_tokens):
            group = self._cut_last(group)
            segments += group
            pieces += self._encode(group)
            count += sum(len(piece.token_ids) for piece in pieces[-len(group) :]) if group else 0
            if num_tokens is not None and count >= num_tokens:
                break
        is_complete = not segments or segments[-1].stop == len(self.text)
        whole = self._join(known, segments, pieces)
        if segments:
            self._remember(known, segments, pieces, whole)
        return whole, is_complete

    def _encode_short(self) -> Piece:
        """Encode a text that is one piece, where every step beside the encoding would show."""
        self.tokenizer.check_uncut(len(self.text))
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
        rest = tail_segments(self.tokenizer.rules, self.text, target_chars=self._target_chars())
        for group in batch(rest, num_tokens=num_tokens):
            segments += group
            encoded = self._encode(group)
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

    def _target_chars(self) -> int:
        if self.tokenizer.fast is not None and not self.with_offsets:
            return _FAST_PIECE_CHARS
        is_one_word = self.tokenizer.rules.kind == "vocabulary"
        return _WORD_PIECE_CHARS if is_one_word else TARGET_CHARS

    # -- pieces -----------------------------------------------------------------------------------

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

    def _encode(self, segments: Sequence[Segment]) -> list[Piece]:
        tokenizer = self.tokenizer
        tokenizer.check_segments(segments)
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
        token_ids = base.token_ids
        token_ids.extend(assemble(piece.token_ids for piece in pieces))
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
