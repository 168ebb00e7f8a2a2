"""DueQueries: queries the due sources of the open shards and queues them in their lanes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from headwater.clock import Clock
from headwater.engine.cluster.leases import Leases
from headwater.engine.lane_table import NULL_LANE
from headwater.engine.tick import RECENT_REQUESTS, Ticker
from headwater.errors import DatabaseUnavailable
from headwater.model import EPOCH
from headwater.rules.policy import Policy
from headwater.store.due_sources import is_partial
from headwater.store.page_visits import PageVisits
from headwater.store.sources import Sources

RETRY_SECONDS = 0.5  # before sources are queried again whose host was busy
_BACKLOG_SECONDS = 2.0  # before the rest of a long backlog is queried
_PAUSE_FACTOR = 10.0  # least pause between queries, times the duration of the last one


@dataclass
class DueQueries:
    """Due sources stay in the database: every query may be repeated or left out."""

    sources: Sources
    pages: PageVisits
    leases: Leases
    clock: Clock
    policy: Policy
    is_paused: Callable[[], bool]
    again: asyncio.Event = field(default_factory=asyncio.Event)  # more may be due
    fail_since: float | None = None  # the time of the first of the last failed queries
    _timer: asyncio.TimerHandle | None = None
    _seconds: float = 0.0  # duration of the last query

    async def queue_due(self, ticker: Ticker) -> int:
        """Queue the due sources; return how many were new."""
        self.again.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        started = self.clock.monotonic()
        taken = await self._queue(ticker, requested_since=EPOCH if self.is_paused() else None)
        self._seconds = self.clock.monotonic() - started
        return taken

    async def queue_requested(self, ticker: Ticker) -> None:
        """Queue the sources whose poll was requested within the last seconds (S9)."""
        await self._queue(ticker, requested_since=self.clock.now() - RECENT_REQUESTS)

    def later(self, seconds: float = RETRY_SECONDS) -> None:
        """Have the due sources queried again after a while."""
        if self._timer is None:
            seconds = max(seconds, _PAUSE_FACTOR * self._seconds)
            self._timer = asyncio.get_running_loop().call_later(seconds, self.again.set)

    async def _queue(self, ticker: Ticker, *, requested_since: datetime | None) -> int:
        shards = [shard for shard in self.leases.open_shards if self.leases.has(shard)]
        if not shards or ticker.lanes.is_closed:
            return 0
        now = self.clock.now()
        try:
            due = await self.sources.due_in(
                shards, now, self.policy, requested_since=requested_since
            )
            pages = [] if requested_since else await self.pages.due_in(shards, now, self.policy)
        except DatabaseUnavailable:
            self.failed()
            raise
        self.fail_since = None
        if is_partial(due, self.leases.shard_count):
            self.later(_BACKLOG_SECONDS)
        # a source whose host is not stored yet may belong to a shard of another worker
        due = sorted([*due, *pages], key=lambda one: one.lane or NULL_LANE)
        lanes = {one.lane or NULL_LANE for one in due}
        ours = {lane for lane in lanes if self.leases.fence(lane) is not None}
        return await ticker.queue([one for one in due if (one.lane or NULL_LANE) in ours])

    def failed(self) -> None:
        """Remember that the database could not be read."""
        if self.fail_since is None:
            self.fail_since = self.clock.monotonic()
