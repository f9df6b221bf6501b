"""A GGUF file enters; the key-value pairs of its header leave, and a digest of them.

Rules of this file: reading stops where the pairs end, so the tensors behind them are never
touched. Every length is held against the file's size before anything of that length is read.
"""

# Why no package: `gguf` maps the whole file and builds an array for each of a vocabulary's
# strings through numpy, which takes seconds for what is a loop here, and it brings numpy along.

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from foreword.errors import AssetsInvalid

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"} | {
    12: "d"
}
_STRING, _ARRAY = 8, 9
_MAX_PAIRS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """The pairs of a header by key, and the sha256, in hex, of the bytes they were read from."""

    values: Mapping[str, Any]
    digest: str


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the key-value pairs of a GGUF file.

    Raises: `AssetsInvalid` when it is no GGUF file, of an unknown version, or ends too early.
    Source: the GGUF specification, versions 2 and 3, little-endian.
    """
    try:
        with path.open("rb") as file:
            reader = _Reader(file, os.fstat(file.fileno()).st_size)
            values = _read_pairs(reader, path.name)
            return GgufHeader(values=values, digest=reader.digest.hexdigest())
    except OSError as error:
        raise AssetsInvalid(
            file=path.name,
            problem=f"it cannot be read ({error.strerror or type(error).__name__}).",
        ) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise AssetsInvalid(
            file=path.name,
            problem=f"its header is broken: {error}.",
            remedy="Download it again.",
        ) from error


def _read_pairs(reader: _Reader, name: str) -> dict[str, Any]:
    magic = reader.take(4)
    if magic != MAGIC:
        raise AssetsInvalid(file=name, problem="it is not a GGUF file: it does not begin so.")
    version = reader.number("I")
    if version not in _VERSIONS:
        raise AssetsInvalid(
            file=name,
            problem=f"its GGUF version is {version}; versions {_VERSIONS} are read"
            " (a very large number means big-endian).",
            remedy="Convert it again with a current llama.cpp.",
        )
    reader.number("Q")  # the number of tensors
    count = reader.number("Q")
    if count > _MAX_PAIRS:
        raise ValueError(f"{count} pairs, more than {_MAX_PAIRS}")
    pairs = {}
    for _ in range(count):
        key = reader.text()
        pairs[key] = reader.value(reader.number("I"))
    return pairs


class _Reader:
    """A cursor over the header, which digests what it passes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.left = size
        self.digest = hashlib.sha256()

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise ValueError(f"{size} bytes are announced where {self.left} are left")
        data = self.file.read(size)
        if len(data) != size:
            raise ValueError("the file became shorter while it was read")
        self.left -= size
        self.digest.update(data)
        return data

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY:
            raise ValueError(f"a value of type {kind}")
        inner, count = self.number("I"), self.number("Q")
        if count > self.left:
            raise ValueError(f"a list of {count} values where {self.left} bytes are left")
        if inner == _STRING:
            return [self.text() for _ in range(count)]
        if inner in _SCALARS:
            code = f"<{count}{_SCALARS[inner]}"
            return list(struct.unpack(code, self.take(struct.calcsize(code))))
        raise ValueError(f"a list of values of type {inner}")
