"""Service: everything that polls one database in this process, from start to clean stop."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from headwater.engine.cleanup import Cleanup
from headwater.engine.counts import Counts
from headwater.engine.engine import Engine, Pace, run_until
from headwater.engine.events import EventKind
from headwater.engine.lanes import NULL_LANE
from headwater.engine.poll import on_hold
from headwater.engine.tick import Ticker
from headwater.errors import (
    AlreadyPolling,
    DatabaseCorrupt,
    HeadwaterError,
    NotFound,
    StoreError,
)
from headwater.logs import get_logger
from headwater.model import Outcome
from headwater.rules.politeness import lane_of
from headwater.store.facts import POLLER_FACT

__all__ = ["MANUAL_WAIT_SECONDS", "Pace", "Service"]
log = get_logger()
MANUAL_WAIT_SECONDS = 60.0  # P10
_CLAIM_ATTEMPTS = 3
_CLAIM_SECONDS = 0.2
_REQUEST_SECONDS = 1.0  # how soon a request from another process is seen
_ASIDE = timedelta(seconds=60)  # how far back visits of other processes are looked for
_WOKEN_AT_ONCE = 2000  # more would hold up the event loop (H2)


class Service(Engine):
    """Polls due sources while it runs; polls single ones when asked."""

    last_tick: datetime | None = None
    workers: Sequence[Counts] = ()  # elsewhere, and what each of them counted
    workers_alive: int | None = None  # where workers poll: how many of them are not silent

    async def __aenter__(self) -> Self:
        self._ticking = asyncio.Lock()
        await self._store.check()
        await self._claim()
        started = self._clock.now().isoformat()
        unclean = await self._store.facts.set(POLLER_FACT, started) is not None
        half = await self._store.hosts.close_half_visits(self._clock.now())  # by workers
        await self._assemble(unclean=unclean or half)
        self.ticker = Ticker(
            store=self._store,
            lanes=self.lanes,
            cleanup=Cleanup(self._store, self._clock, self._policy),
            clock=self._clock,
            policy=self._policy,
            rng=self._rng,
            tick_seconds=self._pace.tick_seconds,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish running polls within bounds, store what they fetched, leave cleanly (S8)."""
        await self._finish()
        with suppress(HeadwaterError):
            await self._store.facts.set(POLLER_FACT, None)
        self._store.database.release()

    async def _claim(self) -> None:
        # somebody who only asks whether the right is taken holds it for a moment
        for attempt in range(_CLAIM_ATTEMPTS):
            if await self._store.database.try_claim():
                return
            if attempt + 1 < _CLAIM_ATTEMPTS:
                await self._clock.sleep(_CLAIM_SECONDS)
        advice = "beside workers, `serve --no-scheduler` serves the API"
        polled = "another headwater process polls this database already"
        raise AlreadyPolling(
            f"{polled}; {advice}" if self._store.database.takes_workers else polled
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until told to stop."""
        await run_until(stop, (self._tick_loop, self._request_loop, self._probe_loop))

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
            source = await self._store.sources.get(source_id)  # raises if it was removed meanwhile
            moved = lane_of(source, subject.user_id) != due.lane  # its new lane takes the request
            if outcome is None and not moved:
                raise StoreError(
                    "the poll could not be stored or was stopped; the source is still due"
                )
        return outcome

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
