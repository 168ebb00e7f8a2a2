"""ClusterWorker: polls its share of the shards of a PostgreSQL database beside other workers.

Each worker ticks for itself: one query for the due sources of its shards, which it queues in its
lanes. Due sources are stored in the sources alone. docs/cluster.md describes who owns what.
"""

import asyncio
import os
import platform
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from headwater.clock import SharedClock
from headwater.engine.cluster.due_queries import DueQueries
from headwater.engine.cluster.event_relay import RELAY_SECONDS, EventRelay
from headwater.engine.cluster.leases import Leases
from headwater.engine.cluster.shard_assignment import HAND_OVER_SECONDS, ShardAssignment
from headwater.engine.cluster.worker_counters import WorkerCounters
from headwater.engine.engine import Engine
from headwater.engine.events import EventKind
from headwater.engine.loops import Loop, Work, attempt, is_set_within, repeat, run_until
from headwater.errors import (
    AlreadyPolling,
    ConfigError,
    DatabaseUnavailable,
    HeadwaterError,
    MustRestart,
)
from headwater.logs import get_logger
from headwater.store.host_locks import HostLocks
from headwater.store.postgres import NotifyChannel, PostgresDatabase
from headwater.store.row_mapping import to_ms
from headwater.store.shards import Shards, heartbeat

log = get_logger()
MAX_UNCONFIRMED_SECONDS = 300.0  # after which a worker exits, so that a new one is started
_HEARTBEAT_SECONDS = 1.0
_REQUEST_SECONDS = 1.0
_FOLLOW_SECONDS = 5.0  # fewer checks than those of a LocalService: an idle worker is quiet (K8)
_DELIVER_SECONDS = 5.0
_BALANCE_SECONDS = 2.0  # at most; less with a short lease
_IDLE_TRANSACTION = 0.5  # of a lease: the server ends the transaction of a suspended process
_REAP_AFTER = 0.5  # of a lease: own heartbeats without a gap, before others are declared dead


class ClusterWorker(Engine):
    """One worker: an engine that polls the sources of the shards that it has open."""

    async def __aenter__(self) -> Self:
        database, lease_seconds = self._store.database, self._pace.lease_seconds
        if not isinstance(database, PostgresDatabase):
            raise ConfigError("app.database-url: workers share a PostgreSQL database")
        database.idle_transaction_seconds = lease_seconds * _IDLE_TRANSACTION
        await self._store.check()
        if not await database.acquire_poll_lock(shared=True):
            raise AlreadyPolling("a headwater process polls this database alone; stop it first")
        self._database = database
        # no other process has or had this id
        self.id = f"{platform.node()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._shards = Shards(database)
        shard_count, _ = await self._shards.counts()
        await self._shards.assume_unfinished_visits()
        await self._shards.free_abandoned()
        await self._shards.synchronize(self._clock)
        self._host_locks = HostLocks(database, idle_seconds=lease_seconds)
        self.leases = Leases(
            self._host_locks, self._clock, seconds=lease_seconds, shards=shard_count
        )
        self._queries = DueQueries(
            self._store.sources,
            self._store.page_visits,
            self.leases,
            self._clock,
            self._policy,
            lambda: self.paused,
        )
        self._beats_since: float | None = None  # without a failure
        self._started_at = self.last_tick = self._clock.now()
        await self._assemble(
            unclean_stop=False,
            locker=self.leases,
            on_unfinished=self._queries.later,
        )
        self.assignment = ShardAssignment(
            shards=self._shards,
            leases=self.leases,
            lanes=self.lanes,
            clock=self._clock,
            worker=self.id,
            started_at=self._started_at,
            lease_seconds=lease_seconds,
            on_opened=self._queries.again.set,
        )
        self._relay = EventRelay(NotifyChannel(database), self.events, self._clock)
        await self._beat()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Finish running polls within bounds, store what they fetched, hand over (S8)."""
        await self._finish()
        with suppress(HeadwaterError):
            await self._shards.remove_worker(self.id)
        await self._host_locks.close()
        self._store.database.release()

    def loops(self) -> Sequence[Loop]:
        """What runs until the worker stops."""
        every = self._every
        balance_seconds = min(self._pace.lease_seconds / 6, _BALANCE_SECONDS)
        return (
            self._tick_loop,
            lambda: every(balance_seconds, self._balance, "sharing the shards"),
            self._request_loop,
            lambda: every(RELAY_SECONDS, self._relay.send, "sending events"),
            self._probe_loop,
            lambda: every(_FOLLOW_SECONDS, self._follow, "following stored posts"),
            self._incident_loop,
            lambda: every(_DELIVER_SECONDS, self._deliver, "reading messages of webhooks"),
            self._schema_loop,
            self._exit_if_unconfirmed,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then other workers poll what has not started."""
        beating = asyncio.create_task(self._beat_loop())  # until the last poll has ended
        try:
            await self._attempt(self._balance, "sharing the shards")
            await run_until(stop, self.loops(), on_stop=self.lanes.close)
        finally:
            seconds = self._pace.shutdown_seconds  # S8: within bounds
            await asyncio.gather(
                self.assignment.hand_over(list(self.leases.open_shards), seconds),
                self.lanes.stop(seconds),
                return_exceptions=True,  # shards that could not be closed are free after a lease
            )
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    def _is_leader(self) -> bool:
        """Whether this worker does what is done once per cluster."""
        return self.leases.has(0)

    async def _follow(self) -> None:
        if self._is_leader():
            await self._followers.run()

    async def _deliver(self) -> None:
        if self._deliverer is not None:
            await self._deliverer.run()

    async def tick(self) -> None:
        """Queue the due sources of the open shards."""
        started = self._clock.monotonic()
        if self._is_leader():
            await self.ticker.prepare(paused=self.paused)
        taken = await self._queries.queue_due(self.ticker)
        self.last_tick = self._clock.now()
        spent = self._clock.monotonic() - started
        self.events.emit(EventKind.TICK, text=str(taken), seconds=spent)

    async def _check_incidents(self) -> None:
        if self._is_leader():
            await super()._check_incidents()

    async def _tick(self) -> None:
        try:
            await self.tick()
        except Exception as error:
            self.metrics.ticks_failed += 1
            if isinstance(error, DatabaseUnavailable):
                self._queries.failed()
            raise

    async def _tick_loop(self) -> None:
        """Tick regularly; in between, query again when more may be due."""
        while True:
            next_at = self._clock.monotonic() + self._pace.tick_seconds
            await self._attempt(self._tick, "a tick")
            while (left := next_at - self._clock.monotonic()) > 0:
                if await is_set_within(self._queries.again, left):
                    again = "querying due sources"
                    await self._attempt(lambda: self._queries.queue_due(self.ticker), again)

    async def _request_loop(self) -> None:
        unexpected = "[Cluster] requests could not be read; trying again"
        queue, watch = self._queries.queue_requested, self._store.queries.watch
        await repeat(self._clock, _REQUEST_SECONDS, lambda: watch(queue(self.ticker)), unexpected)

    async def _balance(self) -> None:
        since = self._beats_since
        if since is None:
            return
        steady = self._clock.monotonic() - since >= self._pace.lease_seconds * _REAP_AFTER
        try:
            async with asyncio.timeout(self._pace.lease_seconds + HAND_OVER_SECONDS):
                await self.assignment.balance(may_reap=steady)
        except TimeoutError as error:  # else this worker would keep its shards forever
            raise DatabaseUnavailable("the database does not respond") from error

    async def _beat_loop(self) -> None:
        while True:
            await self._clock.sleep(_HEARTBEAT_SECONDS)
            await self._attempt(self._beat, "confirming leases")

    async def _beat(self) -> None:
        """Heartbeat: confirm locks and leases, publish presence and counters (K8)."""
        try:
            await self._refuse_if_unfit()
            await self._host_locks.confirm()
            await self._confirm()
        except HeadwaterError:
            self._beats_since = None
            # nothing can be polled now, and each attempt would be logged; they are still due
            self.lanes.withdraw(self.lanes.names())
            raise
        if self._beats_since is None:
            self._beats_since = self._clock.monotonic()
            self._queries.again.set()
        if not self._store.results_waiting:
            self._store.database_error = None
        self.gates.prune()
        self.faults.drop_old_evidence()

    async def _confirm(self) -> None:
        before = self.leases.snapshot()
        presence = self._presence()
        beat = await self._database.with_poll_lock(lambda session: heartbeat(session, presence))
        if isinstance(self._clock, SharedClock):
            self._clock.set(beat.at, before[0], self._clock.monotonic())
        if lost := self.leases.confirm(before, beat.held):
            self.assignment.withdraw(lost)
        was_paused = self.paused
        self.lanes.switch(on=not self._pause_state.apply(beat.pause_choice))
        if was_paused and not self.paused:
            self._queries.again.set()
        self._relay.has_listeners = beat.has_listeners

    async def _refuse_if_unfit(self) -> None:
        """Raise instead of a heartbeat if sources could not be read or stored for a lease.

        Other workers, whose sessions may work, then take the shards over.
        """
        lease, fails_since = self._pace.lease_seconds, self._queries.fail_since
        waiting = self._store.waiting.oldest_seconds()
        if fails_since is not None and self._clock.monotonic() - fails_since > lease:
            await self._shards.now()  # raises if still no session can be opened
            self._queries.fail_since = None
        if self._store.database_error is not None and waiting > lease:
            raise DatabaseUnavailable(f"results cannot be stored: {self._store.database_error}")

    def _presence(self) -> dict[str, object]:
        counters = WorkerCounters.of(self.metrics, self.lanes, self._store)
        return {
            "id": self.id,
            "machine": platform.node(),
            "pid": os.getpid(),
            "started": to_ms(self._started_at),
            "ticked": None if self.last_tick is None else to_ms(self.last_tick),
            "draining": self.assignment.draining,
            "backend": self._host_locks.backend,
            "in_flight": counters.in_flight,
            "polls": sum(self.metrics.polls.values()),
            "lost": self.leases.lost,
            "counts": counters.encode(),
        }

    async def _exit_if_unconfirmed(self) -> None:
        """Raise MustRestart after some minutes without a confirmed lease (K8)."""
        seconds = 0.0
        while seconds < MAX_UNCONFIRMED_SECONDS:  # the time of a suspended process does not count
            await self._clock.sleep(_HEARTBEAT_SECONDS)
            seconds = 0.0 if self.leases.are_confirmed() else seconds + _HEARTBEAT_SECONDS
        raise MustRestart(
            f"the leases of this worker were not confirmed for {seconds:.0f} s: "
            f"{self._store.database_error or 'the database does not respond'}"
        )

    async def _every(self, seconds: float, work: Work, name: str) -> None:
        message = f"[Cluster] {name} failed; trying again"
        await repeat(self._clock, seconds, work, message, self._warn)

    async def _attempt(self, work: Work, name: str) -> None:
        await attempt(work, f"[Cluster] {name} failed; trying again", self._warn)

    def _warn(self, message: str, error: HeadwaterError) -> None:
        self._store.database_error = str(error)
        log.warning(message, error=str(error))
