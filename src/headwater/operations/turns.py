"""Turns for visits outside the lanes: what is stored of a host is obeyed, and added to (P3, P9)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from headwater.clock import Clock
from headwater.errors import HostBusy, OnHold
from headwater.model import Source, Visit
from headwater.rules.policy import Policy
from headwater.rules.politeness import hold_seconds, passing_delay, poll_delay, wait_seconds
from headwater.store import Store

_MOST_SECONDS = 30.0


class StoredTurns:
    """Waits for a host's turn by what the database knows, and marks the host as visited."""

    def __init__(self, store: Store, clock: Clock, policy: Policy, source: Source) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._source = source

    def at(self, host: str) -> AbstractAsyncContextManager[None]:
        """The turn of a host that a redirect leads to."""
        delay = passing_delay(host, self._source, self._policy)
        return self._turn(host, delay)

    def at_home(self, lane: str | None) -> AbstractAsyncContextManager[None]:
        """The turn of the source's own lane."""
        return self._turn(lane or "", poll_delay(self._source, self._policy))

    @asynccontextmanager
    async def _turn(self, lane: str, delay: timedelta) -> AsyncIterator[None]:
        state, now = await self._store.hosts.get(lane), self._clock.now()
        if state.hold is not None and hold_seconds(state.hold, now) > 0:
            raise OnHold(state.hold.until, state.hold.reason)
        wait = wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now)
        if wait > _MOST_SECONDS:
            raise HostBusy(f"{lane} was visited of late; its next turn is in {wait:.0f} s")
        await self._clock.sleep(wait)
        try:
            yield
        finally:
            ended = self._clock.now()
            if delay and lane:
                await self._store.hosts.keep([Visit(lane, ended, ended + delay)])
