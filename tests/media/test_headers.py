"""Header readers on images made by hand, and on bytes that are none."""

from __future__ import annotations

import importlib
import inspect
import random
import re
import struct
import subprocess
import sys
import time
import zlib
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import MediaUnavailable
from foreword.media.headers import ImageHeader, read_image_size
from foreword.media.headers.exif import read_orientation


def chunk(kind: bytes, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")


def png(width: int, height: int, *extra: bytes, bits: int = 8, colour: int = 2) -> bytes:
    header = struct.pack(">LLBBBBB", width, height, bits, colour, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(b"\0"))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + b"".join(extra)
        + pixels
        + chunk(b"IEND", b"")
    )


def exif(orientation: int, order: str = "<") -> bytes:
    mark = b"II" if order == "<" else b"MM"
    entry = struct.pack(order + "HHLHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "HLH", 42, 8, 1) + entry + bytes(4)


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def jpeg(width: int, height: int, *extra: bytes, components: int = 3, bits: int = 8) -> bytes:
    frame = struct.pack(">BHHB", bits, height, width, components) + bytes(3 * components)
    return (
        b"\xff\xd8"
        + b"".join(extra)
        + segment(0xC0, frame)
        + segment(0xDA, bytes(10))
        + bytes(100)
        + b"\xff\xd9"
    )


def webp(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP" + b"".join(
        kind + len(content).to_bytes(4, "little") + content + bytes(len(content) & 1)
        for kind, content in chunks
    )
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def vp8(width: int, height: int) -> tuple[bytes, bytes]:
    return b"VP8 ", b"\x30\x01\x00\x9d\x01\x2a" + struct.pack("<HH", width, height) + bytes(8)


def vp8l(width: int, height: int, alpha: int = 0) -> tuple[bytes, bytes]:
    bits = (width - 1) | (height - 1) << 14 | alpha << 28
    return b"VP8L", b"\x2f" + bits.to_bytes(4, "little") + bytes(8)


def vp8x(width: int, height: int, flags: int) -> tuple[bytes, bytes]:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"VP8X", bytes((flags, 0, 0, 0)) + sides


def gif(width: int, height: int, frame: tuple[int, int, int, int], *, clear: bool = False) -> bytes:
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\1\2\3\4\5\6"
    control = b"\x21\xf9\x04" + bytes((int(clear), 0, 0, 0, 0)) if clear else b""
    return b"GIF89a" + screen + control + b"\x2c" + struct.pack("<HHHHB", *frame, 0) + b"\2\0;"


def bmp(width: int, height: int, bits: int = 24) -> bytes:
    info = struct.pack("<LlLHHLLLLLL", 40, width, height & 0xFFFFFFFF, 1, bits, *[0] * 6)
    return b"BM" + bytes(12) + info + bytes(1024)


def summary(header: ImageHeader) -> tuple[Any, ...]:
    return header.format, header.width, header.height, header.mode, header.has_transparency


EXIF_6 = chunk(b"eXIf", exif(6))
BOMB = zlib.compress(bytes(900_000))
XMP = b'<x tiff:Orientation="8"/>'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (png(40, 20), ("PNG", 40, 20, "RGB", False)),
        (png(40, 20, EXIF_6), ("PNG", 20, 40, "RGB", False)),
        (png(40, 20, bits=16, colour=0), ("PNG", 40, 20, "I;16", False)),
        (png(40, 20, colour=6), ("PNG", 40, 20, "RGBA", True)),
        (png(40, 20, chunk(b"tRNS", bytes(6))), ("PNG", 40, 20, "RGB", True)),
        (
            png(40, 20, chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP)),
            ("PNG", 20, 40, "RGB", False),
        ),
        (
            png(40, 20, chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP))),
            ("PNG", 20, 40, "RGB", False),
        ),
        (jpeg(4000, 3000), ("JPEG", 4000, 3000, "RGB", False)),
        (jpeg(40, 20, components=1), ("JPEG", 40, 20, "L", False)),
        (jpeg(40, 20, components=4), ("JPEG", 40, 20, "CMYK", False)),
        (jpeg(40, 20, segment(0xE1, b"Exif\0\0" + exif(5, ">"))), ("JPEG", 20, 40, "RGB", False)),
        (
            jpeg(40, 20, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP)),
            ("JPEG", 20, 40, "RGB", False),
        ),
        (webp(vp8(40, 20)), ("WEBP", 40, 20, "RGB", False)),
        (webp(vp8l(40, 20, 1)), ("WEBP", 40, 20, "RGBA", True)),
        (webp(vp8x(40, 20, 0x10), vp8(40, 20)), ("WEBP", 40, 20, "RGBA", True)),
        (
            webp(vp8x(40, 20, 8), vp8(40, 20), (b"EXIF", exif(8))),
            ("WEBP", 20, 40, "RGB", False),
        ),
        (gif(40, 20, (0, 0, 40, 20)), ("GIF", 40, 20, "P", False)),
        (gif(40, 20, (30, 5, 40, 20), clear=True), ("GIF", 70, 25, "P", True)),
        (bmp(40, 20), ("BMP", 40, 20, "RGB", False)),
        (bmp(40, -20), ("BMP", 40, 20, "RGB", False)),
        (bmp(40, 20, bits=8), ("BMP", 40, 20, "P", False)),
    ],
)
def test_a_header_is_read(data: bytes, expected: tuple[Any, ...]) -> None:
    assert summary(read_image_size(data)) == expected


def test_an_animation_tells_its_frames() -> None:
    control = chunk(b"acTL", struct.pack(">LL", 3, 0))
    assert read_image_size(png(4, 4, control, chunk(b"fcTL", bytes(26)))).num_frames == 3
    assert read_image_size(png(4, 4, control)).num_frames == 4
    animated = webp(vp8x(4, 4, 2), (b"ANIM", bytes(6)), *[(b"ANMF", bytes(16))] * 5)
    assert read_image_size(animated).num_frames == 5


@pytest.mark.parametrize("value", range(10))
@pytest.mark.parametrize("order", "<>")
def test_orientations(value: int, order: str) -> None:
    assert read_orientation(exif(value, order)) == (value if 1 <= value <= 8 else 1)


def test_metadata_that_cannot_be_read_means_upright() -> None:
    assert read_orientation(b"II\x2b\x00", XMP) == 1
    assert read_orientation(exif(6)[:-8], XMP) == 8
    assert read_orientation(None, XMP) == 8


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<svg/>", "no known format|Pillow"),
        (png(40, 20)[:30], "IHDR"),
        (png(40, 20, EXIF_6)[:50], "eXIf"),
        (png(40, 20)[:40], "no pixel data"),
        (png(40, 20).replace(b"\x08\x02", b"\x08\x06", 1), "checksum"),
        (png(40, 20, bits=3), "bit depth 3"),
        (png(0, 20), "0x20"),
        (jpeg(40, 0), "40x0"),
        (jpeg(40, 20, bits=12), "12 bits"),
        (jpeg(40, 20, components=2), "2 components"),
        (jpeg(40, 20)[:12], "ends"),
        (b"\xff\xd8\xff\xe0\x00", "cut off|ends"),
        (webp(vp8(40, 20))[:-4], "declares"),
        (webp((b"JUNK", b"")), "first chunk"),
        (gif(40, 20, (0, 0, 4, 4))[:20], "first frame|cut off"),
        (bmp(40, 20)[:20], "cut off"),
        (bmp(40, 20, bits=7), "7 bits"),
        (png(100_000, 100_000), "10000000000"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MediaUnavailable, match=reason):
        read_image_size(data, param="messages[0].content[0]")


def test_the_pixel_limit_can_be_set() -> None:
    assert read_image_size(png(100, 100), max_pixels=10_000).width == 100
    with pytest.raises(MediaUnavailable, match="10000"):
        read_image_size(png(100, 101), max_pixels=10_000)


SEEDS = [
    png(
        40, 20, EXIF_6, chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"a\nb\nc\n4"))
    ),
    jpeg(40, 20, segment(0xE1, b"Exif\0\0" + exif(6))),
    webp(vp8x(40, 20, 8), vp8(40, 20), (b"EXIF", exif(8))),
    gif(40, 20, (0, 0, 4, 4), clear=True),
    bmp(40, 20, bits=8),
    b"II*\0\x08\0\0\0\1\0\0\1\3\0\1\0\0\0\x05\0\0\0",
]


def outcome(data: bytes) -> None:
    try:
        header = read_image_size(data)
    except MediaUnavailable:
        return
    assert header.width > 0
    assert header.height > 0


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed[:4].hex())
def test_no_damage_makes_another_error(seed: bytes) -> None:
    rng = random.Random(0)
    for length in range(min(len(seed), 120)):
        outcome(seed[:length])
    for _ in range(1500):
        damaged = bytearray(seed)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(min(len(damaged), 150))] = rng.randrange(256)
        outcome(bytes(damaged))


@given(st.sampled_from([b"", *(seed[:12] for seed in SEEDS)]), st.binary(max_size=80))
def test_no_bytes_make_another_error(head: bytes, tail: bytes) -> None:
    outcome(head + tail)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + b"\xff" * 4_000_000,
        b"\xff\xd8" + segment(0xFE, b"") * 1_000_000,
        b"\xff\xd8" + segment(0xE1, b"Exif\0\0" + bytes(60_000)) * 100,
        png(4, 4, chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + BOMB) * 3000),
        png(4, 4, chunk(b"aaAa", b"") * 70_000),
        webp(vp8x(4, 4, 0), *[(b"JUNK", b"")] * 70_000),
        gif(4, 4, (0, 0, 4, 4))[:19] + b"\x21\xfe" + b"\1a" * 2_000_000,
    ],
    ids=["fill", "comments", "exif", "text bombs", "chunks", "webp", "gif"],
)
def test_no_file_takes_long(data: bytes) -> None:
    started = time.process_time()
    outcome(data)
    assert time.process_time() - started < 0.5


def test_rarer_formats_are_pillows() -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("TIFF", "PPM", "TGA"):
        buffer = BytesIO()
        image.new("RGB", (48, 32)).save(buffer, name)
        header = read_image_size(buffer.getvalue())
        assert (header.format, header.width, header.height) == (name, 48, 32)


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "CMYK", "1", "LA"])
def test_what_pillow_writes_is_read_as_pillow_reads_it(name: str, mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    buffer = BytesIO()
    try:
        image.effect_noise((33, 17), 50).convert(mode).save(buffer, name)
    except (OSError, ValueError):
        pytest.skip(f"Pillow writes no {mode} as {name}")
    with image.open(BytesIO(buffer.getvalue())) as seen:
        transparent = seen.mode in ("RGBA", "LA", "PA") or "transparency" in seen.info
        expected = (name, *seen.size, seen.mode, transparent)
    assert summary(read_image_size(buffer.getvalue())) == expected


def icon(width: int, height: int) -> bytes:
    """Return an icon that holds a PNG of that size."""
    picture = png(width, height)
    entry = struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 8, len(picture), 22)
    return struct.pack("<HHH", 0, 1, 1) + entry + picture


@pytest.mark.parametrize("data", [icon(64, 64), b"icns\0\0\0\x10ic10\0\0\0\x08"])
def test_icons_are_refused_unread(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    other = importlib.import_module("foreword.media.headers.other")
    monkeypatch.setattr(other, "load_plugins", lambda: pytest.fail("Pillow was asked"))
    with pytest.raises(MediaUnavailable, match="only decoding would tell"):
        read_image_size(data)


WRITTEN = (
    *("AVIF", "BLP", "DDS", "DIB", "JPEG2000", "MSP", "PCX", "PPM", "QOI", "SGI", "SPIDER"),
    *("TGA", "TIFF", "XBM"),
)
MODES = {"MSP": "1", "XBM": "1", "BLP": "P", "SPIDER": "F"}


@pytest.mark.parametrize("name", WRITTEN)
def test_no_format_is_decoded_to_be_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image, file = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageFile")
    buffer = BytesIO()
    try:
        image.new(MODES.get(name, "RGB"), (48, 32)).save(buffer, name)
    except (KeyError, OSError):
        pytest.skip(f"this Pillow writes no {name}")
    for owner, method in ((file.ImageFile, "load"), (image.Image, "load"), (image, "_getdecoder")):
        monkeypatch.setattr(owner, method, lambda *_: pytest.fail("a pixel was decoded"))
    header = read_image_size(buffer.getvalue())
    assert (header.format, header.width, header.height) == (name, 48, 32)


def test_no_accepted_plugin_opens_by_decoding() -> None:
    image = pytest.importorskip("PIL.Image")
    other = importlib.import_module("foreword.media.headers.other")
    for make, _ in other.load_plugins():
        assert not re.search(r"\bself\.load\(|_getdecoder\(", inspect.getsource(make._open)), make
    image.init()
    decoded = [
        name
        for name, (make, _) in image.OPEN.items()
        if hasattr(make, "_open") and re.search(r"\bself\.load\(", inspect.getsource(make._open))
    ]
    assert "ICO" in decoded
    assert not set(decoded) & set(other.FORMATS)


def test_a_rarer_format_does_not_wait_after_the_warm_up() -> None:
    pytest.importorskip("PIL")
    script = (
        "import time\n"
        "from foreword.media.headers import read_image_size, warm_up\n"
        "warm_up()\n"
        "started = time.process_time()\n"
        "header = read_image_size(b'P6 48 32 255 ' + bytes(48 * 32 * 3))\n"
        "print(header.width, header.height, time.process_time() - started < 0.02)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.split() == [b"48", b"32", b"True"]
