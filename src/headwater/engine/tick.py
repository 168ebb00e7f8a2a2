"""Tick: clean up, spread first polls, hand due sources to their lanes (S1)."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

from headwater.clock import Clock
from headwater.engine.cleanup import Cleanup
from headwater.engine.lanes import NULL_LANE, Lanes
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.model import DueSource
from headwater.rules.outage import spread_seconds
from headwater.rules.policy import Policy
from headwater.rules.schedule import first_contact
from headwater.store import Store

log = get_logger()
_PAGE = 5000  # sources given their jitter in one transaction
_RECENT_REQUESTS = timedelta(seconds=10)  # older ones are the ticks' business
_NO_LANE = object()
_LONG_GAP_SECONDS = 600.0  # between two ticks, after which very much may be due at once
_OFFERED_AT_ONCE = 2000  # more would hold up the event loop (H2)


class Ticker:
    """One pass of the scheduler."""

    def __init__(
        self,
        *,
        store: Store,
        lanes: Lanes,
        cleanup: Cleanup,
        clock: Clock,
        policy: Policy,
        rng: Random,
        tick_seconds: float = 60.0,
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._cleanup = cleanup
        self._clock = clock
        self._policy = policy
        self._rng = rng
        self._usual_gap = timedelta(seconds=max(3 * tick_seconds, _LONG_GAP_SECONDS))
        self._ticked_at: datetime | None = None

    async def tick(self, *, paused: bool = False) -> int:
        """Run one pass and answer how many sources were handed over; it waits for none of them.

        While paused, only what was asked for by hand is handed over (G2).
        """
        await self.prepare(paused=paused)
        sources = self._store.sources
        if paused:
            self._ticked_at = self._clock.now()  # who lets polls start again wants them at once
            return await self._hand_over(await sources.requested(self._clock.now(), self._policy))
        due = await sources.due(self._clock.now(), self._policy)
        return await self._hand_over(due, spread=self._spread_of(due))

    async def prepare(self, *, paused: bool = False) -> None:
        """Do what must be done before due sources are looked up."""
        await self._clean_up()
        moved = await self._store.sources.bring_back(self._clock.now())
        if moved:
            log.warning(
                "[Polling] the clock was set back; future polls count as now", sources=moved
            )
        if not paused:
            await self._first_contacts()

    async def take_requests(self) -> int:
        """Hand over the polls that were asked for within the last seconds (S9, S10)."""
        return await self._hand_over(await self.recent_requests())

    async def recent_requests(self) -> list[DueSource]:
        """The sources whose poll was asked for within the last seconds."""
        now = self._clock.now()
        since = now - _RECENT_REQUESTS
        return await self._store.sources.requested(now, self._policy, since=since)

    async def _clean_up(self) -> None:
        try:
            await self._cleanup.run()
        except HeadwaterError as error:  # polling does not depend on it
            log.warning("[Polling] cleanup failed; the next tick tries again", error=str(error))

    async def _first_contacts(self) -> None:
        while True:
            strangers = await self._store.sources.without_contact(_PAGE)
            now = self._clock.now()
            await self._store.sources.set_contact(
                [first_contact(source, now, self._rng) for source in strangers]
            )
            if len(strangers) < _PAGE:
                return

    def _spread_of(self, due: Sequence[DueSource]) -> float:
        """Over how long lanes begin: no burst after a sleep, or a clock set forward (O4)."""
        now, before = self._clock.now(), self._ticked_at
        self._ticked_at = now
        if before is None or now - before <= self._usual_gap:
            return 0.0
        return spread_seconds(len({one.lane for one in due}))

    async def _hand_over(self, due: Sequence[DueSource], *, spread: float = 0.0) -> int:
        """Line sources up in steps; a lane is woken once all its sources are there."""
        taken = 0
        for first in range(0, len(due), _OFFERED_AT_ONCE):
            step = due[first : first + _OFFERED_AT_ONCE]
            taken += self._lanes.line_up(step)
            goes_on = due[first + len(step)].lane if first + len(step) < len(due) else _NO_LANE
            whole = dict.fromkeys(d.lane or NULL_LANE for d in step if d.lane != goes_on)
            if spread:
                self._lanes.spread(whole, spread)
            self._lanes.wake(whole)
            await asyncio.sleep(0)
        return taken
