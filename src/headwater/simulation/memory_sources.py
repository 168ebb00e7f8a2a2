"""MemorySources: an in-memory version of the source store, as far as the engine uses it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from operator import attrgetter

from headwater.errors import NotFound
from headwater.model import EPOCH, DueSource, Outcome, Source, SourceType, Subject, changed
from headwater.rules.outcome import ended_failures
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_seconds, hold_seconds, host_of, lane_of
from headwater.rules.schedule import due_at, is_from_the_future
from headwater.simulation.state_checks import StateChecks
from headwater.store.source_pages import SourceFilter

OwnerOf = Callable[[Source], str]
_identity = attrgetter("generation", "url", "type", "enabled")


class MemorySources:
    """Sources by id, with a heap of due times."""

    def __init__(self, policy: Policy, checks: StateChecks, owner_of: OwnerOf) -> None:
        self._policy = policy
        self._checks = checks
        self.owner_of = owner_of
        self._sources: dict[str, Source] = {}
        self._of_host: dict[str | None, dict[str, None]] = {}  # ids
        self._failing: dict[str, None] = {}
        self._never_polled: dict[str, None] = {}
        self._lanes: dict[str, tuple[str | None, float]] = {}  # lane and delay by source
        self._due_at: dict[str, datetime | None] = {}
        self._queue: list[tuple[datetime, str]] = []  # a heap by due time; some are outdated
        self._due: dict[str, tuple[datetime, DueSource]] = {}
        self._requested: dict[str, DueSource] = {}
        self._latest = EPOCH  # no `last_polled` is later
        self.on_request: Callable[[], None] = lambda: None

    def add(self, sources: Iterable[Source]) -> None:
        """Add sources."""
        for source in sources:
            self._set_lane(source)
            self._keep(source)
            self._of_host.setdefault(host_of(source), {})[source.id] = None

    def all(self) -> Iterable[Source]:
        """Return all sources."""
        return self._sources.values()

    def now(self, source_id: str) -> Source:
        """Return a source as it is stored now."""
        return self._sources[source_id]

    def of_host(self, host: str | None) -> Iterable[Source]:
        """Return the sources of a host."""
        return [self._sources[id_] for id_ in self._of_host.get(host, ())]

    def failing(self) -> Iterable[Source]:
        """Return the sources whose last polls failed."""
        return [self._sources[id_] for id_ in self._failing]

    async def due(self, now: datetime, _policy: Policy) -> list[DueSource]:
        """Return all sources that are due and not on a hold of their own, by lane (S2)."""
        self._move_due(now)
        due = [source for at, source in self._due.values() if at <= now]
        due += self._requested.values()
        due = [source for source in due if self._is_free(source.id, now)]
        due.sort(key=lambda source: source.lane or "")
        return self._with_request_keys(due)

    def _with_request_keys(self, due: Sequence[DueSource]) -> list[DueSource]:
        """Return due sources with equal keys where several have the same request (Y7)."""
        urls = Counter(self._sources[one.id].url for one in due)
        if len(urls) == len(due):
            return list(due)
        return [
            replace(one, request_key=_request_key(self._sources[one.id]))
            if urls[self._sources[one.id].url] > 1
            else one
            for one in due
        ]

    async def requested(
        self, now: datetime, _policy: Policy, *, since: datetime = EPOCH
    ) -> list[DueSource]:
        """Return the sources whose poll was requested since then (S9)."""
        due = [source for source in self._requested.values() if source.overdue_since >= since]
        return [source for source in due if self._is_free(source.id, now)]

    async def due_one(self, source_id: str, _policy: Policy) -> DueSource:
        """Return one source in the form that its lane needs, due or not."""
        return self._due_source(await self.get(source_id))

    async def subject(self, source_id: str) -> Subject | None:
        """Return a source and its owner; None if it does not exist."""
        source = self._sources.get(source_id)
        return None if source is None else Subject(source, self.owner_of(source))

    subject_for_poll = subject

    async def get(self, source_id: str) -> Source:
        """Return a source; NotFound if it does not exist."""
        if source_id not in self._sources:
            raise NotFound(f"there is no source {source_id}")
        return self._sources[source_id]

    async def find(self, wanted: SourceFilter, *, limit: int) -> Sequence[Source]:
        """Return sources of a host in the order they were added."""
        found = self.of_host(wanted.host)
        return [one for one in found if wanted.enabled in (None, one.enabled)][:limit]

    async def edit(self, source_id: str, change: Callable[[Source], Source]) -> Source:
        """Change a source."""
        before = await self.get(source_id)
        after = change(before)
        self._set_lane(after)
        self._rewrite(before, after, "edited")
        if after.requested_at is not None:
            self.on_request()
        return after

    async def request(self, source_ids: Sequence[str], now: datetime) -> None:
        """Request polls (S9)."""
        for source_id in source_ids:
            before = await self.get(source_id)
            self._rewrite(before, replace(before, requested_at=now), "requested")
        self.on_request()

    async def without_contact(self, limit: int) -> Sequence[Source]:
        """Return enabled sources that were never polled and have no jitter yet (P6)."""
        sources = (self._sources[id_] for id_ in self._never_polled)
        return [source for source in sources if source.enabled][:limit]

    async def last_polls(self, urls: Collection[str]) -> dict[tuple[SourceType, str], datetime]:
        """Return when enabled sources with these URLs were last polled (Y7)."""
        found: dict[tuple[SourceType, str], datetime] = {}
        for source in self._sources.values():
            if source.url in urls and source.enabled and source.last_polled is not None:
                key = (source.type, source.url)
                found[key] = max(source.last_polled, found.get(key, EPOCH))
        return found

    async def set_contact(self, sources: Sequence[Source]) -> None:
        """Store the jitter of sources that have none (P6)."""
        for source in sources:
            before = self._sources[source.id]
            if before.last_polled is None:
                after = changed(before, {"last_polled": source.last_polled})
                self._rewrite(before, after, "first contact")

    async def clamp_future_polls(self, now: datetime) -> int:
        """Set `last_polled` in the future to now: the clock was set back (S2)."""
        if self._latest <= now:
            return 0
        early = [s for s in self._sources.values() if s.enabled and is_from_the_future(s, now)]
        for before in early:
            self._rewrite(before, replace(before, last_polled=now), "clamped")
        polled = (s.last_polled for s in self._sources.values() if s.last_polled is not None)
        self._latest = max(polled, default=EPOCH)
        return len(early)

    def clamp_successes(self, host: str, now: datetime) -> None:
        """Let no success of a host be later than now: the clock was set back (O4)."""
        for before in self.of_host(host):
            if before.last_success_at is not None and before.last_success_at > now:
                self._rewrite(before, replace(before, last_success_at=now), "clamped")

    def store(self, outcome: Outcome) -> bool:
        """Store what a poll changed, unless the source was edited meanwhile (D4)."""
        before, after = self._sources.get(outcome.before.id), outcome.source
        if before is None or not _is_as_polled(before, outcome):
            self._checks.discarded(outcome)
            return False
        state: dict[str, object] = {"generation": before.generation + 1}
        if before is not outcome.before:
            state |= _changes(outcome)
            after = before
        after = changed(after, state)
        self._keep(after)
        self._checks.recorded(outcome, after)
        return True

    def _rewrite(self, before: Source, after: Source, why: str) -> None:
        self._keep(after)
        self._checks.rewritten(before, after, why)

    def _set_lane(self, source: Source) -> None:
        own, host = source.poll_delay_seconds, host_of(source)
        delay = delay_seconds(own, source.type, host, self._policy)
        self._lanes[source.id] = (lane_of(source, self.owner_of(source)), delay)

    def _keep(self, source: Source) -> None:
        id_, last_polled = source.id, source.last_polled
        self._sources[id_] = source
        self._due.pop(id_, None)
        self._requested.pop(id_, None)
        self._never_polled.pop(id_, None)
        if source.failing_since is not None:
            self._failing[id_] = None
        elif id_ in self._failing:
            del self._failing[id_]
        if last_polled is None:
            self._never_polled[id_] = None
        elif last_polled > self._latest:
            self._latest = last_polled
        at = self._due_at[id_] = due_at(source, self._policy)
        if source.requested_at is not None:
            self._requested[id_] = self._due_source(source)
        elif at is not None:
            heappush(self._queue, (at, id_))

    def _move_due(self, now: datetime) -> None:
        """Move sources from the queue to `_due`."""
        while self._queue and self._queue[0][0] <= now:
            at, id_ = heappop(self._queue)
            if self._due_at[id_] == at and id_ not in self._requested:  # else it is outdated
                self._due[id_] = (at, self._due_source(self._sources[id_]))

    def _is_free(self, source_id: str, now: datetime) -> bool:
        hold = self._sources[source_id].hold
        return hold is None or hold_seconds(hold, now) <= 0

    def _due_source(self, source: Source) -> DueSource:
        lane, delay = self._lanes[source.id]
        since = self._due_at[source.id] or EPOCH
        return DueSource(source.id, lane, since, delay, source.requested_at is not None)


def _request_key(source: Source) -> int | None:
    is_shared = source.type is not SourceType.TWITTER
    return hash((source.type, source.url, source.watch)) if is_shared else None


def _is_as_polled(current: Source, outcome: Outcome) -> bool:
    polled = outcome.before
    if current is polled:
        return True
    is_counted = outcome.failure is None or (
        current.consecutive_failures == polled.consecutive_failures  # else taken back (O2)
    )
    return is_counted and _identity(current) == _identity(polled)


def _changes(outcome: Outcome) -> dict[str, object]:
    """Return the fields that a poll changed; other fields may have been edited meanwhile."""
    before, after = vars(outcome.before), vars(outcome.source)
    changes = {name: value for name, value in after.items() if before.get(name) != value}
    return changes | ended_failures(outcome) | {"requested_at": outcome.source.requested_at}


def in_milliseconds(at: datetime) -> datetime:
    """Return a time with the precision of a database."""
    beyond = at.microsecond % 1000
    return at if not beyond else at - timedelta(microseconds=beyond)
