"""Media references without a network: data: and file: URLs, totals, order, settings."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import struct
import zlib
from pathlib import Path

import pytest

from foreword.errors import (
    ForewordError,
    InvalidRequest,
    MediaUnavailable,
    UnsupportedFeature,
)
from foreword.service.media_fetch import (
    MediaFetcher,
    MediaPolicy,
    inspect_media,
    media_policy,
    resolve_media,
)
from foreword.service.settings import Settings
from foreword.types import MediaReference

FILM = Path(__file__).parents[1] / "media" / "videos" / "film.mov"


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def wav(num_frames: int, rate: int = 16_000) -> bytes:
    body = bytes(2 * num_frames)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    inner = b"WAVE" + form + struct.pack("<4sI", b"data", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(inner)) + inner


def data_url(data: bytes, kind: str = "image/png", scheme: str = "data") -> str:
    return f"{scheme}:{kind};base64,{base64.b64encode(data).decode()}"


def refer(*urls: str | None, modality: str = "image") -> list[MediaReference]:
    return [
        MediaReference(modality=modality, index=i, path=f"messages[0].content[{i}]", url=url)
        for i, url in enumerate(urls)
    ]


def refusal(url: str | None, policy: MediaPolicy | None = None, **given: str) -> ForewordError:
    with pytest.raises(ForewordError) as caught:
        resolve_media(refer(url, **given), policy)
    assert caught.value.param == "messages[0].content[0]"
    return caught.value


# -- data: ---------------------------------------------------------------------------------------


def test_items_come_back_in_order_with_size_duration_and_hash() -> None:
    image, clip, video = png(640, 480), wav(8000), FILM.read_bytes()
    references = [
        *refer(data_url(image)),
        *refer(data_url(clip, "audio/wav"), modality="audio"),
        *refer(data_url(video, "video/mp4"), modality="video"),
    ]
    found = resolve_media(references)
    assert [one.reference for one in found] == references
    assert [one.data for one in found] == [image, clip, video]
    assert [one.sha256 for one in found] == [
        hashlib.sha256(data).hexdigest() for data in (image, clip, video)
    ]
    assert found[0].image is not None
    assert (found[0].image.width, found[0].image.height) == (640, 480)
    assert found[1].audio is not None
    assert found[1].audio.seconds == 0.5
    assert found[2].image is found[2].audio is None
    assert found[2].video is not None
    assert (found[2].video.width, found[2].video.num_frames) == (64, 17)


def test_an_item_too_large_for_the_loop_is_the_same() -> None:
    clip = wav(100_000)
    (found,) = resolve_media(refer(data_url(clip, "audio/wav"), modality="audio"))
    assert found.data == clip
    assert found.sha256 == hashlib.sha256(clip).hexdigest()


@pytest.mark.parametrize("scheme", ["data", "DATA", "dAtA"])
@pytest.mark.parametrize("kind", ["", "image/png", "IMAGE/PNG;charset=utf-8", "text/plain"])
def test_a_data_url_is_read_by_its_bytes(scheme: str, kind: str) -> None:
    (found,) = resolve_media(refer(data_url(png(3, 5), kind, scheme)))
    assert found.image is not None
    assert (found.image.width, found.image.height) == (3, 5)


@pytest.mark.parametrize(
    "payload",
    [
        "QUI",  # not padded
        "QUJD=",  # padded too much
        "QQ=",
        "QQ===",
        "Q===",
        "QU I=",  # a space
        "QUJD\n",
        "QUJD\nQUJD",
        "QU-_",  # the alphabet of URLs
        "QUJD%3D",
        "QQ==QQ==",  # two of them
        "=QQQ",
        "QUJÄ",
        "\udcffAAA",
    ],
)
def test_base64_is_exact(payload: str) -> None:
    error = refusal(f"data:image/png;base64,{payload}")
    assert isinstance(error, MediaUnavailable)
    assert "base64" in error.message


def test_a_data_url_that_is_not_base64_or_has_frames_is_refused_by_name() -> None:
    assert isinstance(refusal("data:image/svg+xml,<svg/>"), UnsupportedFeature)
    assert isinstance(refusal("data:image/png;BASE64;x,QUJD"), UnsupportedFeature)
    assert isinstance(refusal("data:video/mp4;base64,QUJD,QUJD"), UnsupportedFeature)
    frames = refusal("data:video/jpeg;base64,QUJD,QUJD", modality="video")
    assert isinstance(frames, MediaUnavailable)
    assert "frame 0 is no picture" in frames.message
    assert isinstance(refusal("data:image/png;base64"), MediaUnavailable)


def test_a_data_url_is_measured_before_it_is_decoded() -> None:
    policy = MediaPolicy(max_item_bytes=3)
    # No base64 at all: decoding would say so, measuring comes first.
    error = refusal("data:image/png;base64," + "!" * 400, policy)
    assert error.details == {"num_bytes": 300, "max_bytes": 3}
    assert "at most 3" in refusal("data:;base64,QUJDRA==", policy).message
    assert "at most 3" not in refusal("data:;base64,QUJD", policy).message


def test_bytes_that_are_no_media_of_their_kind() -> None:
    assert isinstance(refusal("data:image/png;base64,"), MediaUnavailable)
    assert isinstance(refusal(data_url(wav(10))), MediaUnavailable)
    assert isinstance(refusal(data_url(b""), modality="video"), MediaUnavailable)
    assert isinstance(refusal(data_url(png(1, 1)), modality="file"), UnsupportedFeature)
    assert isinstance(refusal(None), MediaUnavailable)


# -- totals --------------------------------------------------------------------------------------


def test_pixels_and_seconds_are_refused_as_declared() -> None:
    assert "20000x20000" in refusal(data_url(png(20_000, 20_000))).message
    error = refusal(data_url(png(10, 10)), MediaPolicy(max_image_pixels=99))
    assert error.details == {"num_pixels": 100, "max_pixels": 99}
    policy = MediaPolicy(max_audio_seconds=0.25)
    assert refusal(data_url(wav(8000)), policy, modality="audio").details["seconds"] == 0.5


def test_the_items_of_a_request_share_an_allowance() -> None:
    url = data_url(png(10, 10))
    size = len(png(10, 10))
    assert len(resolve_media(refer(url, url), MediaPolicy(max_request_bytes=2 * size))) == 2
    with pytest.raises(MediaUnavailable) as caught:
        resolve_media(refer(url, url), MediaPolicy(max_request_bytes=2 * size - 1))
    assert caught.value.details == {
        "num_bytes": 2 * size,
        "max_request_bytes": 2 * size - 1,
    }
    with pytest.raises(MediaUnavailable, match="pixels"):
        resolve_media(refer(url, url), MediaPolicy(max_request_pixels=199))
    with pytest.raises(InvalidRequest) as refused:
        resolve_media(refer(url, url, url), MediaPolicy(max_items=2))
    assert refused.value.param == "messages[0].content[2]"


def test_no_item_is_touched_when_one_is_not_allowed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # whoever opened it would be seen
    urls = [f"file://{tmp_path}/pipe", "gopher://x/"]
    with pytest.raises(InvalidRequest) as caught:
        resolve_media(refer(*urls), MediaPolicy(folder=tmp_path))
    assert caught.value.param == "messages[0].content[1]"


def test_it_runs_inside_a_running_loop_too() -> None:
    async def within() -> int:
        (found,) = resolve_media(refer(data_url(png(7, 9))))
        (same,) = await MediaFetcher(MediaPolicy()).fetch(refer(data_url(png(7, 9))))
        assert found == same
        return found.image.width if found.image else 0

    assert asyncio.run(within()) == 7
    assert resolve_media([]) == ()


def test_bytes_fetched_by_somebody_else_are_judged_alike() -> None:
    (reference,) = refer(None)
    found = inspect_media(reference, png(4, 2))
    assert found.image is not None
    assert (found.image.width, found.image.height) == (4, 2)
    with pytest.raises(MediaUnavailable):
        inspect_media(reference, png(4, 2), MediaPolicy(max_image_pixels=7))


# -- file: ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "media"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "a b.png").write_bytes(png(8, 6))
    (made / "inner").symlink_to(made / "sub")
    (made / "out").symlink_to(tmp_path)
    (made / "out.png").symlink_to(tmp_path / "secret.png")
    (made / "loop").symlink_to(made / "loop")
    (tmp_path / "secret.png").write_bytes(png(1, 1))
    (tmp_path / "media2").mkdir()
    (tmp_path / "media2" / "x.png").write_bytes(png(1, 1))
    os.mkfifo(made / "pipe")
    return made


@pytest.mark.parametrize(
    "path",
    ["sub/a%20b.png", "sub/../sub/a b.png", "inner/a%20b.png", "%73ub/a b.png", "/sub//./a b.png"],
)
def test_a_file_below_the_folder_is_read(folder: Path, path: str) -> None:
    for start in ("file://", "FILE://", "file://localhost", "file:"):
        (found,) = resolve_media(refer(f"{start}{folder}/{path}"), MediaPolicy(folder=folder))
        assert found.data == png(8, 6)


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    policy = MediaPolicy(folder=tmp_path / "alias")
    assert resolve_media(refer(f"file://{tmp_path}/alias/sub/a b.png"), policy)[0].image


@pytest.mark.parametrize(
    "path",
    [
        "../secret.png",
        "..%2fsecret.png",
        "sub/%2e%2e/../secret.png",
        "../media2/x.png",
        "../absent.png",
        "out/secret.png",
        "out.png",
        "loop",
        "sub/a b.png%00.txt",
    ],
)
def test_no_path_or_link_leads_out_of_the_folder(folder: Path, path: str) -> None:
    error = refusal(f"file://{folder}/{path}", MediaPolicy(folder=folder))
    assert isinstance(error, InvalidRequest)
    assert str(folder.parent) not in error.message


@pytest.mark.parametrize("url", ["file:sub/x", "file://host/x", "file:", "file://", "file:///etc"])
def test_other_file_urls_are_refused(folder: Path, url: str) -> None:
    assert refusal(url, MediaPolicy(folder=folder)).status == 400
    assert refusal(url).status == 400


@pytest.mark.parametrize("path", ["absent.png", "sub", "", "pipe"])
def test_what_is_no_regular_file_is_unavailable(folder: Path, path: str) -> None:
    error = refusal(f"file://{folder}/{path}", MediaPolicy(folder=folder))
    assert isinstance(error, MediaUnavailable)
    assert "no readable file" in error.message
    assert str(folder.parent) not in error.message


def test_a_large_file_is_refused_by_its_size(folder: Path) -> None:
    os.truncate(folder / "sub" / "a b.png", 10**12)  # sparse
    error = refusal(f"file://{folder}/sub/a b.png", MediaPolicy(folder=folder))
    assert error.details["num_bytes"] == 10**12


@pytest.mark.parametrize("swapped", ["sub", "sub/a b.png"])
def test_what_is_swapped_for_a_link_after_the_check_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    from foreword.service.fetching import local

    (folder.parent / "a b.png").write_bytes(png(1, 1))
    opened = local._open_below

    def swap_and_open(root: Path, names: tuple[str, ...]) -> int:
        (folder / swapped).rename(folder / "gone")
        (folder / swapped).symlink_to(folder.parent / swapped.removeprefix("sub").strip("/"))
        return opened(root, names)

    monkeypatch.setattr(local, "_open_below", swap_and_open)
    error = refusal(f"file://{folder}/sub/a b.png", MediaPolicy(folder=folder))
    assert isinstance(error, InvalidRequest)


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://8.8.8.8/x", "https://ok.test/x", "HTTP://ok.test/"])
def test_nothing_is_fetched_unless_it_is_switched_on(url: str) -> None:
    assert not media_policy(Settings()).fetch
    error = refusal(url)
    assert isinstance(error, UnsupportedFeature)
    assert "media_fetch" in error.message


@pytest.mark.parametrize(
    "url",
    ["ftp://ok.test/x", "gopher://x", "javascript:x", "//ok.test/x", "x.png", "", " http://x"],
)
def test_other_schemes_are_refused(url: str) -> None:
    assert type(refusal(url, MediaPolicy(fetch=True))) is InvalidRequest


def test_the_settings_make_the_policy(tmp_path: Path) -> None:
    # Every knob's default is the policy's own, so the library and the service agree.
    assert media_policy(Settings()) == MediaPolicy()
    made = media_policy(
        Settings(
            media_fetch=True,
            media_hosts=("ok.test",),
            media_private_hosts=("in.test:81",),
            media_folder=str(tmp_path),
            max_media_bytes=5,
            media_deadline_seconds=2.5,
        )
    )
    assert made.is_opened("in.test", 81)
    assert (made.folder, made.max_item_bytes, made.total_seconds) == (tmp_path, 5, 2.5)
    for folder in ("relative", str(tmp_path / "absent")):
        with pytest.raises(InvalidRequest) as caught:
            media_policy(Settings(media_folder=folder))
        assert caught.value.param == "media_folder"
    with pytest.raises(InvalidRequest, match="media_deadline_seconds"):
        Settings(media_deadline_seconds=0)
