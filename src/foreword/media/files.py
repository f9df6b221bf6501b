"""A model's config files: JSON documents in, a family's constants out.

Rules of this file: a constant says where it stands ("document:key.subkey", first found wins) and
what it is when it stands nowhere. A key of a processor's file that no constant names and that is
not known to leave counts alone is refused, and so is a value other than the ones known to work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from foreword.errors import AssetsInvalid, UnsupportedFeature

REQUIRED: Any = object()

_MAX_NUMBER = 10**18
_MAX_SHOWN_CHARS = 60

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
        preprocessor = _mapping("image", self.preprocessor)
        processor = _mapping("processor", self.processor)
        nested = {key: _mapping("processor", processor.get(key), key) for key in _NESTED}
        image = nested["image_processor"] or preprocessor
        video = nested["video_processor"] or _mapping("video", self.video_preprocessor) or image
        audio = nested["feature_extractor"] or preprocessor
        tekken = self.tekken or {}
        return {
            "config": _mapping("config", self.config),
            "image": image,
            "video": video,
            "audio": audio,
            "processor": {k: v for k, v in processor.items() if k not in _NESTED},
            "tokenizer": self.tokenizer,
            "tekken": {
                "image": _mapping("tekken", tekken.get("multimodal"), "multimodal")
                or _mapping("tekken", tekken.get("image"), "image"),
                "audio": _mapping("tekken", tekken.get("audio"), "audio"),
            },
        }


def _mapping(document: str, value: object, key: str = "") -> Document:
    """Return an object of a file, an empty one where there is none.

    Raises: `AssetsInvalid` for any other value.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _unfit(f"{document}:{key or 'the whole'}", value)
    return value


@dataclass(frozen=True, slots=True)
class Constant:
    """One number (or flag, or token) that counts depend on, and where it stands.

    `only` lists the values known to work; `read` turns the file's value into the constant's. A
    number is whole unless it `may_be_fraction`.
    """

    name: str
    paths: tuple[str, ...] = ()
    default: Any = REQUIRED
    only: tuple[Any, ...] | None = None
    read: Callable[[Any], Any] | None = None
    may_be_fraction: bool = False


def lacks_document(constants: Iterable[Constant], files: MediaFiles, key: str) -> bool:
    """Tell whether no file says how images are shown, or audio is heard, though constants ask it.

    Shapes: `key` is the block of processor_config.json that may stand for the file.
    """
    document = _NESTED[key]
    is_asked = any(path.startswith(f"{document}:") for one in constants for path in one.paths)
    return is_asked and files.preprocessor is None and (files.processor or {}).get(key) is None


def refuse_missing(document: str) -> NoReturn:
    """Refuse a model that lacks a file.

    Why: an engine does not start without one, and the defaults of a class are not its model's.

    Raises: `AssetsInvalid`.
    """
    raise AssetsInvalid(
        file=file_of(document), problem="there is none, and token counts depend on it."
    )


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
                    file=file_of(constant.paths[0]),
                    problem=f"it lacks {_key_of(constant.paths[0])}, which token counts depend on.",
                )
            values[constant.name] = constant.default
            continue
        values[constant.name] = _checked(constant, path, value)
    return values


def _checked(constant: Constant, path: str, value: Any) -> Any:
    try:
        read = constant.read(value) if constant.read else value
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise _unfit(path, value) from error
    if constant.only is not None:
        if read not in constant.only:
            raise UnsupportedFeature(
                feature=f"{_key_of(path)}={_shown(value)} in {file_of(path)}",
                remedy=f"Counts are known for {', '.join(map(repr, constant.only))} only.",
            )
        return read
    if constant.read is None and not _is_fit(read, constant):
        raise _unfit(path, value)
    if isinstance(read, int) and read > _MAX_NUMBER:
        raise _unfit(path, value)
    return read


def _unfit(path: str, value: object) -> AssetsInvalid:
    return AssetsInvalid(
        file=file_of(path), problem=f"{_key_of(path)} is {_shown(value)}, which is no fit value."
    )


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN_CHARS else f"a {type(value).__name__}"


def _is_fit(value: object, constant: Constant) -> bool:
    """Return whether a value is a flag where a flag is due, and a size above zero elsewhere."""
    default = constant.default
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(value, float):
        return constant.may_be_fraction and 0 < value < math.inf
    return isinstance(value, int) and value > 0


def _find(paths: Iterable[str], documents: Mapping[str, Document]) -> tuple[str, Any]:
    for path in paths:
        document, _, keys = path.partition(":")
        value: Any = documents[document]
        for key in keys.split("."):
            if value is None:
                break
            if not isinstance(value, Mapping):
                raise _unfit(path.rpartition(".")[0], value)
            value = value.get(key)
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
            if subkeys and "" not in subkeys and not isinstance(value, Mapping):
                raise _unfit(f"{name}:{key}", value)
            if subkeys and subkeys != {""} and isinstance(value, Mapping):
                for subkey, subvalue in value.items():
                    if subvalue is not None and subkey not in subkeys:
                        _refuse_key(name, f"{key}.{subkey}", subvalue)


def _refuse_key(name: str, key: str, value: object) -> None:
    raise UnsupportedFeature(
        feature=f"The key {key} ({_shown(value)}) in {file_of(name)}",
        remedy="It may change token counts. If it doesn't, name it with --media-tolerated-key"
        " (serve: media_tolerated_keys).",
    )


def _known_keys(constants: Iterable[Constant]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for constant in constants:
        for path in constant.paths:
            key, _, subkey = path.partition(":")[2].partition(".")
            known.setdefault(key, set()).add(subkey)
    return known


def file_of(path: str) -> str:
    """Return the name of the file that a document, or a path in it, stands in."""
    return _FILES[path.partition(":")[0]]


def _key_of(path: str) -> str:
    return path.partition(":")[2]


_NESTED = {"image_processor": "image", "video_processor": "video", "feature_extractor": "audio"}

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
