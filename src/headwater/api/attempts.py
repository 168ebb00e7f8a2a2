"""Counts wrong tokens per address, so that nobody can try them in bulk (U1)."""

import hashlib
import ipaddress

from headwater.clock import Clock

MOST = 20
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 10_000
_MOST_KNOWN = 10_000
_HOUSEHOLD_BITS = 64  # of an IPv6 address: whoever has one has all that begin like it


class Attempts:
    """Wrong attempts of the last minute, by address.

    A secret that has been right before is never made to wait: one attacker behind a proxy would
    lock out everybody else there. It is still looked up each time, so that it can be revoked.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: dict[str, tuple[float, int]] = {}  # since when, how many
        self._known: dict[bytes, None] = {}  # in the order in which they first came

    def seconds_to_wait(self, address: str, secret: str) -> float:
        """How long an address has to wait before it may try this secret; 0: not at all."""
        since, count = self._failed.get(household(address), (0.0, 0))
        left = since + WINDOW_SECONDS - self._clock.monotonic()
        return left if count >= MOST and left > 0 and _mark(secret) not in self._known else 0.0

    def failed(self, address: str, secret: str) -> None:
        """Remember a wrong attempt."""
        self._known.pop(_mark(secret), None)  # revoked
        now = self._clock.monotonic()
        address = household(address)
        since, count = self._failed.get(address, (now, 0))
        if since + WINDOW_SECONDS <= now:
            since, count = now, 0
        if address not in self._failed and len(self._failed) >= MOST_ADDRESSES:
            self._forget(now)
        self._failed[address] = (since, count + 1)

    def succeeded(self, secret: str) -> None:
        """Remember a secret that was right."""
        self._known[_mark(secret)] = None
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _forget(self, now: float) -> None:
        old = [a for a, (since, _) in self._failed.items() if since + WINDOW_SECONDS <= now]
        for address in old or list(self._failed)[: MOST_ADDRESSES // 2]:
            del self._failed[address]


def household(address: str) -> str:
    """Those who can change their address among each other count as one."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ip), _HOUSEHOLD_BITS), strict=False))


def _mark(secret: str) -> bytes:
    """What is kept of a secret in memory."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
