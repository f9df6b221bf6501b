"""Settings enter; what media may be taken, from where and how much of it, leaves.

Rules of this file: nothing is fetched unless said. Hosts are compared exactly, in the ASCII form
they have on the wire; a host without a port means ports 80 and 443.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from foreword.errors import InvalidRequest
from foreword.media.audio import MAX_SECONDS
from foreword.media.headers import MAX_PIXELS
from foreword.service.settings import MIB, Settings

USUAL_PORTS = (80, 443)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_-]+(\.[a-z0-9_-]+)*)(:[1-9][0-9]{0,4})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaPolicy:
    """What may be fetched. The default fetches nothing and takes data: URLs only.

    `hosts`, when given, are the only ones fetched from; `private_hosts` may also have addresses
    of the own network. Each is `host` or `host:port`. `max_request_*` hold for one call.

    Raises: `InvalidRequest` for a host that is not written so.
    """

    fetch: bool = False
    hosts: tuple[str, ...] = ()
    private_hosts: tuple[str, ...] = ()
    folder: Path | None = None
    max_items: int = 128
    max_item_bytes: int = 64 * MIB
    max_request_bytes: int = 256 * MIB
    max_image_pixels: int = MAX_PIXELS
    max_request_pixels: int = MAX_PIXELS
    max_audio_seconds: float = MAX_SECONDS
    max_redirects: int = 3
    max_fetches: int = 32
    connect_seconds: float = 3.0
    read_seconds: float = 5.0
    total_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("hosts", "private_hosts"):
            for entry in getattr(self, name):
                if not _HOST.fullmatch(entry):
                    raise InvalidRequest(
                        f"media_{name} has {entry!r}; each is a host in lower case, or host:port,"
                        " without scheme, path or wildcard.",
                        param=f"media_{name}",
                    )

    def is_opened(self, host: str, port: int) -> bool:
        """Say whether the operator lets this host have an address that is not public."""
        return _is_among(self.private_hosts, host, port)

    def is_allowed(self, host: str, port: int) -> bool:
        """Say whether media may be asked of this host at this port, addresses aside."""
        if self.is_opened(host, port):
            return True
        return _is_among(self.hosts, host, port) if self.hosts else port in USUAL_PORTS


def media_policy(settings: Settings) -> MediaPolicy:
    """Make the policy from the service's settings.

    Raises: `InvalidRequest` naming the setting that does not fit.
    """
    folder = None if settings.media_folder is None else Path(settings.media_folder)
    if folder is not None and not (folder.is_absolute() and folder.is_dir()):
        raise InvalidRequest(
            "media_folder must be the absolute path of a folder that exists.", param="media_folder"
        )
    return MediaPolicy(
        fetch=settings.media_fetch,
        hosts=settings.media_hosts,
        private_hosts=settings.media_private_hosts,
        folder=folder,
        max_items=settings.max_media_items,
        max_item_bytes=settings.max_media_bytes,
        max_request_bytes=settings.max_media_request_bytes,
        max_image_pixels=settings.max_image_pixels,
        max_request_pixels=settings.max_media_request_pixels,
        max_audio_seconds=settings.max_audio_seconds,
        max_redirects=settings.max_media_redirects,
        max_fetches=settings.max_media_fetches,
        connect_seconds=settings.media_connect_deadline_seconds,
        read_seconds=settings.media_read_deadline_seconds,
        total_seconds=settings.media_deadline_seconds,
    )


def _is_among(entries: tuple[str, ...], host: str, port: int) -> bool:
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" in entries or (port in USUAL_PORTS and shown in entries)
