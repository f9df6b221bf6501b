"""A conversation with media, and the text it was rendered to, enter; the items' places leave.

Rules of this file: an item's place is never looked for by its spelling. What the template itself
prints, and what stands in a message for an item, is marked before it is rendered; a mark is made of
a character that nobody's text contains, so what a user typed can't be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.types import Conversation, MediaReference, MediaSlot, Message, RenderedText, Span

_CHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDE0)))
"""Unicode's noncharacters, which are for a program's own use. Few, since a template is compiled
once for each that is needed, and what is compiled is kept."""


def unused_character(texts: Iterable[str]) -> str:
    """Return a character that is in none of `texts`.

    Raises: `InvalidRequest` when they use all of them.
    """
    used: set[str] = set()
    for text in texts:
        if not text.isascii():
            used.update(text)
    for character in _CHARACTERS:
        if character not in used:
            return character
    raise InvalidRequest(
        f"The request uses all of the noncharacters U+FDD0 to U+FDDF ({len(_CHARACTERS)}), so"
        " media can't be marked in it. Leave one out, or send the request without media.",
        param="messages",
    )


def texts_of(value: Any) -> Iterator[str]:
    """Yield every string inside a JSON value, the keys of its objects too."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)


def make_mark(character: str, modality: str, index: int | None) -> str:
    """Return a mark: of an item whose index is known, or of whichever item comes next."""
    return f"{character}{modality}{'' if index is None else index}{character}"


def mark_pattern(character: str) -> re.Pattern[str]:
    """Return what finds marks: the modality, and the index or nothing."""
    return re.compile(f"{character}([a-z]+)([0-9]*){character}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks of one conversation's items."""

    character: str
    media: tuple[MediaReference, ...]

    @classmethod
    def choose(cls, conversation: Conversation, *others: Any) -> Marks:
        """Choose marks that neither the conversation nor `others` contain."""
        given = (
            conversation.messages,
            conversation.tools,
            conversation.chat_template_kwargs,
            others,
        )
        return cls(character=unused_character(texts_of(given)), media=conversation.media)

    def mark_text(self, text: str) -> str:
        """Return a model's own text with the targets in it marked."""
        modalities = {reference.target: reference.modality for reference in self.media}
        longest_first = sorted(modalities, key=len, reverse=True)
        return re.sub(
            "|".join(map(re.escape, longest_first)),
            lambda found: make_mark(self.character, modalities[found[0]], None),
            text,
        )

    def mark_messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return messages with the items that stand in their texts marked."""
        marked = list(messages)
        # From the right, so that a mark doesn't move the spans that are still to come.
        for reference in sorted(self.media, key=lambda one: one.span or (0, 0), reverse=True):
            if reference.message is None or reference.span is None:
                continue
            message, (start, stop) = marked[reference.message], reference.span
            text = message["content"]
            mark = make_mark(self.character, reference.modality, reference.index)
            marked[reference.message] = {**message, "content": text[:start] + mark + text[stop:]}
        return tuple(marked)

    def place(self, rendered: RenderedText, marked: str) -> RenderedText:
        """Return `rendered` with the places of the items, as `marked` shows them.

        Raises: `InvalidRequest` when the template shows more or fewer items than there are, or in
        another order; `UnsupportedFeature` when marks change what it prints.
        """
        text, slots = self._read(marked)
        if text != rendered.text:
            raise UnsupportedFeature(
                feature="Finding the places of media in what this chat template prints",
                remedy="It prints something else where placeholders are marked. Use another"
                " template, or send the request to the engine itself.",
                param="messages",
            )
        return replace(rendered, slots=slots)

    def _read(self, marked: str) -> tuple[str, tuple[MediaSlot, ...]]:
        waiting = {
            kind: [one for one in self.media if one.modality == kind]
            for kind in {one.modality for one in self.media}
        }
        counts = dict.fromkeys(waiting, 0)
        pieces: list[str] = []
        slots: list[MediaSlot] = []
        position = length = 0
        for found in mark_pattern(self.character).finditer(marked):
            kind, index = found[1], found[2]
            number = counts[kind]
            counts[kind] += 1
            if number >= len(waiting[kind]):
                continue
            reference = waiting[kind][number]
            if index and int(index) != reference.index:
                raise _reordered(reference)
            before = marked[position : found.start()]
            pieces += (before, reference.target)
            length += len(before)
            slots.append(
                MediaSlot(index=reference.index, start=length, stop=length + len(reference.target))
            )
            length += len(reference.target)
            position = found.end()
        for kind, count in counts.items():
            if count != len(waiting[kind]):
                raise _miscounted(kind, count, waiting[kind])
        return "".join((*pieces, marked[position:])), tuple(slots)


def settle(
    messages: Sequence[Message], references: Sequence[MediaReference], character: str
) -> tuple[list[Message], tuple[MediaReference, ...]]:
    """Replace the marks in messages by the items' targets, and say where these stand."""
    by_index = {reference.index: reference for reference in references}
    settled: list[Message] = []
    for place, message in enumerate(messages):
        content = message.get("content")
        if not isinstance(content, str) or character not in content:
            settled.append(message)
            continue
        pieces: list[str] = []
        position = length = 0
        for found in mark_pattern(character).finditer(content):
            reference = by_index[int(found[2])]
            before = content[position : found.start()]
            pieces += (before, reference.target)
            start = length + len(before)
            length = start + len(reference.target)
            by_index[reference.index] = replace(reference, message=place, span=(start, length))
            position = found.end()
        settled.append({**message, "content": "".join((*pieces, content[position:]))})
    return settled, tuple(by_index[reference.index] for reference in references)


def keep_spelled_as_text(
    rendered: RenderedText, reserved: Iterable[str], *, may_spell: bool
) -> RenderedText:
    """Return `rendered` with what spells a reserved token, outside the items' places, as text.

    Raises: `InvalidRequest` for such a text unless it `may_spell` them.
    """
    known = set(reserved)
    if not may_spell:
        # A placeholder that is ordinary text is no token, and is spelled all the same.
        known.update(rendered.text[slot.start : slot.stop] for slot in rendered.slots)
    words = sorted(filter(None, known), key=len, reverse=True)
    if not rendered.slots or not words:
        return rendered
    pattern = re.compile("|".join(map(re.escape, words)))
    spans: list[Span] = []
    position = 0
    for slot in (*rendered.slots, None):
        stop = len(rendered.text) if slot is None else slot.start
        spans += (found.span() for found in pattern.finditer(rendered.text, position, stop))
        position = stop if slot is None else slot.stop
    if spans and not may_spell:
        raise InvalidRequest(
            f"The chat's text spells a placeholder of media {len(spans)} times, which is not taken"
            " beside media. Write it otherwise.",
            param="messages",
            details={"num_spelled": len(spans)},
        )
    return replace(rendered, literal_spans=tuple(sorted((*rendered.literal_spans, *spans))))


def _reordered(reference: MediaReference) -> InvalidRequest:
    return InvalidRequest(
        f"The chat shows its media in another order than they were sent: {reference.modality}"
        f" {reference.index} is not where it should be. Send it in a user message.",
        param=reference.path,
    )


def _miscounted(kind: str, count: int, media: Sequence[MediaReference]) -> InvalidRequest:
    return InvalidRequest(
        f"The model's chat template shows {count} places for {kind} input, but the request has"
        f" {len(media)} items. Send them in user messages; some templates show them nowhere else.",
        param=media[0].path,
        details={"modality": kind, "num_places": count, "num_items": len(media)},
    )
