"""Rate limit for wrong tokens, per client address (U1)."""

import ipaddress

from headwater import logs
from headwater.clock import Clock
from headwater.operations.rate_limits import RateWindows, Window
from headwater.store.audit import AuditLog

log = logs.get_logger()
MOST = 20
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 10_000
MOST_ENTRIES = 30  # in the audit log, in a window
_PREFIX_BITS = 64  # of an IPv6 address: one client usually has the whole network


class FailedLogins:
    """Wrong tokens by address, in windows of a minute.

    Only wrong tokens are limited: otherwise one attacker behind a proxy would lock out all other
    clients there.
    """

    def __init__(self, clock: Clock, audit: AuditLog | None = None) -> None:
        self._windows = RateWindows(clock, WINDOW_SECONDS, most_keys=MOST_ADDRESSES)
        self._entries = RateWindows(clock, WINDOW_SECONDS, most_keys=1)
        self._audit = audit

    async def record(self, address: str) -> dict[str, str] | None:
        """The same as `failed`, with an entry in the audit log per address and minute (U9)."""
        network, window = self._count(address)
        if self._audit is not None and window.count == 1 and self._may_add_entry():
            count = max(window.previous, 1)
            await self._audit.add(f"address {network}", "login.failed", count=count)
        return self._headers(window)

    def _may_add_entry(self) -> bool:
        """Whether another entry is allowed: many addresses cannot fill the log."""
        return self._entries.add("").count <= MOST_ENTRIES

    def failed(self, address: str) -> dict[str, str] | None:
        """Count a wrong token; the headers of a 429 if the address is over the limit, else None."""
        return self._headers(self._count(address)[1])

    def _count(self, address: str) -> tuple[str, Window]:
        network = client_network(address)
        window = self._windows.add(network)
        if window.count == 1:  # logged at once, the others of the window with the next one
            log.warning("[API] wrong tokens", address=network, count=max(window.previous, 1))
        return network, window

    def _headers(self, window: Window) -> dict[str, str] | None:
        if window.count <= MOST:
            return None
        return {"Retry-After": str(self._windows.seconds_left(window))}


def client_network(address: str) -> str:
    """The address, or the /64 network of an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ip), _PREFIX_BITS), strict=False))
