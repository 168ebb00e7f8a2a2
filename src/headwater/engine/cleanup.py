"""Cleanup: old articles, posts and history, in bounded batches per tick (C1-C4)."""

from datetime import datetime, timedelta

from headwater.clock import Clock
from headwater.logs import get_logger
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.expired_rows import (
    CleanupBatch,
    changed_filters,
    old_articles,
    old_audit_entries,
    old_deliveries,
    old_idempotency_keys,
    old_incidents,
    old_poll_days,
    old_polls,
    old_posts,
    old_processed,
    old_story_marks,
    removed_from_search,
    unindexed_posts,
    unnumbered_articles,
    unnumbered_posts,
)

log = get_logger()
_ROWS_PER_BATCH = 1000  # short transactions: polls are recorded in between
_BATCHES_PER_TICK = 10
_HISTORY = ("polls", "poll_days")
_HISTORY_BATCHES_PER_TICK = 200  # enough for thousands of polls per second
_EXTRA_SECONDS = 2.0  # for batches beyond the usual number, so that no tick is late
_JUMP_SECONDS = 3600.0
_MAX_DIFFERENCE = timedelta(days=1)  # from the newest stored data, at a start
_PAUSE = timedelta(hours=1)
_PAUSED_KEY = "cleanup paused until"  # stored: it holds for all workers and after a restart


class Cleanup:
    """Deletes expired rows, but not while the clock may be wrong (O4)."""

    def __init__(self, store: Store, clock: Clock, policy: Policy) -> None:
        self._store = store
        self._clock = clock
        self._seen = (clock.now(), clock.monotonic())
        self.paused_until: datetime | None = None  # as of the last run
        self._batches = cleanup_batches(policy)

    async def check_start(self) -> None:
        """Pause if the clock is more than a day from the newest stored data (C3)."""
        difference = await clock_difference(self._store, self._clock.now())
        if difference is not None:
            where = "ahead of" if difference > timedelta() else "behind"
            reason = f"the clock is {where} the newest stored data"
            await self._pause(reason, difference.total_seconds())

    async def run(self) -> int:
        """Delete expired rows, within bounds; return how many."""
        now = self._clock.now()
        await self._delete(changed_filters(), now, _BATCHES_PER_TICK)
        await self._check_jump()
        self.paused_until = await paused_until(self._store, now)
        if self.paused_until is not None:
            return 0
        total = 0
        for kind, batch in self._batches.items():
            most = _HISTORY_BATCHES_PER_TICK if kind in _HISTORY else _BATCHES_PER_TICK
            total += await self._delete(batch, now, most)
        for update in (
            old_story_marks(),
            unindexed_posts(),
            unnumbered_posts(),
            unnumbered_articles(),
            removed_from_search(),
        ):
            await self._delete(update, now, _BATCHES_PER_TICK)
        if total:
            log.info("[Polling] cleaned up", rows=total)
        return total

    async def _delete(self, batch: CleanupBatch, now: datetime, most: int) -> int:
        """Delete batches until none is left; those beyond the usual number have a time limit."""
        ends_at = self._clock.monotonic() + _EXTRA_SECONDS
        total = 0
        for number in range(most):
            if number >= _BATCHES_PER_TICK and self._clock.monotonic() > ends_at:
                break
            deleted = await self._store.clean(batch, now, _ROWS_PER_BATCH)
            total += deleted
            if not deleted:
                break
        return total

    async def _check_jump(self) -> None:
        """Pause if the clock jumped by more than an hour since the last run (C3)."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        drift = (wall - self._seen[0]).total_seconds() - (monotonic - self._seen[1])
        if abs(drift) > _JUMP_SECONDS:
            await self._pause("the clock jumped", drift)
        self._seen = (wall, monotonic)  # last: if the pause cannot be stored, the next run tries

    async def _pause(self, reason: str, seconds: float) -> None:
        now = self._clock.now()
        if await paused_until(self._store, now) is None:  # each worker of a cluster finds the jump
            await self._store.key_values.set(_PAUSED_KEY, (now + _PAUSE).isoformat())
            log.warning(f"[Polling] {reason}; cleanup pauses for an hour", seconds=seconds)


def cleanup_batches(policy: Policy) -> dict[str, CleanupBatch]:
    """What is deleted, by kind of row, in this order."""
    batches = {"articles": old_articles(policy.max_article_age_days)}
    if policy.processed_retention_days is not None:
        batches["processed_articles"] = old_processed(policy.processed_retention_days)
    return batches | {
        "posts": old_posts(policy.max_article_age_days),
        "polls": old_polls(policy.poll_history_days),
        "poll_days": old_poll_days(policy.daily_history_days),
        "audit": old_audit_entries(),
        "idempotency_keys": old_idempotency_keys(),
        "incidents": old_incidents(),
        "deliveries": old_deliveries(),
    }


async def paused_until(store: Store, now: datetime) -> datetime | None:
    """When the cleanup of this database resumes; None if it is not paused."""
    try:
        until = datetime.fromisoformat(await store.key_values.get(_PAUSED_KEY) or "")
        # more than a pause ahead: the clock was set back since; a start checks it again
        return until if now < until <= now + _PAUSE else None
    except (ValueError, TypeError):  # not paused, or not written by this program
        return None


async def clock_difference(store: Store, now: datetime) -> timedelta | None:
    """How far the clock is ahead of the newest stored data, or behind it; None if at most a day."""
    newest = await store.newest_at()
    return now - newest if newest is not None and abs(now - newest) > _MAX_DIFFERENCE else None
