"""Status of the scheduler, and cached counts for monitoring."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from headwater.clock import Clock
from headwater.engine.service import Service
from headwater.errors import HeadwaterError
from headwater.model import Health
from headwater.operations.storage import StorageStatus, storage_status
from headwater.rules.incidents import Severity
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.source_counts import DueCounts

T = TypeVar("T")
OVERDUE_TICKS = 2  # a due source may wait for one tick, and for a moment in its lane
_MIN_CACHE_SECONDS = 5.0
_BACKLOG_SHARE = 0.05  # of the time may be spent on counting due sources
_HEALTH_SHARE = 0.01  # and on counting all sources
_STORAGE_SHARE = 0.01  # and on finding expired rows
_STORAGE_SECONDS = 60.0
_QUERY_TIMEOUT_SECONDS = 5.0  # a Prometheus scrape usually times out after 10 s
_REFRESH_WAIT_SECONDS = 0.05  # too short for a person to notice
_STALE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """Whether the scheduler starts polls, and how many run and wait."""

    paused: bool
    last_tick_at: datetime | None
    lane_count: int  # lanes with a source that waits or is polled
    waiting: int  # sources that wait in lanes
    in_flight: int  # polls that run
    outage: str | None  # kind of the current outage (O2, O3)
    outage_since: datetime | None
    cleanup_paused_until: datetime | None  # while the clock may be wrong (C3)


def scheduler_view(service: Service) -> SchedulerView:
    """The current state of a service's scheduler."""
    lanes = service.lanes
    return SchedulerView(
        paused=service.paused,
        last_tick_at=service.last_tick,
        lane_count=len(lanes.names()),
        waiting=lanes.waiting(),
        in_flight=len(lanes.in_flight()),
        outage=service.guard.kind,
        outage_since=service.guard.since,
        cleanup_paused_until=service.cleanup_paused_until,
    )


async def switch_scheduler(service: Service, *, paused: bool) -> SchedulerView:
    """Pause or resume the scheduler (G2); requested polls run in both states."""
    service.refuse_when_stopping()
    describe("scheduler.pause" if paused else "scheduler.resume", "scheduler")
    await service.pause(paused=paused)
    return scheduler_view(service)


def overdue_after(tick_seconds: float) -> timedelta:
    """How long a source may be due before it counts as overdue."""
    return timedelta(seconds=OVERDUE_TICKS * tick_seconds)


@dataclass(frozen=True, slots=True)
class CachedStatus:
    """Counts of sources; None: the database did not respond in time."""

    backlog: DueCounts | None
    by_health: Mapping[Health, int] | None
    schema: int | None
    storage: StorageStatus | None
    pages_pending: int | None  # T4
    incidents: Mapping[Severity, int] | None  # that are open


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """The lanes of a process, or of all workers beside a server."""

    lanes: int
    waiting: int  # sources in lanes
    in_flight: int
    on_hold: int


def lane_counts(service: Service) -> LaneCounts:
    """The current numbers of lanes and polls."""
    lanes, workers = service.lanes, service.workers
    return LaneCounts(
        lanes=len(lanes.names()) + sum(one.lanes for one in workers),
        waiting=lanes.waiting() + sum(one.waiting for one in workers),
        in_flight=len(lanes.in_flight()) + sum(one.in_flight for one in workers),
        on_hold=service.gates.held(),  # an API server beside workers has those of all
    )


class StatusCache:
    """Reads the status of a database; expensive queries are cached."""

    def __init__(self, store: Store, clock: Clock, policy: Policy, tick_seconds: float) -> None:
        overdue, counts = overdue_after(tick_seconds), store.source_counts
        self._backlog = CachedValue(
            lambda: counts.due(clock.now(), policy, overdue), clock, _BACKLOG_SHARE
        )
        self._by_health = CachedValue(counts.by_health, clock, _HEALTH_SHARE)
        self._schema = CachedValue(store.schema, clock)
        self._pages = CachedValue(store.page_visits.count, clock, _HEALTH_SHARE)
        self._incidents = CachedValue(store.incidents.open_by_severity, clock)
        self._storage = CachedValue(
            lambda: storage_status(store, policy, clock.now()),
            clock,
            _STORAGE_SHARE,
            least_seconds=_STORAGE_SECONDS,
        )

    async def read(self) -> CachedStatus:
        """Counts that may be a few seconds old."""
        # concurrently: without a database the caller waits for one timeout, not for six (K5)
        backlog, by_health, schema, storage, pages, incidents = await asyncio.gather(
            self._backlog.get(),
            self._by_health.get(),
            self._schema.get(),
            self._storage.get(),
            self._pages.get(),
            self._incidents.get(),
        )
        return CachedStatus(
            backlog=backlog,
            by_health=by_health,
            schema=None if schema is None else schema[0],
            storage=storage,
            pages_pending=pages,
            incidents=incidents,
        )


class CachedValue(Generic[T]):
    """A query result, cached so that queries take at most a given share of the time."""

    def __init__(
        self,
        query: Callable[[], Awaitable[T]],
        clock: Clock,
        share: float = _BACKLOG_SHARE,
        *,
        least_seconds: float = _MIN_CACHE_SECONDS,
    ) -> None:
        self._query = query
        self._clock = clock
        self._share = share
        self._least_seconds = least_seconds  # to cache a result
        self._value: T | None = None
        self._expires = float("-inf")
        self._querying = asyncio.Lock()  # one query at a time for all callers
        self._refresh: asyncio.Task[T | None] | None = None

    async def get(self) -> T | None:
        """The value; None if the query failed or timed out."""
        async with self._querying:
            started = self._clock.monotonic()
            if started >= self._expires:
                self._value = await self._run_query()
                ended = self._clock.monotonic()
                self._expires = ended + max(self._least_seconds, (ended - started) / self._share)
            return self._value

    async def get_recent(self) -> T | None:
        """The value, or the previous one if it expired under a minute ago and the query is slow."""
        now = self._clock.monotonic()
        if self._value is None or now >= self._expires + _STALE_SECONDS:
            return await self.get()
        if now < self._expires:
            return self._value
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.create_task(self.get())
        await asyncio.wait([self._refresh], timeout=_REFRESH_WAIT_SECONDS)
        return self._value

    async def _run_query(self) -> T | None:
        try:
            async with asyncio.timeout(_QUERY_TIMEOUT_SECONDS):
                return await self._query()
        except (HeadwaterError, TimeoutError):
            return None
