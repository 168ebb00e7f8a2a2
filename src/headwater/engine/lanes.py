"""Lanes: one per host; polls of a lane run one after another, lanes run in parallel (P1-P5, S6).

A lane is *idle* (removed), *waiting* (a timer runs until its gate opens), *ready* (queued for a
slot) or *running* (a task polls its next source).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random

from headwater.engine.hosts.gates import GateEntry, Gates
from headwater.engine.lane_table import NULL_LANE, Lane, LaneTable
from headwater.logs import get_logger
from headwater.model import DueSource, Outcome

log = get_logger()
# Polls started in one iteration of the event loop. Polls that start together share database
# queries: fewer at a time cost a third of the throughput. While an API request is waiting, polls
# start one by one, with pauses that leave the event loop time for the response (H3).
_STARTS_PER_ITERATION = 256
_PAUSE_WHILE_WATCHED_SECONDS = 0.002

# polls sources that share a request, and returns the outcomes by their ids (Y7)
PollSources = Callable[[Sequence[DueSource], GateEntry], Awaitable[Mapping[str, Outcome]]]


class Lanes(LaneTable):
    """Runs polls: at most `slots` at once, and one per lane whenever its gate is open."""

    def __init__(
        self,
        poll: PollSources,
        gates: Gates,
        *,
        slots: int,
        rng: Random,
        is_watched: Callable[[], bool] = lambda: False,
        on_unfinished: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_watched`: whether an API request waits for a response.

        `on_unfinished` is called after each poll without an outcome: its source may still be due.
        """
        super().__init__()
        self._poll = poll
        self._gates = gates
        self._slots = slots
        self._rng = rng
        self._is_watched = is_watched
        self._on_unfinished = on_unfinished
        self._ready: deque[Lane] = deque()
        self._started = 0  # in this iteration of the event loop
        self._paused = False  # by an outage
        self._switched_off = False  # by a user
        self._stopped = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is started (S8)."""
        return self._stopped

    def offer(self, sources: Iterable[DueSource]) -> int:
        """Queue due sources and wake their lanes; sources that wait or run are skipped (S6)."""
        sources = list(sources)
        taken = self.queue(sources)
        self.wake(dict.fromkeys(due.lane or NULL_LANE for due in sources))
        return taken

    def queue(self, sources: Iterable[DueSource]) -> int:
        """Queue due sources without waking their lanes; return how many were new."""
        taken = 0
        for due in sources:
            name = due.lane or NULL_LANE
            lane = self._lane(name)
            known = lane.sources.get(due.id)
            if known is not None and (known.requested or not due.requested):
                lane.share(due)
                continue
            if due.id not in lane.in_flight:
                self._gates.allow_for_lost_visit(name, due.delay_seconds)
                lane.push(due)
                taken += 1
        return taken

    def wake(self, names: Iterable[str]) -> None:
        """Start the next polls of these lanes if they may start."""
        for name in names:
            lane = self._lanes.get(name)
            if lane is not None:
                self._wake(lane)

    def request(self, due: DueSource) -> "asyncio.Future[Outcome | None]":
        """Move a source to the front of its lane, or join its running poll (S9, P10)."""
        self.offer([due])
        return self.next_outcome(due)

    def next_outcome(self, due: DueSource) -> "asyncio.Future[Outcome | None]":
        """The outcome of the next poll of a source to end; None: it could not be stored."""
        key = due.lane or NULL_LANE, due.id
        if key not in self._poll_waiters:  # all callers share one future
            self._poll_waiters[key] = asyncio.get_running_loop().create_future()
        return self._poll_waiters[key]

    def withdraw(self, names: Iterable[str]) -> None:
        """Remove all sources that are not in flight from these lanes; they are still due."""
        for name in names:
            lane = self._lanes.get(name)
            if lane is None:
                continue
            for source_id in [one for one in lane.sources if one not in lane.in_flight]:
                self.poll_ended(name, source_id, None)
            lane.clear()
            if lane.ready:
                self._ready.remove(lane)
                lane.ready = False
            self._wake(lane)

    def pause(self) -> None:
        """Start requested polls only, during an outage (O2)."""
        self._paused = True

    def resume(self, spread_seconds: float = 0.0) -> None:
        """End the pause; waiting lanes start at random times within `spread_seconds` (O2)."""
        self._paused = False
        now = asyncio.get_running_loop().time()
        for lane in self._lanes.values():
            lane.not_before = now + self._rng.uniform(0, spread_seconds)
            self._wake(lane)

    def spread(self, names: Iterable[str], seconds: float) -> None:
        """Start these lanes at random times within `seconds`, unless a poll was requested (O4)."""
        now = asyncio.get_running_loop().time()
        for name in names:
            lane = self._lanes.get(name)
            if lane is not None and not lane.is_requested:
                lane.not_before = now + self._rng.uniform(0, seconds)

    def switch(self, *, on: bool) -> None:
        """Allow the scheduler's polls or not; requested polls always start (G2).

        Lanes that waited for this continue when they are woken.
        """
        self._switched_off = not on

    def probe(self, lanes: Iterable[str]) -> bool:
        """During an outage, poll one source of one of these lanes, if one is open (O2)."""
        names = [
            name
            for name in lanes
            if (lane := self._lanes.get(name)) is not None
            and not lane.in_flight
            and not lane.ready
            and lane.queue
            and self._gates.is_open(name)
        ]
        if not names or self._stopped or self._switched_off:
            return False
        self._run(self._lanes[self._rng.choice(names)])
        return True

    def close(self) -> None:
        """Start nothing more (S8)."""
        self._stopped = True
        for lane in self._lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()

    async def stop(self, grace_seconds: float) -> None:
        """Start nothing more, let running polls finish, cancel the rest (S8)."""
        self.close()
        if self._running:
            _, late = await asyncio.wait(list(self._running), timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for key in list(self._poll_waiters):
            self.poll_ended(*key, None)

    def _wake(self, lane: Lane) -> None:
        """Make a lane ready, now or when its gate opens."""
        if lane.ready or lane.in_flight:
            return
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if not lane.sources:
            self._remove(lane)
            return
        if self._stopped or self._must_wait(lane):
            return
        lane.ready = True
        self._ready.append(lane)
        self._fill_slots()

    def _must_wait(self, lane: Lane) -> bool:
        """Whether a lane must wait; if so, it is woken when it may continue."""
        if (self._paused or self._switched_off) and not lane.is_requested:
            return True  # the caller that allows polls again wakes all lanes
        wait = self._gates.seconds_until_open(lane.name)
        if lane.not_before > 0:
            wait = max(wait, lane.not_before - asyncio.get_running_loop().time())
        if wait > 0:
            lane.timer = asyncio.get_running_loop().call_later(wait, self._wake, lane)
            return True
        gate = self._gates.get(lane.name)
        if gate is None or not gate.busy:
            return False
        released = asyncio.get_running_loop().create_future()  # a redirect or preview is there
        released.add_done_callback(lambda _: self._wake(lane))
        gate.released.append(released)
        return True

    def _fill_slots(self) -> None:
        while self._ready and len(self._running) < self._slots and not self._stopped:
            if self._started >= (1 if self._is_watched() else _STARTS_PER_ITERATION):
                return  # continued by _next_iteration
            lane = self._ready.popleft()
            lane.ready = False
            if self._must_wait(lane):  # things may have changed while it was queued
                continue
            if not self._started:
                pause = _PAUSE_WHILE_WATCHED_SECONDS if self._is_watched() else 0
                asyncio.get_running_loop().call_later(pause, self._next_iteration)
            self._started += 1
            self._run(lane)

    def _next_iteration(self) -> None:
        self._started = 0
        self._fill_slots()

    def _run(self, lane: Lane) -> None:
        dues = lane.pop()
        if not dues:
            lane.clear()  # the next tick queues what is due
            self._remove(lane)
            return
        lane.in_flight = tuple(due.id for due in dues)
        lane.running_since = self._gates.clock.now()
        entry = self._gates.enter(lane.name)
        task = asyncio.create_task(self._run_poll(dues, entry))
        self._running[task] = lane
        task.add_done_callback(lambda done: self._done(done, lane, entry))

    async def _run_poll(self, dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
        try:
            return await self._poll(dues, entry)
        except Exception:  # an unexpected error must not stop the lane (P5)
            log.exception("[Polling] the lane continues after an unexpected error", lane=entry.lane)
            return {}

    def _done(
        self, task: asyncio.Task[Mapping[str, Outcome]], lane: Lane, entry: GateEntry
    ) -> None:
        del self._running[task]
        entry.leave()  # does nothing if the poll visited the host
        polled, lane.in_flight = lane.in_flight, ()
        outcomes: Mapping[str, Outcome] = {} if task.cancelled() else task.result()
        for source_id in polled:
            lane.sources.pop(source_id, None)
            if source_id not in outcomes:
                self._on_unfinished()
            self.poll_ended(lane.name, source_id, outcomes.get(source_id))
        self._wake(lane)
        self._fill_slots()
