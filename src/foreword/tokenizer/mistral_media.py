"""A chat's media enter mistral-common as numbers; their places among the chat's tokens leave.

Rules of this file: mistral-common never sees an item or its URL. Where it would put an item's
tokens, its number is written instead, as that many tokens; they become one again. No text ever
becomes one of these tokens.

Why: it fetches and decodes what a part points to, where a size is all that its tokens depend on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from foreword.chat.media_urls import NUMBERED
from foreword.types import MediaSpan, TokenIds, TokenSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlaces:
    """Stands for mistral-common's encoder of images: the ids of [IMG] and [IMG_END]."""

    token_id: int
    edge_id: int
    """Ends an image."""

    def __call__(self, chunk: Any) -> Any:
        """Return the tokens that stand for an image: its number, counted from 1, and an end."""
        import numpy
        from mistral_common.tokens.tokenizers.image import ImageEncoding

        tokens = [*_written(chunk.get_url(), self.token_id), self.edge_id]
        return ImageEncoding(tokens=tokens, image=numpy.zeros((0,)))

    def runs(self, token_ids: TokenIds) -> Iterator[_Run]:
        """Yield what was written for images; the end belongs to it."""
        for edge in _positions(token_ids, self.edge_id):
            start = edge
            while start and token_ids[start - 1] == self.token_id:
                start -= 1
            yield _Run(start, edge + 1, edge - start - 1, "image", self.token_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPlaces:
    """Stands for mistral-common's encoder of audio: the ids of [AUDIO] and [BEGIN_AUDIO]."""

    token_id: int
    edge_id: int
    """Stands in front of a clip, and stays."""

    def __call__(self, chunk: Any) -> Any:
        """Return the tokens that stand for a clip: a beginning, and its number, from 1."""
        from mistral_common.tokens.tokenizers.audio import AudioEncoding

        tokens = [self.edge_id, *_written(chunk.url, self.token_id)]
        return AudioEncoding(tokens=tokens, audio=None)

    def runs(self, token_ids: TokenIds) -> Iterator[_Run]:
        """Yield what was written for clips, without their beginnings."""
        for edge in _positions(token_ids, self.edge_id):
            stop = edge + 1
            while stop < len(token_ids) and token_ids[stop] == self.token_id:
                stop += 1
            yield _Run(edge + 1, stop, stop - edge - 2, "audio", self.token_id)


class _Run(NamedTuple):
    start: int
    stop: int
    number: int
    modality: str
    token_id: int


def hide_media(instruct: Any) -> None:
    """Put what writes numbers in the place of an instruct tokenizer's encoders."""
    if instruct.image_encoder is not None:
        special = instruct.image_encoder.special_ids
        instruct.image_encoder = ImagePlaces(token_id=special.img, edge_id=special.img_end)
    if instruct.audio_encoder is not None:
        special = instruct.audio_encoder.special_ids
        instruct.audio_encoder = AudioPlaces(token_id=special.audio, edge_id=special.begin_audio)


def find_media(token_ids: TokenIds, instruct: Any) -> TokenSequence:
    """Return tokens with one for each item, and where these are.

    Shapes: the spans have no identity; their index is the item's own among all of the chat.
    """
    encoders = (instruct.image_encoder, instruct.audio_encoder)
    found = array("I")
    spans: list[MediaSpan] = []
    position = 0
    for run in sorted(run for one in encoders if one is not None for run in one.runs(token_ids)):
        found.extend(token_ids[position : run.start])
        start = len(found)
        spans.append(
            MediaSpan(
                modality=run.modality, index=run.number, start=start, stop=start + 1, identity=""
            )
        )
        found.append(run.token_id)
        position = run.stop
    found.extend(token_ids[position:])
    return TokenSequence(token_ids=found, spans=tuple(spans))


def media_blocks(original: Any) -> Mapping[str, Any]:
    """Return what a tokenizer's file says of images and audio, by the names it has there."""
    instruct, blocks = original.instruct_tokenizer, {}
    if instruct.image_encoder is not None:
        image = instruct.image_encoder.image_config
        names = ("image_patch_size", "max_image_size", "spatial_merge_size")
        blocks["image"] = {name: getattr(image, name) for name in names}
    if instruct.audio_encoder is not None:
        audio = instruct.audio_encoder.audio_config
        names = ("sampling_rate", "frame_rate", "chunk_length_s")
        blocks["audio"] = {name: getattr(audio, name) for name in names}
    return blocks


def _written(url: str, token_id: int) -> list[int]:
    return [token_id] * (1 + int(url.removeprefix(NUMBERED)))


def _positions(token_ids: TokenIds, token_id: int) -> Iterator[int]:
    position = -1
    for _ in range(token_ids.count(token_id)):
        position = token_ids.index(token_id, position + 1)
        yield position
