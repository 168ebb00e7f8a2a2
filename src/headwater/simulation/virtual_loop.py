"""VirtualLoop and VirtualClock: simulated time, which advances only when nothing else can run."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import TypeVarTuple

Args = TypeVarTuple("Args")
START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without I/O that advances its time to the next timer and never waits.

    Callbacks of the same time run in the order they were scheduled, so that the same seed gives
    the same run.
    """

    _ready: deque[asyncio.Handle]

    def __init__(self) -> None:
        super().__init__()
        self.now_seconds = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0

    def time(self) -> float:
        """Return the seconds since the start, without time asleep."""
        return self.now_seconds

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback now, without the checks of the base class."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback; those of the same time keep their order."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heappush(self._timers, (when, self._number, timer))
        return timer

    def after(self, seconds: float) -> "asyncio.Future[None]":
        """Return a future that is done after that time; much faster than `asyncio.sleep`."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        self.call_at(self.now_seconds + seconds, _set_done, future)
        return future

    def _run_once(self) -> None:
        """Run all ready callbacks; advance the time first if there are none."""
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2].cancelled():
                heappop(timers)
            if not timers:
                raise RuntimeError("deadlock: no callback is scheduled")
            self.now_seconds = max(self.now_seconds, timers[0][0])
        while timers and timers[0][0] <= self.now_seconds:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: cancelled timers are skipped."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps and needs no wake-up."""


def _set_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class VirtualClock:
    """The clock of a machine on a virtual loop; it can sleep, and its wall clock can be set."""

    doubt_seconds: float = 0.0

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._slept = 0.0
        self._set_by = 0.0
        self._now = START
        self._computed_at = -1.0  # the loop time of `_now`

    def now(self) -> datetime:
        """Return the wall clock's time in whole milliseconds."""
        if self._loop.now_seconds != self._computed_at:
            self._computed_at = self._loop.now_seconds
            passed = self._computed_at + self._slept + self._set_by
            self._now = START + timedelta(0, 0, int(passed * 1000) * 1000)
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the start, with time asleep."""
        return self._loop.now_seconds + self._slept

    def loop_time(self) -> float:
        """Return the seconds since the start, without time asleep."""
        return self._loop.now_seconds

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop's clock, which stands still while the machine sleeps."""
        await asyncio.sleep(seconds)

    def after(self, seconds: float) -> "asyncio.Future[None]":
        """Return a future that is done after that time on the loop's clock."""
        return self._loop.after(seconds)

    def suspend(self, seconds: float) -> None:
        """Let the machine sleep: both clocks advance, timers do not."""
        self._slept += seconds
        self._computed_at = -1.0

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._set_by += seconds
        self._computed_at = -1.0
