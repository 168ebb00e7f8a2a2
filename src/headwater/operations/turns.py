"""Turns for visits outside the lanes: they wait for their host like everybody else (P3, P9)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from headwater.clock import Clock
from headwater.engine.service import Service
from headwater.engine.turns import VisitTurns
from headwater.errors import HeadwaterError, HostBusy, OnHold
from headwater.model import Hold, Source, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import (
    hold_seconds,
    host_of_lane,
    passing_delay,
    poll_delay,
    wait_seconds,
)
from headwater.store import Store

_MOST_SECONDS = 30.0


class Turns(Protocol):
    """The turns of one visit, at the hosts that redirects lead to."""

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """Wait for a host's turn; leaving marks it as visited."""
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
        turns = VisitTurns(gates, lane)
        turns.begin(source, self.policy)
        try:
            yield turns
        finally:
            visits = turns.end()
            with suppress(HeadwaterError):  # the gates know, and a clean stop stores them all
                await self.store.hosts.keep(visits)

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
        turns = StoredTurns(self.store, self.clock, self.policy, source)
        async with turns.turn(lane, poll_delay(source, self.policy)):
            yield turns

    async def hold(self, lane: str, hold: Hold) -> None:
        """Leave a lane alone as its host asked (P9)."""
        await self.store.hosts.keep_hold(lane, hold)
        await self.store.hosts.announce(lane, self.clock.now())


class StoredTurns:
    """Waits for a host's turn by what the database knows, and marks the host as visited."""

    def __init__(self, store: Store, clock: Clock, policy: Policy, source: Source) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._source = source
        self._own: dict[str, datetime] = {}  # the ends of delays that this visit left behind

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """The turn of a host that a redirect leads to."""
        return self.turn(host, passing_delay(host, self._source, self._policy))

    @asynccontextmanager
    async def turn(self, lane: str, delay: timedelta) -> AsyncIterator[None]:
        """The turn of a lane; it counts as visited from the beginning, lest others come too."""
        await self._wait(lane)
        await self._mark(lane, delay)
        try:
            yield
        finally:
            await self._mark(lane, delay)

    async def _wait(self, lane: str) -> None:
        state, now = await self._store.hosts.get(lane), self._clock.now()
        if state.hold is not None and hold_seconds(state.hold, now) > 0:
            raise OnHold(state.hold.until, state.hold.reason)
        if state.next_allowed_at is not None and state.next_allowed_at == self._own.get(lane):
            return  # back at a host where nobody else was meanwhile: all of it is one visit (P3)
        wait = wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now)
        if wait > _MOST_SECONDS:
            host = host_of_lane(lane)
            raise HostBusy(f"{host} was visited of late; its next turn is in {wait:.0f} s")
        await self._clock.sleep(wait)

    async def _mark(self, lane: str, delay: timedelta) -> None:
        if not delay:
            return
        now = self._clock.now()
        self._own[lane] = now + delay
        await self._store.hosts.keep([Visit(lane, now, now + delay)])
        await self._store.hosts.announce(lane, now)
