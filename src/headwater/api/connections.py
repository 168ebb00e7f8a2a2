"""Who may stay connected: only so many, in all and per address, and nobody who is silent (U8)."""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from headwater import logs
from headwater.api.answer_headers import HEADERS
from headwater.api.attempts import household
from headwater.api.problems import problem
from headwater.settings import LimitSettings

log = logs.get_logger()
_WARNING_SECONDS = 60.0  # between two lines in the log
_RETRY_SECONDS = "10"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long each may keep us waiting."""

    most: int = 1000
    most_per_address: int = 200
    head_seconds: float = 10.0  # from connecting, or the last answer, to the end of a head
    stuck_seconds: float = 60.0  # without taking any of an answer


def connection_limits(configured: LimitSettings) -> ConnectionLimits:
    """The limits that are configured; half of our descriptors stay for polling all the same."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = configured.max_connections
    if descriptors != resource.RLIM_INFINITY:
        most = min(most, max(1, descriptors // 2))
    return ConnectionLimits(most, configured.max_connections_per_address)


class Doorkeeper:
    """Counts who is connected, and refuses whoever finds no room."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._inside: Counter[str] = Counter()  # by address
        self._count = 0
        self._refused = 0  # since the last line in the log
        self._warned_at = float("-inf")

    def enter(self, address: str, now: float) -> bool:
        """Let somebody in at this monotonic moment, unless there are too many already."""
        address = household(address)
        if self._count >= self.limits.most:
            self._warn(now, address, limit="app.limits.max-connections", most=self.limits.most)
            return False
        if self._inside[address] >= self.limits.most_per_address:
            setting, most = "app.limits.max-connections-per-address", self.limits.most_per_address
            self._warn(now, address, limit=setting, most=most)
            return False
        self._count += 1
        self._inside[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Make room."""
        address = household(address)
        self._count -= 1
        self._inside[address] -= 1
        if not self._inside[address]:
            del self._inside[address]

    def _warn(self, now: float, address: str, *, limit: str, most: int) -> None:
        self._refused += 1
        if now < self._warned_at + _WARNING_SECONDS:
            return
        log.warning(
            "too many connections; more are refused",
            limit=limit,
            most=most,
            address=address,
            refused=self._refused,
        )
        self._warned_at, self._refused = now, 0


class Deadline:
    """Does something after a while, unless it is called off before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self, end: Callable[[], None]) -> None:
        """Let time run, if it does not yet."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, end)

    def cancel(self) -> None:
        """Call it off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def no_room() -> bytes:
    """What somebody is told who is not let in, as it goes over the wire."""
    detail = "there are too many connections; come back later"
    return _raw(503, detail, {"Retry-After": _RETRY_SECONDS})


def not_http() -> bytes:
    """What somebody is told whose request cannot be read, as it goes over the wire."""
    escaped = "whatever is not ASCII is written as %C3%BC in an address"
    return _raw(400, f"this is no HTTP request that can be read; {escaped}")


def _raw(status: int, detail: str, headers: dict[str, str] | None = None) -> bytes:
    """A problem document with its head, for where no request is known."""
    dressed = HEADERS | {"Connection": "close"} | (headers or {})
    answer = problem(status, detail, headers=dressed)
    lines = [name + b": " + value for name, value in answer.raw_headers]
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
    return b"\r\n".join([first, *lines]) + b"\r\n\r\n" + bytes(answer.body)
