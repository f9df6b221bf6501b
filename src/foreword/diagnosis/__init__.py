"""What a person asks of one request: how far it came, where its tokens went, what is odd."""

from foreword.diagnosis.oddities import Oddity, find_oddities
from foreword.diagnosis.parts import Part, count_tool_tokens, find_parts
from foreword.diagnosis.stations import STATIONS, RequestKind, Station, Stations, walk

__all__ = [
    "STATIONS",
    "Oddity",
    "Part",
    "RequestKind",
    "Station",
    "Stations",
    "count_tool_tokens",
    "find_oddities",
    "find_parts",
    "walk",
]
