"""Fakes for time and the network: an event loop with virtual time, and a scripted fetch."""

import asyncio
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from headwater.engine.hosts.access import HostVisit
from headwater.engine.hosts.gates import Gates
from headwater.model import Answer, Subject

T = TypeVar("T")
START = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to its next timer as soon as it is idle.

    Work in threads (the database) runs in real time; the clock stands still while any is running.
    """

    def __init__(self) -> None:
        self._now = 1000.0
        self._in_threads = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._back_from_thread)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads in real time.

        From Python 3.12 on, the timeout is a timer of this loop, which would jump to it.
        """
        await super().shutdown_default_executor()

    def _back_from_thread(self, _: object) -> None:
        self._in_threads -= 1

    def jump(self, seconds: float) -> None:
        self._now += seconds

    @property
    def waits_for_threads(self) -> bool:
        return self._in_threads > 0


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._loop.waits_for_threads:
            return super().select(1)
        ready = super().select(0)
        if not ready and timeout is not None:
            self._loop.jump(timeout)
        return ready if ready or timeout is not None else super().select(1)


class FakeClock:
    """The time of the virtual loop, with a wall clock that a test can set."""

    doubt_seconds: float = 0.0

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._set_by = timedelta()

    def now(self) -> datetime:
        moment = self._start + timedelta(seconds=self.monotonic() - 1000.0) + self._set_by
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def set_by(self, change: timedelta) -> None:
        """Set the wall clock forward or back."""
        self._set_by += change


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a test's coroutine on a new loop with virtual time."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(_to_the_end(work()))


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """End the tasks that a test leaves behind and those they start (a lane's next poll)."""
    try:
        return await work
    finally:
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)


@asynccontextmanager
async def visiting(gates: Gates, lane: str, delay: float = 0.0) -> AsyncIterator[None]:
    """Another visit of this process to a lane's host."""
    entry = await gates.enter_when_open(lane, delay)
    try:
        yield
    finally:
        entry.leave(delay)


class ScriptedFetch:
    """Returns an answer per URL from a function, and records when each visit began and ended."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.answers: dict[str, Callable[[Subject, HostVisit], Awaitable[Answer]]] = {}
        self.visits: list[tuple[str, float, float]] = []
        self.open: dict[str, int] = {}
        self.most_open: dict[str, int] = {}

    def on(self, url: str, reply: Any, *, seconds: float = 0.0) -> None:
        """Return (or raise) this for a URL, after a delay."""

        async def answer(subject: Subject, _: HostVisit) -> Answer:
            await asyncio.sleep(seconds)
            if isinstance(reply, Exception):
                raise reply
            result = reply(subject) if callable(reply) else reply
            assert isinstance(result, Answer)
            return result

        self.answers[url] = answer

    async def __call__(
        self, subject: Subject, key: str | None, *, visit: HostVisit, now: datetime
    ) -> Answer:
        url = subject.source.url
        host = subject.source.host or url
        began = self._clock.monotonic()
        self.open[host] = self.open.get(host, 0) + 1
        self.most_open[host] = max(self.most_open.get(host, 0), self.open[host])
        try:
            reply = self.answers.get(url)
            return await reply(subject, visit) if reply else Answer(304, unchanged=True)
        finally:
            self.open[host] -= 1
            self.visits.append((url, began, self._clock.monotonic()))

    def times(self, url: str) -> list[float]:
        """When visits of a URL began."""
        return [began for visited, began, _ in self.visits if visited == url]
