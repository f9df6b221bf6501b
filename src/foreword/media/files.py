"""A model's config files: JSON documents in, a family's constants out.

Rules of this file: a constant says where it stands ("document:key.subkey", first found wins) and
what it is when it stands nowhere. A key of a processor's file that no constant names and that is
not known to leave counts alone is refused, and so is a value other than the ones known to work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foreword.errors import AssetsInvalid, UnsupportedFeature

REQUIRED: Any = object()

Document = Mapping[str, Any]


def names(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFiles:
    """The JSON files of a model folder that say how its media are shown; None where absent."""

    config: Document
    preprocessor: Document | None = None
    processor: Document | None = None
    video_preprocessor: Document | None = None
    tokenizer: Document = field(default_factory=dict)
    """`tokenizer_config.json`, for tokens that only their role names."""
    tekken: Document | None = None
    """`tekken.json` without its vocabulary: the blocks `image` (or `multimodal`) and `audio`."""

    def documents(self) -> dict[str, Document]:
        """Return the documents constants are looked up in.

        Source: transformers 5.20: blocks nested in processor_config.json win over files of their
        own; a video's falls back to the image's.
        """
        processor = self.processor or {}
        image = processor.get("image_processor") or self.preprocessor or {}
        video = processor.get("video_processor") or self.video_preprocessor or image
        audio = processor.get("feature_extractor") or self.preprocessor or {}
        tekken = self.tekken or {}
        return {
            "config": self.config,
            "image": image,
            "video": video,
            "audio": audio,
            "processor": {k: v for k, v in processor.items() if k not in _NESTED},
            "tokenizer": self.tokenizer,
            "tekken": {
                "image": tekken.get("multimodal") or tekken.get("image") or {},
                "audio": tekken.get("audio") or {},
            },
        }


@dataclass(frozen=True, slots=True)
class Constant:
    """One number (or flag, or token) that counts depend on, and where it stands.

    `only` lists the values known to work; `read` turns the file's value into the constant's.
    """

    name: str
    paths: tuple[str, ...] = ()
    default: Any = REQUIRED
    only: tuple[Any, ...] | None = None
    read: Callable[[Any], Any] | None = None


def read_constants(
    constants: Iterable[Constant], documents: Mapping[str, Document]
) -> dict[str, Any]:
    """Return the values of `constants` by name.

    Raises: `AssetsInvalid` when a required one stands nowhere or is no fit value,
    `UnsupportedFeature` for a value outside `only`.
    """
    values: dict[str, Any] = {}
    for constant in constants:
        path, value = _find(constant.paths, documents)
        if value is None:
            if constant.default is REQUIRED:
                raise AssetsInvalid(
                    file=_file_of(constant.paths[0]),
                    problem=f"it lacks {_key_of(constant.paths[0])}, which token counts depend on.",
                )
            values[constant.name] = constant.default
            continue
        values[constant.name] = _checked(constant, path, value)
    return values


def _checked(constant: Constant, path: str, value: Any) -> Any:
    try:
        read = constant.read(value) if constant.read else value
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise AssetsInvalid(
            file=_file_of(path), problem=f"{_key_of(path)} is {value!r}, which is no fit value."
        ) from error
    if constant.only is not None:
        if read not in constant.only:
            raise UnsupportedFeature(
                feature=f"{_key_of(path)}={value!r} in {_file_of(path)}",
                remedy=f"Counts are known for {', '.join(map(repr, constant.only))} only.",
            )
        return read
    if constant.read is None and not _is_fit(read, constant.default):
        raise AssetsInvalid(
            file=_file_of(path), problem=f"{_key_of(path)} is {value!r}, which is no fit value."
        )
    return read


def _is_fit(value: object, default: object) -> bool:
    """Return whether a value is a flag where a flag is due, and a size above zero elsewhere."""
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and (default is REQUIRED or isinstance(default, bool))
    return isinstance(value, int | float) and value > 0


def _find(paths: Iterable[str], documents: Mapping[str, Document]) -> tuple[str, Any]:
    for path in paths:
        document, _, keys = path.partition(":")
        value: Any = documents[document]
        for key in keys.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return path, value
    return "", None


def refuse_unknown_keys(
    documents: Mapping[str, Document],
    constants: Iterable[Constant],
    *,
    names: Iterable[str],
    ignored: Iterable[str],
    tolerated: Iterable[str],
) -> None:
    """Refuse a key of the documents `names` that might change counts: any that isn't known.

    A key is known by a constant (its subkeys too), by the family (`ignored`), as harmless to
    every family, or because the operator said so (`tolerated`).

    Raises: `UnsupportedFeature` naming the key.
    """
    known = _known_keys(constants)
    harmless = _HARMLESS.union(ignored, tolerated)
    for name in names:
        for key, value in documents[name].items():
            if value is None or key in harmless:
                continue
            subkeys = known.get(key)
            if subkeys is None:
                _refuse_key(name, key, value)
            if subkeys and isinstance(value, Mapping):
                for subkey, subvalue in value.items():
                    if subvalue is not None and subkey not in subkeys:
                        _refuse_key(name, f"{key}.{subkey}", subvalue)


def _refuse_key(name: str, key: str, value: object) -> None:
    raise UnsupportedFeature(
        feature=f"the key {key} ({value!r}) in {_file_of(name + ':')}",
        remedy="It may change token counts. If it doesn't, name it among the tolerated keys.",
    )


def _known_keys(constants: Iterable[Constant]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for constant in constants:
        for path in constant.paths:
            key, _, subkey = path.partition(":")[2].partition(".")
            subkeys = known.setdefault(key, set())
            if subkey:
                subkeys.add(subkey)
    return known


def _file_of(path: str) -> str:
    return _FILES[path.partition(":")[0]]


def _key_of(path: str) -> str:
    return path.partition(":")[2]


_NESTED = ("image_processor", "video_processor", "feature_extractor")

_FILES = {
    "config": "config.json",
    "image": "preprocessor_config.json",
    "video": "video_preprocessor_config.json",
    "audio": "preprocessor_config.json",
    "processor": "processor_config.json",
    "tokenizer": "tokenizer_config.json",
    "tekken": "tekken.json",
}

# Keys of processor files that change pixels or names, never the number of tokens.
_HARMLESS = names("""
    _valid_processor_keys auto_map background_color chat_template crop_pct data_format
    default_to_square device disable_grouping do_convert_rgb do_normalize do_rescale
    feature_extractor_type image_mean image_processor_type image_std input_data_format
    model_input_names norm_mean norm_std processor_class resample rescale_factor return_metadata
    return_tensors tokenizer_class transformers_version video_processor_type image_token
    video_token audio_token image_break_token image_end_token audio_bos_token audio_eos_token
    vision_bos_token vision_eos_token boi_token eoi_token fake_image_token start_of_image_token
    end_of_image_token patch_token tile_x_separator_token tile_y_separator_token
    dither feature_size mel_floor mel_filter_shape_adjust padding_side padding_value preemphasis
    preemphasis_htk_flavor return_attention_mask fft_overdrive fft_length n_fft input_scale_factor
    max_frequency min_frequency num_mel_filters per_bin_mean per_bin_stddev
    """)
