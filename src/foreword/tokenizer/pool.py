"""Backends that one thread at a time may use: a way to make one enters, one to borrow leaves.

Rules of this file: what is borrowed is put back, whatever happened. The pool grows to the largest
number ever borrowed at once and no further; it needs no lock, since a deque's two ends are atomic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TokenizerPool(Generic[T]):
    """Lends one backend to one caller at a time.

    `make` gives a new backend and must pickle; a pool in another process starts anew with it.
    """

    def __init__(self, make: Callable[[], T], *, num_ready: int = 1) -> None:
        self.make = make
        self.num_ready = num_ready
        self._free: deque[T] = deque(make() for _ in range(num_ready))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (self.make, self.num_ready)

    @property
    def num_free(self) -> int:
        """How many backends wait to be borrowed: all there are, when nobody works."""
        return len(self._free)

    @contextmanager
    def borrow(self) -> Iterator[T]:
        """Lend a backend for the length of a `with` block; a new one when none is free."""
        try:
            backend = self._free.pop()
        except IndexError:
            backend = self.make()
        try:
            yield backend
        finally:
            self._free.append(backend)


def _remake(make: Callable[[], T], num_ready: int) -> TokenizerPool[T]:
    return TokenizerPool(make, num_ready=num_ready)
