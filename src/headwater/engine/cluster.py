"""ClusterWorker: the same lanes, with due sources handed over shard by shard among workers.

A tick, in whichever worker, wakes the shards that have due sources; a job per shard runs its
lanes in one worker at a time. What is due is in the sources and nowhere else: a job that is lost
or repeated does no harm.
"""

import asyncio
import os
import platform
import uuid
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from headwater.batch import Batcher
from headwater.clock import SharedClock
from headwater.engine.cleanup import Cleanup
from headwater.engine.counts import Counts, Sizes
from headwater.engine.engine import Engine, run_until
from headwater.engine.events import Event, EventKind
from headwater.engine.jobs import SCHEMA, Jobs
from headwater.engine.lanes import NULL_LANE
from headwater.engine.leases import Leases
from headwater.engine.tick import Ticker
from headwater.engine.wire import texts_of
from headwater.errors import AlreadyPolling, ConfigError, HeadwaterError
from headwater.logs import get_logger
from headwater.model import DueSource, Fence
from headwater.rules.failure import one_line
from headwater.rules.shards import shard_of
from headwater.store.claims import HostClaims
from headwater.store.notices import Notices
from headwater.store.postgres import PostgresDatabase
from headwater.store.shards import TICK_FACT, Shards

log = get_logger()
SHARD_SECONDS = 20.0  # after that a shard is left to whoever comes next
_LOOK_SECONDS = 2.0  # between looks at what became due while a shard is open
_AGAIN_SECONDS = 0.5  # before the same sources are tried once more
_CLOSING_SECONDS = 2.0  # for polls under way to end; then the shard is polled on instead
_LONGEST_SECONDS = 120.0  # after that a shard waits for what is under way, and begins nothing
_STOPPING_SECONDS = 5.0  # for shards to be left once their polls are over
_OFFERED_AT_ONCE = 2000  # more would hold up the event loop (H2)
_CONFIRM_SECONDS = 1.0
_NEWS_SECONDS = 0.2
_NEWS_AT_ONCE = 1000  # more would hold up the event loop (H2)
_MOST_NEWS = 10_000
_NEWS_KEPT = timedelta(seconds=3)  # while nobody is known to listen
_PAUSE = 0.5  # of a lease: a transaction that stands still for longer is somebody's who sleeps
_BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0)  # while the database is away


class ClusterWorker(Engine):
    """Polls the shards that it gets hold of, beside other workers."""

    async def __aenter__(self) -> Self:
        database = self._store.database
        if not isinstance(database, PostgresDatabase):
            raise ConfigError("app.database-url: workers share a PostgreSQL database")
        database.pause_seconds = self._pace.lease_seconds * _PAUSE
        await self._store.check()
        if not await database.try_claim(shared=True):
            raise AlreadyPolling("a headwater process polls this database alone; stop it first")
        self.id = f"{platform.node()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._shards = Shards(database)
        await self._shards.prepare_queue(SCHEMA)
        await self._shards.suspect_visits()
        self._hosts = HostClaims(database, silent_seconds=self._pace.lease_seconds)
        await self._set_clock()
        self.leases = Leases(
            self._shards, self._hosts, self._clock, worker=self.id, seconds=self._pace.lease_seconds
        )
        await self._assemble(unclean=False, claims=self.leases)
        cleanup = Cleanup(self._store, self._clock, self._policy)
        self._ticker = Ticker(
            store=self._store,
            lanes=self.lanes,
            cleanup=cleanup,
            clock=self._clock,
            policy=self._policy,
            rng=self._rng,
        )
        self._look_again: set[int] = set()  # shards in which something became due meanwhile
        self._polled: dict[int, set[str]] = {}  # the lanes in use of each shard that is open here
        self._due: Batcher[int, Sequence[DueSource]] = Batcher(self._due_of_many)
        self._jobs = Jobs(
            database.url,
            run_shard=lambda n: self._tried(self.run_shard(n), "a shard could not be polled"),
            tick=lambda: self._tried(self._tick(), "a tick failed"),
            tick_seconds=self._pace.tick_seconds,
            lease_seconds=self._pace.lease_seconds,
            concurrency=self._pace.shards,
        )
        self._started_ms = round(self._clock.now().timestamp() * 1000)
        self._notices = Notices(database)
        self._news: deque[Event] = deque(maxlen=_MOST_NEWS)
        self._is_heard = await self._notices.are_heard()
        self.events.listen(self._note)
        await self._tell_of_us()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish running polls within bounds, store what they fetched, hand over (S8)."""
        await self._finish()
        with suppress(HeadwaterError):
            await self._shards.gone(self.id)
        await self._hosts.close()
        self._store.database.release()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; then everything that is not under way is left to others."""
        loops = (
            self._work_loop,
            self._reap_loop,
            self._request_loop,
            self._news_loop,
            self._probe_loop,
        )
        living = asyncio.create_task(self._lease_loop())  # until the last poll has ended
        try:
            patience = self._pace.shutdown_seconds + _STOPPING_SECONDS
            await run_until(stop, loops, on_stop=self._start_nothing, patience_seconds=patience)
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def _tick(self) -> None:
        try:
            await self.tick()
        except Exception:
            self.metrics.ticks_failed += 1
            raise

    async def tick(self) -> None:
        """Wake the shards that have due sources."""
        started = self._clock.monotonic()
        await self._ticker.prepare(paused=self.paused)
        now = self._clock.now()
        due = await self._store.sources.due_shards(now, self._policy, requested_only=self.paused)
        await self._wake(due)
        await self._store.facts.set(TICK_FACT, now.isoformat())
        spent = self._clock.monotonic() - started
        self.events.tell(EventKind.TICK, text=str(len(due)), seconds=spent)

    async def _wake(self, shards: Iterable[int]) -> None:
        """Have shards looked after; one that is open here looks once more before it closes."""
        ours, others = set[int](), list[int]()
        for shard in shards:
            if self.leases.has(shard):
                ours.add(shard)
            else:
                others.append(shard)
        self._look_again |= ours
        await self._jobs.wake(others)

    async def run_shard(self, shard: int) -> None:
        """Poll what is due in a shard, for a while; what is left is simply still due."""
        if self.lanes.is_closed or not self.leases.are_fresh():
            return
        fence = await self.leases.open(shard)
        lanes = self._polled[shard] = set()
        left = True
        try:
            left = await self._poll_shard(shard, lanes)
            # whoever is slow to answer keeps the shard open, and nobody else in it waiting
            slow, ends_at = set[str](), self._clock.monotonic() + _LONGEST_SECONDS
            while not await self._is_left(lanes) and self._clock.monotonic() < ends_at:
                slow |= lanes & self.lanes.running()
                left |= await self._poll_shard(shard, lanes, without=slow)
        finally:
            await self._leave(fence, lanes, left=left)

    async def _is_left(self, lanes: set[str]) -> bool:
        """Begin nothing more in these lanes; whether they are soon empty by that."""
        self.lanes.withdraw(lanes)
        return self.lanes.is_closed or await self.lanes.emptied(lanes, seconds=_CLOSING_SECONDS)

    async def _leave(self, fence: Fence, lanes: set[str], *, left: bool) -> None:
        """Let others have a shard once nothing of it is under way; `left`: something is due."""
        shard = fence.shard
        while not await self._is_left(lanes):
            pass
        await self.lanes.emptied(lanes)
        if self._polled.get(shard) is lanes:
            del self._polled[shard]
        with suppress(HeadwaterError):  # else it is found not closed, and nobody hurries
            await self.leases.close(fence)
            if left or shard in self._look_again:
                await self._jobs.wake([shard])

    async def _poll_shard(
        self, shard: int, lanes: set[str], *, without: Collection[str] = ()
    ) -> bool:
        """Run a shard's lanes until nothing is due, or its time is over; True: something is."""
        tried = set[str]()
        ends_at = self._clock.monotonic() + SHARD_SECONDS
        while self.leases.has(shard) and not self.lanes.is_closed:
            time_left = ends_at - self._clock.monotonic()
            if time_left <= 0:
                return True
            self._look_again.discard(shard)
            due = [
                one
                for one in await self._due(shard)
                if (one.lane or NULL_LANE) not in without and self._opens_in(one, time_left)
            ]
            if not due:
                return False
            if all(one.id in tried for one in due):
                await self._clock.sleep(min(_AGAIN_SECONDS, time_left))
            tried.update(one.id for one in due)
            names = {one.lane or NULL_LANE for one in due}
            lanes |= names
            for first in range(0, len(due), _OFFERED_AT_ONCE):
                self.lanes.offer(due[first : first + _OFFERED_AT_ONCE])
                await asyncio.sleep(0)
            await self.lanes.emptied(names, seconds=min(_LOOK_SECONDS, time_left))
        return True

    async def _due_of_many(self, shards: Sequence[int]) -> Sequence[Sequence[DueSource]]:
        """What is due in each of these shards, found in one look."""
        found: dict[int, list[DueSource]] = {shard: [] for shard in shards}
        due = await self._store.sources.due_in(
            list(found), self._clock.now(), self._policy, requested_only=self.paused
        )
        for one in due:
            shard = shard_of(one.lane or NULL_LANE)
            if shard in found:  # else its host is not written down yet, and another shard's
                found[shard].append(one)
        return [found[shard] for shard in shards]

    def _opens_in(self, due: DueSource, seconds: float) -> bool:
        return self.gates.seconds_until_open(due.lane or NULL_LANE) < seconds

    async def _work_loop(self) -> None:
        attempt = 0
        while True:
            started = self._clock.monotonic()
            try:
                await self._jobs.run()
            except* Exception as errors:  # noqa: BLE001 - a worker outlives its database's troubles
                first = errors.exceptions[0]
                log.warning(
                    "[Cluster] the queue of jobs is away; trying again", error=one_line(first)
                )
            if self._clock.monotonic() - started > self._pace.lease_seconds:
                attempt = 0
            await self._clock.sleep(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)])
            attempt += 1

    async def _lease_loop(self) -> None:
        """Keep looking whether our shards are still ours, and tell that we live."""
        while True:
            await self._clock.sleep(_CONFIRM_SECONDS)
            await self._tried(self._confirm(), "leases could not be confirmed")

    async def _confirm(self) -> None:
        # the right to poll beside others went with its connection if the server was restarted;
        # without it leases are not confirmed, and soon nobody is asked any more
        if not await self._store.database.keep_claim():
            raise AlreadyPolling("a headwater process polls this database alone; stop it first")
        await self._hosts.keep()
        await self.leases.confirm()
        await self._set_clock()
        await self._switch.look()
        self.lanes.switch(on=not self.paused)
        self._is_heard = await self._notices.are_heard()
        await self._tell_of_us()
        self.gates.prune()
        self.guard.tidy()

    async def _reap_loop(self) -> None:
        """End what workers that fell silent left behind, and wake their shards."""
        while True:
            await self._clock.sleep(self._pace.lease_seconds / 6)
            await self._tried(self._reap(), "silent workers could not be looked for")

    async def _reap(self) -> None:
        freed = await self._jobs.reap()
        buried = await self._shards.bury(self.id, self._pace.lease_seconds)
        freed.update(buried.shards)
        if freed or buried.workers:
            who = {"worker": ", ".join(buried.workers)} if buried.workers else {}
            log.warning(
                "[Cluster] a worker fell silent; its shards go on", shards=len(freed), **who
            )
            await self._jobs.wake(sorted(freed))

    async def _request_loop(self) -> None:
        """Take up polls that somebody asked for, here or in whichever worker (S9)."""
        while True:
            await self._clock.sleep(_CONFIRM_SECONDS)
            await self._tried(self._take_requests(), "requests could not be read")

    async def _take_requests(self) -> None:
        ours, others = list[DueSource](), set[int]()
        for one in await self._ticker.recent_requests():
            lane = one.lane or NULL_LANE
            shard = shard_of(lane)
            if self.leases.has(shard) and shard in self._polled:
                self._polled[shard].add(lane)
                ours.append(one)
            else:
                others.add(shard)
        self.lanes.offer(ours)
        await self._jobs.wake(sorted(others))

    def _note(self, event: Event) -> None:
        self._news.append(event)
        if not self._is_heard and len(self._news) > _NEWS_AT_ONCE:
            self._news.popleft()

    async def _news_loop(self) -> None:
        """Tell API servers what happens here; while the database is away the oldest is lost."""
        while True:
            await self._clock.sleep(_NEWS_SECONDS)
            if not self._is_heard:
                self._forget_news()
            elif self._news:
                await self._tried(self._tell_news(), "news could not be told")

    def _forget_news(self) -> None:
        """Keep what somebody who begins to listen may have missed before we know of it."""
        before = self._clock.now() - _NEWS_KEPT
        while self._news and self._news[0].at < before:
            self._news.popleft()

    async def _tell_news(self) -> None:
        news = [self._news.popleft() for _ in range(min(len(self._news), _NEWS_AT_ONCE))]
        await self._notices.tell(list(texts_of(news)))

    async def _tried(self, work: Coroutine[Any, Any, None], trouble: str) -> None:
        """Do something that the next round tries again if it does not work."""
        try:
            await work
        except HeadwaterError as error:
            self._store.trouble = str(error)
            log.warning(f"[Cluster] {trouble}; trying again", error=str(error))
        except Exception:  # a worker outlives whatever happens (H4)
            log.exception(f"[Cluster] {trouble}; trying again")

    def _start_nothing(self) -> None:
        self.lanes.close()
        self.lanes.withdraw(self.lanes.names())
        self._run_errand(self.lanes.stop(self._pace.shutdown_seconds))  # S8: within bounds

    async def _set_clock(self) -> None:
        """Go by the database's clock, as all workers do."""
        if isinstance(self._clock, SharedClock):
            await self._shards.set(self._clock)

    async def _tell_of_us(self) -> None:
        await self._shards.seen(
            {
                "id": self.id,
                "machine": platform.node(),
                "pid": os.getpid(),
                "started": self._started_ms,
                "backend": self._hosts.backend,
                "in_flight": len(self.lanes.in_flight()),
                "polls": sum(self.metrics.polls.values()),
                "lost": self.leases.lost,
                "counts": self._counts().text(),
            }
        )

    def _counts(self) -> Counts:
        metrics, lanes = self.metrics, self.lanes
        return Counts(
            commit_sizes=Sizes.of(metrics.commit_sizes),
            commit_seconds=Sizes.of(metrics.commit_seconds),
            loop_lag=Sizes.of(metrics.loop_lag.seconds),
            loop_lag_max_seconds=round(metrics.loop_lag.worst(), 6),
            parse_kills=metrics.parse_kills,
            names_answered=metrics.names.answered,
            names_unanswered=metrics.names.unanswered,
            ticks_failed=metrics.ticks_failed,
            lanes=len(lanes.names()),
            waiting=lanes.waiting(),
            in_flight=len(lanes.in_flight()),
            on_hold=self.gates.held(),
            results_waiting=self._store.waiting,
        )
