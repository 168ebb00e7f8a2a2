"""Host access for processes that do not poll: previews of the command line and of API servers."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, cast

from headwater.clock import Clock, SharedClock
from headwater.engine.hosts.access import HostAccess, HostLocker
from headwater.engine.hosts.gates import Gates, earliest_now, visit_ending_now
from headwater.errors import HeadwaterError
from headwater.model import Fence, HostState, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import SOON_SECONDS, visit_wait_seconds
from headwater.store import Store
from headwater.store.hosts import Hosts
from headwater.store.shards import Shards

if TYPE_CHECKING:  # the driver is loaded where there is a server to connect to
    from headwater.store.host_locks import HostLocks
    from headwater.store.postgres import PostgresDatabase


@asynccontextmanager
async def visitor_access(store: Store, clock: Clock, policy: Policy) -> AsyncIterator[HostAccess]:
    """Host access for a command that runs beside the process that polls the database."""
    if not store.database.takes_workers:
        locker = StoredVisits(store.hosts, clock)
        yield HostAccess(Gates((), clock), store.hosts, policy, locker)
        return
    shared = SharedClock()  # workers use the database's clock
    await Shards(store.database).synchronize(shared)
    locks = visitor_locks(store, shared)
    try:
        yield HostAccess(Gates((), shared), store.hosts, policy, locks)
    finally:
        await locks.close()


def visitor_locks(store: Store, clock: Clock) -> "VisitorLocks":
    """Host locks on PostgreSQL, over a connection that lasts as long as a visit."""
    from headwater.store.host_locks import HostLocks

    locks = HostLocks(cast("PostgresDatabase", store.database), keep_connection=False)
    return VisitorLocks(locks, store.hosts, clock)


class StoredVisits(HostLocker):
    """On SQLite nothing is locked: a visit reads the stored state and announces itself.

    The polling process reads announcements every second, so that a visit and a poll can overlap
    within that second.
    """

    def __init__(self, stored: Hosts, clock: Clock) -> None:
        self._stored = stored
        self._clock = clock

    async def lock(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Read the stored state; if the host is free, store and announce the visit in advance."""
        while True:
            state = await self._stored.get(lane)
            wait = visit_wait_seconds(state, earliest_now(self._clock), own_until=own_until)
            if not 0 < wait <= SOON_SECONDS:
                break
            await self._clock.sleep(wait)
        if wait <= 0 and delay_seconds > 0:
            await self.unlock(lane, visit_ending_now(lane, self._clock, delay_seconds))
        return state

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        """Store and announce a visit."""
        if visit is not None:
            await self._stored.keep([visit])
            await self._stored.announce(lane, visit.ended_at)


class VisitorLocks(HostLocker):
    """On PostgreSQL a visit locks its host, and announces itself to a process that polls alone."""

    def __init__(self, locks: "HostLocks", stored: Hosts, clock: Clock) -> None:
        self._locks = locks
        self._stored = stored
        self._clock = clock

    def check(self, _fence: Fence | None, lanes: Collection[str]) -> None:
        """Raise LeaseLost if another process has locked one of these hosts meanwhile."""
        self._locks.check(lanes)

    async def lock(
        self, lane: str, delay_seconds: float, own_until: datetime | None = None
    ) -> HostState | None:
        """Lock a host and return its stored state; None: another process has locked it."""
        state = await self._locks.lock(lane, delay_seconds, own_until)
        if state is not None and delay_seconds > 0:
            try:
                await self._announce(lane)
            except BaseException:  # cancelled: the caller does not know that it has the lock
                await self._locks.unlock(lane, None)
                raise
        return state

    async def unlock(self, lane: str, visit: Visit | None) -> None:
        """Store the visit, then let other processes lock the host."""
        await self._locks.unlock(lane, visit)
        if visit is not None:
            await self._announce(lane)

    async def confirm(self) -> None:
        """Renew the locks of visits under way after a lost connection."""
        await self._locks.confirm()

    async def close(self) -> None:
        """Release all locks."""
        await self._locks.close()

    async def _announce(self, lane: str) -> None:
        with suppress(HeadwaterError):  # workers do not need it: they see the lock
            await self._stored.announce(lane, self._clock.now())
