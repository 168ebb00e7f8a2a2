"""Which addresses may be visited: public unicast, and what the operator allows besides (N3)."""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Allowed = bool | tuple[Network, ...]

# Explicit, because the standard library's own flags call NAT64, 6to4 and multicast "global".
# The first range that holds an address names it.
_IPV4_RANGES = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier NAT"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "metadata"),  # a cloud's own service, seen from inside it alone
    ("169.254.0.0/16", "link-local"),  # and the metadata service of most clouds
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmark"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
)
_IPV6_RANGES = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64"),
    ("100::/64", "discard"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "benchmark"),
    ("2001:10::/28", "ORCHID"),
    ("2001:20::/28", "ORCHID"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique-local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_REFUSED: dict[int, tuple[tuple[Network, str], ...]] = {
    4: tuple((ip_network(network), name) for network, name in _IPV4_RANGES),
    6: tuple((ip_network(network), name) for network, name in _IPV6_RANGES),
}
_MAPPED = IPv6Network("::ffff:0:0/96")
_LOW_32_BITS = tuple(  # where the IPv4 address is the end of the IPv6 one
    IPv6Network(n) for n in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/32")
)
_6TO4 = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all of IPv6 that is given out for public use


def is_allowed(address: str, allowed: Allowed) -> bool:
    """Whether a connection to this address may be opened."""
    return refusal(address, allowed) is None


def refusal(address: str, allowed: Allowed) -> str | None:
    """Why this address may not be visited, in a word or two, or None where it may (N3)."""
    return None if allowed is True else _refusal(address, allowed)


@lru_cache(maxsize=4096)
def _refusal(address: str, allowed: Allowed) -> str | None:
    try:
        outer = ip_address(address)
    except ValueError:
        return "not an address"
    networks = allowed if isinstance(allowed, tuple) else ()
    for ip in (outer, *_inside(outer)):
        name = _range_name(ip)
        if name is not None and not any(ip in network for network in networks):
            return name
    return None


def _inside(ip: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that this IPv6 address leads to."""
    value = int(ip)
    if isinstance(ip, IPv4Address) or value <= 1:  # :: and ::1 are themselves
        return
    if any(ip in network for network in _LOW_32_BITS):
        yield IPv4Address(value & 0xFFFFFFFF)
    elif ip in _6TO4:
        yield IPv4Address(value >> 80 & 0xFFFFFFFF)
    elif ip in _TEREDO:
        yield IPv4Address(value >> 64 & 0xFFFFFFFF)  # its server
        yield IPv4Address(~value & 0xFFFFFFFF)  # its client, written inverted


def _range_name(ip: Address) -> str | None:
    for network, name in _REFUSED[ip.version]:
        if ip in network:
            return name
    if isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST and ip not in _MAPPED:
        return "not public"
    return None
