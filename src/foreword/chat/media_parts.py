"""Media parts enter; references numbered in reading order leave, and what stands in their place.

Rules of this file: nothing is fetched, decoded or measured. A part is judged by its form alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from foreword.chat.marks import make_mark, settle, texts_of, unused_character
from foreword.chat.media_urls import url_of
from foreword.chat.parts import MediaPart, ShownPart, refuse_media
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.types import MediaReference, Message

DEFAULT_MAX_ITEMS = 999
"""Items of one modality in a prompt, as vLLM 0.33 has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaForm:
    """How a model's prompt writes an item: `target` is the part of `placeholder` that expands.

    `{number}` in either is the item's number among its modality, from 1.
    """

    placeholder: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaForms:
    """How a model's prompt writes items, by modality, and how many of each it may hold.

    `explain` raises why a model takes none at all.
    """

    forms: Mapping[str, MediaForm]
    max_items: Mapping[str, int] = field(default_factory=dict)
    explain: Callable[[], object] | None = None


class MediaCollector:
    """Collects the media of one conversation."""

    def __init__(self, forms: MediaForms | None, messages: object) -> None:
        self._forms = forms
        self._messages = messages
        self._character: str | None = None
        self._found: list[MediaReference] = []

    def add(self, part: MediaPart) -> ShownPart:
        """Note an item, and return what stands for it among the parts.

        Raises: `UnsupportedFeature` for what is not taken; `InvalidRequest` for one too many;
        `MalformedRequest` for a part of the wrong form.
        """
        forms = self._forms
        if forms is None or part.type.endswith("_embeds") or part.type == "image_pil":
            refuse_media(part)
        form = forms.forms.get(part.modality)
        if form is None:
            _explain(forms, part)
        number = 1 + sum(one.modality == part.modality for one in self._found)
        limit = forms.max_items.get(part.modality, DEFAULT_MAX_ITEMS)
        if number > limit:
            raise InvalidRequest(
                f"At most {limit} {part.modality}(s) may be provided in one prompt. Send fewer.",
                param=part.path,
                details={"modality": part.modality, "max_items": limit},
            )
        if self._character is None:
            self._character = unused_character(texts_of(self._messages))
        reference = MediaReference(
            modality=part.modality,
            index=len(self._found),
            path=part.path,
            url=url_of(part),
            uuid=part.uuid,
            target=form.target.replace("{number}", str(number)),
        )
        self._found.append(reference)
        placeholder = form.placeholder.replace("{number}", str(number))
        mark = make_mark(self._character, part.modality, reference.index)
        return ShownPart(
            modality=part.modality,
            placeholder=placeholder.replace(reference.target, mark),
            extra=part.extra,
        )

    def settle(
        self, messages: Sequence[Message]
    ) -> tuple[list[Message], tuple[MediaReference, ...]]:
        """Return the messages with targets in place of marks, and the references, placed."""
        if self._character is None:
            return list(messages), ()
        return settle(messages, self._found, self._character)


def _explain(forms: MediaForms, part: MediaPart) -> NoReturn:
    try:
        if forms.explain is not None:
            forms.explain()
    except UnsupportedFeature as error:
        raise UnsupportedFeature(
            feature=f"The content part type {part.type}", remedy=error.message, param=part.path
        ) from None
    refuse_media(part)
