"""How busy engines are enters; which one gets the next request leaves.

Rules of this file: numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WAITING_WEIGHT = 6.0
_FULL_FROM = 0.5
"""The share of the KV cache from which on a queue is expected to last."""


@dataclass(slots=True, kw_only=True)
class EngineLoad:
    """What is known of one engine's load.

    Shapes: `num_waiting` and `num_running` are of all front ends, as the engine last said;
    `num_in_flight` are this front end's own, and exact.
    """

    num_waiting: int = 0
    num_running: int = 0
    kv_cache_usage: float = 0.0
    num_in_flight: int = 0

    def score(self, *, num_clients: int = 1) -> float:
        """Return how busy it is: lower is better.

        Source: vLLM 0.33 `DPLBAsyncMPClient`: a queue counts more the fuller the KV cache is.
        """
        told = self.num_waiting + self.num_running
        full = max(0.0, self.kv_cache_usage - _FULL_FROM)
        busy = max(num_clients * self.num_in_flight, told)
        return busy + self.num_waiting * _WAITING_WEIGHT * full


def least_loaded(loads: Sequence[EngineLoad], *, first: int = 0, num_clients: int = 1) -> int:
    """Return the place of the least loaded engine; of equal ones the next from `first` on."""
    places = range(len(loads))
    return min(
        (places[(first + step) % len(loads)] for step in places),
        key=lambda place: loads[place].score(num_clients=num_clients),
    )
