"""Engine: what polls sources in one process, whoever hands the due ones to it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Self

from headwater.clock import Clock
from headwater.engine.claims import NOBODY_ELSE, Claims
from headwater.engine.events import EventKind, Events
from headwater.engine.gates import Gates
from headwater.engine.lanes import Lanes
from headwater.engine.metrics import HEARD, Metrics
from headwater.engine.outage import OutageGuard
from headwater.engine.poll import Fetch, Poller
from headwater.engine.switch import Switch
from headwater.engine.timeline import Timeline
from headwater.errors import HeadwaterError, Stopping
from headwater.logs import get_logger
from headwater.model import Subject
from headwater.rules.outage import PROBE_SECONDS, spread_seconds
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.sources import SourceFilter

log = get_logger()


@dataclass(frozen=True, slots=True)
class Pace:
    """The few numbers that an engine itself goes by."""

    tick_seconds: float = 60
    shutdown_seconds: float = 10
    slots: int = 256  # lanes fetching at once
    paused: bool = False
    lease_seconds: float = 30  # after which a worker that is not heard of has lost its shards
    shards: int = 256  # that one worker has open at once


class Engine(ABC):
    """Lanes, gates and polls over one store, with the outage guard that watches them."""

    claims: Claims
    gates: Gates
    guard: OutageGuard
    lanes: Lanes

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
    ) -> None:
        self._store = store
        self._fetch = fetch
        self._key_for = key_for
        self._clock = clock
        self._policy = policy
        self._pace = pace
        self._rng = rng
        self.events = Events(clock)
        self.metrics = Metrics(clock)
        self.events.listen(self.metrics.hear, HEARD)
        self.timeline = Timeline(clock)  # counts once somebody lets it listen to the events
        self._outage: str | None = None
        self._errands: set[asyncio.Task[Any]] = set()
        self._switch = Switch(store.facts, paused=pace.paused)

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def paused(self) -> bool:
        """Whether polls start only when somebody asks for them (G2)."""
        return self._switch.paused

    async def _assemble(self, *, unclean: bool, claims: Claims = NOBODY_ELSE) -> None:
        """Make the parts from what is stored; `unclean`: the last stop kept nothing (P3)."""
        self.claims = claims
        states = await self._store.hosts.all()
        self.gates = Gates(states, self._clock, unclean_stop=unclean)
        self.guard = OutageGuard(states, self._clock, self._store.sources.edit)
        poller = Poller(
            store=self._store,
            fetch=self._fetch,
            key_for=self._key_for,
            gates=self.gates,
            claims=claims,
            guard=self.guard,
            events=self.events,
            clock=self._clock,
            policy=self._policy,
        )
        database = self._store.database
        self.lanes = Lanes(
            poller.poll,
            self.gates,
            slots=self._pace.slots,
            rng=self._rng,
            is_watched=lambda: database.people_waiting > 0,
        )
        self.guard.on_change = self._thin_out
        self.lanes.switch(on=not await self._switch.look())

    async def _finish(self) -> None:
        """Let running polls end within bounds, and store what they fetched (S8)."""
        await self.lanes.stop(self._pace.shutdown_seconds)
        await self._store.flush(self._pace.shutdown_seconds)
        if self._errands:
            await asyncio.wait(self._errands, timeout=self._pace.shutdown_seconds)
        if not self.claims.alone:
            return  # each visit was stored on its own, and others were there since
        with suppress(HeadwaterError):  # a database that is away finds an unclean stop later
            await self._store.hosts.keep(self.gates.snapshot())

    def refuse_when_stopping(self) -> None:
        """Raise Stopping once nothing more is started (S8)."""
        if self.lanes.is_closed:
            raise Stopping("the service is stopping and starts nothing more")

    async def _probe_loop(self) -> None:
        while True:
            await self._clock.sleep(PROBE_SECONDS)
            probing = self.guard.lasts and not self.paused
            hosts = self.guard.hosts_to_probe() if probing else []
            if hosts and not self.lanes.probe(hosts):
                try:
                    await self._request_probe(hosts)
                except HeadwaterError:
                    continue  # the tick says what is wrong with the database
                except Exception:  # the scheduler outlives whatever happens (H4)
                    log.exception("[Polling] no host could be probed; trying again")

    async def _request_probe(self, hosts: Sequence[str]) -> None:
        """Ask for a poll of some source of a good host: none of them is due just now."""
        host = self._rng.choice(hosts)
        wanted = SourceFilter(host=host, enabled=True)
        found = await self._store.sources.find(wanted, limit=1)
        await self._store.sources.request([source.id for source in found], self._clock.now())

    def _thin_out(self, kind: str | None) -> None:
        """Thin polling out while an outage lasts; bring lanes back when it is over (O2, O3)."""
        if kind is not None:
            self.lanes.pause()
        else:
            self.lanes.resume(spread_seconds(len(self.lanes.names())))
        self._run_errand(self.guard.give_back(kind or self._outage or ""))
        if kind != self._outage:
            self._outage = kind
            self.events.tell(EventKind.OUTAGE, text=kind)

    def _run_errand(self, work: Coroutine[Any, Any, Any]) -> None:
        errand = asyncio.create_task(work)
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)


async def run_until(
    stop: asyncio.Event,
    loops: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    *,
    on_stop: Callable[[], None] = lambda: None,
    patience_seconds: float | None = None,
) -> None:
    """Run loops that never end by themselves until told to stop; raise what ended one of them.

    `patience_seconds`: after that, loops that are slow to stop are told once more, and left.
    """
    tasks = [asyncio.create_task(loop()) for loop in loops]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task.done()]
        on_stop()
        await _cancelled([stopping, *tasks], patience_seconds)
    for task in ended:
        task.result()


async def _cancelled(tasks: Sequence[asyncio.Task[Any]], patience_seconds: float | None) -> None:
    waiting: Collection[asyncio.Task[Any]] = tasks
    for _ in range(2):
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=patience_seconds)
        if not waiting:
            return
    log.warning("[Cluster] something did not stop in time and is left", loops=len(waiting))
