"""Service: everything that polls one database in this process, from start to clean stop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from types import TracebackType
from typing import Any, Self

from headwater.clock import Clock
from headwater.engine.cleanup import Cleanup
from headwater.engine.events import EventKind, Events
from headwater.engine.gates import Gates
from headwater.engine.lanes import NULL_LANE, Lanes
from headwater.engine.metrics import HEARD, Metrics
from headwater.engine.outage import OutageGuard
from headwater.engine.poll import Fetch, Poller, on_hold
from headwater.engine.switch import Switch
from headwater.engine.tick import Ticker
from headwater.engine.timeline import Timeline
from headwater.errors import (
    AlreadyPolling,
    DatabaseCorrupt,
    HeadwaterError,
    NotFound,
    Stopping,
    StoreError,
)
from headwater.logs import get_logger
from headwater.model import Outcome, Subject
from headwater.rules.outage import PROBE_SECONDS, spread_seconds
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.sources import SourceFilter

log = get_logger()
MANUAL_WAIT_SECONDS = 60.0  # P10
_CLAIM_ATTEMPTS = 3
_CLAIM_SECONDS = 0.2
_REQUEST_SECONDS = 1.0  # how soon a request from another process is seen
_POLLER_FACT = "poller"  # who polls; there after a start only if the last stop was unclean
_ASIDE = timedelta(seconds=60)  # how far back visits of other processes are looked for
_WOKEN_AT_ONCE = 2000  # more would hold up the event loop (H2)


@dataclass(frozen=True, slots=True)
class Pace:
    """The few numbers that the service itself goes by."""

    tick_seconds: float = 60
    shutdown_seconds: float = 10
    slots: int = 256  # lanes fetching at once
    paused: bool = False


class Service:
    """Polls due sources while it runs; polls single ones when asked."""

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
        self.last_tick: datetime | None = None
        self._outage: str | None = None
        self._errands: set[asyncio.Task[Any]] = set()
        self._ticking = asyncio.Lock()
        self._switch = Switch(store.facts, paused=pace.paused)

    @property
    def paused(self) -> bool:
        """Whether polls start only when somebody asks for them (G2)."""
        return self._switch.paused

    async def __aenter__(self) -> Self:
        await self._store.check()
        await self._claim()
        started = self._clock.now().isoformat()
        unclean = await self._store.facts.set(_POLLER_FACT, started) is not None
        states = await self._store.hosts.all()
        self.gates = Gates(states, self._clock, unclean_stop=unclean)
        self.guard = OutageGuard(states, self._clock, self._store.sources.edit)
        self._poller = Poller(
            store=self._store,
            fetch=self._fetch,
            key_for=self._key_for,
            gates=self.gates,
            guard=self.guard,
            events=self.events,
            clock=self._clock,
            policy=self._policy,
        )
        database = self._store.database
        self.lanes = Lanes(
            self._poller.poll,
            self.gates,
            slots=self._pace.slots,
            rng=self._rng,
            is_watched=lambda: database.people_waiting > 0,
        )
        self.ticker = Ticker(
            store=self._store,
            lanes=self.lanes,
            cleanup=Cleanup(self._store, self._clock, self._policy),
            clock=self._clock,
            policy=self._policy,
            rng=self._rng,
        )
        self.guard.on_change = self._thin_out
        self.lanes.switch(on=not await self._switch.look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish running polls within bounds, store what they fetched, leave cleanly (S8)."""
        await self.lanes.stop(self._pace.shutdown_seconds)
        await self._store.flush(self._pace.shutdown_seconds)
        if self._errands:
            await asyncio.wait(self._errands, timeout=self._pace.shutdown_seconds)
        with suppress(HeadwaterError):  # a database that is away finds an unclean stop later
            await self._store.hosts.keep(self.gates.snapshot())
            await self._store.facts.set(_POLLER_FACT, None)
        self._store.database.release()

    async def _claim(self) -> None:
        # somebody who only asks whether the right is taken holds it for a moment
        for attempt in range(_CLAIM_ATTEMPTS):
            if await self._store.database.try_claim():
                return
            if attempt + 1 < _CLAIM_ATTEMPTS:
                await self._clock.sleep(_CLAIM_SECONDS)
        raise AlreadyPolling("another headwater process polls this database already")

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until told to stop."""
        loops = (self._tick_loop, self._request_loop, self._probe_loop)
        tasks = [asyncio.create_task(loop()) for loop in loops]
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = [task for task in tasks if task.done()]
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
        for task in ended:  # none of them ends by itself
            task.result()

    async def tick(self) -> int:
        """Run one tick now, behind the one under way if there is one."""
        async with self._ticking:
            return await self._tick()

    async def _tick(self) -> int:
        started = self._clock.monotonic()
        if not await self._store.database.keep_claim():
            raise AlreadyPolling("another headwater process took over polling this database")
        await self._switch.look()
        self.lanes.switch(on=not self.paused)
        taken = await self.ticker.tick(paused=self.paused)
        self.gates.prune()
        self.guard.tidy()
        self.last_tick = self._clock.now()
        self._store.trouble = None
        spent = self._clock.monotonic() - started
        self.events.tell(EventKind.TICK, text=str(taken), seconds=spent)
        return taken

    async def pause(self, *, paused: bool) -> None:
        """Stop starting polls that nobody asked for, or start them again, both at once (G2)."""
        await self._switch.turn(paused=paused)
        self.lanes.switch(on=not paused)
        if not paused:
            self._run_errand(self._go_on())

    async def _go_on(self) -> None:
        names = self.lanes.names()
        for first in range(0, len(names), _WOKEN_AT_ONCE):
            self.lanes.wake(names[first : first + _WOKEN_AT_ONCE])
            await asyncio.sleep(0)
        try:
            await self.tick()
        except HeadwaterError as error:  # the next tick in turn says more
            log.warning("[Polling] the tick after the pause failed", error=str(error))

    async def poll_now(
        self, source_id: str, *, wait_seconds: float | None = MANUAL_WAIT_SECONDS
    ) -> Outcome | None:
        """Poll a source in its lane's next turn; None if that is too long a wait (P10)."""
        self.refuse_when_stopping()
        due = await self._store.sources.due_one(source_id, self._policy)
        subject = await self._store.sources.subject(source_id)
        now = self._clock.now()
        if subject is None:
            raise NotFound(f"there is no source {source_id}")
        refused = on_hold(subject, self.gates, due.lane or NULL_LANE, now)
        if refused is not None:
            return refused
        if not self.lanes.is_in_flight(due):  # else the poll under way is the answer
            await self._store.sources.request([source_id], now)
        answer = self.lanes.request(replace(due, requested=True, overdue_since=now))
        try:
            async with asyncio.timeout(wait_seconds):
                outcome = await asyncio.shield(answer)
        except TimeoutError:
            return None
        if outcome is None or not outcome.recorded:
            await self._store.sources.get(source_id)  # raises if it was removed meanwhile
        if outcome is None:
            raise StoreError("the poll could not be stored or was stopped; the source is still due")
        return outcome

    def refuse_when_stopping(self) -> None:
        """Raise Stopping once nothing more is started (S8)."""
        if self.lanes.is_closed:
            raise Stopping("the service is stopping and starts nothing more")

    async def _tick_loop(self) -> None:
        while True:
            started = self._clock.monotonic()
            try:
                await self.tick()
            except (AlreadyPolling, DatabaseCorrupt):
                raise
            except HeadwaterError as error:
                self.metrics.ticks_failed += 1
                self._store.trouble = str(error)
                log.warning("[Polling] a tick failed; the next one tries again", error=str(error))
            except Exception:  # the scheduler outlives whatever happens (H4)
                self.metrics.ticks_failed += 1
                log.exception("[Polling] a tick broke; the next one tries again")
            spent = self._clock.monotonic() - started
            await self._clock.sleep(max(self._pace.tick_seconds - spent, 0.1))

    async def _request_loop(self) -> None:
        while True:
            await self._clock.sleep(_REQUEST_SECONDS)
            try:
                await self.ticker.take_requests()
                await self._learn_visits()
            except HeadwaterError:
                continue  # the tick says what is wrong with the database
            except Exception:  # the scheduler outlives whatever happens (H4)
                log.exception("[Polling] requests could not be read; the next look tries again")

    async def _learn_visits(self) -> None:
        """Respect what other processes did to hosts: previews of the command line (P3)."""
        for state in await self._store.hosts.visited_aside(self._clock.now() - _ASIDE):
            self.gates.learn(state)

    async def _probe_loop(self) -> None:
        while True:
            await self._clock.sleep(PROBE_SECONDS)
            probing = self.guard.lasts and not self.paused
            hosts = self.guard.hosts_to_probe() if probing else []
            if hosts and not self.lanes.probe(hosts):
                with suppress(HeadwaterError):
                    await self._request_probe(hosts)

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
