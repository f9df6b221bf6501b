"""Bytes enter as the printable characters that byte-level vocabularies are written in, or back.

Rules of this file: GPT-2's table, which every byte-level tokenizer shares; nothing else.
"""

from __future__ import annotations


def _table() -> dict[int, str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in table]
    return table | {byte: chr(0x100 + place) for place, byte in enumerate(others)}


CHARACTER_OF: dict[int, str] = _table()
"""Byte → the character it is written as."""
BYTE_OF: dict[str, int] = {character: byte for byte, character in CHARACTER_OF.items()}
"""The character a byte is written as → the byte."""

_LATIN = str.maketrans({chr(byte): character for byte, character in CHARACTER_OF.items()})


def spell(data: bytes) -> str:
    """Return bytes as a byte-level vocabulary writes them."""
    return data.decode("latin-1").translate(_LATIN)


def unspell(token: str) -> bytes | None:
    """Return the bytes a vocabulary's string stands for, or None for other characters."""
    try:
        return bytes(BYTE_OF[character] for character in token)
    except KeyError:
        return None
