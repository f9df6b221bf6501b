"""A key and a way to load enter; what was loaded for that key leaves, loaded once.

Rules of this file: whoever comes second for a key waits for the first. Other keys wait for nobody.
A failed load is not remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class LoadedOnce(Generic[T]):
    """The last `max_entries` values that were loaded, shared by every thread."""

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max_entries
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._gates: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        """Return the value of `key`, loading it when nobody has.

        Raises: whatever `load` raises.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            gate = self._gates.setdefault(key, Lock())
        with gate:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            try:
                value = load()
                with self._lock:
                    self._values[key] = value
                    if len(self._values) > self.max_entries:
                        self._values.popitem(last=False)
            finally:
                with self._lock:
                    self._gates.pop(key, None)
        return value
