"""A chat's body enters; the media that its renderer can't read by itself leave, fetched.

Rules of this file: nothing is fetched unless the operator opened a way. Bodies are parsed in the
executor, as everything of a request's size is; only the fetching itself is on the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foreword.media.items import MediaItem, make_item
from foreword.renderer import Renderer
from foreword.service.executor import Executor
from foreword.service.media_fetch import MediaFetcher, ResolvedMedia, media_policy
from foreword.service.settings import Settings

if TYPE_CHECKING:
    from foreword.service.work import Work

# A body without any of these has no media that could be fetched; an escaped one is refused later.
_SIGNS = (b"_url", b"input_image")


def make_fetcher(settings: Settings) -> MediaFetcher | None:
    """Return what fetches media, or None where only data: URLs are taken.

    Raises: `InvalidRequest` for settings that do not fit; `UnsupportedFeature` when fetching is on
    and its library is not installed.
    """
    policy = media_policy(settings)
    return MediaFetcher(policy) if policy.fetch or policy.folder else None


async def fetch_media(
    fetcher: MediaFetcher, executor: Executor, work: Work, body: bytes
) -> tuple[ResolvedMedia, ...]:
    """Return a chat's media, or nothing where its renderer needs no help.

    Raises: what decoding the body and `MediaFetcher.fetch` raise.
    """
    if not any(sign in body for sign in _SIGNS):
        return ()
    references = await executor.run(work.collect_media, body, size_hint=len(body))
    return await fetcher.fetch(references) if references else ()


def make_items(
    fetched: Sequence[ResolvedMedia], renderer: Renderer, *, namespace: str
) -> tuple[MediaItem, ...] | None:
    """Return what fetched media are to a model; None leaves them to its renderer."""
    naming = renderer.options.media.naming
    return (
        tuple(
            make_item(
                one.reference,
                one.data,
                image=one.image,
                audio=one.audio,
                naming=naming,
                namespace=namespace,
            )
            for one in fetched
        )
        or None
    )
