"""Hosts as people see them: what is watched there, and how their lanes stand right now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headwater.engine.lanes import NULL_LANE
from headwater.engine.service import Service
from headwater.errors import BadUrl, NotFound
from headwater.model import Hold, HostState, PollRecord, Source, Subject
from headwater.rules.explanation import LaneNow
from headwater.rules.policy import Policy
from headwater.rules.politeness import (
    X_HOST,
    delay_seconds,
    host_free_at,
    host_of_lane,
    origin_of_delay,
)
from headwater.rules.urls import normal_host
from headwater.store import Store
from headwater.store.host_lists import HostTally

MOST_SOURCES = 50  # that are shown of a host
_ANSWERS = 20
_LOOKED_AT = 500  # lanes, where somebody's hosts are looked for among everybody's
_CAUSES_FROM = 50  # sources that fail, of which each host's causes are told


@dataclass(frozen=True, slots=True)
class InFlight:
    """A poll under way; all of it is None where the source is somebody else's."""

    source_id: str | None = None
    url: str | None = None
    podcast_id: str | None = None


@dataclass(frozen=True, slots=True)
class HostView:
    """A host with what is watched on it and the state of its lane."""

    host: str
    sources: int
    enabled: int
    failing: int
    lane_length: int  # sources that wait or are polled, those of others included
    in_flight: InFlight | None
    delay_seconds: float  # the longest that a source seen here asks for
    delay_origin: str
    hold: Hold | None
    next_allowed_at: datetime | None  # None: right now
    last_success_at: datetime | None  # of the sources seen here


@dataclass(frozen=True, slots=True)
class HostCard:
    """A host with its last answers."""

    view: HostView
    answers: tuple[PollRecord, ...]  # newest first


@dataclass(frozen=True, slots=True)
class HostsSeen:
    """The hosts of one user's sources, or of everybody's, in a running service: for one look."""

    store: Store
    service: Service
    policy: Policy
    owner: str | None  # None: everybody's
    _counted: dict[str, list[HostTally]] = field(default_factory=dict)  # for this one look

    async def page(self, limit: int, *, after: str = "", now: datetime) -> list[HostView]:
        """Hosts in order, behind a given one."""
        found: list[HostView] = []
        while (left := limit - len(found)) > 0:
            names = await self.store.hosts.names(owner=self.owner, after=after, limit=left)
            found += await self._views(names, now)  # less one that lost its last source just now
            if len(names) < left:
                break
            after = names[-1]
        return found

    async def busy(self, limit: int, *, now: datetime) -> list[HostView]:
        """Hosts that are asked now, are on hold, or have sources waiting, in this order."""
        lanes, gates = self.service.lanes, self.service.gates
        held = [lane for lane in gates.names() if gates.hold_of(lane) is not None]
        waiting = sorted(lanes.names()[:_LOOKED_AT], key=lanes.length, reverse=True)
        names = [
            host_of_lane(lane)
            for lane in (*lanes.in_flight(), *held, *waiting)
            if lane != NULL_LANE and self._is_seen(lane)
        ]
        names = list(dict.fromkeys(names))[:_LOOKED_AT]
        found: list[HostView] = []
        while names and len(found) < limit:  # others than administrators have to find theirs
            found += await self._views(names[:limit], now)
            names = names[limit:]
        return found[:limit]

    async def causes(self, views: Sequence[HostView]) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Of what kinds the last failures on these hosts were, the most frequent first."""
        failing = [view.host for view in views if view.failing > 0]
        return await self.store.hosts.causes(failing, owner=self.owner, limit=_CAUSES_FROM)

    async def sources(self, host: str) -> Sequence[Source]:
        """Sources that are watched on a host, those that fail first, a screenful at most."""
        return await self.store.hosts.watched(host, owner=self.owner, limit=MOST_SOURCES)

    async def counts_by_podcast(self, host: str) -> dict[str, int]:
        """How many sources on a host each podcast has, by its id."""
        found = self.store.hosts.counts_by_podcast(host, owner=self.owner, limit=MOST_SOURCES)
        return dict(await found)

    async def card(self, name: str, *, now: datetime) -> HostCard:
        """One host with its last answers; NotFound if nothing seen here is watched on it."""
        try:
            host = normal_host(name)
        except BadUrl:
            host = ""
        views = await self._views([host], now)
        if not views:
            raise NotFound(f"there is no host {name!r} among the sources")
        answers = await self.store.hosts.answers(host, owner=self.owner, limit=_ANSWERS)
        return HostCard(views[0], tuple(answers))

    async def _views(self, names: Sequence[str], now: datetime) -> list[HostView]:
        by_host = await self._tallies(names)
        polled = self.service.lanes.in_flight()
        lanes = {host: self._lanes_of(host) for host in names if by_host[host]}
        ids = [polled[lane] for own in lanes.values() for lane in own if lane in polled]
        # all in one look: at full speed most hosts are being asked
        subjects = await self.store.sources.subjects(ids) if ids else {}
        underway = {lane: self._in_flight(subjects.get(id_)) for lane, id_ in polled.items()}
        return [self._view(host, by_host[host], own, underway, now) for host, own in lanes.items()]

    async def _tallies(self, names: Sequence[str]) -> Mapping[str, Sequence[HostTally]]:
        """What is watched on these hosts; one that may have very many sources is counted once."""
        new: dict[str, list[HostTally]] = {name: [] for name in names if name not in self._counted}
        for tally in await self.store.hosts.tallies(list(new), owner=self.owner) if new else ():
            new[tally.host].append(tally)
        self._counted.update(new)
        return self._counted

    def _view(
        self,
        host: str,
        tallies: Sequence[HostTally],
        lanes: Sequence[str],
        underway: Mapping[str, InFlight],
        now: datetime,
    ) -> HostView:
        states = [self.service.gates.state(lane) for lane in lanes]
        longest = max(states, key=lambda state: host_free_at(state, now))
        held_until = None if longest.hold is None else longest.hold.until
        waits = [at for at in (longest.next_allowed_at, held_until) if at is not None]
        delay, origin = _longest_delay(host, tallies, self.policy)
        successes = [t.last_success_at for t in tallies if t.last_success_at is not None]
        return HostView(
            host=host,
            sources=sum(tally.sources for tally in tallies),
            enabled=sum(tally.enabled for tally in tallies),
            failing=sum(tally.failing for tally in tallies),
            lane_length=sum(self.service.lanes.length(lane) for lane in lanes),
            in_flight=next((underway[lane] for lane in lanes if lane in underway), None),
            delay_seconds=delay,
            delay_origin=origin,
            hold=longest.hold,
            next_allowed_at=max(waits, default=None),
            last_success_at=max(successes, default=None),
        )

    def _lanes_of(self, host: str) -> list[str]:
        """The lanes of a host: one, but for X one per owner, of whom each sees their own (P1)."""
        if host != X_HOST:
            return [host]
        if self.owner is not None:
            return [host, f"{host}/{self.owner}"]
        known = {*self.service.gates.names(), *self.service.lanes.names()}
        return [host, *sorted(lane for lane in known if lane.startswith(f"{host}/"))]

    def _is_seen(self, lane: str) -> bool:
        """Whether a lane is not one of somebody else alone."""
        host = host_of_lane(lane)
        return self.owner is None or lane in (host, f"{host}/{self.owner}")

    def _in_flight(self, subject: Subject | None) -> InFlight:
        """What somebody may know of a poll under way: whose source it is not, only that it is."""
        if subject is None or self.owner not in (None, subject.user_id):
            return InFlight()
        source = subject.source
        return InFlight(source.id, source.url, source.podcast_id)


def look_at_lane(service: Service, lane: str, source_id: str) -> tuple[HostState, LaneNow]:
    """How a lane stands right now, for one of its sources."""
    polled = service.lanes.in_flight().get(lane)
    lane_now = LaneNow(
        ahead=service.lanes.ahead_of(lane, source_id),
        seconds_before=service.lanes.seconds_before(lane, source_id),
        in_flight=polled is not None,
        polling=polled == source_id,
        paused=service.paused,
        outage=service.guard.kind,
    )
    return service.gates.state(lane), lane_now


def _longest_delay(host: str, tallies: Sequence[HostTally], policy: Policy) -> tuple[float, str]:
    """The longest pause that any of these sources asks of the lane, and where that comes from."""
    choices = []
    for tally in tallies:
        owns: list[int | None] = [tally.longest_own_delay] if tally.own_delays else []
        if tally.own_delays < tally.sources:
            owns.append(None)
        for own in owns:
            seconds = delay_seconds(own, tally.type, host, policy)
            choices.append((seconds, origin_of_delay(own, tally.type, host, policy)))
    return max(choices, key=lambda choice: choice[0])
