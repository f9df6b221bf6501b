"""The pieces of a text that must be encoded apart enter; the ids and offsets of the whole leave.

Rules of this file: short pieces go through the library together, long ones one by one through
the tokenizer that remembers; a literal one is the twin's, in one call.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from foreword.tokenizer.huggingface import not_utf8
from foreword.tokenizer.literal import Stretch, twin_without_added_tokens
from foreword.tokenizer.panics import ask_library
from foreword.tokenizer.state import Piece
from foreword.types import Offsets

MAX_TOGETHER_CHARS = 2048
"""Longer pieces are worth remembering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApartEncoder:
    """Encodes one text's pieces by themselves: somebody wrote a control token in it, say.

    `encode_long` encodes a piece as any text is; `check_literal` refuses one of too many
    characters for a single call.
    """

    library: Tokenizer
    text: str
    with_offsets: bool
    encode_long: Callable[[str], Piece]
    check_literal: Callable[[int], None]

    def encode(self, parts: Sequence[Stretch]) -> Piece:
        """Return the ids (and offsets) of all pieces, in order."""
        literal = [part for part in parts if part.is_literal]
        for part in literal:
            self.check_literal(part.stop - part.start)
        short = [part for part in parts if not part.is_literal and _is_short(part)]
        known = self._batch(literal, twin_without_added_tokens(self.library))
        known |= self._batch(short, self.library)
        token_ids, starts, stops = array("I"), array("I"), array("I")
        for part in parts:
            piece = known.get(part) or self.encode_long(self.text[part.start : part.stop])
            token_ids.extend(piece.token_ids)
            if piece.offsets is not None:
                starts.extend([part.start + place for place in piece.offsets.starts])
                stops.extend([part.start + place for place in piece.offsets.stops])
        offsets = Offsets(starts=starts, stops=stops) if self.with_offsets else None
        return Piece(token_ids, offsets)

    def _batch(self, parts: Sequence[Stretch], tokenizer: Tokenizer) -> dict[Stretch, Piece]:
        texts = [self.text[part.start : part.stop] for part in parts]
        try:
            pieces = encode_batch(tokenizer, texts, self.with_offsets)
        except TypeError:
            raise not_utf8(self.text) from None
        return dict(zip(parts, pieces, strict=True))


def _is_short(part: Stretch) -> bool:
    return part.stop - part.start < MAX_TOGETHER_CHARS


def encode_batch(tokenizer: Tokenizer, texts: list[str], with_offsets: bool) -> list[Piece]:
    """Encode texts in one call of the library, on every core, without special tokens."""
    if with_offsets:
        return [
            Piece(array("I", encoding.ids), _offsets(encoding.offsets))
            for encoding in ask_library(tokenizer.encode_batch, texts, add_special_tokens=False)
        ]
    return [
        Piece(array("I", encoding.ids), None)
        for encoding in ask_library(tokenizer.encode_batch_fast, texts, add_special_tokens=False)
    ]


def _offsets(pairs: Sequence[tuple[int, int]]) -> Offsets:
    return Offsets(
        starts=array("I", [start for start, _ in pairs]),
        stops=array("I", [stop for _, stop in pairs]),
    )
