"""The dashboard's overview: health of the sources, recent and running polls, holds, failures."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest
from typing import TypeVar

from headwater.clock import Clock
from headwater.engine.service import Service
from headwater.engine.timeline import Bucket, Span
from headwater.model import Health, Hold, Source
from headwater.operations.service_status import CachedValue, overdue_after
from headwater.rules.policy import Policy
from headwater.rules.politeness import X_HOST, host_of_lane
from headwater.store import Store
from headwater.store.poll_history import FailedPoll
from headwater.store.source_counts import DueCounts, PodcastTally

_SHOWN = 8  # of each list
_MOST_HELD = 500  # hosts on hold that are read, those that end first
_CACHE_SECONDS = 0.5  # short: people expect to see what they just did
_COUNTING_SHARE = 0.02  # of the time may be spent on counting all sources
_MAX_FAILURES = 10_000  # failing sources that are read, those polled last
_FAILURE_AGE = timedelta(hours=25)  # with backoff, a source is polled at least once a day
_SOURCES_SHOWN = 3  # of each cause of failures
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldHost:
    """A host on hold."""

    host: str
    hold: Hold
    sources: int  # of the owner, that wait for its end


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Sources of one host whose last poll failed with the same kind of failure."""

    newest: FailedPoll
    count: int  # of sources
    disabled: int  # how many of them are switched off
    podcast_id: str | None  # None: several podcasts
    sources: Sequence[Source]  # some of them, the newest failure first
    hold: Hold | None  # of their host


@dataclass(frozen=True, slots=True)
class RunningPoll:
    """A poll that is running now."""

    since: datetime
    source: Source


@dataclass(frozen=True, slots=True)
class Overview:
    """The data of the page; None: the database did not respond in time."""

    by_health: Mapping[Health, int] | None
    by_podcast: Mapping[str, Mapping[Health, int]]
    backlog: DueCounts | None
    buckets: Sequence[Bucket]
    known_since: datetime | None
    polled: Sequence[RunningPoll]
    polled_count: int
    held: Sequence[HeldHost]
    held_count: int
    failures: Sequence[FailureGroup]
    failure_count: int
    last_tick: datetime | None


class OverviewReader:
    """Reads overviews; expensive queries are cached and shared by all users."""

    def __init__(
        self, store: Store, service: Service, clock: Clock, policy: Policy, tick_seconds: float
    ) -> None:
        self._store = store
        self._service = service
        counts, overdue = store.source_counts, overdue_after(tick_seconds)

        def cached(query: Callable[[], Awaitable[T]]) -> CachedValue[T]:
            return CachedValue(query, clock, _COUNTING_SHARE, least_seconds=_CACHE_SECONDS)

        self._failing = cached(
            lambda: store.polls.failing(clock.now() - _FAILURE_AGE, _MAX_FAILURES)
        )
        # one query for all owners costs as much as one for a single owner
        self._backlogs = CachedValue(
            lambda: counts.due_by_owner(clock.now(), policy, overdue),
            clock,
            least_seconds=_CACHE_SECONDS,
        )
        self._by_podcast = cached(counts.by_podcast)
        self._waiting = cached(
            lambda: counts.on_hosts([host_of_lane(lane) for lane in self._held_lanes()])
        )

    async def is_empty(self, owner: str | None) -> bool:
        """Whether an owner, or the whole database, has no sources."""
        return not await self._store.source_counts.any_sources(owner)

    async def read(self, owner: str | None, span: Span) -> Overview:
        """The overview of an owner's sources, or of all for an administrator (U2)."""
        timeline = self._service.timeline
        tallies, backlog, polled, held, (failures, failure_count) = await asyncio.gather(
            self._tallies(owner),
            self._backlog(owner),
            self._polled(owner),
            self._held(owner),
            self._failures(owner),
        )
        by_podcast = {tally.podcast_id: tally.by_health for tally in tallies or ()}
        by_health = {state: sum(one[state] for one in by_podcast.values()) for state in Health}
        return Overview(
            by_health=None if tallies is None else by_health,
            by_podcast=by_podcast,
            backlog=backlog,
            buckets=timeline.buckets(owner, span),
            known_since=timeline.known_since,
            polled=polled[:_SHOWN],
            polled_count=len(polled),
            held=held[:_SHOWN],
            held_count=len(held),
            failures=failures,
            failure_count=failure_count,
            last_tick=self._service.last_tick,
        )

    async def _tallies(self, owner: str | None) -> Sequence[PodcastTally] | None:
        found = await self._by_podcast.get_recent()
        if found is None or owner is None:
            return found
        return [tally for tally in found if tally.owner == owner]

    async def _backlog(self, owner: str | None) -> DueCounts | None:
        found = await self._backlogs.get_recent()
        if found is None:
            return None
        if owner is not None:
            return found.get(owner, DueCounts(0, 0, None))
        late = [b.oldest_overdue_at for b in found.values() if b.oldest_overdue_at is not None]
        due, overdue = sum(b.due for b in found.values()), sum(b.overdue for b in found.values())
        return DueCounts(due, overdue, min(late, default=None))

    async def _polled(self, owner: str | None) -> Sequence[RunningPoll]:
        """The running polls, the longest first."""
        since = self._service.lanes.running_since()
        subjects = await self._store.sources.subjects(list(since)) if since else {}
        polls = [
            RunningPoll(since[id_], subject.source)
            for id_, subject in subjects.items()
            if owner in (None, subject.user_id)
        ]
        return sorted(polls, key=lambda poll: poll.since)

    async def _held(self, owner: str | None) -> Sequence[HeldHost]:
        lanes = self._held_lanes()
        waiting = await self._waiting.get_recent() if lanes else None
        found = []
        for lane, hold in lanes.items():
            host, _, lane_owner = lane.partition("/")
            whose = lane_owner or owner
            counts = (waiting or {}).get(host, {})
            sources = sum(counts.values()) if whose is None else counts.get(whose, 0)
            if owner is None or (owner == whose and sources > 0):
                found.append(HeldHost(host, hold, sources))
        return found

    def _held_lanes(self) -> Mapping[str, Hold]:
        """The lanes on hold, those whose hold ends first in front."""
        gates = self._service.gates
        held = [lane for lane in gates.names() if lane and gates.hold_of(lane) is not None]
        holds = ((lane, gates.state(lane).hold) for lane in held)
        known = [(lane, hold) for lane, hold in holds if hold is not None]
        return dict(sorted(known, key=lambda one: one[1].until)[:_MOST_HELD])

    async def _failures(self, owner: str | None) -> tuple[Sequence[FailureGroup], int]:
        """The causes with the most failing sources, and the number of causes."""
        groups: dict[tuple[str | None, str], list[FailedPoll]] = {}
        for poll in await self._failing.get_recent() or ():
            if owner in (None, poll.owner):
                groups.setdefault((poll.host, poll.kind), []).append(poll)
        most = nlargest(_SHOWN, groups.values(), key=lambda polls: (len(polls), polls[0].at))
        shown = [poll.source_id for polls in most for poll in polls[:_SOURCES_SHOWN]]
        subjects = await self._store.sources.subjects(shown) if shown else {}
        # without sources that recovered, or were edited or removed, since they were cached
        known = {i: one.source for i, one in subjects.items() if one.source.consecutive_failures}
        found = [self._failure_group(polls, known) for polls in most]
        return [group for group in found if group.sources], len(groups)

    def _failure_group(
        self, polls: Sequence[FailedPoll], known: Mapping[str, Source]
    ) -> FailureGroup:
        newest, podcasts = polls[0], {poll.podcast_id for poll in polls}
        lane = f"{X_HOST}/{newest.owner}" if newest.host == X_HOST else newest.host or ""
        return FailureGroup(
            newest=newest,
            count=len(polls),
            disabled=sum(poll.disabled for poll in polls),
            podcast_id=podcasts.pop() if len(podcasts) == 1 else None,
            sources=[known[p.source_id] for p in polls[:_SOURCES_SHOWN] if p.source_id in known],
            hold=self._service.gates.state(lane).hold,
        )
