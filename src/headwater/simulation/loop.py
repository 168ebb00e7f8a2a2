"""VirtualLoop and VirtualClock: time that passes only when nothing else is to do."""

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
    """An event loop without a system below it: it jumps to its next timer, and never waits.

    What is due at the same moment happens in the order in which it was asked for, so that the
    same seed gives the same story.
    """

    _ready: deque[asyncio.Handle]

    def __init__(self) -> None:
        super().__init__()
        self.moment = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0

    def time(self) -> float:
        """The seconds since the story began, without those that the machine slept."""
        return self.moment

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a moment."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heappush(self._timers, (when, self._number, timer))
        return timer

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2].cancelled():
                heappop(timers)
            if not timers:
                raise RuntimeError("nothing is left that could happen")
            self.moment = max(self.moment, timers[0][0])
        while timers and timers[0][0] <= self.moment:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _write_to_self(self) -> None:
        """There is nothing to wake: the loop does not sleep."""


class VirtualClock:
    """Time as a virtual loop has it, on a machine that can be put to sleep and set wrong."""

    doubt_seconds: float = 0.0

    def __init__(self, loop: VirtualLoop, start: datetime = START) -> None:
        self._loop = loop
        self._start = start
        self._slept = 0.0
        self._set_by = 0.0
        self._now = start
        self._known_at = -1.0  # the loop's moment that `_now` was worked out for

    def now(self) -> datetime:
        """The wall clock's moment in whole milliseconds."""
        if self._loop.moment != self._known_at:
            self._known_at = self._loop.moment
            passed = self._known_at + self._slept + self._set_by
            self._now = self._start + timedelta(milliseconds=int(passed * 1000))
        return self._now

    def monotonic(self) -> float:
        """The seconds since the story began; a machine that sleeps counts them too."""
        return self._loop.moment + self._slept

    def loop_time(self) -> float:
        """The seconds since the story began that the machine was awake."""
        return self._loop.moment

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop's clock, which stands still while the machine sleeps."""
        await asyncio.sleep(seconds)

    def suspend(self, seconds: float) -> None:
        """Put the machine to sleep for a while: no timer notices, both clocks do."""
        self._slept += seconds
        self._known_at = -1.0

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._set_by += seconds
        self._known_at = -1.0
