"""A SentencePiece model's bytes enter; its pieces and the settings that decide ids leave.

Rules of this file: a reader of the wire format of protocol buffers, as far as this message needs
it. Unknown fields are stepped over; a field cut short is an error. Nothing is interpreted here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from foreword.errors import AssetsInvalid

# Why no package: the `sentencepiece` library does not show a model's normalizer, and `protobuf`
# would be a dependency for four small messages.


class Kind(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Algorithm(IntEnum):
    """How a text is cut into pieces."""

    UNIGRAM = 1
    BPE = 2
    WORD = 3
    CHAR = 4


@dataclass(frozen=True, slots=True)
class ScoredPiece:
    """One entry of the vocabulary; its id is its place."""

    text: str
    score: float
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePieceModel:
    """A model file, with the defaults of the format where it says nothing.

    Ids of roles are −1 where the model has none.
    """

    pieces: tuple[ScoredPiece, ...]
    algorithm: Algorithm
    byte_fallback: bool
    whitespace_is_suffix: bool
    unk_id: int
    bos_id: int
    eos_id: int
    pad_id: int
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool

    def texts(self, *kinds: Kind) -> list[str]:
        """Return the pieces of these kinds, in order."""
        return [piece.text for piece in self.pieces if piece.kind in kinds]


def read_model(data: bytes, name: str) -> SentencePieceModel:
    """Read a SentencePiece model.

    Raises: `AssetsInvalid` when the bytes are no such model.
    Source: sentencepiece_model.proto of SentencePiece 0.2.
    """
    try:
        fields = list(_fields(data))
        pieces = tuple(_piece(value) for number, value in fields if number == 1)
        trainer = _merged(fields, 2)
        normalizer = _merged(fields, 3)
        model = SentencePieceModel(
            pieces=pieces,
            algorithm=Algorithm(trainer.get(3, 1)),
            byte_fallback=bool(trainer.get(35, 0)),
            whitespace_is_suffix=bool(trainer.get(24, 0)),
            unk_id=_signed(trainer.get(40, 0)),
            bos_id=_signed(trainer.get(41, 1)),
            eos_id=_signed(trainer.get(42, 2)),
            pad_id=_signed(trainer.get(43, -1)),
            charsmap=bytes(normalizer.get(2, b"")),
            add_dummy_prefix=bool(normalizer.get(3, 1)),
            remove_extra_whitespaces=bool(normalizer.get(4, 1)),
            escape_whitespaces=bool(normalizer.get(5, 1)),
        )
    except (ValueError, IndexError, struct.error, TypeError) as error:
        raise _broken(name, f"it is no SentencePiece model ({error})") from error
    if not pieces:
        raise _broken(name, "it has no pieces")
    if len({piece.text for piece in pieces}) != len(pieces):
        raise _broken(name, "two of its pieces are the same")
    return model


def _piece(data: Any) -> ScoredPiece:
    values = dict(_fields(data))
    score = values.get(2, b"\0\0\0\0")
    return ScoredPiece(
        text=bytes(values[1]).decode() if 1 in values else "",
        score=struct.unpack("<f", score)[0],
        kind=Kind(values.get(3, 1)),
    )


def _merged(fields: list[tuple[int, Any]], wanted: int) -> dict[int, Any]:
    merged: dict[int, Any] = {}
    for number, value in fields:
        if number == wanted:
            merged.update(_fields(value))
    return merged


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield field numbers and values: integers of varints, bytes of everything else."""
    if not isinstance(data, bytes):
        raise TypeError("a message where a number stands")
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        wire = tag & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, place = _varint(data, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {place}")
        if place + size > len(data):
            raise ValueError(f"a field of {size} bytes ends after the file's {len(data)}")
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError(f"a number that does not end at byte {place}")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _broken(name: str, problem: str) -> AssetsInvalid:
    return AssetsInvalid(file=name, problem=f"{problem}.", remedy="Download it again.")
