"""Timeline: polls and new posts of the last hour and day, by owner, counted by events.

A history of millions of polls is too long to be counted for each request. After a restart its
newest part is counted once, in chunks.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from headwater.clock import Clock
from headwater.engine.events import Event
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.model import EPOCH, OutcomeKind
from headwater.store.poll_history import PollHistory, PollTally

log = get_logger()
MAX_OWNERS = 1000  # in one bucket; polls of further owners are counted in the total only
MAX_HISTORY = 500_000  # polls that are counted after a restart
CHUNK = 10_000  # polls
_PAUSE_SECONDS = 0.1  # between chunks, for other readers
_ZEROS = (0, 0, 0, 0)  # stored, unchanged, failed, new posts
_COLUMNS = {kind: place for place, kind in enumerate(OutcomeKind)}


class Span(StrEnum):
    """The period of a timeline."""

    HOUR = "hour"
    DAY = "day"


_MINUTES = {Span.HOUR: 1, Span.DAY: 15}  # per bucket
_BUCKETS = {Span.HOUR: 60, Span.DAY: 96}


class Bucket(NamedTuple):
    """Counts of one minute, or of several."""

    at: datetime  # its start
    stored: int
    unchanged: int
    failed: int
    new_posts: int


class Timeline:
    """Counts of the last hour and day; `on_event` listens for finished polls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # by span, number of the bucket since the epoch, and owner (None: the total)
        self._counts: dict[Span, dict[int, dict[str | None, list[int]]]] = {s: {} for s in Span}
        self.known_since: datetime | None = clock.now()  # None: for the whole period

    def on_event(self, event: Event) -> None:
        """Count a finished poll."""
        subject, outcome = event.subject, event.outcome
        if subject is not None and outcome is not None and outcome.recorded:
            minute, new_posts = int(event.at.timestamp()) // 60, len(outcome.posts)
            self._count(PollTally(minute, subject.user_id, outcome.kind, 1, new_posts))

    def buckets(self, owner: str | None, span: Span) -> list[Bucket]:
        """Counts of an owner's sources, or of all, oldest first, up to now."""
        minutes, counts, last = _MINUTES[span], self._counts[span], self._bucket_now(span)
        return [
            Bucket(
                EPOCH + timedelta(minutes=number * minutes),
                *counts.get(number, {}).get(owner, _ZEROS),
            )
            for number in range(last - _BUCKETS[span] + 1, last + 1)
        ]

    @asynccontextmanager
    async def filling(self, polls: PollHistory) -> AsyncIterator[None]:
        """Count the newest part of the history in the background; enter before any poll."""
        task = asyncio.create_task(self._fill(polls, await polls.last_id()))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _fill(self, polls: PollHistory, last: int) -> None:
        upto, first = last, max(last - MAX_HISTORY, 0)
        try:
            while upto > first and not self._reaches_back():
                after = max(upto - CHUNK, first)
                tallies = await polls.by_minute(after, upto)
                for tally in tallies:
                    self._count(tally)
                if tallies:
                    oldest = min(tally.minute for tally in tallies)
                    self.known_since = EPOCH + timedelta(minutes=oldest)
                upto = after
                await self._clock.sleep(_PAUSE_SECONDS)
        except HeadwaterError as error:
            log.warning("the poll history could not be counted", error=str(error))
        else:
            if upto <= 0 or self._reaches_back():
                self.known_since = None

    def _reaches_back(self) -> bool:
        since = self.known_since
        return since is not None and since <= self._clock.now() - timedelta(days=1)

    def _count(self, tally: PollTally) -> None:
        """Add polls to their buckets, unless these are too old, or in the future."""
        for span, buckets in self._counts.items():
            number, last = tally.minute // _MINUTES[span], self._bucket_now(span)
            # one bucket ahead: the clock of a worker may be a little fast
            valid = range(last - _BUCKETS[span] + 1, last + 2)
            if number not in valid:
                continue
            if number not in buckets:
                for old in [known for known in buckets if known not in valid]:
                    del buckets[old]
            by_owner = buckets.setdefault(number, {})
            for owner in (None, tally.owner):
                if owner in by_owner or len(by_owner) <= MAX_OWNERS:
                    counts = by_owner.setdefault(owner, list(_ZEROS))
                    counts[_COLUMNS[tally.outcome]] += tally.polls
                    counts[-1] += tally.new_posts

    def _bucket_now(self, span: Span) -> int:
        return int(self._clock.now().timestamp()) // 60 // _MINUTES[span]
