"""Who a media item is: its encoded bytes or the client's uuid in, an identity out.

Rules of this file: hashes are whole, never shortened. Engine hashes are the engine's own framing,
byte for byte, so that prefix-cache keys agree; a client's uuid is only ever used in a namespace.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.media.headers.header import ImageHeader

Algorithm = Literal["blake3", "sha256", "sha512"]

Hashable: TypeAlias = (
    "bool | int | float | str | bytes | Sequence[Hashable] | Mapping[str, Hashable] | None"
)

_NONE, _SEQUENCE, _MAPPING, _LEAF = b"\x00", b"\x01", b"\x02", b"\x03"

MAX_UUID_CHARS = 1024


def content_hash(data: bytes) -> str:
    """Return the sha256 of encoded bytes: stable, and no engine's in particular."""
    return hashlib.sha256(data).hexdigest()


def client_identity(uuid: str, *, namespace: str | None) -> str:
    """Return the identity of a client's uuid within a namespace (an API key's, a tenant's).

    None trusts the uuid as it is, which lets whoever knows it read what is cached under it.

    Raises: `InvalidRequest` for a uuid that is empty or overlong.
    """
    if not uuid or len(uuid) > MAX_UUID_CHARS:
        raise InvalidRequest(
            f"A media uuid has 1 to {MAX_UUID_CHARS} characters; this one has {len(uuid)}.",
            param="messages",
        )
    if namespace is None:
        return uuid
    framed = b"".join(_framed(part.encode("utf-8", "surrogatepass")) for part in (namespace, uuid))
    return hashlib.sha256(b"foreword media uuid\0" + framed).hexdigest()


def vllm_hash(algorithm: Algorithm, /, **values: Hashable) -> str:
    """Return vLLM's hash of named values.

    Source: vLLM 0.33 `MultiModalHasher.hash_kwargs`.
    """
    hasher = _hasher(algorithm)
    for name in sorted(values):
        for chunk in _named(name, values[name]):
            hasher.update(chunk)
    return str(hasher.hexdigest())


def vllm_image_hash(
    data: bytes,
    header: ImageHeader,
    *,
    model_id: str,
    algorithm: Algorithm = "blake3",
    factors: Mapping[str, Hashable] | None = None,
    image_mode: str | None = "RGB",
    background: tuple[int, int, int] = (255, 255, 255),
) -> str:
    """Return the hash vLLM makes of an image it was sent as encoded bytes.

    It hashes the bytes themselves, and, where it has to convert the pixels (another mode, or a
    transparent colour), how. `model_id` is the engine's `--model` string; `factors` are the
    non-empty `media_io_kwargs` and `mm_processor_kwargs`.

    Source: vLLM 0.33 `serialize_item` and `convert_image_mode`.
    """
    encoded: Hashable = data
    if image_mode is not None and _is_converted(header, image_mode):
        config: dict[str, Hashable] = {
            "image_mode": image_mode,
            "rgba_background_color": background,
        }
        encoded = {"io_config": config, "data": data}
    return _item_hash(algorithm, "image", encoded, model_id, factors)


def vllm_uuid_hash(
    modality: str,
    uuid: str,
    *,
    model_id: str,
    algorithm: Algorithm = "blake3",
    factors: Mapping[str, Hashable] | None = None,
) -> str:
    """Return the identity vLLM gives an item with a uuid: the uuid, or with factors its hash."""
    if not factors:
        return uuid
    return vllm_hash(algorithm, model_id=model_id, **{modality: uuid}, **factors)


def _is_converted(header: ImageHeader, image_mode: str) -> bool:
    if image_mode == "RGB" and header.has_transparency:
        return True
    return header.mode != image_mode


def _item_hash(
    algorithm: Algorithm,
    modality: str,
    encoded: Hashable,
    model_id: str,
    factors: Mapping[str, Hashable] | None,
) -> str:
    hasher = _hasher(algorithm)
    values: dict[str, Hashable] = {"model_id": model_id, **(factors or {})}
    for name in sorted((*values, modality)):
        if name != modality:
            chunks = _named(name, values[name])
        else:
            # An image object is a leaf that itself is a named value.
            chunks = iter((*_framed_key(modality), _LEAF, *_named(modality, encoded)))
        for chunk in chunks:
            hasher.update(chunk)
    return str(hasher.hexdigest())


def _named(name: str, value: Hashable) -> Iterator[bytes]:
    yield from _framed_key(name)
    yield from _value(value)


def _framed_key(name: str) -> tuple[bytes, bytes]:
    key = name.encode("utf-8")
    return _length(len(key)), key


def _value(value: Hashable) -> Iterator[bytes]:
    if value is None:
        yield _NONE
    elif isinstance(value, Mapping):
        yield _MAPPING
        yield _length(len(value))
        for key, member in value.items():
            yield from _named(str(key), member)
    elif isinstance(value, list | tuple):
        yield _SEQUENCE
        yield _length(len(value))
        for member in value:
            yield from _value(member)
    else:
        yield _LEAF
        leaf = _leaf(value)
        yield _length(len(leaf))
        yield leaf


def _leaf(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return struct.pack("<q", value)
    if isinstance(value, float):
        return struct.pack("<d", value)
    raise InvalidRequest(
        f"A value of type {type(value).__name__} can't be hashed as the engine would.",
        param="mm_processor_kwargs",
    )


def _framed(chunk: bytes) -> bytes:
    return _length(len(chunk)) + chunk


def _length(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _hasher(algorithm: Algorithm) -> Any:
    if algorithm != "blake3":
        return hashlib.new(algorithm)
    try:
        from blake3 import blake3
    except ImportError:
        raise UnsupportedFeature(
            feature="The media hash algorithm blake3",
            remedy="Install the extra `hashes`, or run the engine with sha256.",
        ) from None
    return blake3()
