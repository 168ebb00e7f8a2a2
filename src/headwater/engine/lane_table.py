"""LaneTable: the lanes that have sources to poll, and the callers that wait for them."""

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from headwater.model import EPOCH, DueSource, Outcome

NULL_LANE = ""  # the lane of URLs without a host (P4)
_MOST_SHARING = 50  # sources that share one request; others of the lane wait meanwhile


@dataclass(slots=True)
class Lane:
    """The queue of one host's due sources, and the state of its next poll."""

    name: str
    queue: list[tuple[int, datetime, str]] = field(default_factory=list)
    sources: dict[str, DueSource] = field(default_factory=dict)  # waiting or in flight
    in_flight: tuple[str, ...] = ()  # several if they share a request (Y7)
    running_since: datetime = EPOCH  # the start of the last poll
    timer: asyncio.TimerHandle | None = None
    ready: bool = False
    not_before: float = 0.0  # monotonic; spreads the start after an outage (O2)
    by_request: dict[int, list[str]] = field(default_factory=dict)  # that may share one (Y7)

    def push(self, due: DueSource) -> None:
        """Queue a source or page, see `_priority`."""
        self.sources[due.id] = due
        heapq.heappush(self.queue, _priority(due))
        if due.request_key is not None:
            self.by_request.setdefault(due.request_key, []).append(due.id)

    def share(self, due: DueSource) -> None:
        """Let a source that waits already share its request, now that others are due (Y7)."""
        known = self.sources[due.id]
        if due.request_key not in (None, known.request_key) and due.id not in self.in_flight:
            self.sources[due.id] = replace(known, request_key=due.request_key)
            self.by_request.setdefault(due.request_key, []).append(due.id)

    def pop(self) -> list[DueSource]:
        """Remove and return the next source, and those that share its request (Y7).

        Entries replaced by a request, or polled with another source, are skipped.
        """
        while self.queue:
            priority = heapq.heappop(self.queue)
            due = self.sources.get(priority[2])
            if due is not None and due.id not in self.in_flight and _priority(due) == priority:
                return [due, *self._sharing(due)]
        return []

    def _sharing(self, lead: DueSource) -> list[DueSource]:
        """The waiting sources with the same request; a manual poll does not start others."""
        if lead.request_key is None:
            return []
        ids = dict.fromkeys(self.by_request.pop(lead.request_key, ()))
        found = [self.sources[id_] for id_ in ids if id_ in self.sources and id_ != lead.id]
        alike = [due for due in found if due.requested == lead.requested][:_MOST_SHARING]
        if len(alike) < len(found):
            self.by_request[lead.request_key] = [due.id for due in found if due not in alike]
        return alike

    def clear(self) -> None:
        """Remove all sources that are not in flight."""
        self.sources = {id_: self.sources[id_] for id_ in self.in_flight}
        self.queue.clear()
        self.by_request.clear()

    @property
    def is_requested(self) -> bool:
        """Whether a poll of one of its sources was requested."""
        return any(due.requested for due in self.sources.values())

    def before(self, source_id: str) -> list[DueSource]:
        """The sources that are polled before this one, with the one in flight."""
        due = self.sources.get(source_id)
        if due is None or source_id in self.in_flight:
            return []
        priority = _priority(due)
        waiting = self.sources.values()
        return [d for d in waiting if d.id in self.in_flight or _priority(d) < priority]


class LaneTable:
    """All lanes that are not empty; empty lanes are removed."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._running: dict[asyncio.Task[Mapping[str, Outcome]], Lane] = {}
        # callers that wait for the outcome of a poll, and for an empty lane
        self._poll_waiters: dict[tuple[str, str], asyncio.Future[Outcome | None]] = {}
        self._lane_waiters: dict[str, list[asyncio.Future[None]]] = {}

    def names(self) -> list[str]:
        """The lanes that are not empty."""
        return list(self._lanes)

    def waiting(self) -> int:
        """How many sources wait for their poll."""
        return sum(len(lane.sources) - len(lane.in_flight) for lane in self._lanes.values())

    def in_flight(self) -> dict[str, tuple[str, ...]]:
        """The sources that each running lane polls: one, or several with one request (Y7)."""
        return {lane.name: lane.in_flight for lane in self._running.values() if lane.in_flight}

    def running_since(self) -> dict[str, datetime]:
        """When the poll of each source in flight started."""
        running = self._running.values()
        return {id_: lane.running_since for lane in running for id_ in lane.in_flight}

    def length(self, lane: str) -> int:
        """How many sources a lane holds, including the one in flight."""
        return len(self._lanes[lane].sources) if lane in self._lanes else 0

    def ahead_of(self, lane: str, source_id: str) -> int | None:
        """How many sources a lane polls before this one; None if it does not wait there."""
        found = self._lanes.get(lane)
        if found is None or source_id not in found.sources or source_id in found.in_flight:
            return None
        return sum(due.id not in found.in_flight for due in found.before(source_id))

    def seconds_before(self, lane: str, source_id: str) -> float:
        """The sum of the delays of the sources that a lane polls before this one."""
        found = self._lanes.get(lane)
        return 0.0 if found is None else sum(d.delay_seconds for d in found.before(source_id))

    async def emptied(self, names: Iterable[str], seconds: float | None = None) -> bool:
        """Wait until these lanes are empty; False if some are not, after `seconds`."""
        names = set(names)
        waiters = []
        for name in self._lanes.keys() & names:
            waiters.append(asyncio.get_running_loop().create_future())
            self._lane_waiters.setdefault(name, []).append(waiters[-1])
        if waiters:
            await asyncio.wait(waiters, timeout=seconds)
        return self._lanes.keys().isdisjoint(names)  # one may be in use again

    def _lane(self, name: str) -> Lane:
        """The lane of this name, created if there is none."""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name)
        return lane

    def _remove(self, lane: Lane) -> None:
        """Remove a lane if it is empty."""
        if self._lanes.get(lane.name) is lane and not lane.sources and not lane.in_flight:
            del self._lanes[lane.name]
            for waiter in self._lane_waiters.pop(lane.name, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def poll_ended(self, lane: str, source_id: str, outcome: Outcome | None) -> None:
        """Pass an outcome to the callers that wait for it."""
        waiter = self._poll_waiters.pop((lane, source_id), None)
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)


def _priority(due: DueSource) -> tuple[int, datetime, str]:
    """Sort key of a lane: requested sources, then the longest overdue (P1), then pages (T4)."""
    rank = 0 if due.requested else 2 if due.is_page else 1
    return rank, due.overdue_since, due.id
