"""Spans: one for a request, under the caller's, with a child for each stage, and numbers only."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the OpenTelemetry SDK")

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CHAT = "/v1/chat/completions/render"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("num_words", [1, 2000], ids=["inline", "thread"])
def test_a_request_and_its_stages(
    make_state: Any, in_process: Any, monkeypatch: pytest.MonkeyPatch, num_words: int
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    body = json.dumps({"messages": [{"role": "user", "content": "secret " * num_words}]})

    async def test() -> None:
        async with in_process(make_state(tracing=True, warm_up=False)) as client:
            response = await client.post(CHAT, content=body, headers={"traceparent": CALLER})
            assert response.status_code == 200

    asyncio.run(test())
    spans = {span.name: span for span in exporter.get_finished_spans()}
    request = spans.pop(f"POST {CHAT}")
    assert format(request.context.trace_id, "032x") == CALLER.split("-")[1]
    assert format(request.parent.span_id, "016x") == CALLER.split("-")[2]
    assert request.attributes["foreword.num_tokens"] > num_words
    assert list(spans) == ["parse", "conversation", "template", "tokenize", "budget", "serialise"]
    for span in spans.values():
        assert span.parent.span_id == request.context.span_id
        assert request.start_time <= span.start_time + 10**6
        assert span.start_time <= span.end_time
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_switched_off_there_is_none(make_state: Any) -> None:
    from foreword.service.tracing import NullTracing

    assert isinstance(make_state().tracing, NullTracing)
