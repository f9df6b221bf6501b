"""A request and its stages enter; OpenTelemetry spans leave, when they are asked for.

Rules of this file: the API only; what is done with spans is the SDK's that the operator set up.
Span names and attributes hold routes, stages and numbers, never text of a request.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol

from foreword.errors import UnsupportedFeature

_CARRIED = (b"traceparent", b"tracestate", b"baggage")


class Tracing(Protocol):
    """What the service tells of where its time went."""

    def request(
        self, route: str, headers: Iterable[tuple[bytes, bytes]]
    ) -> AbstractContextManager[Any]:
        """Make a span for a request, under the one its headers name, for the time of the block."""
        ...

    def stages(self, seconds: Mapping[str, float], numbers: Mapping[str, int]) -> None:
        """Add the stages that have just ended, one after the other, and the prompt's numbers."""
        ...


class NullTracing:
    """Tracing that is switched off."""

    def request(
        self, route: str, headers: Iterable[tuple[bytes, bytes]]
    ) -> AbstractContextManager[Any]:
        return nullcontext()

    def stages(self, seconds: Mapping[str, float], numbers: Mapping[str, int]) -> None: ...


class OpenTelemetryTracing:
    """Spans by the OpenTelemetry API. Safe in any thread: the current span is the context's."""

    def __init__(self) -> None:
        try:
            self._trace: Any = import_module("opentelemetry.trace")
            self._propagate: Any = import_module("opentelemetry.propagate")
        except ModuleNotFoundError:
            raise UnsupportedFeature(
                feature="tracing", remedy="Install foreword[otel], or start with --no-tracing."
            ) from None
        self._tracer: Any = self._trace.get_tracer("foreword")

    def request(
        self, route: str, headers: Iterable[tuple[bytes, bytes]]
    ) -> AbstractContextManager[Any]:
        """Make the request's span, a child of the caller's."""
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in headers if name in _CARRIED
        }
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"POST {route}",
            context=self._propagate.extract(carrier),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.route": route},
        )
        return span

    def stages(self, seconds: Mapping[str, float], numbers: Mapping[str, int]) -> None:
        """Add a span for each stage, laid end to end and ending now."""
        self._trace.get_current_span().set_attributes(numbers)
        starts_at = time.time_ns() - int(sum(seconds.values()) * 1e9)
        for name, duration in seconds.items():
            ends_at = starts_at + int(duration * 1e9)
            self._tracer.start_span(name, start_time=starts_at).end(end_time=ends_at)
            starts_at = ends_at


def make_tracing(enabled: bool) -> Tracing:
    """Give spans, or none."""
    return OpenTelemetryTracing() if enabled else NullTracing()
