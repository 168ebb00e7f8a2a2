"""Lanes: one per host; inside a lane one poll after another, between lanes no waiting (P1-P5, S6).

A lane is *idle* (forgotten), *waiting* (a timer runs until its gate opens), *ready* (in line for
one of the slots) or *running* (a task polls its next source).
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Protocol

from headwater.engine.gates import Gates
from headwater.logs import get_logger
from headwater.model import DueSource, Outcome

log = get_logger()
NULL_LANE = ""  # the lane of URLs without a host (P4)
# Polls begun in one turn of the event loop. What begins together shares its look-ups, so few at a
# time cost a third of the speed; while somebody waits for an answer that is well spent (H3): polls
# then begin one by one, and far enough apart that the event loop has time left for that answer.
_STARTS_IN_A_TURN = 256
_APART_WHILE_WATCHED_SECONDS = 0.002


class Poll(Protocol):
    """Visits one source; None means that there was nothing to do."""

    def __call__(self, due: DueSource, /) -> Awaitable[Outcome | None]:
        """Poll."""
        ...


@dataclass(slots=True)
class Lane:
    """The sources of one host that wait for their turn."""

    name: str
    queue: list[tuple[bool, datetime, str]] = field(default_factory=list)
    sources: dict[str, DueSource] = field(default_factory=dict)  # waiting or in flight
    in_flight: str | None = None
    timer: asyncio.TimerHandle | None = None
    ready: bool = False
    not_before: float = 0.0  # monotonic; spreads the return after an outage (O2)

    def push(self, due: DueSource) -> None:
        """Line a source up: requested ones first, then the longest overdue (P1)."""
        self.sources[due.id] = due
        heapq.heappush(self.queue, _place(due))

    def pop(self) -> DueSource | None:
        """Take the next source; entries that were pushed again with more haste are passed over."""
        while self.queue:
            not_requested, _, source_id = heapq.heappop(self.queue)
            due = self.sources.get(source_id)
            if due is not None and source_id != self.in_flight and due.requested != not_requested:
                return due
        return None

    def ahead_of(self, source_id: str) -> int | None:
        """How many sources are polled before this one; None if it does not wait here."""
        due = self.sources.get(source_id)
        if due is None or source_id == self.in_flight:
            return None
        place, others = _place(due), self.sources.values()
        return sum(_place(other) < place for other in others if other.id != self.in_flight)

    def seconds_before(self, source_id: str) -> float:
        """The delays of those that are polled before a source that waits here."""
        due, flying = self.sources.get(source_id), self.sources.get(self.in_flight or "")
        if due is None or due is flying:
            return 0.0
        place = _place(due)
        before = [one for one in self.sources.values() if one is flying or _place(one) < place]
        return sum(one.delay_seconds for one in before)


class Lanes:
    """Runs polls, at most `slots` at once, each lane by its own rules."""

    def __init__(
        self,
        poll: Poll,
        gates: Gates,
        *,
        slots: int,
        rng: Random,
        is_watched: Callable[[], bool] = lambda: False,
    ) -> None:
        self._poll = poll
        self._gates = gates
        self._slots = slots
        self._rng = rng
        self._lanes: dict[str, Lane] = {}
        # who waits: for the poll of a lane's source, and for the end of a lane
        self._answers: dict[tuple[str, str], asyncio.Future[Outcome | None]] = {}
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}
        self._ready: deque[Lane] = deque()
        self._running: dict[asyncio.Task[Outcome | None], Lane] = {}
        self._is_watched = is_watched
        self._started = 0  # in this turn
        self._paused = False
        self._switched_off = False
        self._stopped = False
        self._idle = asyncio.Event()
        self._idle.set()

    def offer(self, sources: Iterable[DueSource]) -> int:
        """Line up due sources of any lanes; one that waits or runs already is left alone (S6)."""
        sources = list(sources)
        taken = self.line_up(sources)
        self.wake(dict.fromkeys(due.lane or NULL_LANE for due in sources))
        return taken

    def line_up(self, sources: Iterable[DueSource]) -> int:
        """Put sources into their lanes without starting any of these lanes yet."""
        taken = 0
        for due in sources:
            name = due.lane or NULL_LANE
            lane = self._lane(name)
            known = lane.sources.get(due.id)
            if known is not None and (known.requested or not due.requested):
                continue
            if due.id != lane.in_flight:
                self._gates.allow_for_lost_visit(name, due.delay_seconds)
                lane.push(due)
                taken += 1
        return taken

    def wake(self, names: Iterable[str]) -> None:
        """Let these lanes go on if they may."""
        for name in names:
            lane = self._lanes.get(name)
            if lane is not None:
                self._wake(lane)

    def is_in_flight(self, due: DueSource) -> bool:
        """Whether a poll of this source is under way in its lane."""
        lane = self._lanes.get(due.lane or NULL_LANE)
        return lane is not None and lane.in_flight == due.id

    def request(self, due: DueSource) -> "asyncio.Future[Outcome | None]":
        """Put a source at the front of its lane, or join its poll under way (S9, P10)."""
        self.offer([due])
        place = (due.lane or NULL_LANE, due.id)
        answer = self._answers.get(place)
        if answer is None:
            answer = self._answers[place] = asyncio.get_running_loop().create_future()
        return answer

    async def emptied(self, names: Iterable[str], seconds: float | None = None) -> bool:
        """Wait until these lanes have nothing to do any more; False: some have, after so long."""
        loop, waiters, names = asyncio.get_running_loop(), [], list(names)
        for name in names:
            if name in self._lanes:
                waiters.append(loop.create_future())
                self._waiters.setdefault(name, []).append(waiters[-1])
        if waiters:
            await asyncio.wait(waiters, timeout=seconds)
        return not any(name in self._lanes for name in names)  # one may be in use again

    def withdraw(self, names: Iterable[str]) -> None:
        """Take everything out of these lanes that is not under way: it is simply still due."""
        for name in names:
            lane = self._lanes.get(name)
            if lane is None:
                continue
            kept = lane.in_flight
            for source_id in [one for one in lane.sources if one != kept]:
                del lane.sources[source_id]
                self._answer(lane, source_id, None)
            lane.queue.clear()
            if lane.ready:  # nobody is going to call it out of the line any more
                self._ready.remove(lane)
                lane.ready = False
            self._wake(lane)

    def pause(self) -> None:
        """Start nothing but what was asked for by hand (O2)."""
        self._paused = True

    def resume(self, spread_seconds: float = 0.0) -> None:
        """Go on; waiting lanes come back spread over a while (O2)."""
        self._paused = False
        now = asyncio.get_running_loop().time()
        for lane in self._lanes.values():
            lane.not_before = now + self._rng.uniform(0, spread_seconds)
            self._wake(lane)

    def spread(self, names: Iterable[str], seconds: float) -> None:
        """Let these lanes begin spread over a while, but those that somebody waits for (O4)."""
        now = asyncio.get_running_loop().time()
        for name in names:
            lane = self._lanes.get(name)
            if lane is not None and not any(due.requested for due in lane.sources.values()):
                lane.not_before = now + self._rng.uniform(0, seconds)

    def switch(self, *, on: bool) -> None:
        """Let the scheduler's polls start or not; those asked for by hand always do (G2).

        Lanes that waited for this go on when they are woken.
        """
        self._switched_off = not on

    def probe(self, lanes: Iterable[str]) -> bool:
        """While paused, poll one source of a lane that is open and among those named (O2)."""
        names = [
            name
            for name in lanes
            if (lane := self._lanes.get(name)) is not None
            and lane.in_flight is None
            and not lane.ready
            and lane.queue
            and self._gates.is_open(name)
        ]
        if not names or self._stopped or self._switched_off:
            return False
        self._run(self._lanes[self._rng.choice(names)])
        return True

    async def wait_until_idle(self) -> None:
        """Wait until every lane is empty."""
        await self._idle.wait()

    def close(self) -> None:
        """Start nothing more (S8)."""
        self._stopped = True
        for lane in self._lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()

    async def stop(self, grace_seconds: float) -> None:
        """Start nothing more, let running polls finish, cut off the rest (S8)."""
        self.close()
        if self._running:
            _, late = await asyncio.wait(list(self._running), timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is started (S8)."""
        return self._stopped

    def waiting(self) -> int:
        """How many sources wait for their turn."""
        return sum(
            len(lane.sources) - (lane.in_flight is not None) for lane in self._lanes.values()
        )

    def in_flight(self) -> dict[str, str]:
        """The source that each running lane polls."""
        return {lane.name: lane.in_flight for lane in self._running.values() if lane.in_flight}

    def running(self) -> set[str]:
        """The lanes that poll right now."""
        return {lane.name for lane in self._running.values()}

    def names(self) -> list[str]:
        """The lanes that have something to do."""
        return list(self._lanes)

    def length(self, lane: str) -> int:
        """How many sources a lane holds, the one in flight included."""
        return len(self._lanes[lane].sources) if lane in self._lanes else 0

    def ahead_of(self, lane: str, source_id: str) -> int | None:
        """How many sources a lane polls before this one; None if it does not wait there."""
        found = self._lanes.get(lane)
        return None if found is None else found.ahead_of(source_id)

    def seconds_before(self, lane: str, source_id: str) -> float:
        """The delays of those that a lane polls before this one."""
        found = self._lanes.get(lane)
        return 0.0 if found is None else found.seconds_before(source_id)

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name)
            self._idle.clear()
        return lane

    def _wake(self, lane: Lane) -> None:
        """Bring a lane closer to its next poll: ready now, or when its gate opens."""
        if lane.ready or lane.in_flight is not None:
            return
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if not lane.sources:
            self._forget(lane)
            return
        if self._stopped or self._is_held_up(lane):
            return
        lane.ready = True
        self._ready.append(lane)
        self._fill_slots()

    def _is_held_up(self, lane: Lane) -> bool:
        """Whether a lane must wait, and if so, see to it that it is woken again."""
        thinned = self._paused or self._switched_off
        if thinned and not any(due.requested for due in lane.sources.values()):
            return True  # whoever lets polls start again wakes all lanes
        wait = self._gates.seconds_until_open(lane.name)
        if lane.not_before > 0:
            wait = max(wait, lane.not_before - asyncio.get_running_loop().time())
        if wait > 0:
            lane.timer = asyncio.get_running_loop().call_later(wait, self._wake, lane)
            return True
        gate = self._gates.get(lane.name)
        if gate is None or not gate.busy:
            return False
        # a redirect is visiting: come back when it left
        released = asyncio.get_running_loop().create_future()
        released.add_done_callback(lambda _: self._wake(lane))
        gate.released.append(released)
        return True

    def _fill_slots(self) -> None:
        while self._ready and len(self._running) < self._slots and not self._stopped:
            if self._started >= (1 if self._is_watched() else _STARTS_IN_A_TURN):
                return  # the next turn goes on
            lane = self._ready.popleft()
            lane.ready = False
            if not self._is_held_up(lane):  # things may have changed while it stood in line
                self._count_start()
                self._run(lane)

    def _count_start(self) -> None:
        if not self._started:
            apart = _APART_WHILE_WATCHED_SECONDS if self._is_watched() else 0
            asyncio.get_running_loop().call_later(apart, self._next_turn)
        self._started += 1

    def _next_turn(self) -> None:
        self._started = 0
        self._fill_slots()

    def _run(self, lane: Lane) -> None:
        due = lane.pop()
        if due is None:
            lane.sources.clear()  # whatever is due is offered again by the next tick
            self._forget(lane)
            return
        lane.in_flight = due.id
        self._gates.enter(lane.name)
        task = asyncio.create_task(self._visit(lane, due))
        self._running[task] = lane
        task.add_done_callback(lambda done: self._done(done, lane, due))

    async def _visit(self, lane: Lane, due: DueSource) -> Outcome | None:
        try:
            return await self._poll(due)
        except Exception:  # a lane survives whatever happens to one of its polls (P5)
            log.exception("[Polling] the lane goes on after an unexpected error", lane=lane.name)
            return None

    def _done(self, task: asyncio.Task[Outcome | None], lane: Lane, due: DueSource) -> None:
        del self._running[task]
        lane.in_flight = None
        lane.sources.pop(due.id, None)
        self._answer(lane, due.id, None if task.cancelled() else task.result())
        self._wake(lane)
        self._fill_slots()

    def _answer(self, lane: Lane, source_id: str, outcome: Outcome | None) -> None:
        """Tell whoever waits for a source's poll what came of it."""
        answer = self._answers.pop((lane.name, source_id), None) if self._answers else None
        if answer is not None and not answer.done():
            answer.set_result(outcome)

    def _forget(self, lane: Lane) -> None:
        if self._lanes.get(lane.name) is lane and not lane.sources and lane.in_flight is None:
            del self._lanes[lane.name]
            for waiter in self._waiters.pop(lane.name, ()):
                if not waiter.done():
                    waiter.set_result(None)
            if not self._lanes:
                self._idle.set()


def _place(due: DueSource) -> tuple[bool, datetime, str]:
    """Where a source stands in line: requested ones first, then the longest overdue (P1)."""
    return not due.requested, due.overdue_since, due.id
