"""Ticker: one tick cleans up, spreads first polls and queues due sources in their lanes (S1)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from headwater.clock import Clock
from headwater.engine.article_upkeep import ArticleUpkeep
from headwater.engine.cleanup import Cleanup
from headwater.engine.lane_table import NULL_LANE
from headwater.engine.lanes import Lanes
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.model import DueSource
from headwater.rules.outage_detection import spread_seconds
from headwater.rules.policy import Policy
from headwater.rules.schedule import first_contacts
from headwater.store import Store

log = get_logger()
_PAGE = 5000  # sources that get their jitter, and messages whose wait is corrected, at once
RECENT_REQUESTS = timedelta(seconds=10)  # older ones are left to ticks
_NO_LANE = object()
_LONG_GAP_SECONDS = 600.0  # between two ticks, after which many sources may be due at once
_OFFERED_AT_ONCE = 2000  # more would block the event loop (H2)


@dataclass(slots=True)
class Ticker:
    """Queries due sources and queues them."""

    store: Store
    lanes: Lanes
    cleanup: Cleanup
    clock: Clock
    policy: Policy
    rng: Random
    tick_seconds: float
    articles: ArticleUpkeep
    ticked_at: datetime | None = None

    async def tick(self, *, paused: bool = False) -> int:
        """Run one tick; return how many sources were queued. It waits for no poll.

        While paused, only requested sources are queued (G2).
        """
        await self.prepare(paused=paused)
        sources = self.store.sources
        if paused:
            self.ticked_at = self.clock.now()  # on resume, polls start at once
            return await self.queue(await sources.requested(self.clock.now(), self.policy))
        due = [
            *await sources.due(self.clock.now(), self.policy),
            *await self.store.page_visits.due(self.clock.now(), self.policy),
        ]
        due.sort(key=lambda one: one.lane or NULL_LANE)
        return await self.queue(due, spread=self._spread_of(due))

    async def prepare(self, *, paused: bool = False) -> None:
        """Clean up, correct times in the future, spread first polls; start article upkeep."""
        try:
            await self.cleanup.run()
        except HeadwaterError as error:  # polling does not depend on it
            log.warning("[Polling] cleanup failed; the next tick tries again", error=str(error))
        self.articles.start()
        moved = await self.store.sources.clamp_future_polls(self.clock.now())
        if moved:
            text = "[Polling] the clock was set back; future polls count as now"
            log.warning(text, sources=moved)
        await self._restart_waits()
        if not paused:
            await self._finish_storms()
            await self._first_contacts()

    async def take_requests(self) -> int:
        """Queue the sources whose poll was requested within the last seconds (S9, S10)."""
        now = self.clock.now()
        since = now - RECENT_REQUESTS
        return await self.queue(await self.store.sources.requested(now, self.policy, since=since))

    async def queue(self, due: Sequence[DueSource], *, spread: float = 0.0) -> int:
        """Queue sources in steps; a lane is woken once all its sources are queued."""
        taken = 0
        for first in range(0, len(due), _OFFERED_AT_ONCE):
            step = due[first : first + _OFFERED_AT_ONCE]
            taken += self.lanes.queue(step)
            next_lane = due[first + len(step)].lane if first + len(step) < len(due) else _NO_LANE
            complete = dict.fromkeys(d.lane or NULL_LANE for d in step if d.lane != next_lane)
            if spread:
                self.lanes.spread(complete, spread)
            self.lanes.wake(complete)
            await asyncio.sleep(0)
        return taken

    async def _restart_waits(self) -> None:
        """Messages that were stored while the clock was ahead do not wait for that time (O4)."""
        while await self.store.webhooks.restart_waits(self.clock.now(), limit=_PAGE) == _PAGE:
            pass

    async def _finish_storms(self) -> None:
        """Request the sources of storms that are over: their backoff may be long (Y6)."""
        now = self.clock.now()
        if await self.store.storms.is_any_over(now):
            for host in await self.store.storms.finish(now):
                log.info("[Polling] a failure storm is over", host=host)

    async def _first_contacts(self) -> None:
        while True:
            sources = self.store.sources
            unpolled = await sources.without_contact(_PAGE)
            polled = await sources.last_polls({one.url for one in unpolled}) if unpolled else {}
            now = self.clock.now()
            await sources.set_contact(first_contacts(unpolled, polled, now, self.rng))
            if len(unpolled) < _PAGE:
                return

    def _spread_of(self, due: Sequence[DueSource]) -> float:
        """Seconds over which lanes start: no burst after a suspend or a clock set forward (O4)."""
        now, before = self.clock.now(), self.ticked_at
        self.ticked_at = now
        usual_gap = timedelta(seconds=max(3 * self.tick_seconds, _LONG_GAP_SECONDS))
        if before is None or now - before <= usual_gap:
            return 0.0
        return spread_seconds(len({one.lane for one in due}))
