"""Everything at a glance: how an owner's sources are, what happened of late, what happens now."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.clock import Clock
from headwater.engine.failures import Cause
from headwater.engine.service import Service
from headwater.engine.timeline import Bucket, Span, Underway
from headwater.model import Health, Hold, Source
from headwater.operations.standing import OVERDUE_TICKS, Kept
from headwater.rules.policy import Policy
from headwater.rules.politeness import X_HOST, host_of_lane
from headwater.store import Store
from headwater.store.census import Backlog, PodcastTally

_SHOWN = 8  # of each list
_MOST_HELD = 500  # hosts on hold that are looked at, the first to be free first
_KEPT_SECONDS = 0.5  # people look for what they just did
_COUNTING_SHARE = 0.02  # of the time may go into counting everything
_TIDYING_ROUNDS = 3
NOTHING_DUE = Backlog(0, 0, None)


@dataclass(frozen=True, slots=True)
class HeldHost:
    """A host that asked to be left alone."""

    host: str
    hold: Hold
    sources: int  # of the owner's that wait for it


@dataclass(frozen=True, slots=True)
class Trouble:
    """Sources that fail for the same cause."""

    cause: Cause
    sources: Sequence[Source]  # some of them, the last to fail first
    hold: Hold | None  # of their host


@dataclass(frozen=True, slots=True)
class Glance:
    """What somebody sees first; None: the database did not answer in time."""

    by_health: Mapping[Health, int] | None
    by_podcast: Mapping[str, Mapping[Health, int]]
    backlog: Backlog | None
    buckets: Sequence[Bucket]
    known_since: datetime | None
    polled: Sequence[Underway]
    polled_count: int
    held: Sequence[HeldHost]
    held_count: int
    troubles: Sequence[Trouble]
    trouble_count: int
    last_tick: datetime | None

    @property
    def sources(self) -> int:
        """How many there are."""
        return sum((self.by_health or {}).values())


class Glances:
    """Looks at a service and its database for whoever asks, however many ask."""

    def __init__(
        self, store: Store, service: Service, clock: Clock, policy: Policy, tick_seconds: float
    ) -> None:
        self._store = store
        self._service = service
        census, patience = store.census, timedelta(seconds=OVERDUE_TICKS * tick_seconds)
        # one answer for all owners: asking costs the same, however many of them look
        self._backlogs = Kept(
            lambda: census.backlogs(clock.now(), policy, patience),
            clock,
            least_seconds=_KEPT_SECONDS,
        )
        self._by_podcast = Kept(
            census.by_podcast, clock, _COUNTING_SHARE, least_seconds=_KEPT_SECONDS
        )
        self._waiting = Kept(
            lambda: census.on_hosts([host_of_lane(lane) for lane in self._held_lanes()]),
            clock,
            _COUNTING_SHARE,
            least_seconds=_KEPT_SECONDS,
        )

    async def is_empty(self, owner: str | None) -> bool:
        """Whether an owner, or everybody, watches nothing yet."""
        return not await self._store.census.any_sources(owner)

    async def look(self, owner: str | None, span: Span) -> Glance:
        """What an owner sees of their own sources, or an administrator of everybody's (U2)."""
        timeline, polled = self._service.timeline, self._polled(owner)
        tallies, backlog, held, (troubles, trouble_count) = await asyncio.gather(
            self._tallies(owner), self._backlog(owner), self._held(owner), self._troubles(owner)
        )
        return Glance(
            by_health=None if tallies is None else _sum_of(tallies),
            by_podcast={tally.podcast_id: tally.by_health for tally in tallies or ()},
            backlog=backlog,
            buckets=timeline.buckets(owner, span),
            known_since=timeline.known_since,
            polled=polled[:_SHOWN],
            polled_count=len(polled),
            held=held[:_SHOWN],
            held_count=len(held),
            troubles=troubles,
            trouble_count=trouble_count,
            last_tick=self._service.last_tick,
        )

    async def _tallies(self, owner: str | None) -> Sequence[PodcastTally] | None:
        found = await self._by_podcast.at_hand()
        if found is None or owner is None:
            return found
        return [tally for tally in found if tally.owner == owner]

    async def _backlog(self, owner: str | None) -> Backlog | None:
        found = await self._backlogs.at_hand()
        if found is None:
            return None
        if owner is not None:
            return found.get(owner, NOTHING_DUE)
        late = [b.oldest_overdue_at for b in found.values() if b.oldest_overdue_at is not None]
        due, overdue = sum(b.due for b in found.values()), sum(b.overdue for b in found.values())
        return Backlog(due, overdue, min(late, default=None))

    def _polled(self, owner: str | None) -> Sequence[Underway]:
        polls = self._service.timeline.underway(self._service.lanes.in_flight().values())
        return [poll for poll in polls if owner in (None, poll.subject.user_id)]

    async def _held(self, owner: str | None) -> Sequence[HeldHost]:
        lanes = self._held_lanes()
        waiting = await self._waiting.at_hand() if lanes else None
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
        """The lanes on hold with their holds by the clock of now, the first to be free first."""
        gates = self._service.gates
        held = [lane for lane in gates.names() if lane and gates.hold_of(lane) is not None]
        holds = ((lane, gates.state(lane).hold) for lane in held)
        known = [(lane, hold) for lane, hold in holds if hold is not None]
        return dict(sorted(known, key=lambda one: one[1].until)[:_MOST_HELD])

    async def _troubles(self, owner: str | None) -> tuple[Sequence[Trouble], int]:
        failures = self._service.timeline.failures
        for _ in range(_TIDYING_ROUNDS):
            causes, count = failures.causes(owner, _SHOWN)
            shown = [poll.source_id for cause in causes for poll in cause.newest]
            subjects = await self._store.sources.subjects(shown) if shown else {}
            known = {id_: subject.source for id_, subject in subjects.items()}
            gone = [id_ for id_ in shown if id_ not in known or not _fails(known[id_])]
            if not gone:
                break
            for source_id in gone:  # removed, edited or enabled again since
                failures.forget(source_id)
        return [self._trouble(cause, known) for cause in causes], count

    def _trouble(self, cause: Cause, known: Mapping[str, Source]) -> Trouble:
        newest = cause.newest[0]
        lane = f"{X_HOST}/{newest.owner}" if cause.host == X_HOST else cause.host or ""
        sources = [known[poll.source_id] for poll in cause.newest if poll.source_id in known]
        return Trouble(cause, sources, self._service.gates.state(lane).hold)


def _fails(source: Source) -> bool:
    return source.consecutive_failures > 0


def _sum_of(tallies: Sequence[PodcastTally]) -> Mapping[Health, int]:
    return {health: sum(tally.by_health[health] for tally in tallies) for health in Health}
