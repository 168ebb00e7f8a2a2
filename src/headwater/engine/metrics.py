"""Metrics: counters and histograms since the start, updated by events."""

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Self

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind
from headwater.logs import get_logger
from headwater.model import Outcome, OutcomeKind, SourceType
from headwater.rules.failure_kinds import KINDS
from headwater.rules.full_text import RESULT_KINDS
from headwater.rules.incidents import IncidentKind

log = get_logger()
OTHER = "other"  # every failure of a kind that has no count of its own
DISCARDED = "discarded"  # the source was edited while its poll ran (D4)
_POLL_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WAIT_SECONDS = (1, 5, 15, 30, 60, 120, 300, 900, 3600, 21_600, 86_400)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_COMMIT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_COMMIT_SIZES = (1, 2, 5, 10, 25, 50, 100, 250, 500)
_TICK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
# between two measurements of the loop's lag: a stall may be measured that much too short
_SAMPLE_SECONDS = 0.025
_IDLE_SAMPLE_SECONDS = 0.1  # an idle process should wake up rarely
_IDLE_WORK_SECONDS = 0.001  # of CPU between two samples, the samples included
_STALL_SECONDS = 0.25  # H2
_STALLS_LOGGED = 10  # per minute; beyond that only those longer than all before
_WINDOW_SECONDS = 60.0
_MAX_UNANSWERED = 100
# resolved once: access to an enumeration member is slow
_FINISHED = EventKind.POLL_FINISHED
# without the start of polls: an event without a listener costs nothing
COUNTED = tuple(kind for kind in EventKind if kind is not EventKind.POLL_STARTED)


class Histogram:
    """Counts values by size."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)  # the last one: above all bounds
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class CpuTimes(NamedTuple):
    """CPU times of a thread, in total or between two readings."""

    worked: float  # seconds on a processor
    waited: float  # seconds runnable but without one
    number: int  # how often it got one

    def since(self, before: "CpuTimes") -> "CpuTimes":
        """The difference to an earlier reading."""
        worked, waited, number = before
        return CpuTimes(self.worked - worked, self.waited - waited, self.number - number)


class ThreadCpu:
    """Reads the CPU times of the thread that enters it; waits are known on Linux only."""

    _file: int | None = None

    def __enter__(self) -> Self:
        with suppress(OSError):  # only Linux has it
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def so_far(self) -> CpuTimes:
        """The times since the thread started."""
        if self._file is None:
            return CpuTimes(time.thread_time(), 0.0, 0)
        _, waited, number = os.pread(self._file, 100, 0).split()
        return CpuTimes(time.thread_time(), int(waited) / 1e9, int(number))


class LoopLag:
    """Measures how late the event loop runs its timers (H2)."""

    def __init__(self, clock: Clock, thread_cpu: Callable[[], ThreadCpu] = ThreadCpu) -> None:
        self._clock = clock
        self._thread_cpu = thread_cpu
        self.seconds = Histogram(_LAG_SECONDS)
        self._window_ends = clock.monotonic() + _WINDOW_SECONDS
        self._worst = 0.0
        self._worst_before = 0.0
        self._stalls_logged = 0  # in this window
        self._longest_stall = 0.0

    def worst(self) -> float:
        """The longest lag of the last one to two minutes."""
        self._roll_window()
        return max(self._worst, self._worst_before)

    def note(self, seconds: float) -> None:
        """Count one lag."""
        self._roll_window()
        self.seconds.add(seconds)
        self._worst = max(self._worst, seconds)

    async def watch(self) -> None:
        """Set short timers, and measure how late they run, until cancelled."""
        seconds = _SAMPLE_SECONDS
        with self._thread_cpu() as cpu:
            while True:
                wanted, before = self._clock.monotonic() + seconds, cpu.so_far()
                await self._clock.sleep(seconds)
                lag = max(self._clock.monotonic() - wanted, 0.0)
                used = cpu.so_far().since(before)
                self.note(lag)
                if lag > _STALL_SECONDS:
                    self._log_stall(lag, used)
                is_idle = used.worked < _IDLE_WORK_SECONDS
                seconds = min(2 * seconds, _IDLE_SAMPLE_SECONDS) if is_idle else _SAMPLE_SECONDS

    def _log_stall(self, lag: float, used: CpuTimes) -> None:
        """Log a stall unless the thread only waited for a processor."""
        held = lag - used.waited
        if held <= _STALL_SECONDS:
            return
        if self._stalls_logged < _STALLS_LOGGED or held > self._longest_stall:
            self._stalls_logged += 1
            self._longest_stall = max(held, self._longest_stall)
            log.warning(
                "[Loop] was held up",
                ms=round(lag * 1000),
                worked_ms=round(used.worked * 1000),
                no_processor_ms=round(used.waited * 1000),
                turns=used.number,
            )

    def _roll_window(self) -> None:
        now = self._clock.monotonic()
        if now >= self._window_ends:
            recent = now < self._window_ends + _WINDOW_SECONDS
            self._worst_before = self._worst if recent else 0.0
            self._worst = 0.0
            self._stalls_logged, self._longest_stall = 0, 0.0
            self._window_ends = now + _WINDOW_SECONDS


class NameLookups:
    """Counts answered and unanswered DNS queries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answered = 0
        self.unanswered = 0
        self._unanswered: dict[str, float] = {}  # names without an answer since the last answer

    def note(self, host: str, answered: bool) -> None:
        """Count a query; "does not exist" is an answer too."""
        if answered:
            self.answered += 1
            self._unanswered.clear()
            return
        self.unanswered += 1
        if len(self._unanswered) < _MAX_UNANSWERED or host in self._unanswered:
            self._unanswered[host] = self._clock.monotonic()

    def silent(self, within_seconds: float) -> int:
        """How many names had no answer recently, with no answer to any query since."""
        since = self._clock.monotonic() - within_seconds
        return sum(1 for at in self._unanswered.values() if at > since)


class Metrics:
    """Counters and histograms of one service; `on_event` listens to its events."""

    def __init__(self, clock: Clock) -> None:
        self.started_at = clock.now()
        outcomes = (*OutcomeKind, DISCARDED)
        self.polls = {(str(o), str(t)): 0 for o in outcomes for t in SourceType}
        self.poll_seconds = {str(t): Histogram(_POLL_SECONDS) for t in SourceType}
        self.failures = dict.fromkeys((*KINDS, OTHER), 0)
        self.posts = 0
        self.page_visits = dict.fromkeys(RESULT_KINDS, 0)
        self.disabled = 0
        self.recovered = 0
        self.outages = 0
        self.incidents = dict.fromkeys(map(str, IncidentKind), 0)  # that opened
        self.lane_wait_seconds = Histogram(_WAIT_SECONDS)
        self.tick_seconds = Histogram(_TICK_SECONDS)
        self.ticks_failed = 0
        self.commit_sizes = Histogram(_COMMIT_SIZES)
        self.commit_seconds = Histogram(_COMMIT_SECONDS)
        self.parse_kills = 0
        self.loop_lag = LoopLag(clock)
        self.names = NameLookups(clock)

    def on_event(self, event: Event) -> None:
        """Count an event."""
        kind, seconds = event.kind, event.seconds
        if kind is _FINISHED and event.outcome is not None:
            self._count_poll(event.outcome)
            if seconds is not None:  # below 0: the clock was set back
                self.lane_wait_seconds.add(seconds if seconds > 0 else 0.0)
        elif kind is EventKind.TICK and seconds is not None:
            self.tick_seconds.add(seconds)
        elif kind is EventKind.SOURCE_DISABLED:
            self.disabled += 1
        elif kind is EventKind.SOURCE_RECOVERED:
            self.recovered += 1
        elif kind is EventKind.OUTAGE and event.text is not None:  # None: it is over
            self.outages += 1
        elif kind is EventKind.INCIDENT_OPENED and event.incident is not None:
            self.incidents[event.incident.kind] += 1

    def committed(self, outcomes: int, seconds: float) -> None:
        """Count a commit of outcomes."""
        self.commit_sizes.add(outcomes)
        self.commit_seconds.add(seconds)

    def page_visited(self, result: str) -> None:
        """Count the visit to a page by its result (T4)."""
        self.page_visits[result] += 1

    def parse_killed(self) -> None:
        """Count a document whose parser was killed at its limit (H2)."""
        self.parse_kills += 1

    @asynccontextmanager
    async def watching_loop(self) -> AsyncIterator[None]:
        """Measure the event loop's lag inside this context."""
        watching = asyncio.create_task(self.loop_lag.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    def _count_poll(self, outcome: Outcome) -> None:
        type_ = outcome.source.type
        self.poll_seconds[type_].add(outcome.duration_ms / 1000)
        if not outcome.recorded:
            self.polls[DISCARDED, type_] += 1
            return
        self.polls[outcome.kind, type_] += 1
        self.posts += len(outcome.posts)
        if outcome.failure is not None:
            kind = outcome.failure.kind
            self.failures[kind if kind in self.failures else OTHER] += 1
