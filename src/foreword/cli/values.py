"""A request and the station to stop at enter; the value it has there leaves, as plain JSON values.

Rules of this file: every value is the renderer's; nothing is computed here.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from foreword.cli.json_output import to_plain
from foreword.diagnosis import RequestKind, Stations, walk
from foreword.engines.vllm_generate import to_dict
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.protocols.bodies import two_prompts_of
from foreword.renderer import Renderer, kind_of

Body = bytes | dict[str, Any]


def find_station(options: Namespace) -> str:
    """Return the station to stop at.

    Raises: `UnsupportedFeature` for an engine request of a prompt that nothing is generated from.
    """
    if options.runner != "pooling":
        return options.to or "engine"
    if options.to == "engine":
        raise UnsupportedFeature(
            feature="--to engine with --runner pooling",
            remedy="Nothing is generated from such a prompt: use --to input.",
        )
    return options.to or "input"


def find_kind(options: Namespace, body: Body) -> RequestKind:
    """Return which API a body is for: what the caller says, else what it looks like."""
    if options.runner == "pooling":
        return "pooling"
    kind: RequestKind = options.kind or kind_of(body)
    return kind


def render_one(renderer: Renderer, body: Body, *, kind: RequestKind, station: str) -> Any:
    """Return one request's value at a station, plain; a list for everything but a chat.

    Raises: any `ForewordError` of the line up to that station.
    """
    if (shape := two_prompts_of(body)) is not None:
        return to_plain(_render_two(renderer, body, shape, station))
    if station == "engine" and kind != "pooling":
        made = renderer.generate_request(body, kind=kind)
        return [to_dict(one) for one in made] if isinstance(made, list) else to_dict(made)
    if station == "input":
        return to_plain(_render_input(renderer, body, kind))
    first = _reach(renderer, body, kind, 0, station)
    if first.conversation is not None:
        return _value(first, station)
    others = range(1, first.num_prompts)
    reached = [first, *(_reach(renderer, body, kind, index, station) for index in others)]
    return [_value(stations, station) for stations in reached]


def _render_two(renderer: Renderer, body: Body, shape: str, station: str) -> Any:
    if station not in ("input", "engine"):
        raise UnsupportedFeature(
            feature=f"--to {station} for a body with encoder_prompt or documents",
            remedy="Leave --to out: the engine's input of each prompt is shown.",
        )
    if shape == "scoring":
        return renderer.render_scoring(body)
    return renderer.render_encoder_decoder(body)


def _render_input(renderer: Renderer, body: Body, kind: RequestKind) -> Any:
    if kind == "chat":
        return renderer.render_chat(body).engine_input
    return renderer.render_cmpl(body) if kind == "completion" else renderer.render_pooling(body)


def _reach(renderer: Renderer, body: Body, kind: RequestKind, index: int, station: str) -> Stations:
    wanted: Any = station
    stations = walk(renderer, body, kind=kind, prompt_index=index, until=wanted)
    stations.require(wanted)
    return stations


def _value(stations: Stations, station: str) -> Any:
    if station == "tokens":
        return to_plain(stations.tokens)
    if station == "conversation":
        if stations.conversation is None:
            raise InvalidRequest(
                "A completion request has no conversation: its prompt is the text. Use --to text,"
                " or a later station."
            )
        return to_plain(stations.conversation)
    if stations.rendered is None:
        raise InvalidRequest(
            "The prompt was given as token ids and has no text. Use --to tokens, or a later"
            " station; `foreword detokenize` tells the text of ids."
        )
    return stations.rendered.text
