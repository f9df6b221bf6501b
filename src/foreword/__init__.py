"""foreword: everything before the first token, exactly as the engine must see it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from foreword.version import __version__

if TYPE_CHECKING:
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
else:
    # Imported when first used: a command that only prints its help must not load tokenizers.
    _HOMES = {
        "ChatParams": "params",
        "Conversation": "types",
        "EngineInput": "types",
        "ForewordError": "errors",
        "ModelAssets": "types",
        "Offsets": "types",
        "RenderedChat": "types",
        "RenderedText": "types",
        "Renderer": "renderer",
        "RendererOptions": "options",
        "TokenSequence": "types",
        "TokenizeParams": "params",
        "Trace": "trace",
        "load": "loader",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


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
