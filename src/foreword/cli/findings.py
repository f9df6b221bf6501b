"""A renderer and a request enter; everything there is to say of the request leaves.

Rules of this file: nothing of the request's is raised; its error is one of the findings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from foreword.assets.fetch import display_name
from foreword.cli.json_output import to_plain
from foreword.cli.output import error_dict
from foreword.diagnosis import (
    Oddity,
    Part,
    RequestKind,
    Stations,
    count_tool_tokens,
    find_oddities,
    find_parts,
    walk,
)
from foreword.engines.vllm_generate import to_dict
from foreword.errors import ForewordError
from foreword.protocols.decode import without_bom
from foreword.renderer import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One request's stations, and what there is to say of them."""

    renderer: Renderer
    stations: Stations
    prompt_index: int
    parts: tuple[Part, ...]
    num_tool_tokens: int
    oddities: tuple[Oddity, ...]
    compile_seconds: float

    @property
    def model_name(self) -> str:
        names = self.renderer.options.served_model_names
        return names[0] if names else display_name(self.renderer.assets.name)


def make_report(
    renderer: Renderer, body: bytes | dict[str, Any], *, kind: RequestKind, prompt_index: int = 0
) -> Report:
    """Take a request down the line and look at it. Raises nothing of the request's."""
    sent = _as_dict(body)
    compile_seconds = _compile(renderer, sent) if sent and "messages" in sent else 0.0
    stations = walk(renderer, body, kind=kind, prompt_index=prompt_index)
    trace = stations.as_trace()
    warnings = tuple(Oddity(code="model", sentence=text) for text in renderer.assets.warnings)
    return Report(
        renderer=renderer,
        stations=stations,
        prompt_index=prompt_index,
        parts=find_parts(trace, renderer) if trace else (),
        num_tool_tokens=count_tool_tokens(trace, renderer) if trace else 0,
        # What a pooling body may hold is not what oddities know of.
        oddities=find_oddities(trace, renderer, None if kind == "pooling" else sent)
        if trace
        else warnings,
        compile_seconds=compile_seconds,
    )


def _as_dict(body: bytes | dict[str, Any]) -> dict[str, Any] | None:
    if isinstance(body, dict):
        return body
    try:
        value = msgspec.json.decode(without_bom(body))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _compile(renderer: Renderer, body: Mapping[str, Any] | None) -> float:
    """Compile the template, so that a stage's time is what every further request would take."""
    began = time.perf_counter()
    try:
        renderer.template_for(None, has_tools=bool(body and body.get("tools")))
    except ForewordError:
        return 0.0  # the walk meets it again, and says so
    return time.perf_counter() - began


def report_dict(report: Report) -> dict[str, Any]:
    """Return everything a report knows, as plain JSON values."""
    stations, renderer = report.stations, report.renderer
    made, tokens, result = stations.engine_request, stations.tokens, stations.engine_input
    error = None
    if stations.error is not None:
        error = {**error_dict(stations.error), "station": stations.stopped_at}
    return {
        "model": {
            "name": report.model_name,
            "mode": renderer.tokenizer.info.mode,
            "max_model_len": renderer.options.max_model_len,
            "fingerprint": renderer.assets.fingerprint,
        },
        "kind": stations.kind,
        "prompt_index": report.prompt_index,
        "num_prompts": stations.num_prompts,
        "num_chars": len(stations.rendered.text) if stations.rendered else None,
        "num_tokens": len(tokens.token_ids) if tokens else None,
        "num_tokens_after_truncation": len(result.token_ids) - result.num_padded
        if result
        else None,
        "num_truncated": result.num_truncated if result else None,
        "truncated_side": result.truncated_side if result else None,
        "num_tool_tokens": report.num_tool_tokens,
        "seconds": {**stations.seconds, "compile": report.compile_seconds},
        "parts": to_plain(report.parts),
        "oddities": to_plain(report.oddities),
        "conversation": to_plain(stations.conversation),
        "media": to_plain(stations.items),
        "text": stations.rendered.text if stations.rendered else None,
        "tokens": to_plain(tokens),
        "engine_input": to_plain(result),
        "engine": to_dict(made) if made else None,
        "error": error,
    }
