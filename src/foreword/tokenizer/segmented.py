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
from typing import Any

from tokenizers import Tokenizer

from foreword.tokenizer.apart import ApartEncoder, encode_batch
from foreword.tokenizer.encode import Segment
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.job import EncodeJob
from foreword.tokenizer.literal import LiteralRules, literal_rules
from foreword.tokenizer.normalized import TwinWithoutNormalizer, find_twin
from foreword.tokenizer.segments import CutRules, no_cuts, prove_file
from foreword.tokenizer.self_check import FAILED_SELF_CHECK, passes_self_check
from foreword.tokenizer.state import DEFAULT_MEMO_BYTES, Piece, TokenizerState
from foreword.tokenizer.trusted import DEFAULT_SHADOW_EVERY, TrustedEngine, admit_fastokens
from foreword.tokenizer.uncut import check_uncut
from foreword.types import Offsets, PairShape, Span, TokenIds, TokenizerInfo, TokenSequence, Window

DEFAULT_MAX_UNCUT_CHARS = 1_000_000


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
    twin: TwinWithoutNormalizer | None = None
    """Encodes what needs no normalizer, sooner."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Memos and engine are this process's own; a copy builds its own, but not an engine that
        # was found out.
        return _restore, (
            self.reference,
            self.state.memo_bytes,
            self.max_uncut_chars,
            self.is_fast,
            DEFAULT_SHADOW_EVERY if self.fast is None else self.fast.shadow_every,
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
        state = TokenizerState(memo_bytes)
        fast, report = None, "not asked for"
        if is_accelerated:
            fast, report = _admitted(reference, rules, state, shadow_every)
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
            twin=find_twin(reference.tokenizer, reference.file),
        )
        if _is_sound(tokenizer):
            return tokenizer
        return replace(
            tokenizer,
            rules=no_cuts(FAILED_SELF_CHECK),
            info=replace(info, has_proved_cuts=False),
            fast=None,
            twin=None,
            engine_report=f"not used: {FAILED_SELF_CHECK}",
        )

    @property
    def is_fast(self) -> bool:
        return self.fast is not None and self.state.quarantine is None

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
            job = EncodeJob(self, text, with_offsets, scope, self.state.epoch)
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
        if self.fast is not None and self.is_fast and not with_offsets:
            return [Piece(token_ids, None) for token_ids in self.fast.encode_batch(texts)]
        if self.twin is None or with_offsets:
            return encode_batch(self.reference.tokenizer, texts, with_offsets)
        return self._encode_normalized(self.twin, texts)

    def _encode_normalized(self, twin: TwinWithoutNormalizer, texts: list[str]) -> list[Piece]:
        """Encode what the twin may by the twin, and the rest by the reference."""
        wanted = [twin.text_for(text) for text in texts]
        ready = [text for text in wanted if text is not None]
        raw = [text for text, other in zip(texts, wanted, strict=True) if other is None]
        from_twin = iter(encode_batch(twin.tokenizer, ready, False) if ready else ())
        from_reference = iter(encode_batch(self.reference.tokenizer, raw, False) if raw else ())
        return [next(from_reference if text is None else from_twin) for text in wanted]

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
        check_uncut(num_chars, self.max_uncut_chars)

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


def _admitted(
    reference: HuggingFaceTokenizer, rules: CutRules, state: TokenizerState, shadow_every: int
) -> tuple[TrustedEngine | None, str]:
    """Return the fast engine in service, if there is one that is admitted, and why."""
    encode = partial(_encode_ids, reference.tokenizer)
    engine, guard, report = admit_fastokens(reference, encode)
    if engine is None:
        return None, report
    fast = TrustedEngine(
        engine=engine,
        guard=guard,
        encode_reference=encode,
        rules=rules,
        state=state,
        shadow_every=shadow_every,
    )
    return fast, report


def _is_sound(tokenizer: SegmentedTokenizer) -> bool:
    """Try the tokenizer as it serves, and as it would without its fast engine."""
    ways = [tokenizer]  # last, since what it warms is what serves
    if tokenizer.fast is not None:
        ways.insert(0, replace(tokenizer, fast=None))
    for way in ways:
        # Its limit is for what a client sends.
        is_sound = passes_self_check(replace(way, max_uncut_chars=None), tokenizer.reference)
        tokenizer.state.reset()
        if not is_sound:
            return False
    return True


def _restore(
    reference: HuggingFaceTokenizer,
    memo_bytes: int,
    max_uncut_chars: int | None,
    is_accelerated: bool,
    shadow_every: int,
) -> SegmentedTokenizer:
    return SegmentedTokenizer.over(
        reference,
        memo_bytes=memo_bytes,
        max_uncut_chars=max_uncut_chars,
        is_accelerated=is_accelerated,
        shadow_every=shadow_every,
    )


def _encode_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[TokenIds]:
    return [piece.token_ids for piece in encode_batch(tokenizer, list(texts), False)]
