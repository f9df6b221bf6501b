"""An address enters; whether it may be dialled leaves.

Rules of this file: fail closed. The tables are IANA's special-purpose registries, written out since
`ipaddress.is_global` differs between Python versions and calls multicast global. An address that
carries another (NAT64) is judged by what it carries; other kinds of carrying are refused.
"""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)

Address = IPv4Address | IPv6Address

_V4_LINK_LOCAL = IPv4Network("169.254.0.0/16")
_V4_NOWHERE = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and the broadcast address
        ),
    )
)
_V4_METADATA = tuple(
    map(
        IPv4Network,
        (
            "100.100.100.200/32",  # Alibaba Cloud
            "168.63.129.16/32",  # Azure, although a public address
            "192.0.0.192/32",  # Oracle Cloud
        ),
    )
)
_V4_NOT_GLOBAL = tuple(
    map(
        IPv4Network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
        ),
    )
)
_V6_GLOBAL = IPv6Network("2000::/3")
_V6_NOT_GLOBAL = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "3fff::/20",
        ),
    )
)
_V6_LOCAL = (IPv6Network("fc00::/7"), IPv6Network("::1/128"))
_V6_METADATA = (
    IPv6Network("fd00:ec2::/32"),  # Amazon
    IPv6Network("fd20:ce::/32"),  # Google
)
_NAT64 = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> Address | None:
    """Return the address a text spells in its usual form, or None; a zone is not dropped."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Say whether an address is one host of the public internet, and no cloud's own service."""
    if isinstance(address, IPv4Address):
        refused = (_V4_LINK_LOCAL, *_V4_NOWHERE, *_V4_METADATA, *_V4_NOT_GLOBAL)
        return not any(address in network for network in refused)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _V6_GLOBAL and not any(address in network for network in _V6_NOT_GLOBAL)


def is_openable(address: Address) -> bool:
    """Say whether an address may be dialled for a host the operator has opened by name.

    Private and loopback addresses may; link-local ones (where clouds keep credentials), multicast
    and the clouds' own services may not, whatever the name.
    """
    if isinstance(address, IPv4Address):
        refused = (_V4_LINK_LOCAL, *_V4_NOWHERE, *_V4_METADATA)
        return not any(address in network for network in refused)
    if address.scope_id is not None or any(address in network for network in _V6_METADATA):
        return False
    if address in _NAT64:
        return is_openable(IPv4Address(int(address) & 0xFFFF_FFFF))
    return is_public(address) or any(address in network for network in _V6_LOCAL)
