"""The text of an http(s) URL enters; a `Target` that may be asked for leaves.

Rules of this file: pure. A URL that two parsers could read differently is refused, not repaired:
backslashes, spaces, credentials, numbers as addresses. What is checked is what is asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx

from foreword.errors import InvalidRequest
from foreword.service.fetching.addresses import Address, is_openable, is_public, parse_address
from foreword.service.fetching.policy import MediaPolicy

MAX_URL_CHARS = 8192
_DEFAULT_PORTS = {"http": 80, "https": 443}
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")
_SCHEME = re.compile(r"[^/?#]*:")
_AUTHORITY = re.compile(r"https?://([^/?#]+)", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes. `host` is ASCII, without brackets or a final dot."""

    scheme: str
    host: str
    port: int
    raw_path: bytes
    address: Address | None = None
    """The address, where the host is one."""
    is_opened: bool = False
    """Whether its address need not be public."""

    @property
    def host_header(self) -> str:
        """The Host header: the port only where it is not the scheme's own."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == _DEFAULT_PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.host_header}{self.raw_path.decode('ascii')}"

    def may_dial(self, address: Address) -> bool:
        """Say whether this host may have this address."""
        return is_openable(address) if self.is_opened else is_public(address)


def parse_target(text: str, policy: MediaPolicy, *, param: str | None = None) -> Target:
    """Return where a URL leads, if media may be asked of that host.

    Raises: `InvalidRequest` for anything else.
    """
    url = _parse(text, param)
    host = url.raw_host.decode("ascii").removesuffix(".")
    port = url.port or _DEFAULT_PORTS[url.scheme]
    address = parse_address(host)
    if address is None and not _is_name(host):
        raise _refused(
            "its host is no name, and no address in its usual spelling (four decimal numbers,"
            " or IPv6 in brackets)",
            param,
        )
    target = Target(
        scheme=url.scheme,
        host=str(address or host),
        port=port,
        raw_path=url.raw_path,
        address=address,
        is_opened=policy.is_opened(str(address or host), port),
    )
    if not policy.is_allowed(target.host, port):
        raise _refused(f"the host {target.host} at port {port} is not open for it", param)
    if address is not None and not target.may_dial(address):
        raise not_public(target, param)
    return target


def follow(target: Target, location: str, policy: MediaPolicy, *, param: str | None) -> Target:
    """Return where a redirect leads, under the same rules; the message does not tell where.

    Raises: `InvalidRequest`.
    """
    try:
        if _SCHEME.match(location):
            new = parse_target(location, policy, param=param)
        elif _AMBIGUOUS.search(location):
            raise redirect_refused(param)
        else:
            new = parse_target(str(httpx.URL(target.url).join(location)), policy, param=param)
    except (InvalidRequest, httpx.InvalidURL, ValueError):
        raise redirect_refused(param) from None
    if target.scheme == "https" and new.scheme != "https":
        raise _refused("it redirects from https to http", param)
    return new


def not_public(target: Target, param: str | None) -> InvalidRequest:
    """Make the error of a host that has no address, or one that may not be dialled.

    Why: one sentence for both, or it would answer which internal names exist.
    """
    return _refused(
        f"the host {target.host} has no address, or one that is not on the public internet", param
    )


def redirect_refused(param: str | None) -> InvalidRequest:
    """Make the error of a redirect to where media may not be fetched from."""
    return _refused("it redirects to a place that media is not fetched from", param)


def _parse(text: str, param: str | None) -> httpx.URL:
    if len(text) > MAX_URL_CHARS:
        raise _refused(f"it has {len(text)} characters; at most {MAX_URL_CHARS} are taken", param)
    if _AMBIGUOUS.search(text):
        raise _refused("it holds a space, a control character or a backslash", param)
    authority = _AUTHORITY.match(text)
    if authority is None:
        raise _refused("it is no http: or https: URL with a host", param)
    if "@" in authority[1]:
        raise _refused("it holds a user name or a password", param)
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise _refused("it is not a valid URL", param) from None
    if url.scheme not in _DEFAULT_PORTS or url.userinfo or url.port == 0:
        raise _refused("it is not a valid URL", param)
    return url


def _is_name(host: str) -> bool:
    if len(host) > 253 or not _NAME.fullmatch(host):
        return False
    # C libraries and browsers read a host whose last label is a number as an IPv4 address.
    return not _NUMBER.fullmatch(host.rpartition(".")[2])


def _refused(reason: str, param: str | None) -> InvalidRequest:
    return InvalidRequest(
        f"The media URL is refused: {reason}. Send the item as a data: URL instead.", param=param
    )
