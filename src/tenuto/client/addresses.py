"""Which addresses are public: the only ones that are fetched when somebody else wrote the URL.

The standard library's `is_global` is the start, not the answer: it takes a NAT64 address for public whatever IPv4 address
stands in it, and so would lead back into the house. Every form that carries an IPv4 address in it, and every range that
reaches a router, a test network or the machine's own cloud, is refused here.
"""

from __future__ import annotations

import ipaddress

__all__ = ["is_public"]

_CLOSED = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; also one cloud's metadata
        "127.0.0.0/8",  # this machine
        "168.63.129.16/32",  # public by its number, but inside one cloud the platform itself
        "169.254.0.0/16",  # link-local; the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; one cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # relays into IPv6
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and the broadcast address
    )
)
_OPEN_6 = ipaddress.IPv6Network(
    "2000::/3"
)  # nothing outside is given out as public: not mapped, NAT64, local, multicast
_CLOSED_6 = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, overlays
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in other clothes
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_TUNNEL = 0x00005EFE  # in the second half of an address, an IPv4 address follows


def is_public(address: str) -> bool:
    """Tell whether an IP address is one of the open Internet; False for anything that is not exactly an address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return _public_4(found) if isinstance(found, ipaddress.IPv4Address) else _public_6(found)


def _public_4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not any(address in block for block in _CLOSED)


def _public_6(address: ipaddress.IPv6Address) -> bool:
    if address.scope_id is not None or address not in _OPEN_6 or not address.is_global:
        return False
    if any(address in block for block in _CLOSED_6):
        return False
    last = int(address) & 0xFFFF_FFFF_FFFF_FFFF
    if (last >> 32) & ~0x02000000 == _TUNNEL:
        return _public_4(ipaddress.IPv4Address(last & 0xFFFF_FFFF))
    return True
