"""Clocks: the only module that reads the system time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_JUMP_SECONDS = 1.0
_ROUNDING_SECONDS = 0.002  # times are whole milliseconds, here and in the database


class Clock(Protocol):
    """Wall-clock time for stored times, monotonic time for durations (H6)."""

    doubt_seconds: float  # how far `now` may differ between processes

    def now(self) -> datetime:
        """The current UTC time in whole milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, including time while the machine was suspended."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    doubt_seconds: float = 0.0
    _MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    _last = (0, datetime.fromtimestamp(0, UTC))

    def now(self) -> datetime:
        """The current UTC time in whole milliseconds, the resolution of the store."""
        ms, (known, moment) = time.time_ns() // 1_000_000, self._last
        if ms != known:  # a busy service calls this many times per millisecond
            moment = datetime.fromtimestamp(ms / 1000, UTC)
            self._last = (ms, moment)
        return moment

    def monotonic(self) -> float:
        """Seconds since the machine started."""
        return time.clock_gettime(self._MONOTONIC)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop's monotonic clock."""
        await asyncio.sleep(seconds)


class SharedClock(SystemClock):
    """The time of the database server, so that workers with wrong clocks agree.

    Between two calls of `set` it advances with the monotonic clock, and never goes back.
    """

    def __init__(self) -> None:
        self._then = super().now()
        self._at = self.monotonic()
        self._latest = self._then
        self._last_doubt = 0.0

    def now(self) -> datetime:
        """The shared UTC time in whole milliseconds."""
        passed = timedelta(milliseconds=int((self.monotonic() - self._at) * 1000))
        self._latest = max(self._latest, self._then + passed)
        return self._latest

    def set(self, then: datetime, since: float, until: float) -> None:
        """Synchronise: the shared time was `then` between two monotonic times."""
        at = (since + until) / 2
        doubt = (until - since) / 2 + _ROUNDING_SECONDS
        self.doubt_seconds = max(
            doubt, self._last_doubt
        )  # `now` may still follow the previous `set`
        self._last_doubt = doubt
        behind = (self._then + timedelta(seconds=at - self._at) - then).total_seconds()
        self._then, self._at = then, at
        if abs(behind) > _JUMP_SECONDS:
            self._latest = then  # the server's clock was set: go back rather than stand still
