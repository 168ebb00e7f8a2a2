"""The only place that asks the system for the time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_JUMP_SECONDS = 1.0
_ROUNDING_SECONDS = 0.002  # moments are whole milliseconds, here and where they are asked for


class Clock(Protocol):
    """Wall-clock time for what is stored, monotonic time for what is waited for (H6)."""

    doubt_seconds: float  # how far `now` may be from what other processes take it for

    def now(self) -> datetime:
        """Answer the current moment in UTC, in whole milliseconds."""
        ...

    def monotonic(self) -> float:
        """Answer seconds that never jump and that count a suspended machine's time too."""
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
        """Answer the current moment in UTC, in whole milliseconds: what the store can keep."""
        ms, (known, moment) = time.time_ns() // 1_000_000, self._last
        if ms != known:  # a busy service asks often within one
            moment = datetime.fromtimestamp(ms / 1000, UTC)
            self._last = (ms, moment)
        return moment

    def monotonic(self) -> float:
        """Answer the seconds since the machine started."""
        return time.clock_gettime(self._MONOTONIC)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop's monotonic clock."""
        await asyncio.sleep(seconds)


class SharedClock(SystemClock):
    """The time of somebody whom all processes ask: a machine whose own is wrong harms nothing.

    Between two looks it goes on by the monotonic clock, and never back.
    """

    def __init__(self) -> None:
        self._then = super().now()
        self._at = self.monotonic()
        self._latest = self._then
        self._last_doubt = 0.0

    def now(self) -> datetime:
        """Answer the shared moment, in whole milliseconds."""
        passed = timedelta(milliseconds=int((self.monotonic() - self._at) * 1000))
        self._latest = max(self._latest, self._then + passed)
        return self._latest

    def set(self, then: datetime, since: float, until: float) -> None:
        """Learn what the shared moment was somewhere between two monotonic ones."""
        at = (since + until) / 2
        doubt = (until - since) / 2 + _ROUNDING_SECONDS
        self.doubt_seconds = max(doubt, self._last_doubt)  # `now` may go by the last look yet
        self._last_doubt = doubt
        behind = (self._then + timedelta(seconds=at - self._at) - then).total_seconds()
        self._then, self._at = then, at
        if abs(behind) > _JUMP_SECONDS:
            self._latest = then  # it was set anew: waiting for it to catch up would be worse
