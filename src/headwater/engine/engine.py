"""Engine: gates, lanes and polls of one process, for LocalService and ClusterWorker."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from headwater.clock import Clock
from headwater.engine.article_upkeep import ArticleUpkeep
from headwater.engine.cleanup import Cleanup
from headwater.engine.events import EventKind
from headwater.engine.fault_attribution import FaultAttribution
from headwater.engine.feed_search import FeedSearcher, FindFeeds
from headwater.engine.followers import Followers
from headwater.engine.hosts.access import HostAccess, HostLocker
from headwater.engine.hosts.gates import GateEntry, Gates
from headwater.engine.incident_watch import CHECK_SECONDS, IncidentWatch
from headwater.engine.lanes import Lanes, PollSources
from headwater.engine.loops import repeat
from headwater.engine.outage_guard import OutageGuard
from headwater.engine.page_visits import PageVisitor
from headwater.engine.poller import Fetch, Poller
from headwater.engine.service import Service
from headwater.engine.tick import Ticker
from headwater.engine.webhooks import Deliverer
from headwater.errors import HeadwaterError
from headwater.model import DueSource, Outcome, Subject
from headwater.rules.incidents import ServiceState
from headwater.rules.outage_detection import PROBE_SECONDS, spread_seconds
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.followers import Follower
from headwater.store.sources import SourceFilter


@dataclass(frozen=True, slots=True)
class Pace:
    """The settings of the engine itself."""

    tick_seconds: float = 60
    shutdown_seconds: float = 10
    slots: int = 256  # lanes that fetch at once
    paused: bool = False
    lease_seconds: float = 30  # a worker without a heartbeat for this long loses its shards


MakeDeliverer = Callable[[HostAccess, Callable[[], bool]], Deliverer]


class Engine(Service):
    """Everything that polls in one process; subclasses decide which sources it polls."""

    guard: OutageGuard
    faults: FaultAttribution
    incident_watch: IncidentWatch
    lanes: Lanes
    ticker: Ticker

    def __init__(
        self,
        *,
        store: Store,
        fetch: Fetch,
        key_for: Callable[[Subject], Awaitable[str | None]],
        clock: Clock,
        policy: Policy,
        pace: Pace,
        rng: Random,
        find_feeds: FindFeeds | None = None,
        followers: Sequence[Follower] = (),
        deliverer: MakeDeliverer | None = None,
    ) -> None:
        """`find_feeds`: without it, searches for lost feeds stay pending (Y5)."""
        super().__init__(store, clock, policy, paused=pace.paused)
        self._fetch = fetch
        self._find_feeds = find_feeds
        self._key_for = key_for
        self._pace = pace
        self._rng = rng
        self._followers = Followers(store, clock, followers)
        self._make_deliverer = deliverer
        self._deliverer: Deliverer | None = None
        self._outage: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def close(self) -> None:
        """Start no more polls and visits (S8)."""
        self.lanes.close()

    async def _assemble(
        self,
        *,
        unclean_stop: bool,
        locker: HostLocker | None = None,
        on_unfinished: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the parts from the stored host states."""
        states = await self._store.hosts.all()
        store, clock, policy = self._store, self._clock, self._policy
        self.gates = Gates(states, clock, unclean_stop=unclean_stop)
        self.guard = OutageGuard(states, clock, store.sources.edit)
        self.faults = FaultAttribution(self.guard, store.storms, store.sources.edit, clock)
        self.hosts = HostAccess(
            self.gates, store.hosts, policy, locker, is_closed=lambda: self.lanes.is_closed
        )
        self.lanes = Lanes(
            self._visits(),
            self.gates,
            slots=self._pace.slots,
            rng=self._rng,
            is_watched=lambda: store.database.interactive_requests > 0,
            on_unfinished=on_unfinished,
        )
        cleanup = Cleanup(store, clock, policy)
        await cleanup.check_start()
        articles = ArticleUpkeep(store, self.events, clock, policy)
        tick_seconds = self._pace.tick_seconds
        self.ticker = Ticker(
            store, self.lanes, cleanup, clock, policy, self._rng, tick_seconds, articles
        )
        self.guard.on_change = self._outage_changed
        self.incident_watch = IncidentWatch(
            store, self.events, clock, policy, every_seconds=tick_seconds, service=self._state
        )
        if self._make_deliverer is not None:
            self._deliverer = self._make_deliverer(self.hosts, self._is_leader)
        await self._apply_pause_state()

    def _is_leader(self) -> bool:
        """Whether this process does what is done once per database."""
        return True

    def _visits(self) -> PollSources:
        """What a lane does with due sources, or with a page (T4, Y5)."""
        common: dict[str, Any] = {
            "store": self._store,
            "fetch": self._fetch,
            "hosts": self.hosts,
            "guard": self.guard,
            "clock": self._clock,
            "policy": self._policy,
        }
        poller = Poller(
            **common,
            faults=self.faults,
            key_for=self._key_for,
            events=self.events,
            report=lambda lane, id_, outcome: self.lanes.poll_ended(lane, id_, outcome),
        )
        pages = PageVisitor(**common, count=self.metrics.page_visited)
        find_feeds = self._find_feeds
        searcher = None if find_feeds is None else FeedSearcher(**common, find_feeds=find_feeds)

        async def visit(dues: Sequence[DueSource], entry: GateEntry) -> Mapping[str, Outcome]:
            if dues[0].is_search:
                return {} if searcher is None else await searcher.visit(dues, entry)
            return await (pages.visit if dues[0].is_page else poller.poll)(dues, entry)

        return visit

    async def _apply_pause_state(self) -> None:
        """Start polls or not, as stored."""
        self.lanes.switch(on=not await self._pause_state.read())

    async def _finish(self) -> None:
        """Let running polls end within bounds, and store what they fetched (S8)."""
        await self.lanes.stop(self._pace.shutdown_seconds)
        if self._deliverer is not None:
            await self._deliverer.stop()
        await self.ticker.articles.finish(self._pace.shutdown_seconds)
        await self._store.flush(self._pace.shutdown_seconds)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._pace.shutdown_seconds)
        if self.hosts.locker is not None:
            return  # each visit was stored when its host was unlocked
        with suppress(HeadwaterError):  # otherwise the next start finds an unclean stop
            await self._store.hosts.keep(self.gates.snapshot())

    def _state(self) -> ServiceState:
        """What incidents depend on besides stored data."""
        waiting = self._store.stalled_seconds()
        return ServiceState(outage=self.guard.lasts, waiting_seconds=waiting)

    async def _incident_loop(self) -> None:
        unexpected = "[Incident] the check failed; trying again"
        await repeat(self._clock, CHECK_SECONDS, self._check_incidents, unexpected)

    async def _check_incidents(self) -> None:
        try:
            await self.incident_watch.check_if_needed()
        finally:
            self.unstored_incidents = self.incident_watch.unstored

    async def _probe_loop(self) -> None:
        unexpected = "[Polling] no host could be probed; trying again"
        await repeat(self._clock, PROBE_SECONDS, self._probe, unexpected)

    async def _probe(self) -> None:
        """During an outage, poll one source of a host that worked before (O2)."""
        if not self.guard.lasts or self.paused:
            return
        hosts = self.guard.hosts_to_probe()
        if not hosts or self.lanes.probe(hosts):
            return
        host = self._rng.choice(hosts)  # none of them is due: request a poll
        wanted = SourceFilter(host=host, enabled=True)
        found = await self._store.sources.find(wanted, limit=1)
        await self._store.sources.request([source.id for source in found], self._clock.now())

    def _outage_changed(self, kind: str | None) -> None:
        """Pause lanes when an outage begins, resume them when it ends (O2, O3)."""
        if kind is not None:
            self.lanes.pause()
        else:
            self.lanes.resume(spread_seconds(len(self.lanes.names())))
        self._run_in_background(self.guard.undo_failures(kind or self._outage or ""))
        if kind != self._outage:
            self._outage = kind
            self.events.emit(EventKind.OUTAGE, text=kind)

    def _run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
