"""Values with tensors among them enter; msgpack frames leave, and arrays come back from frames.

Rules of this file: frame 0 is the message, the others are raw buffers that it refers to by their
index in the list. Buffers are not copied; whoever sends them keeps them alive until then.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.msgpack import Ext

Frame: TypeAlias = "bytes | bytearray | memoryview"

RAW_VIEW = 3
"""The msgpack extension type of a buffer that lies within the message."""
MIN_FRAME_BYTES = 256
"""Smaller buffers lie within the message (vLLM's VLLM_MSGPACK_ZERO_COPY_THRESHOLD)."""

_FORMATS = {
    "bool": "?", "|b1": "?", "uint8": "B", "|u1": "B", "int8": "b", "|i1": "b",
    "int16": "h", "<i2": "h", "int32": "i", "<i4": "i", "int64": "q", "<i8": "q",
    "float32": "f", "<f4": "f", "float64": "d", "<f8": "d",
}  # fmt: skip


class Tensor:
    """A tensor to be sent: `dtype` is torch's name (`bool`, `bfloat16`) or numpy's (`<f4`).

    Why: not a dataclass, for msgspec would write one as a map without asking.
    """

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, *, dtype: str, shape: tuple[int, ...], data: Frame) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data = data


class ReceivedArray(msgspec.Struct, array_like=True, frozen=True):
    """A tensor or array as it stands in a received message."""

    dtype: str
    shape: tuple[int, ...]
    data: Any
    """`Ext` for data within the message, else the index of its frame."""


def encode_frames(value: object, *, min_frame_bytes: int = MIN_FRAME_BYTES) -> list[Frame]:
    """Return the frames of a message; buffers from `min_frame_bytes` on get one of their own.

    Raises: TypeError for a value msgpack does not know.
    """
    frames: list[Frame] = [b""]

    def lay_out(item: object) -> object:
        if isinstance(item, slice):
            return item.start, item.stop, item.step
        if not isinstance(item, Tensor):
            raise TypeError(f"An engine cannot be sent a {type(item).__name__}.")
        num_bytes = memoryview(item.data).nbytes
        if num_bytes < min_frame_bytes or not item.shape:
            return item.dtype, item.shape, Ext(RAW_VIEW, item.data)
        frames.append(item.data)
        return item.dtype, item.shape, len(frames) - 1

    frames[0] = msgspec.msgpack.encode(value, enc_hook=lay_out)
    return frames


def encode_whole(value: object) -> bytes:
    """Return a message in one frame, with every buffer within it."""
    return bytes(encode_frames(value, min_frame_bytes=sys.maxsize)[0])


def array_values(array: ReceivedArray, frames: Sequence[Frame]) -> memoryview[Any]:
    """Return the values of a received array, flat, in row-major order; nothing is copied.

    Shapes: `frames` is the whole message the array came in.

    Raises: ValueError for a type Python has no number for (`bfloat16`), or the wrong size.
    """
    buffer = array.data.data if isinstance(array.data, Ext) else frames[array.data]
    code = _FORMATS.get(array.dtype)
    if code is None:
        raise ValueError(f"Arrays of {array.dtype} have no plain Python values.")
    flat: Any = memoryview(buffer).cast("B")
    values: memoryview[Any] = flat.cast(code)
    if len(values) != math.prod(array.shape):
        raise ValueError(f"An array of shape {array.shape} came with {len(values)} values.")
    return values
