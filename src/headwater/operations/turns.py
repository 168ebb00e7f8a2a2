"""Turns for visits outside the lanes: they wait for their host like everybody else (P3, P9)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from headwater.clock import Clock, SharedClock
from headwater.engine.claims import NOBODY_ELSE, Claims
from headwater.engine.gates import earliest_now, visit_ending_now
from headwater.engine.service import Service
from headwater.engine.turns import VisitTurns
from headwater.errors import HeadwaterError, HostBusy, OnHold
from headwater.model import Hold, HostState, Source
from headwater.rules.policy import Policy
from headwater.rules.politeness import (
    SOON_SECONDS,
    hold_seconds,
    host_of_lane,
    passing_delay,
    poll_delay,
    wait_seconds,
)
from headwater.store import Store
from headwater.store.shards import Shards

_MOST_SECONDS = 30.0
_AGAIN_SECONDS = 0.1  # between looks at a host that another process visits


class Turns(Protocol):
    """The turns of one visit, at the hosts that redirects lead to."""

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for a host's turn; leaving marks it as visited."""
        ...

    def check(self) -> None:
        """Raise where nothing more may be asked."""
        ...


class Door(Protocol):
    """Lets visits outside the lanes through, one host at a time."""

    def visit(self, source: Source, lane: str) -> AbstractAsyncContextManager[Turns]:
        """Wait for the turn of a source's own lane, visit it, and mark it as visited."""
        ...

    async def hold(self, lane: str, hold: Hold) -> None:
        """Leave a lane alone as its host asked (P9)."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceDoor:
    """The way through the gates of the service that runs in this process."""

    service: Service
    store: Store
    policy: Policy

    @asynccontextmanager
    async def visit(self, source: Source, lane: str) -> AsyncIterator[Turns]:
        """Wait for the turn of a source's own lane, visit it, and mark it as visited."""
        self.service.refuse_when_stopping()
        gates, delay = self.service.gates, poll_delay(source, self.policy).total_seconds()
        await gates.take_turn(lane, delay)
        turns = VisitTurns(gates, lane, self.service.claims)
        turns.begin(source, self.policy)
        try:
            await turns.claim_home()
        except BaseException:
            gates.leave(lane, 0.0)
            await turns.depart(stored=True)  # nobody was visited
            raise
        try:
            yield turns
        finally:
            visits, stored = turns.end(), False
            with suppress(HeadwaterError):  # the gates know, and a clean stop stores them all
                await self.store.hosts.keep(visits)
                stored = True
            await turns.depart(stored=stored)

    async def hold(self, lane: str, hold: Hold) -> None:
        """Leave a lane alone as its host asked (P9)."""
        self.service.gates.hold(lane, hold)
        await self.store.hosts.keep_hold(lane, hold)


@dataclass(frozen=True, slots=True)
class StoredDoor:
    """The way through by what the database knows; a service that runs is told of the visit."""

    store: Store
    clock: Clock
    policy: Policy

    @asynccontextmanager
    async def visit(self, source: Source, lane: str) -> AsyncIterator[Turns]:
        """Wait for the turn of a source's own lane, visit it, and mark it as visited."""
        async with self._claims() as (claims, clock):
            turns = StoredTurns(self.store, clock, self.policy, source, claims)
            async with turns.turn(lane, poll_delay(source, self.policy)):
                yield turns

    async def hold(self, lane: str, hold: Hold) -> None:
        """Leave a lane alone as its host asked (P9)."""
        async with self._claims() as (_, clock):
            now = clock.now()
            hold = replace(hold, until=now + (hold.until - hold.set_at), set_at=now)
            await self.store.hosts.keep_hold(lane, hold)
            await self.store.hosts.announce(lane, now)

    @asynccontextmanager
    async def _claims(self) -> AsyncIterator[tuple[Claims, Clock]]:
        """Where workers may poll the database, hosts are claimed as they do it, by its clock."""
        if not self.store.database.takes_workers:
            yield NOBODY_ELSE, self.clock
            return
        # the driver is loaded where there is a server to talk to
        from headwater.engine.visitors import VisitorClaims

        claims, clock = VisitorClaims(self.store.database), SharedClock()
        try:
            await Shards(self.store.database).set(clock)
            yield claims, clock
        finally:
            await claims.close()


class StoredTurns:
    """Waits for a host's turn by what the database knows, and marks the host as visited."""

    def __init__(
        self, store: Store, clock: Clock, policy: Policy, source: Source, claims: Claims
    ) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._source = source
        self._claims = claims
        self._own: dict[str, datetime] = {}  # the ends of delays that this visit left behind
        self._at: set[str] = set()

    def check(self) -> None:
        """Raise where nothing more may be asked."""
        self._claims.check(None, self._at)

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """The turn of a host that a redirect leads to."""
        return self.turn(host, passing_delay(host, self._source, self._policy))

    @asynccontextmanager
    async def turn(self, lane: str, delay: timedelta) -> AsyncIterator[None]:
        """The turn of a lane; it counts as visited from the beginning, lest others come too."""
        await self._wait(lane, delay)
        self._at.add(lane)
        try:
            await self._mark(lane, delay)
            yield
        finally:
            self._at.discard(lane)
            await self._mark(lane, delay)
            await self._claims.give_back(lane, None)

    async def _wait(self, lane: str, delay: timedelta) -> None:
        deadline = self._clock.monotonic() + _MOST_SECONDS
        while True:
            taken = await self._claims.take(lane, delay.total_seconds(), self._own.get(lane))
            if taken is None:
                wait = _AGAIN_SECONDS
            else:
                wait = await self._seconds_to_wait(lane, taken)
                if wait <= (0 if self._claims.alone else SOON_SECONDS):
                    await self._keep_waiting(lane, wait)
                    return
                await self._claims.give_back(lane, None)
            if self._clock.monotonic() + wait > deadline:
                host = host_of_lane(lane)
                raise HostBusy(f"{host} was visited of late; its next turn is in {wait:.0f} s")
            await self._clock.sleep(wait)

    async def _keep_waiting(self, lane: str, seconds: float) -> None:
        """Wait for a host that everybody else is kept away from."""
        try:
            await self._clock.sleep(seconds)
        except BaseException:
            await self._claims.give_back(lane, None)
            raise

    async def _seconds_to_wait(self, lane: str, taken: HostState) -> float:
        try:
            state = await self._store.hosts.get(lane) if self._claims.alone else taken
            now = earliest_now(self._clock)
            if state.hold is not None and hold_seconds(state.hold, now) > 0:
                raise OnHold(state.hold.until, state.hold.reason)
        except HeadwaterError:
            await self._claims.give_back(lane, None)
            raise
        if state.next_allowed_at is not None and state.next_allowed_at == self._own.get(lane):
            return 0.0  # back where nobody else was meanwhile: all of it is one visit (P3)
        return wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now)

    async def _mark(self, lane: str, delay: timedelta) -> None:
        if not delay:
            return
        visit = visit_ending_now(lane, self._clock, delay.total_seconds())
        if visit.next_allowed_at is not None:
            self._own[lane] = visit.next_allowed_at
        await self._store.hosts.keep([visit])
        await self._store.hosts.announce(lane, visit.ended_at)
