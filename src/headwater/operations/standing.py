"""How things stand now, asked for seldom enough that watching costs next to nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from headwater.clock import Clock
from headwater.engine.service import Service
from headwater.errors import HeadwaterError
from headwater.model import Health
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.census import Backlog

T = TypeVar("T")
OVERDUE_TICKS = 2  # a source may have to wait for one tick, and for a moment in its lane
_KEPT_SECONDS = 5.0
_BACKLOG_SHARE = 0.05  # of the time may go into counting what is due
_HEALTH_SHARE = 0.01  # and into counting everything
_PATIENCE_SECONDS = 5.0  # who scrapes waits for ten, as a rule
_MOMENT_SECONDS = 0.05  # that a person does not notice
_STALE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What is stored and what the lanes hold; None: the database did not answer."""

    backlog: Backlog | None
    by_health: Mapping[Health, int] | None
    schema: int | None
    lanes: int
    waiting: int
    in_flight: int
    holds: int


class Watch:
    """Looks at a service and its database, however often it is asked to, in moderation."""

    def __init__(
        self, store: Store, service: Service, clock: Clock, policy: Policy, tick_seconds: float
    ) -> None:
        self._service = service
        patience = timedelta(seconds=OVERDUE_TICKS * tick_seconds)
        census = store.census
        self._backlog = Kept(
            lambda: census.backlog(clock.now(), policy, patience), clock, _BACKLOG_SHARE
        )
        self._by_health = Kept(census.by_health, clock, _HEALTH_SHARE)
        self._schema = Kept(store.schema, clock)

    async def look(self) -> Standing:
        """How things stand, or stood a few seconds ago."""
        lanes, workers = self._service.lanes, self._service.workers
        # at once: who scrapes a database that is away waits for one of them, not for three (K5)
        backlog, by_health, schema = await asyncio.gather(
            self._backlog.get(), self._by_health.get(), self._schema.get()
        )
        return Standing(
            backlog=backlog,
            by_health=by_health,
            schema=None if schema is None else schema[0],
            lanes=len(lanes.names()) + sum(one.lanes for one in workers),
            waiting=lanes.waiting() + sum(one.waiting for one in workers),
            in_flight=len(lanes.in_flight()) + sum(one.in_flight for one in workers),
            holds=self._service.gates.held(),  # API servers beside workers know of all
        )


class Kept(Generic[T]):
    """An answer of the database that is kept for a while: the dearer it is, the longer."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[T]],
        clock: Clock,
        share: float = _BACKLOG_SHARE,
        *,
        least_seconds: float = _KEPT_SECONDS,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._share = share  # of the time that asking may take
        self._least_seconds = least_seconds  # that an answer is kept
        self._answer: T | None = None
        self._until = float("-inf")
        self._asking = asyncio.Lock()  # one question at a time, whoever else wants to know
        self._renewal: asyncio.Task[T | None] | None = None

    async def get(self) -> T | None:
        """The answer; None if there was none in time."""
        async with self._asking:
            started = self._clock.monotonic()
            if started >= self._until:
                self._answer = await self._answered()
                ended = self._clock.monotonic()
                self._until = ended + max(self._least_seconds, (ended - started) / self._share)
            return self._answer

    async def at_hand(self) -> T | None:
        """The answer, or the last one if it is no older than a minute and the next takes long."""
        now = self._clock.monotonic()
        if self._answer is None or now >= self._until + _STALE_SECONDS:
            return await self.get()
        if now < self._until:
            return self._answer
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self.get())
        await asyncio.wait([self._renewal], timeout=_MOMENT_SECONDS)
        return self._answer

    async def _answered(self) -> T | None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._ask()
        except (HeadwaterError, TimeoutError):
            return None
