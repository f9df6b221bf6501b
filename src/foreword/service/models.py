"""Settings enter; the served models leave, found by name or alias.

Rules of this file: everything here is made once, before the service is ready, and never changed.
A name that two models claim is an error of the operator's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foreword.blocks import BlockHasher
from foreword.errors import InvalidRequest, UnknownModel, UnsupportedFeature
from foreword.loader import load
from foreword.media.hashing import vllm_hash
from foreword.media.items import MediaLimits, MediaNaming
from foreword.options import BlockHashing, MediaOptions
from foreword.renderer import Renderer
from foreword.service.adapters import lora_paths
from foreword.service.memory import settle_memory
from foreword.service.metric_readings import Reading
from foreword.service.settings import Settings
from foreword.templating import TemplateLimits
from foreword.tokenizer.state import TokenizerState


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model under its first name; `aliases` are its further ones.

    `place` is what the operator gave. It is understood as a name, as vLLM does, and never told.
    """

    name: str
    aliases: tuple[str, ...] = ()
    place: str = ""
    renderer: Renderer
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


class ServedModels:
    """All models of the service. A request that names none gets the first."""

    def __init__(self, models: tuple[ServedModel, ...]) -> None:
        self.all = models
        self._by_name: dict[str, ServedModel] = {}
        for model in models:
            for name in model.names:
                if name in self._by_name:
                    raise InvalidRequest(f"Two models are called {name!r}.", param="models")
                self._by_name[name] = model
        self.names = tuple(self._by_name)
        for model in models:
            self._by_name.setdefault(model.place or model.name, model)

    @property
    def are_fast(self) -> bool:
        """Whether every model's prompts are tokenized by its fast engine."""
        return all(getattr(model.renderer.tokenizer, "fast", None) for model in self.all)

    def find(self, name: str | None) -> ServedModel:
        """Return the model of that name.

        Raises: `UnknownModel`, which lists the names there are.
        """
        if not name:
            return self.all[0]
        model = self._by_name.get(name)
        if model is None:
            raise UnknownModel(name=name, available=self.names)
        return model


def load_models(settings: Settings, *, load_one: Callable[..., Renderer] = load) -> ServedModels:
    """Load every model of the settings.

    Raises: `InvalidRequest` for names that do not fit together; `UnsupportedFeature` when an
    accelerated engine is demanded and not admitted; what loading raises.
    """
    places = _places(settings.models)
    aliases = _aliases(settings.aliases, tuple(places))
    if adapters := lora_paths(settings):
        (name,) = places
        aliases[name] = (*aliases.get(name, ()), *adapters)
    served = ServedModels(
        tuple(
            ServedModel(
                name=name,
                aliases=aliases.get(name, ()),
                place=place,
                renderer=load_one(
                    place, **_options(settings, place, (name, *aliases.get(name, ())))
                ),
            )
            for name, place in places.items()
        )
    )
    if settings.accelerated == "on":
        for model in served.all:
            _check_accelerated(model)
    settle_memory()
    return served


def _check_accelerated(model: ServedModel) -> None:
    tokenizer = model.renderer.tokenizer
    if getattr(tokenizer, "fast", None) is None:
        why = getattr(tokenizer, "engine_report", "its tokenizer has no such engine")
        raise UnsupportedFeature(
            feature=f"accelerated = on for {model.name} ({why})",
            remedy="Install foreword[fast], or start with accelerated = auto.",
            param="accelerated",
        )


def _options(settings: Settings, place: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    deadline = settings.render_deadline_seconds
    return {
        "revision": settings.revision,
        "tokenizer_mode": settings.tokenizer_mode,
        "trust_remote_code": settings.trust_remote_code,
        "system_start_date": settings.system_start_date,
        "max_model_len": settings.max_model_len,
        "runner": settings.runner,
        "served_model_name": names,
        "chat_template": settings.chat_template,
        "content_format": settings.chat_template_content_format,
        "default_chat_template_kwargs": settings.default_chat_template_kwargs,
        "trust_request_chat_template": settings.trust_request_chat_template,
        "exclude_tools_when_tool_choice_none": settings.exclude_tools_when_tool_choice_none,
        "max_body_bytes": settings.max_body_bytes,
        "memo_bytes": settings.memo_bytes,
        "max_uncut_chars": settings.max_uncut_chars,
        "accelerated": settings.accelerated != "off",
        "media": _media_options(settings, place),
        "block_hashing": _block_hashing(settings),
        "template_limits": TemplateLimits(
            max_work=settings.max_template_work,
            max_output_chars=settings.max_template_output_chars,
            deadline_seconds=deadline if deadline > 0 else None,
        ),
    }


def _block_hashing(settings: Settings) -> BlockHashing | None:
    if settings.hash_block_size is None:
        return None
    try:
        hasher = BlockHasher(
            block_size=settings.hash_block_size,
            algorithm=settings.hash_algorithm,
            seed=settings.hash_seed,
        )
    except InvalidRequest as error:
        raise InvalidRequest(error.message, param="hash_seed") from None
    return BlockHashing(hasher=hasher, lora_paths=lora_paths(settings))


def _media_options(settings: Settings, place: str) -> MediaOptions:
    naming = MediaNaming(
        scheme=settings.media_naming,
        model_id=settings.media_naming_model or place,
        algorithm=settings.media_naming_algorithm,
        trusts_uuids=settings.media_trust_uuids,
    )
    if naming.scheme == "vllm":
        vllm_hash(naming.algorithm)  # without its library no image could be named
    limits = {
        "image": settings.max_images,
        "audio": settings.max_audio_clips,
        "video": settings.max_videos,
    }
    most = settings.max_media_items
    return MediaOptions(
        max_items={kind: most if one is None else min(one, most) for kind, one in limits.items()},
        placeholder_text=settings.media_placeholder_text,
        naming=naming,
        tolerated_keys=settings.media_tolerated_keys,
        limits=MediaLimits(
            max_item_bytes=settings.max_media_bytes,
            max_image_pixels=settings.max_image_pixels,
            max_audio_seconds=settings.max_audio_seconds,
        ),
    )


def _places(models: tuple[str, ...]) -> dict[str, str]:
    """Tell names from places: `NAME=MODEL`, or a hub id, or a folder named by its last part."""
    if not models:
        raise InvalidRequest("No model is given; name at least one to serve.", param="models")
    places: dict[str, str] = {}
    for given in models:
        name, separator, place = given.partition("=")
        if not separator:
            place = given
            name = Path(given).resolve().name if os.path.isdir(given) else given
        if not name or not place or name in places:
            what = f"Two models are called {name!r}" if name in places else f"{given!r} is no model"
            raise InvalidRequest(f"{what}; give each as NAME=MODEL.", param="models")
        places[name] = place
    return places


def _aliases(given: tuple[str, ...], names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    aliases: dict[str, tuple[str, ...]] = {}
    for text in given:
        alias, separator, name = text.partition("=")
        if not separator and len(names) == 1:
            name = names[0]
        if name not in names:
            raise InvalidRequest(
                f"The alias {text!r} must be ALIAS=NAME, with one of the names {', '.join(names)}.",
                param="aliases",
            )
        aliases[name] = (*aliases.get(name, ()), alias)
    return aliases


def memo_readings(model: ServedModel) -> Iterator[Reading]:
    """Give what a model's tokenizer remembers and how its fast engine does, where it has them."""
    state = getattr(model.renderer.tokenizer, "state", None)
    if not isinstance(state, TokenizerState):
        return
    stats = state.stats()
    for name, text, value in (
        ("memo_segment_hits", "Segments that were remembered", stats.segment_hits),
        ("memo_segment_misses", "Segments that had to be tokenized", stats.segment_misses),
        ("memo_prefix_hits", "Prompts whose beginning was remembered", stats.prefix_hits),
        ("memo_prefix_misses", "Prompts whose beginning was new", stats.prefix_misses),
        ("memo_evictions", "Entries that gave way to newer ones", stats.evictions),
        ("engine_batches", "Batches the fast engine tokenized", stats.engine_batches),
        ("engine_shadow_checks", "Batches compared with the reference", stats.shadow_checks),
    ):
        yield Reading(name=name, help=text, kind="counter", value=value, model=model.name)
    for name, text, value in (
        ("memo_bytes", "Memory the memos hold", stats.segment_bytes + stats.prefix_bytes),
        ("engine_quarantined", "1 when the fast engine erred once", stats.quarantine is not None),
    ):
        yield Reading(name=name, help=text, kind="gauge", value=float(value), model=model.name)
