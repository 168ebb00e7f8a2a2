"""MemoryIncidents and MemoryStorms: in-memory versions of the tables of problems (Y1, Y6)."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.model import FailureType, Outcome, Source
from headwater.rules.activity import newest_at, published_times, silent_after, usual_pace
from headwater.rules.incident_texts import SourceState
from headwater.rules.incidents import (
    REJECTED_KINDS,
    REJECTING_AFTER,
    SELECTOR_POLLS,
    Evidence,
    Incident,
    IncidentChanges,
    IncidentKey,
)
from headwater.rules.url_secrets import masked
from headwater.simulation.memory_sources import MemorySources
from headwater.store.storms import Storm

_POLLED_WITHIN = timedelta(hours=1)
_FUTURE = timedelta(seconds=5)
_RECENT_POLLS = 1000
_OTHER_KINDS = (None,) * (SELECTOR_POLLS - 1)  # no simulated source has a selector


class MemoryStorms:
    """When failure storms of hosts began."""

    def __init__(
        self,
        sources: MemorySources,
        on_begin: Callable[[str, datetime], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._sources = sources
        self._on_begin = on_begin
        self._on_end = on_end
        self._storms: dict[str, Storm] = {}
        self._ended: set[str] = set()  # hosts

    async def lasting(self, host: str) -> Storm | None:
        """Return the storm of a host, if it lasts."""
        storm = self._storms.get(host)
        if storm is None or host in self._ended or self._is_over(storm):
            return None
        return storm

    async def others_polled(
        self, host: str, now: datetime, failing: Sequence[str], *, limit: int
    ) -> int:
        """Return how many other addresses of a host were polled within the last hour."""
        since = now - _POLLED_WITHIN
        urls = {
            source.url
            for source in self._sources.of_host(host)
            if source.first_poll_done and source.last_polled and source.last_polled >= since
            if not source.in_storm
        }
        return min(len(urls.difference(failing)), limit)

    async def begin(self, host: str, kind: str, now: datetime) -> None:
        """Store that a storm began."""
        self._storms[host] = Storm(host, kind, now)
        self._ended.discard(host)
        self._sources.clamp_successes(host, now)
        self._on_begin(host, now)

    async def is_any_over(self, now: datetime) -> bool:
        """Return whether there is something to finish."""
        storms = self._storms.values()
        return any(self._is_over(storm) or self._is_ahead(storm, now) for storm in storms)

    async def finish(self, now: datetime) -> list[str]:
        """End the storms that are over: request a poll of the sources that still fail."""
        over = [storm for storm in self._storms.values() if self._is_over(storm)]
        for storm in self._storms.values():
            if self._is_ahead(storm, now):
                self._storms[storm.host] = replace(storm, since=now)
                self._sources.clamp_successes(storm.host, now)
        for storm in over:
            self._ended.add(storm.host)
            self._on_end(storm.host)
            found = [one for one in self._sources.of_host(storm.host) if _is_retried(one)]
            await self._sources.request([source.id for source in found], now)
        return [storm.host for storm in over]

    def _is_over(self, storm: Storm) -> bool:
        if storm.host in self._ended:
            return False
        return any(_is_after(storm.since, one) for one in self._sources.of_host(storm.host))

    def _is_ahead(self, storm: Storm, now: datetime) -> bool:
        return storm.host not in self._ended and storm.since > now + _FUTURE

    async def hosts(self) -> list[str]:
        """Return the hosts whose storm lasts."""
        return [host for host in self._storms if await self.lasting(host) is not None]


def _is_retried(source: Source) -> bool:
    is_failing = source.last_failure_type is FailureType.PERMANENT and source.in_storm
    return is_failing and source.enabled and source.requested_at is None


def _is_after(since: datetime, source: Source) -> bool:
    return source.last_success_at is not None and source.last_success_at > since


class MemoryIncidents:
    """Open incidents, and what their evidence needs beside sources."""

    def __init__(
        self,
        sources: MemorySources,
        storms: MemoryStorms,
        on_change: Callable[[IncidentChanges], None],
    ) -> None:
        self._sources = sources
        self._storms = storms
        self._on_change = on_change
        self._open: dict[IncidentKey, Incident] = {}
        self._kinds: dict[str, str | None] = {}  # by source: the failure of its last poll
        self._times: dict[str, list[int]] = {}  # by source: publication times
        self._silent_after: dict[str, datetime] = {}
        self._successes: deque[datetime | None] = deque(maxlen=_RECENT_POLLS)  # of the last polls

    def learn(self, outcome: Outcome) -> None:
        """Store the row of a poll, and the publication times of its posts."""
        id_, failure = outcome.source.id, outcome.failure
        self._kinds[id_] = None if failure is None else failure.kind
        self._successes.append(outcome.started_at if failure is None else None)
        if any(post.published_at is not None for post in outcome.posts):
            now = outcome.source.last_polled or outcome.started_at
            self._times[id_] = published_times(self._times.get(id_, ()), outcome.posts, now)
            at = silent_after(self._times[id_])
            if at is not None:
                self._silent_after[id_] = at

    async def evidence(self, now: datetime, failing_hours: int) -> Evidence:
        """Return what the rules of incidents need."""
        storms = await self._storms.hosts()
        found = {source.id: source for source in self._candidates(now, failing_hours, storms)}
        if not found and not self._open and not storms:
            return Evidence((), ())
        states = [self._state(source) for source in found.values()]
        return Evidence(
            incidents=list(self._open.values()),
            sources=states,
            working=self._working(states, now),
            storms=frozenset(storms),
            succeeded_at=max((at for at in self._successes if at is not None), default=None),
        )

    async def apply(self, changes: IncidentChanges) -> IncidentChanges:
        """Store changes; return those that were not stored before."""
        for incident in (*changes.opened, *changes.updated):
            self._open[incident.key] = incident
        for incident in changes.closed:
            del self._open[incident.key]
        self._on_change(changes)
        return changes

    def _candidates(
        self, now: datetime, failing_hours: int, storms: Sequence[str]
    ) -> Iterable[Source]:
        """Return sources that may have a problem, and those of open incidents."""
        long_ago = now - min(timedelta(hours=failing_hours), REJECTING_AFTER)
        for source in self._sources.failing():
            since = source.failing_since
            if _is_auto_disabled(source) or (source.enabled and since and since <= long_ago):
                yield source
        for id_, at in self._silent_after.items():
            source = self._sources.now(id_)
            if at < now and source.enabled and _is_after(at, source):
                yield source
        for incident in self._open.values():
            yield from map(self._sources.now, incident.source_ids)
        for host in storms:
            for source in self._sources.of_host(host):
                if source.enabled and source.first_poll_done and source.consecutive_failures:
                    yield source

    def _state(self, source: Source) -> SourceState:
        is_failing = source.failing_since is not None
        at, times = self._silent_after.get(source.id), self._times.get(source.id, [])
        is_silent = at is not None and _is_after(at, source)
        return SourceState(
            id=source.id,
            user_id=self._sources.owner_of(source),
            host=source.host,
            name=source.label or source.title or masked(source.url),
            enabled=source.enabled,
            failures=source.consecutive_failures,
            failing_since=source.failing_since,
            auto_disabled=_is_auto_disabled(source),
            kinds=(self._kinds.get(source.id) if is_failing else None, *_OTHER_KINDS),
            silent_since=newest_at(times) if is_silent else None,
            pace=usual_pace(times) if is_silent else None,
        )

    def _working(
        self, states: Sequence[SourceState], now: datetime
    ) -> frozenset[tuple[str, str | None]]:
        """Return user and host with a recent success, among those that reject some sources."""
        since = now - REJECTING_AFTER
        places = {
            (state.user_id, state.host) for state in states if state.kinds[0] in REJECTED_KINDS
        }
        return frozenset(
            (user, host)
            for user, host in places
            if any(
                source.enabled
                and self._sources.owner_of(source) == user
                and source.last_success_at
                and source.last_success_at >= since
                for source in self._sources.of_host(host or "")
            )
        )


def _is_auto_disabled(source: Source) -> bool:
    return source.disabled_reason is not None and not source.enabled
