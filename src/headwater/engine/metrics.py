"""Metrics: what happened since the start, counted as it happens, for next to nothing per poll."""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind
from headwater.engine.thread_turns import ThreadTurns, Turns
from headwater.logs import get_logger
from headwater.model import Outcome, OutcomeKind, SourceType
from headwater.rules.failure import KINDS

log = get_logger()
OTHER = "other"  # every failure of a kind that has no count of its own
DISCARDED = "discarded"  # the source was edited while its poll ran (D4)
_POLL_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WAIT_SECONDS = (1, 5, 15, 30, 60, 120, 300, 900, 3600, 21_600, 86_400)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_COMMIT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_COMMIT_SIZES = (1, 2, 5, 10, 25, 50, 100, 250, 500)
_TICK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
# between two looks at the loop's lag: by so much a stall may read low
_LOOK_SECONDS = 0.025
_IDLE_LOOK_SECONDS = 0.1  # where there is nothing to do, to wake up is what costs
_IDLE_WORK_SECONDS = 0.001  # of work between two looks, the looks included
_STALL_SECONDS = 0.25  # H2
_STALLS_TOLD = 10  # of a minute; of more, those that are longer than all before
_WINDOW_SECONDS = 60.0
_SILENT_NAMES = 100  # how many are remembered
# members looked up once: an enumeration takes its time
_FINISHED = EventKind.POLL_FINISHED
# the start of a poll is not among them: every poll would pay for it
HEARD = tuple(kind for kind in EventKind if kind is not EventKind.POLL_STARTED)


class Histogram:
    """Counts values by size; one look-up per value."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)  # the last one: beyond all bounds
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class LoopLag:
    """How late the event loop gets to its timers (H2)."""

    def __init__(self, clock: Clock, turns: Callable[[], ThreadTurns] = ThreadTurns) -> None:
        self._clock = clock
        self._turns = turns
        self.seconds = Histogram(_LAG_SECONDS)
        self._window_ends = clock.monotonic() + _WINDOW_SECONDS
        self._worst = 0.0
        self._worst_before = 0.0
        self._stalls_told = 0  # of this window
        self._longest_stall = 0.0

    def worst(self) -> float:
        """The longest lag of the last one to two minutes."""
        self._turn_window()
        return max(self._worst, self._worst_before)

    def note(self, seconds: float) -> None:
        """Count one lag."""
        self._turn_window()
        self.seconds.add(seconds)
        self._worst = max(self._worst, seconds)

    async def watch(self) -> None:
        """Set a small timer again and again, and see when it goes off."""
        seconds = _LOOK_SECONDS
        with self._turns() as turns:
            while True:
                wanted, before = self._clock.monotonic() + seconds, turns.so_far()
                await self._clock.sleep(seconds)
                lag = max(self._clock.monotonic() - wanted, 0.0)
                got = turns.so_far().since(before)
                self.note(lag)
                if lag > _STALL_SECONDS:
                    self._stalled(lag, got)
                is_idle = got.worked < _IDLE_WORK_SECONDS
                seconds = min(2 * seconds, _IDLE_LOOK_SECONDS) if is_idle else _LOOK_SECONDS

    def _stalled(self, lag: float, got: Turns) -> None:
        """Tell of a stall that was not just for want of a processor."""
        held = lag - got.waited
        if held <= _STALL_SECONDS:
            return
        if self._stalls_told < _STALLS_TOLD or held > self._longest_stall:
            self._stalls_told += 1
            self._longest_stall = max(held, self._longest_stall)
            log.warning(
                "[Loop] was held up",
                ms=_ms(lag),
                worked_ms=_ms(got.worked),
                no_processor_ms=_ms(got.waited),
                turns=got.number,
            )

    def _turn_window(self) -> None:
        now = self._clock.monotonic()
        if now >= self._window_ends:
            recent = now < self._window_ends + _WINDOW_SECONDS
            self._worst_before = self._worst if recent else 0.0
            self._worst = 0.0
            self._stalls_told, self._longest_stall = 0, 0.0
            self._window_ends = now + _WINDOW_SECONDS


class NameLookups:
    """How name servers answered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answered = 0
        self.unanswered = 0
        self._silent: dict[str, float] = {}  # asked for in vain since the last answer

    def note(self, host: str, answered: bool) -> None:
        """Count a name that servers were asked for; "does not exist" is an answer too."""
        if answered:
            self.answered += 1
            self._silent.clear()
            return
        self.unanswered += 1
        if len(self._silent) < _SILENT_NAMES or host in self._silent:
            self._silent[host] = self._clock.monotonic()

    def silent(self, within_seconds: float) -> int:
        """How many names were asked for in vain of late, with no answer to any since."""
        since = self._clock.monotonic() - within_seconds
        return sum(1 for at in self._silent.values() if at > since)


class Metrics:
    """Counters and histograms of one service; `hear` listens to its events."""

    def __init__(self, clock: Clock) -> None:
        self.started_at = clock.now()
        outcomes = (*OutcomeKind, DISCARDED)
        self.polls = {(str(o), str(t)): 0 for o in outcomes for t in SourceType}
        self.poll_seconds = {str(t): Histogram(_POLL_SECONDS) for t in SourceType}
        self.failures = dict.fromkeys((*KINDS, OTHER), 0)
        self.posts = 0
        self.disabled = 0
        self.recovered = 0
        self.outages = 0
        self.lane_wait_seconds = Histogram(_WAIT_SECONDS)
        self.tick_seconds = Histogram(_TICK_SECONDS)
        self.ticks_failed = 0
        self.commit_sizes = Histogram(_COMMIT_SIZES)
        self.commit_seconds = Histogram(_COMMIT_SECONDS)
        self.parse_kills = 0
        self.loop_lag = LoopLag(clock)
        self.names = NameLookups(clock)

    def hear(self, event: Event) -> None:
        """Count what an event says."""
        kind, seconds = event.kind, event.seconds
        if kind is _FINISHED and event.outcome is not None:
            self._poll_finished(event.outcome)
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

    def committed(self, outcomes: int, seconds: float) -> None:
        """Count a commit of outcomes."""
        self.commit_sizes.add(outcomes)
        self.commit_seconds.add(seconds)

    def parse_killed(self) -> None:
        """Count a document that went over the budget of parsing (H2)."""
        self.parse_kills += 1

    @asynccontextmanager
    async def watching_loop(self) -> AsyncIterator[None]:
        """Measure the event loop's lag until left."""
        watching = asyncio.create_task(self.loop_lag.watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    def _poll_finished(self, outcome: Outcome) -> None:
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


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
