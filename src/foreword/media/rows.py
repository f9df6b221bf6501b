"""What a row of the table of families says, modality by modality.

Rules of this file: data only. `placeholder` is what the chat template (or, lacking one, the engine)
writes for an item; `target` is the part of it that the expansion replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foreword.media.files import Constant
from foreword.media.layouts import Layout
from foreword.media.shapes import Constants, Resize


@dataclass(frozen=True, slots=True, kw_only=True)
class VisualRow:
    """How a family shows an image or a video.

    `embeds` is the token that carries embeddings (an id where only the config names it); `tokens`
    are the other tokens by the role the layout knows them by; `files` are the documents whose
    every key must be known; `sample` says which frames of a video file are shown.
    """

    placeholder: str
    target: str
    resize: Resize
    layout: Layout
    embeds: str | int
    constants: tuple[Constant, ...] = ()
    tokens: Mapping[str, str | int] = field(default_factory=dict)
    files: tuple[str, ...] = ("image", "processor")
    sample: Callable[[int, float, Constants], tuple[float, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioRow:
    """How a family hears a clip: `length` counts tokens of `embeds`, between `begin` and `end`."""

    placeholder: str
    target: str
    length: Callable[[int, Constants], int]
    embeds: str | int
    constants: tuple[Constant, ...] = ()
    tokens: Mapping[str, str | int] = field(default_factory=dict)
    files: tuple[str, ...] = ("audio", "processor")
    sampling_rate: int = 16_000
    is_wrapped_in_newlines: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family: what it matches and what it takes.

    `classes` are the processor classes (without Fast or Pil) whose rules the row follows;
    `ignored` are keys of their files that leave counts alone in this family; `joins` are tokens
    that merge where an expansion meets its neighbours, in the order they are tried.
    `uses_tekken` rows count as mistral-common does, and go with the tokenizer mode `mistral`.
    """

    name: str
    model_types: frozenset[str]
    classes: frozenset[str]
    architectures: frozenset[str] = frozenset()
    image: VisualRow | None = None
    video: VisualRow | None = None
    audio: AudioRow | None = None
    ignored: frozenset[str] = frozenset()
    joins: tuple[tuple[str, str, str], ...] = ()
    uses_tekken: bool = False
