"""The only place that asks the system for the time."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for what is stored, monotonic time for what is waited for (H6)."""

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

    _MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> datetime:
        """Answer the current moment in UTC, in whole milliseconds: what the store can keep."""
        return datetime.fromtimestamp(time.time_ns() // 1_000_000 / 1000, UTC)

    def monotonic(self) -> float:
        """Answer the seconds since the machine started."""
        return time.clock_gettime(self._MONOTONIC)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop's monotonic clock."""
        await asyncio.sleep(seconds)
