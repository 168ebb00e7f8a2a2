"""Cleanup: old articles, posts and history, a bounded bite per tick (C1-C3)."""

from datetime import datetime

from headwater.clock import Clock
from headwater.logs import get_logger
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.cleanup import (
    Bite,
    old_articles,
    old_polls,
    old_posts,
    old_processed,
    unmarked_posts,
)

log = get_logger()
_ROWS_PER_BITE = 1000  # short transactions: polls are recorded in between
_BITES_PER_TICK = 10
_HISTORY_BITES_PER_TICK = 200  # as many polls go as thousands a second bring
_HISTORY_SECONDS = 2.0  # beyond those of every tick, so that none is late
_JUMP_SECONDS = 3600.0
_PAUSE_SECONDS = 3600.0


class Cleanup:
    """Deletes what is past its time, but never on a false date (O4)."""

    def __init__(self, store: Store, clock: Clock, policy: Policy) -> None:
        self._store = store
        self._clock = clock
        self._seen = (clock.now(), clock.monotonic())
        self._paused_until = float("-inf")
        self._bites: list[Bite] = [
            old_articles(policy.max_article_age_days),
            old_posts(policy.max_article_age_days),
        ]
        self._history = old_polls(policy.poll_history_days)
        self._unmarked = unmarked_posts()
        if policy.processed_retention_days is not None:
            self._bites.insert(1, old_processed(policy.processed_retention_days))

    async def run(self) -> int:
        """Delete what is past its time, within bounds, and answer how many rows that were."""
        now = self._clock.now()
        if self._clock_is_doubtful():
            return 0
        total = 0
        for bite in self._bites:
            total += await self._take(bite, now, _BITES_PER_TICK)
        total += await self._take(self._history, now, _HISTORY_BITES_PER_TICK)
        await self._take(self._unmarked, now, _BITES_PER_TICK)
        if total:
            log.info("[Polling] cleaned up", rows=total)
        return total

    async def _take(self, bite: Bite, now: datetime, most: int) -> int:
        """Take bites until nothing is left; those beyond the usual number have little time."""
        ends_at = self._clock.monotonic() + _HISTORY_SECONDS
        total = 0
        for number in range(most):
            if number >= _BITES_PER_TICK and self._clock.monotonic() > ends_at:
                break
            taken = await self._store.clean(bite, now, _ROWS_PER_BITE)
            total += taken
            if not taken:
                break
        return total

    def _clock_is_doubtful(self) -> bool:
        """Whether the clock jumped by more than an hour within the last one (C3)."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        drift = (wall - self._seen[0]).total_seconds() - (monotonic - self._seen[1])
        self._seen = (wall, monotonic)
        if abs(drift) > _JUMP_SECONDS:
            log.warning("[Polling] the clock jumped; cleanup pauses for an hour", seconds=drift)
            self._paused_until = monotonic + _PAUSE_SECONDS
        return monotonic < self._paused_until
