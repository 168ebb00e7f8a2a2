"""MemorySources: sources and which of them are due, as the engine asks the real store for them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Protocol

from headwater.errors import NotFound
from headwater.model import EPOCH, DueSource, Outcome, Source, Subject, changed
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds, hold_seconds, host_of, lane_of
from headwater.rules.schedule import due_at, is_from_the_future
from headwater.store.source_filter import SourceFilter

OwnerOf = Callable[[Source], str]


class Writes(Protocol):
    """Whoever wants to know what is written."""

    def recorded(self, outcome: Outcome, after: Source) -> None:
        """A poll was stored."""
        ...

    def discarded(self, outcome: Outcome) -> None:
        """A poll's result was thrown away: its source is another one by now (D4)."""
        ...

    def rewritten(self, before: Source, after: Source, why: str) -> None:
        """A source was changed by something else than a poll."""
        ...


class MemorySources:
    """Sources by their ids, with a heap of those that fall due."""

    def __init__(self, policy: Policy, writes: Writes, owner_of: OwnerOf) -> None:
        self._policy = policy
        self._writes = writes
        self._owner_of = owner_of
        self._sources: dict[str, Source] = {}
        self._of_host: dict[str | None, list[str]] = {}
        self._strangers: dict[str, None] = {}
        self._places: dict[str, tuple[str | None, float]] = {}  # lane and delay
        self._due_at: dict[str, datetime | None] = {}
        self._coming: dict[int, list[tuple[datetime, str]]] = {}  # by minute; some of it is stale
        self._minutes: list[int] = []  # a heap of the minutes in which something is coming
        self._later: list[tuple[datetime, str]] = []  # in this minute, but not yet
        self._ripe: dict[str, tuple[datetime, DueSource]] = {}
        self._requested: dict[str, DueSource] = {}
        self._latest = EPOCH  # no poll is dated later than this
        self.on_request: Callable[[], None] = lambda: None

    def add(self, sources: Iterable[Source]) -> None:
        """Take sources in."""
        for source in sources:
            self._of_host.setdefault(host_of(source), []).append(source.id)
            self._settle(source)
            self._keep(source)

    def all(self) -> Iterable[Source]:
        """Every source as it is now."""
        return self._sources.values()

    def current(self, source_id: str) -> Source | None:
        """A source as it is now, if there is one."""
        return self._sources.get(source_id)

    async def due(self, now: datetime, _policy: Policy) -> list[DueSource]:
        """All sources that are due and not on a hold of their own, lane by lane (S2)."""
        self._ripen(now)
        found = [due for at, due in self._ripe.values() if at <= now]
        found += self._requested.values()
        found = [due for due in found if self._is_free(due.id, now)]
        found.sort(key=lambda due: due.lane or "")
        return found

    async def requested(
        self, now: datetime, _policy: Policy, *, since: datetime = EPOCH
    ) -> list[DueSource]:
        """The sources that somebody asked to poll, of late or at any time (S9)."""
        asked = [due for due in self._requested.values() if due.overdue_since >= since]
        return [due for due in asked if self._is_free(due.id, now)]

    async def due_one(self, source_id: str, _policy: Policy) -> DueSource:
        """One source as its lane wants it, due or not."""
        return self._due_source(await self.get(source_id))

    async def subject(self, source_id: str) -> Subject | None:
        """A source as it is now, with whose it is."""
        source = self._sources.get(source_id)
        return None if source is None else Subject(source, self._owner_of(source))

    subject_for_poll = subject

    async def get(self, source_id: str) -> Source:
        """A source as it is now."""
        if source_id not in self._sources:
            raise NotFound(f"there is no source {source_id}")
        return self._sources[source_id]

    async def find(self, wanted: SourceFilter, *, limit: int) -> Sequence[Source]:
        """Sources of a host in the order they were added."""
        found = [self._sources[id_] for id_ in self._of_host.get(wanted.host, ())]
        return [s for s in found if wanted.enabled in (None, s.enabled)][:limit]

    async def edit(self, source_id: str, change: Callable[[Source], Source]) -> Source:
        """Change a source as it is now."""
        before = await self.get(source_id)
        after = change(before)
        self._settle(after)
        self._keep(after)
        self._writes.rewritten(before, after, "edited")
        if after.requested_at is not None:
            self.on_request()
        return after

    async def request(self, source_ids: Sequence[str], now: datetime) -> None:
        """Ask for a poll as soon as may be (S9)."""
        for source_id in source_ids:
            before = await self.get(source_id)
            after = replace(before, requested_at=now)
            self._keep(after)
            self._writes.rewritten(before, after, "requested")
        self.on_request()

    async def without_contact(self, limit: int) -> Sequence[Source]:
        """Enabled sources that were never polled and have no jitter yet (P6)."""
        some = (self._sources[id_] for id_ in self._strangers)
        return [source for source in some if source.enabled][:limit]

    async def set_contact(self, sources: Sequence[Source]) -> None:
        """Keep the jitter of these sources, once (P6)."""
        for source in sources:
            before = self._sources[source.id]
            if before.last_polled is None:
                after = replace(before, last_polled=source.last_polled)
                self._keep(after)
                self._writes.rewritten(before, after, "first contact")

    async def bring_back(self, now: datetime) -> int:
        """Rewrite polls that lie in the future: the clock was set back (S2)."""
        if self._latest <= now:
            return 0
        early = [s for s in self._sources.values() if s.enabled and is_from_the_future(s, now)]
        for before in early:
            after = replace(before, last_polled=now)
            self._keep(after)
            self._writes.rewritten(before, after, "brought back")
        known = (s.last_polled for s in self._sources.values() if s.last_polled is not None)
        self._latest = max(known, default=EPOCH)
        return len(early)

    def store(self, outcome: Outcome) -> bool:
        """Keep what a poll changed, unless somebody edited the source meanwhile (D4)."""
        before, after = self._sources.get(outcome.before.id), outcome.source
        if before is None or not _is_as_polled(before, outcome.before):
            self._writes.discarded(outcome)
            return False
        state: dict[str, object] = {"generation": before.generation + 1}
        if before is not outcome.before:
            state |= _changes(outcome)
            after = before
        after = changed(after, state)
        self._keep(after)
        self._writes.recorded(outcome, after)
        return True

    def _settle(self, source: Source) -> None:
        """Work out what only an edit changes."""
        own, host = source.poll_delay_seconds, host_of(source)
        delay = delay_seconds(own, source.type, host, self._policy)
        self._places[source.id] = (lane_of(source, self._owner_of(source)), delay)

    def _keep(self, source: Source) -> None:
        id_, last_polled = source.id, source.last_polled
        self._sources[id_] = source
        self._ripe.pop(id_, None)
        self._requested.pop(id_, None)
        self._strangers.pop(id_, None)
        if last_polled is None:
            self._strangers[id_] = None
        elif last_polled > self._latest:
            self._latest = last_polled
        at = self._due_at[id_] = due_at(source, self._policy)
        if source.requested_at is not None:
            self._requested[id_] = self._due_source(source)
        elif at is not None:
            self._expect(at, id_)

    def _expect(self, at: datetime, id_: str) -> None:
        minute = _minute(at)
        coming = self._coming.get(minute)
        if coming is None:
            coming = self._coming[minute] = []
            heappush(self._minutes, minute)
        coming.append((at, id_))

    def _ripen(self, now: datetime) -> None:
        """Take in what has fallen due."""
        minutes, this_minute = self._minutes, _minute(now)
        while minutes and minutes[0] <= this_minute:
            for at, id_ in sorted(self._coming.pop(heappop(minutes))):
                if self._due_at[id_] != at or id_ in self._requested:
                    continue  # something changed it since
                if at > now:
                    self._later.append((at, id_))
                else:
                    self._ripe[id_] = (at, self._due_source(self._sources[id_]))
        for at, id_ in self._later:
            self._expect(at, id_)
        self._later.clear()

    def _is_free(self, source_id: str, now: datetime) -> bool:
        hold = self._sources[source_id].hold
        return hold is None or hold_seconds(hold, now) <= 0

    def _due_source(self, source: Source) -> DueSource:
        lane, delay = self._places[source.id]
        since = self._due_at[source.id] or EPOCH
        return DueSource(source.id, lane, since, delay, source.requested_at is not None)


def _is_as_polled(current: Source, polled: Source) -> bool:
    if current is polled:
        return True
    return (current.generation, current.url, current.type, current.enabled) == (
        polled.generation,
        polled.url,
        polled.type,
        polled.enabled,
    )


def _changes(outcome: Outcome) -> dict[str, object]:
    """What a poll changed; what others changed meanwhile stays as they left it."""
    before, after = vars(outcome.before), vars(outcome.source)
    changes = {name: value for name, value in after.items() if before.get(name) != value}
    return changes | {"requested_at": outcome.source.requested_at}


def _minute(at: datetime) -> int:
    since = at - EPOCH
    return since.days * 1440 + since.seconds // 60


def in_milliseconds(at: datetime) -> datetime:
    """A moment as a database keeps it."""
    beyond = at.microsecond % 1000
    return at if not beyond else at - timedelta(microseconds=beyond)
