"""Limits for connections: in total, per client address, and timeouts for idle ones (U8)."""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from headwater import logs
from headwater.api.middleware.failed_logins import client_network
from headwater.api.middleware.security_headers import HEADERS
from headwater.api.problems import problem
from headwater.settings.configuration_keys import LimitSettings

log = logs.get_logger()
_WARNING_SECONDS = 60.0  # between two log entries
_RETRY_SECONDS = "10"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Maximum numbers of connections, and their timeouts."""

    most: int = 1000
    most_per_address: int = 200
    head_seconds: float = 10.0  # from connecting, or the last response, to complete request headers
    stuck_seconds: float = 60.0  # without reading any of a response


def connection_limits(configured: LimitSettings) -> ConnectionLimits:
    """The configured limits; half of the file descriptors are reserved for polling."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = configured.max_connections
    if descriptors != resource.RLIM_INFINITY:
        most = min(most, max(1, descriptors // 2))
    return ConnectionLimits(most, configured.max_connections_per_address)


class ConnectionCounter:
    """Counts connections, and refuses new ones beyond the limits."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._by_address: Counter[str] = Counter()
        self._refused = 0  # since the last log entry
        self._warned_at = float("-inf")

    def open(self, address: str, now: float) -> bool:
        """Count a connection; False: there are too many. `now` is monotonic."""
        address, setting = client_network(address), "app.limits.max-connections"
        total, own = self._by_address.total(), self._by_address[address]
        for limit, most, count in (
            (setting, self.limits.most, total),
            (f"{setting}-per-address", self.limits.most_per_address, own),
        ):
            if count >= most:
                self._warn(now, limit=limit, most=most, address=address)
                return False
        self._by_address[address] += 1
        return True

    def close(self, address: str) -> None:
        """Discount a connection."""
        address = client_network(address)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _warn(self, now: float, **fields: object) -> None:
        self._refused += 1
        if now >= self._warned_at + _WARNING_SECONDS:
            log.warning("too many connections; more are refused", **fields, refused=self._refused)
            self._warned_at, self._refused = now, 0


class DisconnectTimer:
    """Calls a function after a timeout, unless cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self, end: Callable[[], None]) -> None:
        """Start the timer unless it runs."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, end)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _raw(status: int, detail: str, headers: dict[str, str] | None = None) -> bytes:
    """A problem document as a complete HTTP response, for connections without a request."""
    response = problem(status, detail, headers=HEADERS | {"Connection": "close"} | (headers or {}))
    lines = [name + b": " + value for name, value in response.raw_headers]
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
    return b"\r\n".join([first, *lines]) + b"\r\n\r\n" + bytes(response.body)


# to a connection beyond the limits
TOO_MANY_CONNECTIONS = _raw(
    503, "there are too many connections; try again later", {"Retry-After": _RETRY_SECONDS}
)
# to a request that cannot be parsed
NOT_HTTP = _raw(
    400,
    "this is not a valid HTTP request; characters beyond ASCII are written as %C3%BC in a URL",
)
