"""What an operator decides for one model enters; the same, checked, leaves.

Rules of this file: every option has a default that is safe to serve with. An option that no
request could be served with is refused here, by its name, and not by the first request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args

from foreword.blocks import BlockHasher, LoraKey
from foreword.blocks.memo import DEFAULT_HASH_MEMO_BYTES
from foreword.errors import InvalidRequest
from foreword.media.items import MediaLimits, MediaNaming
from foreword.templating import DEFAULT_LIMITS, TemplateLimits
from foreword.types import RunnerType

ContentFormatChoice = Literal["auto", "string", "openai"]
_MAX_SHOWN_CHARS = 60


class FurtherOptions(TypedDict, total=False):
    """The options of `RendererOptions` that `load` hands on as they are."""

    content_format: ContentFormatChoice
    default_chat_template_kwargs: Mapping[str, Any]
    trust_request_chat_template: bool
    exclude_tools_when_tool_choice_none: bool
    system_start_date: str | None
    max_new_tokens: int | None
    refuse_overflow: bool
    max_body_bytes: int | None
    template_limits: TemplateLimits
    media: MediaOptions
    block_hashing: BlockHashing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHashing:
    """How the engine names the blocks of its prefix cache, for requests that ask for the names."""

    hasher: BlockHasher
    lora_paths: Mapping[str, str] = field(default_factory=dict)
    """The engine's adapters: the name a request uses as its model, and the path it was given."""
    memo_bytes: int = DEFAULT_HASH_MEMO_BYTES
    """Memory for stretches that were hashed before; 0 remembers nothing."""

    def __post_init__(self) -> None:
        check_kind("hasher", self.hasher, (BlockHasher,), "BlockHasher")
        check_kind("lora_paths", self.lora_paths, (Mapping,), "a mapping")
        check_names("lora_paths", (*self.lora_paths, *self.lora_paths.values()))
        check_whole("memo_bytes", self.memo_bytes, least=0)

    def lora_key(self, model: str | None) -> LoraKey | None:
        """Return the adapter that a request for `model` means; None for the model itself."""
        path = self.lora_paths.get(model) if model else None
        return LoraKey(model, path) if model and path else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions:
    """What the operator decided about media."""

    max_items: Mapping[str, int] = field(default_factory=dict)
    """Items of a modality (`image`, `audio`, `video`) in a prompt; 999 where it isn't named."""
    limits: MediaLimits = field(default_factory=MediaLimits)
    """What an item in a data: URL may be."""
    placeholder_text: Literal["text", "refuse"] = "text"
    """What becomes of a placeholder that a user typed beside media: ordinary text, or an error."""
    naming: MediaNaming = field(default_factory=MediaNaming)
    tolerated_keys: tuple[str, ...] = ()
    """Keys of a processor's files that are known not to change counts."""

    def __post_init__(self) -> None:
        check_choice("placeholder_text", self.placeholder_text, ("text", "refuse"))
        check_kind("limits", self.limits, (MediaLimits,), "MediaLimits")
        check_kind("naming", self.naming, (MediaNaming,), "MediaNaming")
        keys = self.tolerated_keys
        if not isinstance(keys, tuple) or not all(isinstance(key, str) and key for key in keys):
            raise _refused("tolerated_keys", keys, "must be a tuple of names that are not empty")
        check_kind("max_items", self.max_items, (Mapping,), "a mapping")
        for modality, limit in self.max_items.items():
            check_choice("max_items", modality, ("image", "audio", "video"))
            check_whole(f"max_items of {modality}", limit, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RendererOptions:
    """What the operator decided for one model.

    Raises: `InvalidRequest` with `param`, the option's name, for a value that is none.
    """

    max_model_len: int
    runner: RunnerType = "generate"
    served_model_names: tuple[str, ...] = ()
    """Names a request may use for this model, the first of them its own; empty accepts any."""
    chat_template: str | None = None
    """A template's name or source that replaces the model's own."""
    content_format: ContentFormatChoice = "auto"
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    trust_request_chat_template: bool = False
    exclude_tools_when_tool_choice_none: bool = False
    system_start_date: str | None = None
    """The current date told to models whose format tells one, as 2026-11-30; None: the clock's."""
    sampling_defaults: Mapping[str, Any] = field(default_factory=dict)
    """As `sampling.default_sampling_params` gives them."""
    max_new_tokens: int | None = None
    """A ceiling for the output of every request."""
    refuse_overflow: bool = False
    """Refuse a `max_tokens` that does not fit beside the prompt, instead of lowering it."""
    max_body_bytes: int | None = 32 * 2**20
    template_limits: TemplateLimits = DEFAULT_LIMITS
    media: MediaOptions = field(default_factory=MediaOptions)
    block_hashing: BlockHashing | None = None
    """What `return_block_hashes` needs; None: it is refused."""

    def __post_init__(self) -> None:
        check_whole("max_model_len", self.max_model_len, least=1)
        check_whole("max_new_tokens", self.max_new_tokens, least=1, may_be_none=True)
        check_whole("max_body_bytes", self.max_body_bytes, least=1, may_be_none=True)
        check_choice("runner", self.runner, get_args(RunnerType))
        check_choice("content_format", self.content_format, get_args(ContentFormatChoice))
        check_kind("chat_template", self.chat_template, (str, type(None)), "a string")
        check_kind("system_start_date", self.system_start_date, (str, type(None)), "text")
        check_kind("template_limits", self.template_limits, (TemplateLimits,), "TemplateLimits")
        check_kind("media", self.media, (MediaOptions,), "MediaOptions")
        check_kind("block_hashing", self.block_hashing, (BlockHashing, type(None)), "BlockHashing")
        for name in ("default_chat_template_kwargs", "sampling_defaults"):
            check_kind(name, getattr(self, name), (Mapping,), "a mapping")
        for name in (
            "trust_request_chat_template",
            "exclude_tools_when_tool_choice_none",
            "refuse_overflow",
        ):
            check_kind(name, getattr(self, name), (bool,), "True or False")
        check_names("served_model_name", self.served_model_names)


def check_whole(name: str, value: object, *, least: int, may_be_none: bool = False) -> None:
    """Refuse an option that is no whole number of at least `least`.

    Raises: `InvalidRequest`.
    """
    if value is None and may_be_none:
        return
    if type(value) is not int or value < least:
        or_none = ", or None" if may_be_none else ""
        raise _refused(name, value, f"must be a whole number of {least} or more{or_none}")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse an option that is none of its choices.

    Raises: `InvalidRequest`.
    """
    # Not `in`: what is unhashable or compares oddly is a wrong value like any other.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise _refused(name, value, f"must be one of {', '.join(map(repr, choices))}")


def check_kind(name: str, value: object, kinds: tuple[type, ...], words: str) -> None:
    """Refuse an option of another type than it takes.

    Raises: `InvalidRequest`.
    """
    if not isinstance(value, kinds):
        or_none = " or None" if type(None) in kinds else ""
        raise _refused(name, value, f"must be {words}{or_none}")


def check_names(name: str, value: object) -> None:
    """Refuse an option that is no tuple of names.

    Raises: `InvalidRequest`.
    """
    is_fit = isinstance(value, tuple) and all(isinstance(one, str) and one for one in value)
    if not is_fit:
        raise _refused(name, value, "must be a name, or a tuple of names that are not empty")


def check_known(given: Mapping[str, object]) -> None:
    """Refuse further options whose names nothing knows.

    Raises: `InvalidRequest`.
    """
    for name in given:
        if name not in FurtherOptions.__annotations__:
            known = ", ".join(FurtherOptions.__annotations__)
            raise InvalidRequest(
                f"load has no option {name!r}. Besides those of its signature it takes: {known}.",
                param=name,
            )


def _refused(name: str, value: object, rule: str) -> InvalidRequest:
    shown = repr(value)
    if len(shown) > _MAX_SHOWN_CHARS:
        shown = f"a {type(value).__name__}"
    return InvalidRequest(f"{name} is {shown}; it {rule}.", param=name)
