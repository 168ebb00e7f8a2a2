"""Timeline: polls and new posts of the last hour and day, by owner, counted as they happen.

A history of millions of polls is too long to be counted whenever somebody looks. After a restart
its newest part is counted once, a stretch at a time.
"""

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind
from headwater.engine.failures import RecentFailures
from headwater.errors import HeadwaterError
from headwater.logs import get_logger
from headwater.model import EPOCH, Outcome, OutcomeKind, Subject
from headwater.store.poll_tallies import FailedPoll, PollTally
from headwater.store.polls import Polls

log = get_logger()
_MOST_OWNERS = 2000  # with 6 KB each; the one who was polled for longest ago is let go
_MOST_UNDERWAY = 4096  # more than ever run at once: polls that broke off leave their start behind
_MOST_HISTORY = 500_000  # polls that are counted after a restart
_STRETCH = 10_000  # of them at a time
_REST_SECONDS = 0.1  # for others who want to read
_FIELDS = 4  # stored, unchanged, failed, new posts
_COLUMNS = {kind: place for place, kind in enumerate(OutcomeKind)}
_STARTED, _FINISHED = EventKind.POLL_STARTED, EventKind.POLL_FINISHED


class Span(StrEnum):
    """How far a timeline is looked at."""

    HOUR = "hour"
    DAY = "day"


_MINUTES = {Span.HOUR: 1, Span.DAY: 15}  # of a bucket
_BUCKETS = {Span.HOUR: 60, Span.DAY: 96}


class Bucket(NamedTuple):
    """What happened within a minute, or within some."""

    at: datetime  # its beginning
    stored: int
    unchanged: int
    failed: int
    new_posts: int


class Underway(NamedTuple):
    """A poll that has begun."""

    since: datetime
    subject: Subject


class Timeline:
    """Counts of the last hour and day; `hear` listens to the service's events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._everybody = _Series()
        self._owners: OrderedDict[str, _Series] = OrderedDict()
        self._underway: dict[str, Underway] = {}
        self._heard: set[str] | None = None  # sources polled while the history is being read
        self.failures = RecentFailures()
        self.known_since: datetime | None = clock.now()  # None: all that is looked at is known

    def hear(self, event: Event) -> None:
        """Count what an event says."""
        subject, outcome = event.subject, event.outcome
        if subject is None:
            return
        if event.kind is _STARTED:
            self._underway[subject.source.id] = Underway(event.at, subject)
            if len(self._underway) > _MOST_UNDERWAY:
                del self._underway[next(iter(self._underway))]
        elif event.kind is _FINISHED and outcome is not None:
            self._underway.pop(subject.source.id, None)
            if outcome.recorded:
                minute, column = int(event.at.timestamp()) // 60, _COLUMNS[outcome.kind]
                self._count(subject.user_id, minute, column, 1, len(outcome.posts))
                self._judge(subject, outcome, event.at)

    def buckets(self, owner: str | None, span: Span) -> list[Bucket]:
        """What happened to an owner's sources, or to all, oldest first, up to now."""
        series = self._everybody if owner is None else self._owners.get(owner)
        minute = int(self._clock.now().timestamp()) // 60
        return (series or _NOTHING).buckets(span, minute)

    def underway(self, source_ids: Iterable[str]) -> Sequence[Underway]:
        """The polls of these sources that have begun, the longest first."""
        begun = (self._underway.get(source_id) for source_id in source_ids)
        return sorted((poll for poll in begun if poll is not None), key=lambda poll: poll.since)

    @asynccontextmanager
    async def filling(self, polls: Polls) -> AsyncIterator[None]:
        """Count the newest part of the history beside everything else; begin before any poll."""
        last, self._heard = await polls.last_id(), set()
        task = asyncio.create_task(self._fill(polls, last))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _fill(self, polls: Polls, last: int) -> None:
        upto, first = last, max(last - _MOST_HISTORY, 0)
        try:
            while upto > first and not self._reaches_back():
                after = max(upto - _STRETCH, first)
                self._restore(await polls.by_minute(after, upto))
                self._restore_failures(await polls.failed(after, upto))
                upto = after
                await self._clock.sleep(_REST_SECONDS)
        except HeadwaterError as error:
            log.warning("the poll history could not be counted", error=str(error))
        else:
            if upto <= 0 or self._reaches_back():
                self.known_since = None
        finally:
            self._heard = None

    def _restore(self, tallies: Sequence[PollTally]) -> None:
        now = int(self._clock.now().timestamp()) // 60
        for tally in tallies:
            column = _COLUMNS[tally.outcome]
            self._count(tally.owner, tally.minute, column, tally.polls, tally.new_posts, now=now)
        if tallies:
            self.known_since = EPOCH + timedelta(minutes=min(tally.minute for tally in tallies))

    def _restore_failures(self, failed: Sequence[FailedPoll]) -> None:
        heard = self._heard or ()
        unheard = (poll for poll in failed if poll.source_id not in heard)
        self.failures.restore(unheard, self._clock.now())

    def _reaches_back(self) -> bool:
        since = self.known_since
        return since is not None and since <= self._clock.now() - timedelta(days=1)

    def _count(
        self, owner: str, minute: int, column: int, polls: int, posts: int, now: int | None = None
    ) -> None:
        series = self._owners.get(owner)
        if series is None:
            series = self._owners[owner] = _Series()
            if len(self._owners) > _MOST_OWNERS:
                self._owners.popitem(last=False)
        elif now is None:
            self._owners.move_to_end(owner)
        series.add(minute, column, polls, posts, now)
        self._everybody.add(minute, column, polls, posts, now)

    def _judge(self, subject: Subject, outcome: Outcome, at: datetime) -> None:
        source, failure = outcome.source, outcome.failure
        if self._heard is not None:
            self._heard.add(source.id)
        if failure is None:
            self.failures.forget(source.id)
        elif not failure.local:  # our own trouble says nothing about the source (F6)
            owner, off = subject.user_id, not source.enabled
            place = source.id, owner, source.podcast_id, source.host
            self.failures.failed(FailedPoll(*place, failure.kind, failure.message, at, off))


class _Series:
    """One owner's counts, in a ring per span."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings = {span: _Ring(_MINUTES[span], _BUCKETS[span]) for span in Span}

    def add(self, minute: int, column: int, polls: int, posts: int, now: int | None) -> None:
        """Count polls of one outcome; with `now`, only as far as a look reaches back from then."""
        for ring in self._rings.values():
            ring.add(minute, column, polls, posts, now)

    def buckets(self, span: Span, minute: int) -> list[Bucket]:
        """The buckets up to a minute."""
        return self._rings[span].buckets(minute)


class _Ring:
    """Buckets that are used again and again; each knows which stretch of time it counts."""

    __slots__ = ("_counts", "_minutes", "_numbers")

    def __init__(self, minutes: int, buckets: int) -> None:
        self._minutes = minutes
        self._numbers = array("q", [-1]) * buckets
        self._counts = array("q", [0]) * (buckets * _FIELDS)

    def add(self, minute: int, column: int, polls: int, posts: int, now: int | None) -> None:
        number, size = minute // self._minutes, len(self._numbers)
        if now is not None and not 0 <= now // self._minutes - number < size:
            return
        slot = number % size
        first = slot * _FIELDS
        if self._numbers[slot] != number:
            self._numbers[slot] = number
            self._counts[first : first + _FIELDS] = _ZEROS
        self._counts[first + column] += polls
        self._counts[first + _FIELDS - 1] += posts

    def buckets(self, minute: int) -> list[Bucket]:
        size, last = len(self._numbers), minute // self._minutes
        return [self._bucket(number, number % size) for number in range(last - size + 1, last + 1)]

    def _bucket(self, number: int, slot: int) -> Bucket:
        at = EPOCH + timedelta(minutes=number * self._minutes)
        first = slot * _FIELDS
        known = self._numbers[slot] == number
        return Bucket(at, *(self._counts[first : first + _FIELDS] if known else _ZEROS))


_ZEROS = array("q", [0]) * _FIELDS
_NOTHING = _Series()


def totals(buckets: Sequence[Bucket]) -> Mapping[OutcomeKind, int]:
    """How many polls ended in each way."""
    return {
        OutcomeKind.STORED: sum(bucket.stored for bucket in buckets),
        OutcomeKind.UNCHANGED: sum(bucket.unchanged for bucket in buckets),
        OutcomeKind.FAILED: sum(bucket.failed for bucket in buckets),
    }
