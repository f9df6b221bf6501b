"""A chat's body enters; the media that its renderer can't read by itself leave, fetched.

Rules of this file: every route that takes chats comes by here. Nothing is fetched unless the
operator opened a way. Bodies are parsed in the executor, as everything of a request's size is; only
the fetching itself is on the event loop.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from foreword.media.items import MediaItem, make_item, uuid_namespace
from foreword.renderer import Renderer
from foreword.service.executor import Executor
from foreword.service.media_fetch import MediaFetcher, ResolvedMedia, media_policy
from foreword.service.settings import Settings
from foreword.types import MediaReference

Collect = Callable[[bytes], tuple[MediaReference, ...]]

# A body without any of these has no media that could be fetched; an escaped one is refused later.
_SIGNS = (b"image", b"audio", b"video")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What came with a request beside its body: its fetched media, and whose request it is.

    Without `fetched` a renderer reads the media that stand in the body by itself.
    """

    fetched: tuple[ResolvedMedia, ...] = ()
    tenant: str = ""

    def items(self, renderer: Renderer, cache_salt: str | None) -> tuple[MediaItem, ...] | None:
        """Return what the fetched media are to a model; None leaves all to its renderer."""
        if not self.fetched:
            return None
        naming = renderer.options.media.naming
        return tuple(
            make_item(
                one.reference,
                one.data,
                image=one.image,
                audio=one.audio,
                video=one.video,
                naming=naming,
                namespace=uuid_namespace(self.tenant, cache_salt),
            )
            for one in self.fetched
        )

    def data_urls(self) -> Mapping[int, str]:
        """Return what was fetched as data: URLs, by the item's index.

        Why: an engine that fetched an item again would do so by its own rules, and could get
        another one than was counted.
        """
        return {
            one.reference.index: _data_url(one)
            for one in self.fetched
            if (one.reference.url or "")[:5].lower() != "data:"
        }


NOTHING = Arrived()


def make_fetcher(settings: Settings) -> MediaFetcher | None:
    """Return what fetches media, or None where only data: URLs are taken.

    Raises: `InvalidRequest` for settings that do not fit; `UnsupportedFeature` when fetching is on
    and its library is not installed.
    """
    policy = media_policy(settings)
    return MediaFetcher(policy) if policy.fetch or policy.folder else None


def tenant_of(authorization: bytes) -> str:
    """Return a name for whoever bears a key, from which the key can't be told."""
    key = authorization.partition(b" ")[2].strip()
    return hashlib.sha256(key).hexdigest() if key else ""


def may_hold_media(body: bytes) -> bool:
    """Say whether a body could point to media."""
    return any(sign in body for sign in _SIGNS)


async def fetch_media(
    fetcher: MediaFetcher, executor: Executor, collect: Collect, body: bytes
) -> tuple[ResolvedMedia, ...]:
    """Return a chat's media, or nothing where its renderer needs no help.

    Raises: what `collect` and `MediaFetcher.fetch` raise.
    """
    references = await executor.run(collect, body, size_hint=len(body))
    return await fetcher.fetch(references) if references else ()


def _data_url(one: ResolvedMedia) -> str:
    header = one.image or one.audio or one.video
    kind = "octet-stream" if header is None else header.format.lower()
    data = base64.b64encode(one.data).decode("ascii")
    return f"data:{one.reference.modality}/{kind};base64,{data}"
