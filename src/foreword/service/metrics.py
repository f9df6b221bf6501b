"""What happened enters, call by call; the Prometheus exposition leaves.

Rules of this file: a registry of its own, so several services and tests share nothing. Names begin
with `foreword_`. What others count already (memos, queue) is read when it is asked for. Nothing of
a request but numbers; label values come from short lists, never from the client.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from foreword.errors import UnsupportedFeature
from foreword.service.metric_readings import Readings, ReadingSource, all_processes

if TYPE_CHECKING:
    from foreword.types import EngineInput

STAGES = ("queue", "parse", "conversation", "template", "tokenize", "media", "budget", "serialise")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30
)  # fmt: skip
_SIZES = tuple(4.0**power for power in range(2, 13))


_CREATED = re.compile(rb"(# (HELP|TYPE) )?\w+_created[ {]")


class Metrics(Protocol):
    """What the service reports. Also the executor's observer."""

    def stage(self, model: str, stage: str, seconds: float) -> None: ...
    def rendered(self, model: str, made: EngineInput) -> None: ...
    def answered(self, route: str, status: int, seconds: float) -> None: ...
    def refused(self, code: str) -> None: ...
    def queue_waited(self, seconds: float) -> None: ...
    def deadline_hit(self, where: str) -> None: ...
    def pool_swapped(self) -> None: ...
    def inline_overrun(self) -> None: ...
    def add_source(self, source: ReadingSource) -> None: ...
    def refresh(self) -> None: ...
    def exposition(self) -> bytes: ...


class NullMetrics:
    """Metrics that are switched off."""

    def stage(self, model: str, stage: str, seconds: float) -> None: ...
    def rendered(self, model: str, made: EngineInput) -> None: ...
    def answered(self, route: str, status: int, seconds: float) -> None: ...
    def refused(self, code: str) -> None: ...
    def queue_waited(self, seconds: float) -> None: ...
    def deadline_hit(self, where: str) -> None: ...
    def pool_swapped(self) -> None: ...
    def inline_overrun(self) -> None: ...
    def add_source(self, source: ReadingSource) -> None: ...
    def refresh(self) -> None: ...
    def exposition(self) -> bytes:
        """Say that there is nothing."""
        return b"# metrics are switched off\n"


class PrometheusMetrics:
    """Metrics kept by prometheus-client. Safe to call from any thread."""

    def __init__(self) -> None:
        try:
            prometheus: Any = import_module("prometheus_client")
        except ModuleNotFoundError:
            raise UnsupportedFeature(
                feature="metrics",
                remedy="Install foreword[serve], or start with --no-metrics.",
            ) from None
        registry = prometheus.CollectorRegistry()
        self._registry = all_processes(registry)
        self._generate: Any = prometheus.generate_latest
        self._children: dict[tuple[str, ...], Any] = {}

        def histogram(name: str, text: str, labels: tuple[str, ...], buckets: Any) -> Any:
            return prometheus.Histogram(
                f"foreword_{name}", text, labels, registry=registry, buckets=buckets
            )

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Any:
            return prometheus.Counter(f"foreword_{name}", text, labels, registry=registry)

        self._stages = histogram(
            "stage_seconds", "Time of one stage of one request", ("model", "stage"), _SECONDS
        )
        self._chars = counter("rendered_chars", "Characters of rendered prompts", ("model",))
        self._tokens = histogram(
            "prompt_tokens", "Tokens of a prompt before truncation", ("model",), _SIZES
        )
        self._kept = counter("kept_tokens", "Tokens of prompts after truncation", ("model",))
        self._cut = counter("cut_tokens", "Tokens removed by truncation", ("model", "side"))
        self._requests = histogram(
            "request_seconds", "Time from the first byte to the answer", ("route",), _SECONDS
        )
        self._answers = counter("answers", "Answers by route and status", ("route", "status"))
        self._refusals = counter("refusals", "Refused requests by error code", ("code",))
        self._deadlines = counter("deadline_hits", "Deadlines that passed", ("where",))
        self._swaps = counter("pool_swaps", "Threads replaced because their work did not return")
        self._overruns = counter("inline_overruns", "Small requests that proved to be long")
        self._readings = Readings(prometheus, registry)

    def _child(self, metric: Any, *labels: str) -> Any:
        # Looking a labelled child up costs more than counting with it.
        key = (metric._name, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def stage(self, model: str, stage: str, seconds: float) -> None:
        """Record how long a stage of a request took."""
        self._child(self._stages, model, stage).observe(seconds)

    def rendered(self, model: str, made: EngineInput) -> None:
        """Record a prompt's three numbers, and what was cut."""
        self._child(self._chars, model).inc(made.num_chars)
        self._child(self._tokens, model).observe(made.num_prompt_tokens)
        self._child(self._kept, model).inc(len(made.token_ids) - made.num_padded)
        if made.num_truncated:
            self._child(self._cut, model, made.truncated_side or "left").inc(made.num_truncated)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Record an answer. `route` is a route's own path, never the client's."""
        self._child(self._requests, route).observe(seconds)
        self._child(self._answers, route, str(status)).inc()

    def refused(self, code: str) -> None:
        """Record a request that was answered with an error."""
        self._child(self._refusals, code).inc()

    def queue_waited(self, seconds: float) -> None:
        """Record how long a request waited for a thread."""
        self.stage("", "queue", seconds)

    def deadline_hit(self, where: str) -> None:
        """Record that a deadline passed: `queue`, `render` or `body`."""
        self._child(self._deadlines, where).inc()

    def pool_swapped(self) -> None:
        """Record that a thread that did not return was replaced."""
        self._swaps.inc()

    def inline_overrun(self) -> None:
        """Record that a request begun on the event loop moved to a thread."""
        self._overruns.inc()

    def add_source(self, source: ReadingSource) -> None:
        """Let `source` be asked at every exposition."""
        self._readings.sources.append(source)

    def refresh(self) -> None:
        """Read the sources for the exposition of another process."""
        self._readings.refresh()

    def exposition(self) -> bytes:
        """Write everything in Prometheus' text format, of all workers."""
        self._readings.refresh()
        text: bytes = self._generate(self._registry)
        # When a series began is of no use here, and doubles their number.
        return b"\n".join(line for line in text.split(b"\n") if not _CREATED.match(line))


def make_metrics(enabled: bool) -> Metrics:
    """Give Prometheus metrics, or none."""
    return PrometheusMetrics() if enabled else NullMetrics()
