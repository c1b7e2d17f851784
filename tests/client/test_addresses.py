"""Public and private addresses."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.client.fetch import is_public

REFUSED = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
    "168.63.129.16/32",
    "::/128", "::1/128", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
    "2001::/32", "2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
    "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip


@pytest.mark.parametrize("block", REFUSED)
def test_private_ranges_are_refused_up_to_their_limits(block):
    found = ipaddress.ip_network(block)

    assert not is_public(str(found[0]))
    assert not is_public(str(found[-1]))
    assert not is_public(str(found[found.num_addresses // 2]))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "128.0.0.0", "172.15.255.255",
        "172.32.0.0", "168.63.129.15", "168.63.129.17", "198.17.255.255", "198.20.0.0", "223.255.255.255",
        "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450:4001::200e", "2606::5efe:808:808",
    ],
)  # fmt: skip
def test_public_addresses_are_accepted(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "", "localhost", "x.org", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "8.8.8", "8.8.8.8 ", " 8.8.8.8",
        "8.8.8.8:80", "[2606:4700::1]", "2606:4700::1%eth0", "fe80::1%1", "8.8.8.8/32", "⑧.8.8.8", "2606:4700::1\n",
    ],
)  # fmt: skip
def test_invalid_address_is_not_public(address):
    assert not is_public(address)


v4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
odd = st.sampled_from(REFUSED[:20]).flatmap(
    lambda block: st.integers(int(ipaddress.ip_network(block)[0]), int(ipaddress.ip_network(block)[-1])).map(
        ipaddress.IPv4Address
    )
)


def _forms_of(address: ipaddress.IPv4Address) -> list[int]:
    """Return every form of IPv6 that embeds this address."""
    number = int(address)
    prefixes = [int(ipaddress.IPv6Address(p)) for p in ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::")]
    tunnels = [
        int(ipaddress.IPv6Address(p)) for p in ("2606:4700::5efe:0:0", "2606:4700::200:5efe:0:0", "fe80::5efe:0:0")
    ]
    return [
        *(prefix | number for prefix in prefixes + tunnels),
        (0x2002 << 112) | (number << 80) | 1,
        (0x2001 << 112) | (number << 64) | 1,
        (0x2001 << 112) | (0x08080808 << 64) | (number ^ 0xFFFFFFFF),
    ]


@given(odd)
def test_embedded_private_address_is_not_public(address):
    assert not is_public(str(address))
    for number in _forms_of(address):
        assert not is_public(str(ipaddress.IPv6Address(number)))


@given(
    v4
    | st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)
    | st.integers(2**125, 2**126 - 1).map(ipaddress.IPv6Address)
)
def test_check_is_stricter_than_the_standard_library(address):
    assert not is_public(str(address)) or address.is_global
    assert not (is_public(str(address)) and (address.is_private or address.is_multicast or address.is_reserved))


@given(st.text(max_size=30))
def test_check_accepts_any_text(text):
    assert is_public(text) in (True, False)
