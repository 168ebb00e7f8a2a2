"""VirtualLoop and VirtualClock: time that passes only when nothing else is to do."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple

Args = TypeVarTuple("Args")
T = TypeVar("T")
START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
_CONTEXT = Context()  # nothing in a story goes by context variables, so that all can share one


class _Call(asyncio.TimerHandle):
    """A handle without the bookkeeping that is for debugging: every poll makes several."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[object],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context or _CONTEXT
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        """It is passed over when its time comes."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without a system below it: it jumps to its next timer, and never waits.

    What is due at the same moment happens in the order in which it was asked for, so that the
    same seed gives the same story.
    """

    _ready: deque[_Call]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.moment = 0.0
        self._timers: list[tuple[float, int, _Call]] = []
        self._number = 0

    def time(self) -> float:
        """The seconds since the story began, without those that the machine slept."""
        return self.moment

    def call_soon(
        self,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call back at this very moment, behind what is to be called already."""
        call = _Call(self.moment, callback, args, self, context)
        self._ready.append(call)
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a moment."""
        timer = _Call(when, callback, args, self, context)
        self._number += 1
        heappush(self._timers, (when, self._number, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after so many seconds."""
        return self.call_at(self.moment + delay, callback, *args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        """Let a coroutine run beside the others."""
        named = None if name is None else str(name)
        return asyncio.Task(coro, loop=self, name=named, context=context)

    def after(self, seconds: float) -> "asyncio.Future[None]":
        """What is done after so many seconds; `asyncio.sleep` in a fraction of the time."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        self.call_at(self.moment + seconds, _ring, future)
        return future

    def _run_once(self) -> None:
        """Go on until told to stop, turn by turn."""
        while not self._stopping:
            self._turn()

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers:
                raise RuntimeError("nothing is left that could happen")
            self.moment = max(self.moment, timers[0][0])
        moment = self.moment
        while timers and timers[0][0] <= moment:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            call = ready.popleft()
            if not call._cancelled:
                try:
                    call._context.run(call._callback, *call._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as every event loop has it
                    self.call_exception_handler({"message": "a callback broke", "exception": error})

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _write_to_self(self) -> None:
        """There is nothing to wake: the loop does not sleep."""


def _nothing() -> None:
    """Do nothing."""


def _ring(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


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
            self._now = self._start + timedelta(0, 0, int(passed * 1000) * 1000)
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

    def after(self, seconds: float) -> "asyncio.Future[None]":
        """What is done after so many seconds on the loop's clock."""
        return self._loop.after(seconds)

    def suspend(self, seconds: float) -> None:
        """Put the machine to sleep for a while: no timer notices, both clocks do."""
        self._slept += seconds
        self._known_at = -1.0

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._set_by += seconds
        self._known_at = -1.0
