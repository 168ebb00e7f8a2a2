"""Hosts for display: their sources, and the current state of their lanes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from headwater.engine.lane_table import NULL_LANE
from headwater.engine.service import Service
from headwater.errors import BadUrl, NotFound
from headwater.model import Hold, HostState, PollRecord, Source, SourceType, Subject
from headwater.rules.explanation import LaneStatus
from headwater.rules.full_text import visited_page
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
from headwater.store.hosts import HostTally

MOST_SOURCES = 50  # shown for a host
_ANSWERS = 20
_MOST_LANES = 500  # searched for the hosts of one user
_CAUSES_FROM = 50  # failing sources per host


@dataclass(frozen=True, slots=True)
class InFlight:
    """A running poll or page visit; all fields are None if the source is another user's."""

    source_id: str | None = None
    url: str | None = None  # of the source, or of the page that is read for it (T4)
    podcast_id: str | None = None


@dataclass(frozen=True, slots=True)
class HostView:
    """A host with counts of its sources and the state of its lane."""

    host: str
    sources: int
    enabled: int
    failing: int
    lane_length: int  # sources that wait or are polled, of all users
    in_flight: InFlight | None
    delay_seconds: float  # the longest delay of the visible sources
    delay_origin: str
    hold: Hold | None
    next_allowed_at: datetime | None  # None: now
    last_success_at: datetime | None  # of the visible sources
    pages_pending: int = 0  # pages of visible sources that are still to be read (T4)
    shared_requests: int = 0  # polls without a request of their own, of all users (Y7)


@dataclass(frozen=True, slots=True)
class HostCard:
    """A host with its last poll results."""

    view: HostView
    answers: tuple[PollRecord, ...]  # newest first


@dataclass(frozen=True, slots=True)
class HostReader:
    """Reads hosts for one request: those of one user's sources and pages, or of all users."""

    store: Store
    service: Service
    policy: Policy
    owner: str | None  # None: all users
    _counted: dict[str, list[HostTally]] = field(default_factory=dict)  # cache

    async def page(self, limit: int, *, after: str = "", now: datetime) -> list[HostView]:
        """Hosts by name, after a given one."""
        found: list[HostView] = []
        while (left := limit - len(found)) > 0:
            names = await self.store.hosts.names(owner=self.owner, after=after, limit=left)
            found += await self._views(
                names, now
            )  # a host that just lost its last source is left out
            if len(names) < left:
                break
            after = names[-1]
        return found

    async def busy(self, limit: int, *, now: datetime) -> list[HostView]:
        """Hosts that are polled now, are on hold, or have waiting sources, in this order."""
        lanes, gates = self.service.lanes, self.service.gates
        held = [lane for lane in gates.names() if gates.hold_of(lane) is not None]
        waiting = sorted(lanes.names()[:_MOST_LANES], key=lanes.length, reverse=True)
        names = [
            host_of_lane(lane)
            for lane in (*lanes.in_flight(), *held, *waiting)
            if lane != NULL_LANE and self._is_seen(lane)
        ]
        names = list(dict.fromkeys(names))[:_MOST_LANES]
        found: list[HostView] = []
        while names and len(found) < limit:  # a user sees only some of these hosts
            found += await self._views(names[:limit], now)
            names = names[limit:]
        return found[:limit]

    async def causes(self, views: Sequence[HostView]) -> Mapping[str, Sequence[tuple[str, int]]]:
        """The kinds of the last failures on these hosts with their counts, most frequent first."""
        failing = [view.host for view in views if view.failing > 0]
        return await self.store.hosts.causes(failing, owner=self.owner, limit=_CAUSES_FROM)

    async def sources(self, host: str) -> Sequence[Source]:
        """Up to MOST_SOURCES sources on a host, failing ones first."""
        return await self.store.hosts.watched(host, owner=self.owner, limit=MOST_SOURCES)

    async def counts_by_podcast(self, host: str) -> dict[str, int]:
        """The number of sources on a host, by podcast id."""
        found = self.store.hosts.counts_by_podcast(host, owner=self.owner, limit=MOST_SOURCES)
        return dict(await found)

    async def card(self, name: str, *, now: datetime) -> HostCard:
        """One host with its last poll results; NotFound if it has no visible source."""
        try:
            host = normal_host(name)
        except BadUrl:
            host = ""
        views = await self._views([host], now)
        if not views:
            raise NotFound(f"there is no host {name!r} among the sources and their pages")
        answers = await self.store.hosts.answers(host, owner=self.owner, limit=_ANSWERS)
        return HostCard(views[0], tuple(answers))

    async def _views(self, names: Sequence[str], now: datetime) -> list[HostView]:
        by_host = await self._tallies(names)
        pages = await self.store.page_visits.count_by_host(names, owner=self.owner)
        polled = self.service.lanes.in_flight()
        lanes = {host: self._lanes_of(host) for host in names if by_host[host] or pages[host]}
        ids = [id_ for own in lanes.values() for lane in own for id_ in polled.get(lane, ())]
        subjects = await self._subjects(ids) if ids else {}
        underway = {
            lane: self._in_flight([subjects[id_] for id_ in ids if id_ in subjects])
            for lane, ids in polled.items()
        }
        views = [self._view(host, by_host[host], own, underway, now) for host, own in lanes.items()]
        shared = await self.store.hosts.shared_requests(list(lanes))
        return [
            replace(v, pages_pending=pages[v.host], shared_requests=shared[v.host]) for v in views
        ]

    async def _subjects(self, ids: Sequence[str]) -> Mapping[str, Subject]:
        """The sources in flight by id, and the pages by the id of their post (T4)."""
        # one query: under load most hosts are being polled
        found = dict(await self.store.sources.subjects(ids))
        pages = await self.store.page_visits.pages([id_ for id_ in ids if id_ not in found])
        sources = await self.store.sources.subjects([source_id for source_id, _ in pages.values()])
        for post_id, (source_id, url) in pages.items():
            if source_id in sources:
                page = visited_page(sources[source_id].source, url)
                found[post_id] = replace(sources[source_id], source=page)
        return found

    async def _tallies(self, names: Sequence[str]) -> Mapping[str, Sequence[HostTally]]:
        """Counts of the sources on these hosts, cached: a host may have very many."""
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
        """The visible lanes of a host: one, but for X one per owner (P1)."""
        if host != X_HOST:
            return [host]
        if self.owner is not None:
            return [host, f"{host}/{self.owner}"]
        known = {*self.service.gates.names(), *self.service.lanes.names()}
        return [host, *sorted(lane for lane in known if lane.startswith(f"{host}/"))]

    def _is_seen(self, lane: str) -> bool:
        """Whether the owner may see a lane: it is shared or their own."""
        host = host_of_lane(lane)
        return self.owner is None or lane in (host, f"{host}/{self.owner}")

    def _in_flight(self, subjects: Sequence[Subject]) -> InFlight:
        """The running poll; without details if its sources belong to other users."""
        for subject in subjects:
            if self.owner in (None, subject.user_id):
                source = subject.source
                return InFlight(source.id, source.url, source.podcast_id)
        return InFlight()


def lane_status(service: Service, lane: str, source_id: str) -> tuple[HostState, LaneStatus]:
    """The current state of a lane, for one of its sources."""
    polled = service.lanes.in_flight().get(lane, ())
    lane_now = LaneStatus(
        ahead=service.lanes.ahead_of(lane, source_id),
        seconds_before=service.lanes.seconds_before(lane, source_id),
        in_flight=bool(polled),
        polling=source_id in polled,
        paused=service.paused,
        outage=service.guard.kind,
    )
    return service.gates.state(lane), lane_now


def _longest_delay(host: str, tallies: Sequence[HostTally], policy: Policy) -> tuple[float, str]:
    """The longest delay of these sources, and the setting that it comes from."""
    if not tallies:  # only pages of feeds
        rss = SourceType.RSS
        return delay_seconds(None, rss, host, policy), origin_of_delay(None, rss, host, policy)
    choices = []
    for tally in tallies:
        owns: list[int | None] = [tally.longest_own_delay] if tally.own_delays else []
        if tally.own_delays < tally.sources:
            owns.append(None)
        for own in owns:
            seconds = delay_seconds(own, tally.type, host, policy)
            choices.append((seconds, origin_of_delay(own, tally.type, host, policy)))
    return max(choices, key=lambda choice: choice[0])
