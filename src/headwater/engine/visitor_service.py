"""VisitorService: the service of a program that does not poll, beside the process that does."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

from headwater.clock import Clock
from headwater.engine.followers import Followers
from headwater.engine.hosts.visitors import visitor_access
from headwater.engine.lane_table import LaneTable
from headwater.engine.loops import repeat, run_until
from headwater.engine.outage_guard import OutageStatus
from headwater.engine.service import Service
from headwater.rules.policy import Policy
from headwater.store import Store

_MONITOR_SECONDS = 1.0


class VisitorService(Service):
    """Visits hosts and requests polls on behalf of a person; knows what the database stores."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        policy: Policy,
        followers: Followers,
        *,
        paused: bool = False,
    ) -> None:
        super().__init__(store, clock, policy, paused=paused)
        self._followers = followers
        self._closed = False
        self._resources = AsyncExitStack()
        self.lanes = LaneTable()  # empty: lanes are in the process that polls
        self.guard = OutageStatus()

    async def __aenter__(self) -> Self:
        await self._store.check()
        opened = visitor_access(self._store, self._clock, self._policy)
        hosts = await self._resources.enter_async_context(opened)
        self.hosts = replace(hosts, is_closed=lambda: self._closed)
        self.gates = self.hosts.gates
        await self._monitor()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()
        await self._resources.aclose()

    async def run(self, stop: asyncio.Event) -> None:
        """Read the stored state until `stop` is set."""
        await run_until(stop, (self._monitor_loop, self._schema_loop))

    def close(self) -> None:
        """Accept no more requests and visits (S8)."""
        self._closed = True

    async def _monitor_loop(self) -> None:
        unexpected = "[Service] reading the stored state failed; trying again"
        await repeat(self._clock, _MONITOR_SECONDS, self._monitor, unexpected)

    async def _monitor(self) -> None:
        """Read the state that the polling process stores; if none runs, index new posts (B3)."""
        await self._pause_state.read()
        for state in await self._store.hosts.closed(self._clock.now()):
            self.gates.learn(state)
        self.gates.prune()
        if not await asyncio.to_thread(self._store.database.is_poll_locked):
            await self._followers.run()
