"""Identities: the engine's own digests, and uuids that can't reach into another's namespace."""

from __future__ import annotations

import hashlib

import pytest

from foreword.errors import InvalidRequest
from foreword.media.hashing import (
    client_identity,
    content_hash,
    vllm_hash,
    vllm_image_hash,
    vllm_uuid_hash,
)
from foreword.media.headers import ImageHeader

RGB = ImageHeader(format="PNG", width=1, height=1)
GREY = ImageHeader(format="PNG", width=1, height=1, mode="L")
ALPHA = ImageHeader(format="PNG", width=1, height=1, mode="RGBA", has_transparency=True)


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [
        ("blake3", "c7ff9828e2bcbc218c5a4351f4a327bfdb8f70214efd442ce2a727fe719bd831"),
        ("sha256", "276c1150e23f0f136f61795ff75955ce954e6711c5e4e183902b4fb06051cf36"),
    ],
)
def test_the_framing_is_the_engines(algorithm: str, digest: str) -> None:
    if algorithm == "blake3":
        pytest.importorskip("blake3")
    assert vllm_hash(algorithm, model_id="m", image=b"abc") == digest  # type: ignore[arg-type]


def framed(chunk: bytes) -> bytes:
    return len(chunk).to_bytes(8, "little") + chunk


def test_an_image_is_a_named_value_within_a_leaf() -> None:
    stream = framed(b"image") + b"\x03" + framed(b"image") + b"\x03" + framed(b"abc")
    stream += framed(b"model_id") + b"\x03" + framed(b"m")
    expected = hashlib.sha256(stream).hexdigest()
    assert vllm_image_hash(b"abc", RGB, model_id="m", algorithm="sha256") == expected


def test_a_converted_image_says_how() -> None:
    mapping = b"\x02" + (2).to_bytes(8, "little")
    background = b"\x01" + (3).to_bytes(8, "little")
    background += (b"\x03" + framed((255).to_bytes(8, "little"))) * 3
    config = mapping + framed(b"image_mode") + b"\x03" + framed(b"RGB")
    config += framed(b"rgba_background_color") + background
    encoded = mapping + framed(b"io_config") + config + framed(b"data") + b"\x03" + framed(b"abc")
    stream = framed(b"image") + b"\x03" + framed(b"image") + encoded
    stream += framed(b"model_id") + b"\x03" + framed(b"m")
    expected = hashlib.sha256(stream).hexdigest()
    for header in (GREY, ALPHA):
        assert vllm_image_hash(b"abc", header, model_id="m", algorithm="sha256") == expected


def test_factors_change_the_hash() -> None:
    plain = vllm_image_hash(b"abc", RGB, model_id="m", algorithm="sha256")
    factors = {"mm_processor_kwargs": {"max_pixels": 100}}
    assert vllm_image_hash(b"abc", RGB, model_id="m", algorithm="sha256", factors=factors) != plain
    assert vllm_uuid_hash("image", "u", model_id="m") == "u"
    assert vllm_uuid_hash("image", "u", model_id="m", algorithm="sha256", factors=factors) != "u"


def test_a_uuid_stays_in_its_namespace() -> None:
    mine = client_identity("cat", namespace="key-1")
    assert mine != client_identity("cat", namespace="key-2")
    assert mine == client_identity("cat", namespace="key-1")
    # Moving the border between the two parts gives another identity.
    assert client_identity("bc", namespace="a") != client_identity("c", namespace="ab")
    assert client_identity("cat", namespace=None) == "cat"
    for unfit in ("", "x" * 2000):
        with pytest.raises(InvalidRequest, match="1024"):
            client_identity(unfit, namespace="key-1")


def test_content_is_hashed_whole() -> None:
    assert content_hash(b"abc") == hashlib.sha256(b"abc").hexdigest()
