"""Values that others keep enter at the time of an exposition; Prometheus' metrics leave.

Rules of this file: with one process a value is read when it is asked for. With several, each writes
its own to files all can read (prometheus-client's multiprocess mode), and whoever is asked sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that makes prometheus-client write its values to files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value that somebody else keeps. A counter's only grows."""

    name: str
    help: str
    kind: Literal["gauge", "counter"]
    value: float
    model: str | None = None

    @property
    def full_name(self) -> str:
        return f"foreword_{self.name}"

    @property
    def labels(self) -> tuple[str, ...]:
        return () if self.model is None else (self.model,)


ReadingSource = Callable[[], Iterable[Reading]]


class Readings:
    """The sources of one process, as part of its registry."""

    def __init__(self, prometheus: Any, registry: Any) -> None:
        self.sources: list[ReadingSource] = []
        self._prometheus = prometheus
        self._mirrors: dict[str, Any] = {}
        self._written: dict[tuple[str, ...], float] = {}
        self._is_shared = SHARED_METRICS in os.environ
        if not self._is_shared:
            registry.register(self)

    def collect(self) -> Iterator[Any]:
        """Give every reading; called by the registry of a single process."""
        core: Any = import_module("prometheus_client.core")
        families: dict[str, Any] = {}
        for one in self._read():
            family = families.get(one.name)
            if family is None:
                is_counter = one.kind == "counter"
                make = core.CounterMetricFamily if is_counter else core.GaugeMetricFamily
                family = make(one.full_name, one.help, labels=["model"] if one.labels else [])
                families[one.name] = family
            family.add_metric(one.labels, one.value)
        yield from families.values()

    def refresh(self) -> None:
        """Write this process's readings where the others find them."""
        if not self._is_shared:
            return
        for one in self._read():
            metric = self._mirrors.get(one.name)
            if metric is None:
                metric = self._mirrors[one.name] = self._make_mirror(one)
            child = metric.labels(*one.labels) if one.labels else metric
            if one.kind == "gauge":
                child.set(one.value)
                continue
            key = (one.name, *one.labels)
            child.inc(one.value - self._written.get(key, 0.0))
            self._written[key] = one.value

    def _read(self) -> Iterator[Reading]:
        for source in self.sources:
            yield from source()

    def _make_mirror(self, one: Reading) -> Any:
        labels = ["model"] if one.labels else []
        if one.kind == "counter":
            return self._prometheus.Counter(one.full_name, one.help, labels, registry=None)
        return self._prometheus.Gauge(
            one.full_name, one.help, labels, registry=None, multiprocess_mode="livesum"
        )


def all_processes(registry: Any) -> Any:
    """Return what an exposition is made from: this registry, or the sum over all workers."""
    if SHARED_METRICS not in os.environ:
        return registry
    prometheus: Any = import_module("prometheus_client")
    multiprocess: Any = import_module("prometheus_client.multiprocess")
    summed = prometheus.CollectorRegistry()
    multiprocess.MultiProcessCollector(summed)
    return summed


def forget_process(pid: int | None) -> None:
    """Leave an ended worker's present values out of the sums; what it counted stays."""
    if pid is not None:
        import_module("prometheus_client.multiprocess").mark_process_dead(pid)
