"""LocalService: polls one database alone, from start to clean stop."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from headwater.engine.engine import Engine
from headwater.engine.events import EventKind
from headwater.engine.followers import FOLLOW_SECONDS
from headwater.engine.lane_table import NULL_LANE
from headwater.engine.loops import Loop, repeat, run_until
from headwater.engine.webhooks import DELIVER_SECONDS, Deliverer
from headwater.errors import (
    AlreadyPolling,
    DatabaseCorrupt,
    HeadwaterError,
    SchemaTooNew,
    StoreError,
)
from headwater.logs import get_logger
from headwater.model import DueSource, Outcome, Subject
from headwater.rules.politeness import lane_of
from headwater.store.key_values import POLLER_KEY

log = get_logger()
_LOCK_RETRY_SECONDS = (0.2, 0.2, 0.0)  # after each attempt
_REQUEST_SECONDS = 1.0  # how soon a request from another process is seen
_ANNOUNCED_FOR = timedelta(seconds=60)  # how far back announced visits are read
_WOKEN_AT_ONCE = 2000  # more would block the event loop (H2)


class LocalService(Engine):
    """Polls due sources while it runs, and single sources on request."""

    async def __aenter__(self) -> Self:
        self._ticking = asyncio.Lock()
        await self._store.check()
        await self._lock_database()
        started = self._clock.now().isoformat()
        unclean = await self._store.key_values.set(POLLER_KEY, started) is not None
        unfinished = await self._store.hosts.end_unfinished_visits(self._clock.now())
        await self._assemble(unclean_stop=unclean or unfinished)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Finish running polls within bounds, store what they fetched, stop cleanly (S8)."""
        await self._finish()
        with suppress(HeadwaterError):
            await self._store.key_values.set(POLLER_KEY, None)
        self._store.database.release()

    async def _lock_database(self) -> None:
        """Take the single-poller lock; AlreadyPolling if another process has it."""
        # a process that only checks whether the lock is taken holds it for a moment
        for seconds in _LOCK_RETRY_SECONDS:
            if await self._store.database.acquire_poll_lock():
                return
            await self._clock.sleep(seconds)
        message = "another headwater process polls this database already"
        if self._store.database.takes_workers:
            message += "; beside workers, `serve --no-scheduler` serves the API"
        raise AlreadyPolling(message)

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set."""
        loops: list[Loop] = [
            self._tick_loop,
            self._request_loop,
            self._probe_loop,
            self._incident_loop,
        ]
        if self._followers.names:
            loops.append(self._follow_loop)
        if self._deliverer is not None:
            loops.append(partial(self._deliver_loop, self._deliverer))
        await run_until(stop, loops)

    async def tick(self) -> int:
        """Run one tick, after a running one; return how many sources it queued."""
        async with self._ticking:
            started = self._clock.monotonic()
            if not await self._store.database.renew_poll_lock():
                raise AlreadyPolling("another headwater process took over polling this database")
            await self._store.refuse_newer_schema()
            await self._apply_pause_state()
            taken = await self.ticker.tick(paused=self.paused)
            self.cleanup_paused_until = self.ticker.cleanup.paused_until
            self.gates.prune()
            self.faults.drop_old_evidence()
            self.last_tick = self._clock.now()
            self._store.database_error = None
            spent = self._clock.monotonic() - started
            self.events.emit(EventKind.TICK, text=str(taken), seconds=spent)
            return taken

    async def pause(self, *, paused: bool) -> None:
        """Start no polls but requested ones, or all again; effective at once (G2)."""
        await super().pause(paused=paused)
        self.lanes.switch(on=not paused)
        if not paused:
            self._run_in_background(self._resume())

    async def _resume(self) -> None:
        names = self.lanes.names()
        for first in range(0, len(names), _WOKEN_AT_ONCE):
            self.lanes.wake(names[first : first + _WOKEN_AT_ONCE])
            await asyncio.sleep(0)
        try:
            await self.tick()
        except HeadwaterError as error:  # the next regular tick logs more
            log.warning("[Polling] the tick after the pause failed", error=str(error))

    async def _request_poll(
        self, subject: Subject, due: DueSource, now: datetime, wait_seconds: float | None
    ) -> Outcome | None:
        """Poll a source next in its lane."""
        polled = self.lanes.in_flight().get(due.lane or NULL_LANE, ())
        if due.id not in polled:  # else join its poll
            await self._store.sources.request([due.id], now)
        ended = self.lanes.request(replace(due, requested=True, overdue_since=now))
        try:
            async with asyncio.timeout(wait_seconds):
                outcome = await asyncio.shield(ended)
        except TimeoutError:
            return None
        return await self.checked(subject, outcome)

    async def request_polls(
        self, subjects: Sequence[Subject]
    ) -> Mapping[str, "asyncio.Future[Outcome | None]"]:
        """Poll many sources next in their lanes; the future outcome of each, by id.

        Without sources that were removed. They are read and requested together, and those with the
        same URL share a request (Y7).
        """
        now, wanted = self._clock.now(), {subject.source.id for subject in subjects}
        await self._store.sources.request(list(wanted), now)
        found = await self._store.sources.requested(now, self._policy, since=now)
        due = [one for one in found if one.id in wanted]
        outcomes = {one.id: self.lanes.next_outcome(one) for one in due}
        await self.ticker.queue(due)
        return outcomes

    async def checked(self, subject: Subject, outcome: Outcome | None) -> Outcome | None:
        """The outcome of a requested poll; an error if it could not be stored.

        None: the source has moved to another lane, which takes the request.
        """
        if outcome is None or not outcome.recorded:
            before = subject.source
            source = await self._store.sources.get(before.id)  # raises if it was removed meanwhile
            is_moved = lane_of(source, subject.user_id) != lane_of(before, subject.user_id)
            if outcome is None and not is_moved:
                text = "the poll could not be stored or was stopped; the source is still due"
                raise StoreError(text)
        return outcome

    async def _tick_loop(self) -> None:
        while True:
            started = self._clock.monotonic()
            try:
                await self.tick()
            except (AlreadyPolling, DatabaseCorrupt, SchemaTooNew):
                raise
            except HeadwaterError as error:
                self.metrics.ticks_failed += 1
                self._store.database_error = str(error)
                log.warning("[Polling] a tick failed; the next one tries again", error=str(error))
            except Exception:  # the scheduler outlives any error (H4)
                self.metrics.ticks_failed += 1
                log.exception("[Polling] a tick failed unexpectedly; the next one tries again")
            spent = self._clock.monotonic() - started
            await self._clock.sleep(max(self._pace.tick_seconds - spent, 0.1))

    async def _request_loop(self) -> None:
        """Read what other processes store: requests, and visits of the command line."""
        unexpected = "[Polling] requests could not be read; trying again"
        await repeat(self._clock, _REQUEST_SECONDS, self._read_requests, unexpected)

    async def _follow_loop(self) -> None:
        unexpected = "[Followers] stored posts could not be followed; trying again"
        await repeat(self._clock, FOLLOW_SECONDS, self._followers.run, unexpected)

    async def _deliver_loop(self, deliverer: Deliverer) -> None:
        unexpected = "[Webhooks] messages could not be read; trying again"
        await repeat(self._clock, DELIVER_SECONDS, deliverer.run, unexpected)

    async def _read_requests(self) -> None:
        await self._store.queries.watch(self._query_requests())

    async def _query_requests(self) -> None:
        await self.ticker.take_requests()
        for state in await self._store.hosts.announced(self._clock.now() - _ANNOUNCED_FOR):
            self.gates.learn(state)  # P3
