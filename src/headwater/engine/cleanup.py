"""Cleanup: old articles, posts and history, a bounded bite per tick (C1-C3)."""

from headwater.clock import Clock
from headwater.logs import get_logger
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.cleanup import Bite, old_articles, old_polls, old_posts, old_processed

log = get_logger()
_ROWS_PER_BITE = 1000  # short transactions: polls are recorded in between
_BITES_PER_TICK = 10
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
            old_polls(policy.poll_history_days),
        ]
        if policy.processed_retention_days is not None:
            self._bites.insert(1, old_processed(policy.processed_retention_days))

    async def run(self) -> int:
        """Delete up to some thousand rows and answer how many; the rest waits for later ticks."""
        now = self._clock.now()
        if self._clock_is_doubtful():
            return 0
        total = 0
        for bite in self._bites:
            for _ in range(_BITES_PER_TICK):
                taken = await self._store.clean(bite, now, _ROWS_PER_BITE)
                total += taken
                if taken < _ROWS_PER_BITE:
                    break
        if total:
            log.info("[Polling] cleaned up", rows=total)
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
