"""foreword: everything before the first token, exactly as the engine must see it."""

from foreword.errors import ForewordError
from foreword.loader import load
from foreword.options import RendererOptions
from foreword.params import ChatParams, TokenizeParams
from foreword.renderer import Renderer
from foreword.trace import Trace
from foreword.types import (
    Conversation,
    EngineInput,
    ModelAssets,
    Offsets,
    RenderedChat,
    RenderedText,
    TokenSequence,
)
from foreword.version import __version__

__all__ = [
    "ChatParams",
    "Conversation",
    "EngineInput",
    "ForewordError",
    "ModelAssets",
    "Offsets",
    "RenderedChat",
    "RenderedText",
    "Renderer",
    "RendererOptions",
    "TokenSequence",
    "TokenizeParams",
    "Trace",
    "__version__",
    "load",
]
