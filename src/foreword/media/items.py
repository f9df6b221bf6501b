"""A media reference and its encoded bytes enter; what a prompt needs to know of it leaves.

Rules of this file: a size, a length and a name are all that is kept; the bytes are not. Nothing is
fetched: a reference's URL is read only where it holds the item itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from foreword.errors import InvalidRequest, MediaUnavailable, UnsupportedFeature
from foreword.media.audio import MAX_SECONDS, AudioHeader, read_audio_duration
from foreword.media.data_url import MAX_BYTES, decode_data_url, holds_frames
from foreword.media.hashing import Algorithm, client_identity, content_hash, vllm_image_hash
from foreword.media.headers import MAX_PIXELS, ImageHeader, read_image_size
from foreword.media.video import VideoHeader, read_video_header
from foreword.types import MediaReference


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaItem:
    """One item, resolved.

    Shapes: an image has `width` and `height` as shown; audio has `num_frames` at `sample_rate`. A
    video has a size and either all its `num_frames` and their `frame_rate`, of which the model's
    family shows some, or the `num_frames` that are shown and a timestamp (seconds) for each.
    `identity` names its content.
    """

    modality: str
    identity: str
    width: int = 0
    height: int = 0
    num_frames: int = 0
    sample_rate: int = 0
    timestamps: tuple[float, ...] = ()
    frame_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    """The most that one item may be, or say of itself."""

    max_item_bytes: int = MAX_BYTES
    max_image_pixels: int = MAX_PIXELS
    max_audio_seconds: float = MAX_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaNaming:
    """How items are named: `sha256` of their bytes, or as vLLM names images.

    `model_id` is the engine's `--model` string and `algorithm` its `mm_hasher_algorithm`.
    `trusts_uuids` takes a client's uuid as it is: whoever knows it reads what is cached under it.

    Raises: `InvalidRequest` with `param`, the option's name, for a value that is none.
    """

    scheme: Literal["sha256", "vllm"] = "sha256"
    model_id: str = ""
    algorithm: Algorithm = "blake3"
    trusts_uuids: bool = False

    def __post_init__(self) -> None:
        _check_choice("scheme", self.scheme, ("sha256", "vllm"))
        _check_choice("algorithm", self.algorithm, get_args(Algorithm))
        _check_choice("trusts_uuids", self.trusts_uuids, (False, True))
        if not isinstance(self.model_id, str) or (self.scheme == "vllm" and not self.model_id):
            raise InvalidRequest(
                "model_id must be the engine's --model, a text: vLLM hashes it with every image.",
                param="model_id",
            )


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        shown = value if isinstance(value, str) and len(value) <= 60 else type(value)
        raise InvalidRequest(
            f"{name} is {shown!r}; it must be one of {', '.join(map(repr, choices))}.", param=name
        )


def make_item(
    reference: MediaReference,
    data: bytes,
    *,
    image: ImageHeader | None = None,
    audio: AudioHeader | None = None,
    video: VideoHeader | None = None,
    naming: MediaNaming | None = None,
    namespace: str = "",
    limits: MediaLimits | None = None,
) -> MediaItem:
    """Return what encoded bytes are, for the reference that led to them.

    Shapes: `image`, `audio` and `video` are headers that were read before. `namespace` keeps the
    uuids of different clients apart.

    Raises: `MediaUnavailable` for bytes that are not what the reference says, and for videos whose
    frames only a decoder can tell.
    """
    naming, limits = naming or MediaNaming(), limits or MediaLimits()
    param = reference.path
    if reference.modality == "image":
        image = image or read_image_size(data, max_pixels=limits.max_image_pixels, param=param)
        return MediaItem(
            modality="image",
            identity=_identify(reference, data, image, naming, namespace),
            width=image.width,
            height=image.height,
        )
    if reference.modality == "audio":
        audio = audio or read_audio_duration(
            data, max_seconds=limits.max_audio_seconds, param=param
        )
        return MediaItem(
            modality="audio",
            identity=_identify(reference, data, None, naming, namespace),
            num_frames=audio.num_frames,
            sample_rate=audio.sample_rate,
        )
    if reference.modality == "video":
        video = video or read_video_header(
            data,
            is_frames=holds_frames(reference),
            max_pixels=limits.max_image_pixels,
            param=param,
        )
        return _video_item(video, _identify(reference, data, None, naming, namespace))
    raise UnsupportedFeature(
        feature=f"Reading the size of {reference.modality} from its file",
        remedy="Send images, audio or video.",
        param=param,
    )


def resolve_inline(
    references: Sequence[MediaReference],
    *,
    naming: MediaNaming | None = None,
    namespace: str = "",
    limits: MediaLimits | None = None,
) -> tuple[MediaItem, ...]:
    """Return the items of references that are data: URLs, in their order.

    Raises: as `make_item`; `UnsupportedFeature` for other URLs, `MediaUnavailable` without one.
    """
    limits = limits or MediaLimits()
    items: list[MediaItem] = []
    for reference in references:
        if reference.url is None:
            raise MediaUnavailable(
                "The item has a uuid and no data, so its size is not known here. Send it in full.",
                param=reference.path,
            )
        scheme = reference.url.partition(":")[0].lower()
        if scheme != "data":
            raise UnsupportedFeature(
                feature="Media from anything but data: URLs",
                remedy="Send the item as a data: URL, or fetch it before rendering.",
                param=reference.path,
            )
        data = decode_data_url(reference, max_bytes=limits.max_item_bytes)
        items.append(make_item(reference, data, naming=naming, namespace=namespace, limits=limits))
    return tuple(items)


def uuid_namespace(tenant: str, cache_salt: str | None) -> str:
    """Return what keeps the uuids of a client apart: whose key it bears, and its own salt."""
    salt = cache_salt or ""
    return f"{tenant}\0{salt}" if tenant else salt


def _video_item(video: VideoHeader, identity: str) -> MediaItem:
    times: tuple[float, ...] = ()
    if video.is_sampled:
        times = tuple(number / video.frame_rate for number in range(video.num_frames))
    return MediaItem(
        modality="video",
        identity=identity,
        width=video.width,
        height=video.height,
        num_frames=video.num_frames,
        timestamps=times,
        frame_rate=0.0 if video.is_sampled else video.frame_rate,
    )


def _identify(
    reference: MediaReference,
    data: bytes,
    image: ImageHeader | None,
    naming: MediaNaming,
    namespace: str,
) -> str:
    if reference.uuid is not None:
        return client_identity(reference.uuid, namespace=None if naming.trusts_uuids else namespace)
    if naming.scheme == "vllm" and image is not None:
        return vllm_image_hash(data, image, model_id=naming.model_id, algorithm=naming.algorithm)
    return content_hash(data)
