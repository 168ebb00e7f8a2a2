"""Onlooker: a service that polls nothing itself; workers do, and it knows what they tell."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, cast

from headwater.clock import SharedClock
from headwater.engine.counts import Counts, add, counts_from
from headwater.engine.engine import run_until
from headwater.engine.events import Event, EventKind
from headwater.engine.lanes import NULL_LANE
from headwater.engine.poll import on_hold
from headwater.engine.service import MANUAL_WAIT_SECONDS, Service
from headwater.engine.visitors import VisitorClaims
from headwater.engine.wire import events_of, outcome_of
from headwater.errors import ConfigError, DatabaseUnavailable, HeadwaterError, NotFound
from headwater.logs import get_logger
from headwater.model import Outcome, Source
from headwater.store.notices import Notices
from headwater.store.postgres import PostgresDatabase
from headwater.store.shards import TICK_FACT, Shards, WorkerSeen

log = get_logger()
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 2.0
_LEARNING_PAUSES = 20.0  # times as long as learning takes
_MOST_COUNTED = 1000  # workers that are remembered


class Onlooker(Service):
    """What API servers beside a cluster have for a service."""

    async def __aenter__(self) -> Self:
        database = self._store.database
        if not database.takes_workers:
            raise ConfigError("--no-scheduler: workers need PostgreSQL, see app.database-url")
        self._ticking = asyncio.Lock()
        self._shards = Shards(database)
        self._notices = Notices(cast(PostgresDatabase, database))
        self._counted: dict[str, Counts] = {}  # of each worker, also of those that are gone
        await self._store.check()
        self._visits = VisitorClaims(database)
        self._hosts_at = 0.0
        await self._assemble(unclean=False, claims=self._visits)
        await self._look()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is under way here."""
        await self.lanes.stop(0)
        await self._visits.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Follow what workers do until told to stop."""
        await run_until(stop, (self._look_loop, self._listen_loop))

    async def pause(self, *, paused: bool) -> None:
        """Tell the workers to start nothing by themselves, or to start again (G2)."""
        await self._switch.turn(paused=paused)

    async def poll_now(
        self, source_id: str, *, wait_seconds: float | None = MANUAL_WAIT_SECONDS
    ) -> Outcome | None:
        """Ask the workers for a poll and wait until one tells of it (S9, P10)."""
        self.refuse_when_stopping()
        due = await self._store.sources.due_one(source_id, self._policy)
        subject = await self._store.sources.subject(source_id)
        if subject is None:
            raise NotFound(f"there is no source {source_id}")
        lane, now = due.lane or NULL_LANE, self._clock.now()
        self.gates.learn(await self._store.hosts.get(lane))
        refused = on_hold(subject, self.gates, lane, now)
        if refused is not None:
            return refused
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def hear(event: Event) -> None:
            if event.source_id == source_id and event.outcome is not None and not answer.done():
                answer.set_result(event.outcome)

        stop_listening = self.events.listen(hear, (EventKind.POLL_FINISHED,))
        try:
            last = await self._store.polls.last_id()
            await self._store.sources.request([source_id], now)
            async with asyncio.timeout(wait_seconds):
                while not answer.done():
                    await asyncio.wait([answer], timeout=_LOOK_SECONDS)
                    if not answer.done():
                        await self._look_for(subject.source, answer, since=last)
                return answer.result()
        except TimeoutError:
            return None
        finally:
            stop_listening()

    async def _look_for(
        self, source: Source, answer: "asyncio.Future[Outcome]", *, since: int
    ) -> None:
        """Find a poll in the history: its worker may not have told of it, news can be lost."""
        try:
            records = await self._store.polls.of_sources([source.id], since=since)
        except DatabaseUnavailable:
            return  # the next look tries again
        if records and not answer.done():
            answer.set_result(outcome_of(records[0], source))

    async def _look_loop(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            try:
                await self._look()
            except HeadwaterError as error:
                self._store.trouble = str(error)
            except Exception:  # API servers outlive whatever happens (H4)
                log.exception("[Cluster] the workers could not be looked at; trying again")

    async def _look(self) -> None:
        if isinstance(self._clock, SharedClock):
            await self._shards.set(self._clock)
        await self._switch.look()
        told = await self._store.facts.get(TICK_FACT)
        self.last_tick = None if told is None else datetime.fromisoformat(told)
        await self._visits.keep()
        await self._learn_hosts()
        self.gates.prune()
        self._count(await self._shards.workers())
        self._store.trouble = None

    async def _learn_hosts(self) -> None:
        """Learn which hosts must wait; where they are many, not all the time."""
        started = self._clock.monotonic()
        if started < self._hosts_at:
            return
        for state in await self._store.hosts.closed(self._clock.now()):
            self.gates.learn(state)
        spent = self._clock.monotonic() - started
        self._hosts_at = started + spent * _LEARNING_PAUSES

    def _count(self, workers: Sequence[WorkerSeen]) -> None:
        """Add what workers did since the last look, or since they started while we ran."""
        found = {one.id: counts_from(one.counts) for one in workers}
        for one in workers:
            new = Counts() if one.started_at > self.metrics.started_at else found[one.id]
            # one that was taken for dead and comes back goes on where it was
            add(self.metrics, self._counted.pop(one.id, new), found[one.id])
        self._counted.update(found)
        while len(self._counted) > max(_MOST_COUNTED, len(found)):
            del self._counted[next(iter(self._counted))]
        self.workers = tuple(found.values())
        self.workers_alive = sum(not one.is_silent for one in workers)

    async def _listen_loop(self) -> None:
        while True:
            since = self._clock.now()
            try:
                async for text in self._notices.listen():
                    for event in events_of(text):
                        if event.at >= since:  # else it is told to somebody who came before
                            self.events.pass_on(event)
            except HeadwaterError as error:
                log.warning("[Cluster] news of the workers are cut off", error=str(error))
            await self._clock.sleep(_AGAIN_SECONDS)
