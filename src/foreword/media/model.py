"""A model's files and its tokenizer enter; what its prompts make of media leaves.

Rules of this file: the family is looked for once, at load. A model without one is as good as any
for text; only media are refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foreword.errors import ForewordError, InvalidRequest, RequestError
from foreword.media.count import (
    count_audio,
    count_image,
    count_video,
    num_samples,
    sample_video,
)
from foreword.media.families import BoundAudio, BoundVisual, FamilyConfig, find_family
from foreword.media.files import MediaFiles
from foreword.media.items import MediaItem
from foreword.media.runs import IdRun, Run, to_id_runs
from foreword.types import ModelAssets


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaModel:
    """What one model makes of media. `family` is None where it takes none that is known."""

    files: MediaFiles
    tokenizer_mode: str
    tolerated_keys: tuple[str, ...] = ()
    family: FamilyConfig | None = None

    @classmethod
    def of(
        cls,
        assets: ModelAssets,
        *,
        tokenizer_mode: str,
        tolerated_keys: Iterable[str] = (),
        tekken: Mapping[str, Any] | None = None,
    ) -> MediaModel:
        """Look for the family of a model with these files; `tekken` is what that file says."""
        found = assets.media_files
        model = cls(
            files=MediaFiles(
                config=assets.config,
                preprocessor=found.get("preprocessor_config.json"),
                processor=found.get("processor_config.json"),
                video_preprocessor=found.get("video_preprocessor_config.json"),
                tokenizer=assets.tokenizer_config,
                tekken=tekken,
            ),
            tokenizer_mode=tokenizer_mode,
            tolerated_keys=tuple(tolerated_keys),
        )
        try:
            family = model.require()
        except ForewordError:
            return model
        return cls(
            files=model.files,
            tokenizer_mode=tokenizer_mode,
            tolerated_keys=model.tolerated_keys,
            family=family,
        )

    def require(self) -> FamilyConfig:
        """Return the family.

        Raises: why there is none: `UnsupportedFeature`, or `AssetsInvalid` for a file at fault.
        """
        return self.family or find_family(
            self.files, tokenizer_mode=self.tokenizer_mode, tolerated_keys=self.tolerated_keys
        )

    def rows(self) -> dict[str, BoundVisual | BoundAudio]:
        """Return what the family takes, by modality."""
        family = self.require()
        rows = {"image": family.image, "video": family.video, "audio": family.audio}
        return {modality: row for modality, row in rows.items() if row is not None}

    def constants(self) -> dict[str, Any] | None:
        """Return all that decides how many tokens an item costs; None without a family."""
        if self.family is None:
            return None
        by_modality = {modality: dict(bound.constants) for modality, bound in self.rows().items()}
        return {"family": self.family.family.name, **by_modality}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaTokens:
    """A family's tokens as one tokenizer numbers them."""

    family: FamilyConfig
    token_to_id: Callable[[str], int | None]
    id_to_token: Callable[[int], str | None]
    encode_text: Callable[[str], Sequence[int]]

    def count(self, items: Sequence[MediaItem]) -> list[tuple[Run, ...]]:
        """Return what each of a prompt's items expands to.

        Raises: as `count_image`; `details` has the item's `index`.
        """
        num_images = sum(item.modality == "image" for item in items)
        counted: list[tuple[Run, ...]] = []
        position = 0
        for index, item in enumerate(items):
            try:
                counted.append(self._count(item, position, num_images))
            except RequestError as error:
                error.details["index"] = index
                raise
            position += item.modality == "image"
        return counted

    def _count(self, item: MediaItem, position: int, num_images: int) -> tuple[Run, ...]:
        family = self.family
        if item.modality == "image":
            return count_image(
                family, item.width, item.height, position=position, num_images=num_images
            )
        if item.modality == "video":
            times, num_frames = item.timestamps, item.num_frames
            if item.frame_rate:
                times = sample_video(family, num_frames, item.frame_rate)
                num_frames = len(times)
            return count_video(
                family, item.width, item.height, num_frames=num_frames, timestamps=times
            )
        if item.modality == "audio":
            samples = num_samples(item.num_frames, item.sample_rate, family)
            return count_audio(family, samples)
        raise InvalidRequest(f"Media of the kind {item.modality!r} has no tokens.")

    def to_ids(self, runs: Sequence[Run]) -> tuple[IdRun, ...]:
        """Return runs by token id.

        Raises: `AssetsInvalid` when the tokenizer has no such token.
        """
        return to_id_runs(runs, token_to_id=self.token_to_id, encode_text=self.encode_text)

    def joins(self) -> tuple[tuple[int, int, int], ...]:
        """Return the ids that become one where an expansion meets its neighbour."""
        return tuple(
            (ids[0], ids[1], ids[2])
            for ids in (self._single(texts) for texts in self.family.family.joins)
            if ids is not None
        )

    def _single(self, texts: Sequence[str]) -> list[int] | None:
        """Return the texts' tokens, or None where one of them is not one token."""
        encoded = [self.encode_text(text) for text in texts]
        return [ids[0] for ids in encoded] if all(len(ids) == 1 for ids in encoded) else None

    def reserved(self) -> Mapping[str, int]:
        """Return, by text, the tokens that an engine takes for media wherever they stand."""
        words: dict[str, int] = {}
        rows = (self.family.image, self.family.video, self.family.audio)
        for bound in rows:
            for word in () if bound is None else (bound.row.target, bound.row.embeds):
                token_id = word if isinstance(word, int) else self.token_to_id(word)
                text = self.id_to_token(word) if isinstance(word, int) else word
                if token_id is not None and text is not None:
                    words[text] = token_id
        return words
