"""Host access: every request to a host belongs to a visit, which keeps the host's delay (P3, P9).

async with hosts.visit(source, lane) as visit:  # waits; raises HostBusy, OnHold or Stopping
    visit.check()                               # before each request; raises LeaseLost (K8)
    async with visit.redirect_to(host): ...     # around requests to the host of a redirect
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from headwater.engine.hosts.gates import MAX_WAIT_SECONDS, GateEntry, Gates, earliest_now
from headwater.errors import HeadwaterError, HostBusy, OnHold, Stopping
from headwater.model import Fence, Hold, HostState, MemoryPermit, Source, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import (
    SOON_SECONDS,
    delay_seconds,
    hold_seconds,
    host_of,
    host_of_lane,
    visit_wait_seconds,
)
from headwater.store.hosts import Hosts

_RETRY_SECONDS = 0.1  # between attempts to lock a host that another process visits


class HostLocker(ABC):
    """Locks hosts against other processes that visit them on behalf of the same database."""

    def fence(self, _lane: str) -> Fence | None:
        """The fence to store with a poll of this lane; None: this process must not poll it."""
        return None

    def check(self, fence: Fence | None, lanes: Collection[str]) -> None:  # noqa: B027
        """Raise LeaseLost if the fence or the lock of one of these lanes is lost (K8)."""

    @abstractmethod
    async def lock(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Lock a host and return its stored state; None: another process has locked it.

        If this process dies during the visit, others keep the delay. `own_until`: end of the
        delay that the same visit caused at this host before.
        """

    @abstractmethod
    async def unlock(self, lane: str, visit: Visit | None) -> None:
        """Store the visit, then let other processes lock the host."""


@dataclass(frozen=True, slots=True)
class HostAccess:
    """Lets polls, previews, redirects and messages visit hosts, one visit per lane at a time.

    `gates` coordinate the visits of this process. `locker` coordinates them with other processes;
    None: this process alone polls the database.
    """

    gates: Gates
    stored: Hosts
    policy: Policy
    locker: HostLocker | None = None
    is_closed: Callable[[], bool] = lambda: False  # the process is stopping (S8)

    def visit(
        self, source: Source | None, lane: str, entry: GateEntry | None = None
    ) -> "HostVisit":
        """A visit to a source's host, to be used with `async with`.

        A poll passes the gate entry of its lane: it does not wait, and its outcome stores the
        visit. Any other visit waits for the host and stores itself. Messages to an endpoint have no
        source, a lane of their own and no delay (V2).
        """
        return HostVisit(self, source, lane, entry)

    def refuse_when_closed(self) -> None:
        """Raise Stopping if the process is stopping (S8)."""
        if self.is_closed():
            raise Stopping("the service is stopping and starts nothing more")


class HostVisit:
    """One visit: to the host of its source, and to the hosts that redirects lead to."""

    def __init__(
        self, hosts: HostAccess, source: Source | None, lane: str, entry: GateEntry | None
    ) -> None:
        self._hosts = hosts
        self._source = source
        self._entry = entry
        self._is_poll = entry is not None
        self.lane = lane
        self.fence: Fence | None = None  # to be stored with the outcome where workers poll (K8)
        self._delay = 0.0  # of the own lane, once it is visited
        self._own_until: dict[str, float] = {}  # gates: ends of the delays that this visit caused
        self._records: dict[str, Visit] = {}  # the last visit to each lane
        self._locked: set[str] = set()
        self._stored_lanes: set[str] = set()  # whose record was stored when they were unlocked
        self.is_stored = False  # set by a poll whose outcome stored the records of `finish`
        self._permits: list[MemoryPermit] = []

    async def __aenter__(self) -> Self:
        hosts, source = self._hosts, self._source
        own = None if source is None else source.poll_delay_seconds
        delay = self._delay_at(None if source is None else host_of(source), own)
        if self._entry is None:
            hosts.refuse_when_closed()
            self._entry = await hosts.gates.enter_when_open(self.lane, delay)
        if hosts.locker is not None:
            try:
                if self._is_poll:
                    self.fence = hosts.locker.fence(self.lane)
                    if self.fence is None:
                        raise HostBusy(f"this worker has no lease for {self.lane}")
                seconds = 0.0 if self._is_poll else MAX_WAIT_SECONDS
                await self._lock(hosts.locker, self.lane, delay, seconds)
            except BaseException:
                self._entry.leave()  # without a delay: the host was not visited
                await self._unlock_all()
                raise
        self._delay = delay
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End the visit: the delay counts from here, permits and locks are released."""
        self._end_requests()
        for permit in self._permits:
            permit.release()
        try:
            if not self._is_poll:
                with suppress(HeadwaterError):  # the gates know, and a clean stop stores them all
                    await self._store()
        finally:
            if self._locked:
                await self._unlock_all()

    def check(self) -> None:
        """Raise LeaseLost if no further request may be sent; called before each request (K8)."""
        if self._hosts.locker is not None:
            self._hosts.locker.check(self.fence, self._locked)

    def keep(self, permit: MemoryPermit) -> None:
        """Release a permit when the visit ends."""
        self._permits.append(permit)

    async def hold(self, lane: str, hold: Hold) -> None:
        """Allow no visit to a host that asked for a pause (P9)."""
        hosts = self._hosts
        hosts.gates.hold(lane, hold)
        if self._is_poll:
            if hosts.locker is not None:  # others may visit it before the outcome is stored
                await hosts.stored.keep_hold(lane, hold)
            return
        now = hosts.gates.clock.now()  # not necessarily the clock that the hold was made with
        shared = replace(hold, until=now + (hold.until - hold.set_at), set_at=now)
        await hosts.stored.keep_hold(lane, shared)
        if hosts.locker is not None:
            await hosts.stored.announce(lane, now)

    @asynccontextmanager
    async def redirect_to(self, host: str) -> AsyncIterator[None]:
        """Wait for a host that a redirect leads to, and count it as visited on leaving.

        The own lane is left first: two lanes that redirect to each other must not wait for each
        other. On the way back to a host the visit waits for other visitors and their delays, but
        not for its own delay: all of it is one visit (P3).
        """
        gates, entry = self._hosts.gates, self._entry
        if entry is not None and entry.is_open:
            self._leave(entry, self._delay)
        if self.lane in self._locked:
            await self._unlock(self.lane)
        lane, delay = host, self._delay_at(host)
        if host == host_of_lane(self.lane):
            lane, delay = self.lane, self._delay
        own_until = self._own_until.get(lane, 0.0)
        entry, visited = await gates.enter_when_open(lane, delay, own_until=own_until), 0.0
        try:
            if self._hosts.locker is not None:
                await self._lock(self._hosts.locker, lane, delay, MAX_WAIT_SECONDS)
            visited = delay
            yield
        finally:
            self._leave(entry, visited)
            if lane in self._locked:
                await self._unlock(lane)

    def finish(self) -> tuple[Visit, ...]:
        """End the requests of this visit; return the records to be stored with the outcome.

        The own lane's delay counts from the last call: a poll ends when it is stored (P3).
        """
        self._end_requests()
        if self._hosts.locker is None:
            return tuple(self._records.values())
        return tuple(
            visit if lane in self._locked else replace(visit, is_last=False)
            for lane, visit in self._records.items()
            if lane not in self._stored_lanes
        )

    def _delay_at(self, host: str | None, own: float | None = None) -> float:
        """The delay of a host after this visit (P2); messages cause none (V2)."""
        if self._source is None:
            return 0.0
        return delay_seconds(own, self._source.type, host, self._hosts.policy)

    def _end_requests(self) -> None:
        if self._entry is not None and self._entry.is_open:
            self._record(self._entry.leave(self._delay))
        elif self._delay > 0:
            self._record(self._hosts.gates.mark_visited(self.lane, self._delay))

    def _leave(self, entry: GateEntry, delay: float) -> None:
        self._record(entry.leave(delay))
        self._own_until[entry.lane] = self._hosts.gates.gate(entry.lane).free_at

    def _record(self, visit: Visit | None) -> None:
        if visit is not None:
            self._records[visit.lane] = visit
            self._stored_lanes.discard(visit.lane)

    async def _store(self) -> None:
        """Store the records of a visit without an outcome; unlocking stores the other ones."""
        hosts, left = self._hosts, [v for v in self.finish() if v.lane not in self._locked]
        if left:
            await hosts.stored.keep(left)
        if hosts.locker is not None:
            for visit in left:
                await hosts.stored.announce(visit.lane, visit.ended_at)

    async def _lock(self, locker: HostLocker, lane: str, delay: float, seconds: float) -> None:
        """Lock a host and wait for the end of its delay; HostBusy if that takes too long."""
        clock = self._hosts.gates.clock
        deadline = clock.monotonic() + seconds
        while True:
            wait = await self._try_lock(locker, lane, delay)
            if lane not in self._locked and clock.monotonic() + wait > deadline:
                host, seconds = host_of_lane(lane), max(wait, 1.0)
                raise HostBusy(f"{host} was visited recently; try again in {seconds:.0f} s")
            if wait > 0:
                await clock.sleep(wait)
            if lane in self._locked:
                return

    async def _try_lock(self, locker: HostLocker, lane: str, delay: float) -> float:
        """Lock a host unless its delay lasts long; return how long to wait."""
        before, gates = self._records.get(lane), self._hosts.gates
        own_until = None if before is None else before.next_allowed_at
        state = await locker.lock(lane, delay, own_until)
        if state is None:
            return _RETRY_SECONDS
        self._locked.add(lane)
        now = earliest_now(gates.clock)
        wait = visit_wait_seconds(state, now, own_until=own_until)
        if before is None:
            gates.learn(state)  # a lane then waits for its gate instead of trying again
            wait = max(wait, gates.seconds_until_open(lane))  # a hold that is not stored yet
        if wait > SOON_SECONDS:
            await self._unlock(lane)
        if state.hold is not None and hold_seconds(state.hold, now) > MAX_WAIT_SECONDS:
            raise OnHold(state.hold.until, state.hold.reason)
        return wait

    async def _unlock_all(self) -> None:
        """Unlock every host, also when this is cancelled: a lock has no other end."""
        try:
            while self._locked:
                await self._unlock(next(iter(self._locked)))
        finally:
            if self._locked:
                await self._unlock_all()

    async def _unlock(self, lane: str) -> None:
        """Let other processes lock a host, once its record is stored."""
        self._locked.discard(lane)
        visit = None if self.is_stored else self._records.get(lane)
        if visit is not None:
            self._stored_lanes.add(lane)
        if self._hosts.locker is not None:
            await self._hosts.locker.unlock(lane, visit)
