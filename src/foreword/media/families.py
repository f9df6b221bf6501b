"""A model's family, found and bound to its files: config files in, a `FamilyConfig` out.

Rules of this file: a family is a row of `table.FAMILIES`, matched by architecture first, then by
model type. A processor class the row doesn't know is refused by name: fail closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from foreword.errors import AssetsInvalid, UnsupportedFeature
from foreword.media.files import (
    Constant,
    Document,
    MediaFiles,
    file_of,
    lacks_document,
    read_constants,
    refuse_missing,
    refuse_unknown_keys,
)
from foreword.media.rows import AudioRow, Family, VisualRow
from foreword.media.table import FAMILIES


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundVisual:
    """How images (or videos) of one model are shown, all constants known."""

    row: VisualRow
    constants: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundAudio:
    """How audio of one model is heard, all constants known."""

    row: AudioRow
    constants: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyConfig:
    """A family with one model's constants; a modality it doesn't take is None."""

    family: Family
    image: BoundVisual | None = None
    video: BoundVisual | None = None
    audio: BoundAudio | None = None


def find_family(
    files: MediaFiles, *, tokenizer_mode: str = "auto", tolerated_keys: Iterable[str] = ()
) -> FamilyConfig:
    """Return the family of the model with these files, bound to their constants.

    Raises: `UnsupportedFeature` for a model type, processor class, key or value that isn't known;
    `AssetsInvalid` when a file lacks a constant or holds no fit value for it.
    """
    family = _match(files, uses_tekken=tokenizer_mode == "mistral")
    documents = files.documents()
    _refuse_unknown_classes(family, documents)
    rows = [row for row in (family.image, family.video, family.audio) if row is not None]
    names: set[str] = set()
    constants: list[Constant] = []
    for row in rows:
        constants += row.constants
        names.update(row.files)
    audio = family.audio
    if family.image is not None and lacks_document(
        family.image.constants, files, "image_processor"
    ):
        refuse_missing("image")
    if audio is not None and lacks_document(audio.constants, files, "feature_extractor"):
        # Models of several modalities come without one of them too.
        if family.image is None:
            refuse_missing("audio")
        audio = None
    refuse_unknown_keys(
        documents, constants, names=sorted(names), ignored=family.ignored, tolerated=tolerated_keys
    )
    return FamilyConfig(
        family=family,
        image=_bind_visual(family.image, documents),
        video=_bind_visual(family.video, documents),
        audio=_bind_audio(audio, documents),
    )


def _bind_visual(row: VisualRow | None, documents: Mapping[str, Document]) -> BoundVisual | None:
    if row is None:
        return None
    return BoundVisual(
        row=row,
        constants={"pad": row.embeds, **row.tokens, **read_constants(row.constants, documents)},
    )


def _bind_audio(row: AudioRow | None, documents: Mapping[str, Document]) -> BoundAudio | None:
    if row is None:
        return None
    return BoundAudio(
        row=row,
        constants={"pad": row.embeds, **row.tokens, **read_constants(row.constants, documents)},
    )


def _match(files: MediaFiles, *, uses_tekken: bool) -> Family:
    documents = files.documents()
    architectures, model_type = _names(documents["config"])
    classes = set(_classes(documents))
    candidates = [f for f in FAMILIES if f.uses_tekken == uses_tekken]
    by_architecture = [f for f in candidates if architectures & f.architectures]
    by_type = [f for f in candidates if model_type in f.model_types]
    found = by_architecture or by_type
    # Pixtral's files call themselves LLaVA: where several rows match, the class decides, and
    # without a class the row of that name.
    exact = [f for f in found if classes & f.classes] or [f for f in found if f.name == model_type]
    if exact or found:
        return (exact or found)[0]
    name = model_type or ", ".join(sorted(architectures)) or "of no model_type"
    raise UnsupportedFeature(
        feature=f"Media input for the model type {name}",
        remedy="Send text only, or let the engine expand the media itself.",
    )


def _names(config: Document) -> tuple[set[str], str | None]:
    """Return the architectures and the model type that a config names.

    Raises: `AssetsInvalid` where they are no names.
    """
    found, model_type = config.get("architectures"), config.get("model_type")
    architectures = [found] if isinstance(found, str) else [] if found is None else found
    is_fit = isinstance(architectures, list | tuple)
    if not is_fit or not all(isinstance(one, str) for one in architectures):
        raise AssetsInvalid(file="config.json", problem="architectures is no list of names.")
    if not isinstance(model_type, str | None):
        raise AssetsInvalid(file="config.json", problem="model_type is no name.")
    return set(architectures), model_type


def _refuse_unknown_classes(family: Family, documents: Mapping[str, Document]) -> None:
    for name in _classes(documents):
        if name not in family.classes:
            raise UnsupportedFeature(
                feature=f"The processor class {name} in the family {family.name}",
                remedy=f"Counts are known for {', '.join(sorted(family.classes)) or 'none'}.",
            )


def _classes(documents: Mapping[str, Document]) -> list[str]:
    """Return the processor classes the files name, without the suffix of their backend."""
    found: list[str] = []
    for document in ("processor", "image", "video", "audio"):
        for key in _CLASS_KEYS:
            name = documents[document].get(key)
            if not isinstance(name, str | None):
                raise AssetsInvalid(file=file_of(document), problem=f"{key} is no name.")
            if name:
                found.append(name.removesuffix("Fast").removesuffix("Pil"))
    return found


_CLASS_KEYS = (
    "processor_class",
    "image_processor_type",
    "video_processor_type",
    "feature_extractor_type",
)
