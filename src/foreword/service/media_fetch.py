"""Media references enter; their bytes, hashes and sizes or durations leave, in the same order.

Rules of this file: the one door through which a request's media come in. All references are judged
before the first is fetched; then the first failure ends the others and is raised, everything
closed. Work that takes the processor long leaves the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from foreword.errors import InvalidRequest, MediaUnavailable, Overloaded, UnsupportedFeature
from foreword.media.audio import AudioHeader, read_audio_duration
from foreword.media.data_url import decode_data_url, holds_frames
from foreword.media.hashing import content_hash
from foreword.media.headers import ImageHeader, read_image_size
from foreword.media.video import VideoHeader, read_video_header
from foreword.service.fetching.allowance import Allowance
from foreword.service.fetching.local import read_file_url
from foreword.service.fetching.policy import MediaPolicy, media_policy
from foreword.types import MediaReference

if TYPE_CHECKING:
    from foreword.service.fetching.download import Resolver

__all__ = [
    "MediaFetcher",
    "MediaPolicy",
    "ResolvedMedia",
    "inspect_media",
    "media_policy",
    "resolve_media",
]

_Made = TypeVar("_Made")

MAX_FETCHES_PER_REQUEST = 8
_MODALITIES = ("image", "audio", "video")
_INLINE_SIZE = 64 * 1024
"""Up to here decoding and hashing cost less than handing them to a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedMedia:
    """One item as it was sent: its encoded bytes, their sha256, and what their header says.

    One of `image`, `audio` and `video` is set, as the modality says.
    """

    reference: MediaReference
    data: bytes
    sha256: str
    image: ImageHeader | None = None
    audio: AudioHeader | None = None
    video: VideoHeader | None = None


def resolve_media(
    references: Sequence[MediaReference],
    policy: MediaPolicy | None = None,
    *,
    resolver: Resolver | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> tuple[ResolvedMedia, ...]:
    """Resolve references and wait for it: for library users, also where an event loop runs.

    Raises: as `MediaFetcher.fetch`.
    """
    fetcher = MediaFetcher(policy or MediaPolicy(), resolver=resolver, ssl_context=ssl_context)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: asyncio.run(fetcher.fetch(references))).result()


def inspect_media(
    reference: MediaReference, data: bytes, policy: MediaPolicy | None = None
) -> ResolvedMedia:
    """Return what encoded bytes are, for a reference that somebody else has fetched.

    Raises: `MediaUnavailable` for bytes that are not what the reference says, or declare more
    than the policy takes; `UnsupportedFeature` for another modality.
    """
    policy, param = policy or MediaPolicy(), reference.path
    _check_modality(reference)
    image, audio, video = None, None, None
    if reference.modality == "image":
        image = read_image_size(data, max_pixels=policy.max_image_pixels, param=param)
    elif reference.modality == "audio":
        audio = read_audio_duration(data, max_seconds=policy.max_audio_seconds, param=param)
    else:
        video = read_video_header(
            data,
            is_frames=holds_frames(reference),
            max_pixels=policy.max_image_pixels,
            param=param,
        )
    return ResolvedMedia(
        reference=reference,
        data=data,
        sha256=content_hash(data),
        image=image,
        audio=audio,
        video=video,
    )


class MediaFetcher:
    """Resolves the references of requests; one for a service, used on its event loop.

    Raises: `UnsupportedFeature`, when made, if fetching is on and its library is not installed.
    """

    def __init__(
        self,
        policy: MediaPolicy,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.policy = policy
        self._slots = asyncio.Semaphore(policy.max_fetches)
        self._resolver = resolver
        self._ssl_context = ssl_context
        if policy.fetch:
            self._prepare()

    async def fetch(self, references: Sequence[MediaReference]) -> tuple[ResolvedMedia, ...]:
        """Resolve the references of one request, in their order.

        Raises: `InvalidRequest` for URLs, hosts and files that are not allowed;
        `UnsupportedFeature` for what is not switched on or not known; `MediaUnavailable` for
        what is late, absent, broken or too large; `Overloaded` when no fetch is free. `param` is
        the reference's path.
        """
        if len(references) > self.policy.max_items:
            raise InvalidRequest(
                f"The request has {len(references)} media items; at most"
                f" {self.policy.max_items} are taken. Send fewer.",
                param=references[self.policy.max_items].path,
                details={"num_items": len(references), "max_items": self.policy.max_items},
            )
        for reference in references:
            self._check(reference)
        call = _Call(
            allowance=Allowance(self.policy),
            slots=asyncio.Semaphore(MAX_FETCHES_PER_REQUEST),
            deadline=asyncio.get_running_loop().time() + self.policy.total_seconds,
        )
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._resolve(one, call)) for one in references]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return tuple(task.result() for task in tasks)

    def _prepare(self) -> None:
        try:
            from foreword.service.fetching.download import look_up, trust
        except ImportError:
            raise UnsupportedFeature(
                feature="Fetching media", remedy="Install foreword[media]."
            ) from None
        self._resolver = self._resolver or look_up
        self._ssl_context = self._ssl_context or trust()

    def _check(self, reference: MediaReference) -> None:
        """Refuse what can be told from the reference alone."""
        _check_modality(reference)
        if reference.url is None:
            raise MediaUnavailable(
                "The item has no URL and no data, so its size is not known here. Send it in full.",
                param=reference.path,
            )
        scheme = _scheme(reference.url)
        if scheme in ("data", "file"):
            return
        if scheme not in ("http", "https"):
            raise InvalidRequest(
                "Media is taken from data:, http:, https: and file: URLs only; this one has"
                " another scheme, or none.",
                param=reference.path,
            )
        if not self.policy.fetch:
            raise UnsupportedFeature(
                feature=f"Fetching media from {scheme}: URLs",
                remedy="Send the item as a data: URL, or ask the operator to set media_fetch.",
                param=reference.path,
            )
        from foreword.service.fetching.urls import parse_target

        parse_target(reference.url, self.policy, param=reference.path)

    async def _resolve(self, reference: MediaReference, call: _Call) -> ResolvedMedia:
        try:
            async with asyncio.timeout_at(call.deadline), call.slots:
                data = await self._bytes_of(reference, call)
                found = await _offload(len(data), inspect_media, reference, data, self.policy)
        except TimeoutError:
            raise MediaUnavailable(
                f"The media of this request did not arrive within {self.policy.total_seconds:g}"
                " seconds. Send fewer or smaller items, or send them as data: URLs.",
                param=reference.path,
                details={"total_seconds": self.policy.total_seconds},
            ) from None
        shown = found.image or found.video
        if shown is not None:
            call.allowance.take_pixels(shown.width * shown.height, reference.path)
        return found

    async def _bytes_of(self, reference: MediaReference, call: _Call) -> bytes:
        url, param = reference.url or "", reference.path
        scheme = _scheme(url)
        if scheme in ("http", "https"):
            await self._wait_for_slot(param)
            try:
                return await self._download(reference, call)
            finally:
                self._slots.release()
        max_bytes = self.policy.max_item_bytes
        if scheme == "data":
            data = await _offload(len(url), lambda: decode_data_url(reference, max_bytes=max_bytes))
        else:
            data = await asyncio.to_thread(
                read_file_url, url, folder=self.policy.folder, max_bytes=max_bytes, param=param
            )
        call.allowance.take_bytes(len(data), param)
        return data

    async def _wait_for_slot(self, param: str) -> None:
        try:
            # The other half of the time is for the fetch itself.
            async with asyncio.timeout(self.policy.total_seconds / 2):
                await self._slots.acquire()
        except TimeoutError:
            raise Overloaded(
                f"All {self.policy.max_fetches} fetches of this process are taken. Try again"
                " later, or send the item as a data: URL.",
                param=param,
                details={"max_fetches": self.policy.max_fetches},
            ) from None

    async def _download(self, reference: MediaReference, call: _Call) -> bytes:
        from foreword.service.fetching.download import Errand, download

        assert self._resolver is not None
        assert self._ssl_context is not None
        errand = Errand(
            modality=reference.modality,
            param=reference.path,
            policy=self.policy,
            allowance=call.allowance,
            resolver=self._resolver,
            ssl_context=self._ssl_context,
        )
        return await download(reference.url or "", errand)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What the items of one request share."""

    allowance: Allowance
    slots: asyncio.Semaphore
    deadline: float


def _check_modality(reference: MediaReference) -> None:
    if reference.modality not in _MODALITIES:
        raise UnsupportedFeature(
            feature=f"Media of the kind {reference.modality!r}",
            remedy="Send images, audio or video.",
            param=reference.path,
        )


async def _offload(size: int, work: Callable[..., _Made], *given: Any) -> _Made:
    return work(*given) if size <= _INLINE_SIZE else await asyncio.to_thread(work, *given)


def _scheme(url: str) -> str:
    return url[:6].partition(":")[0].lower() if ":" in url[:6] else ""
