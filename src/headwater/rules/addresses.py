"""Which addresses may be connected to: public unicast, and those that the operator allows (N3)."""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from headwater.rules.urls import is_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Allowed = bool | tuple[Network, ...]

# Explicit, because the standard library's flags call NAT64, 6to4 and multicast "global".
# The first range that contains an address names it.
_RANGES = {
    "unspecified": "0.0.0.0/8 ::/128",
    "loopback": "127.0.0.0/8 ::1/128",
    "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
    "carrier NAT": "100.64.0.0/10",
    "metadata": "168.63.129.16/32",  # a cloud service, reachable only from inside the cloud
    "link-local": "169.254.0.0/16 fe80::/10",  # and the metadata service of most clouds
    "documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    "6to4 relay": "192.88.99.0/24",
    "benchmark": "198.18.0.0/15 2001:2::/48",
    "multicast": "224.0.0.0/4 ff00::/8",
    "broadcast": "255.255.255.255/32",
    "reserved": "240.0.0.0/4",
    "IPv4-compatible": "::/96",
    "NAT64": "64:ff9b::/96 64:ff9b:1::/48",
    "discard": "100::/64",
    "Teredo": "2001::/32",
    "ORCHID": "2001:10::/28 2001:20::/28",
    "protocol assignments": "192.0.0.0/24 2001::/23",
    "6to4": "2002::/16",
    "segment routing": "5f00::/16",
    "unique-local": "fc00::/7",
    "site-local": "fec0::/10",
}
_REFUSED = [(ip_network(each), name) for name, all_ in _RANGES.items() for each in all_.split()]
_MAPPED = IPv6Network("::ffff:0:0/96")
_LOW_32_BITS = tuple(  # the IPv4 address is the end of the IPv6 address
    IPv6Network(n) for n in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/32")
)
_6TO4 = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all of IPv6 that is assigned for public use


def refusal(address: str, allowed: Allowed) -> str | None:
    """Why this address is refused, in a word or two; None if it is allowed (N3)."""
    return None if allowed is True else _refusal(address, allowed)


def host_refusal(host: str, allowed: Allowed) -> str | None:
    """Why a normalised host can never be visited; None if it can, or if only DNS decides (J2)."""
    if host == "localhost" or host.endswith(".localhost"):
        return refusal("127.0.0.1", allowed) and refusal("::1", allowed)
    return refusal(host, allowed) if is_address(host) else None


def refusal_text(host: str, reason: str) -> str:
    """The message about a refused host; what a name resolves to is not disclosed to users."""
    what = f"not a public address ({reason})" if is_address(host) else "on a private network"
    return f"{host} is {what}; app.fetch.allow-private-networks can allow it"


@lru_cache(maxsize=4096)
def _refusal(address: str, allowed: Allowed) -> str | None:
    try:
        outer = ip_address(address)
    except ValueError:
        return "not an address"
    networks = allowed if isinstance(allowed, tuple) else ()
    for ip in (outer, *_embedded(outer)):
        name = _range_name(ip)
        if name is not None and not any(ip in network for network in networks):
            return name
    return None


def _embedded(ip: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address contains."""
    value = int(ip)
    if isinstance(ip, IPv4Address) or value <= 1:  # :: and ::1 contain none
        return
    if any(ip in network for network in _LOW_32_BITS):
        yield IPv4Address(value & 0xFFFFFFFF)
    elif ip in _6TO4:
        yield IPv4Address(value >> 80 & 0xFFFFFFFF)
    elif ip in _TEREDO:
        yield IPv4Address(value >> 64 & 0xFFFFFFFF)  # its server
        yield IPv4Address(~value & 0xFFFFFFFF)  # its client, written inverted


def _range_name(ip: Address) -> str | None:
    for network, name in _REFUSED:
        if ip in network:
            return name
    if isinstance(ip, IPv6Address) and ip not in _GLOBAL_UNICAST and ip not in _MAPPED:
        return "not public"
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    # From Python 3.13 on, ::ffff:127.0.0.1 counts as loopback; here it never does
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None
