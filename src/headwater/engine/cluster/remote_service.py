"""RemoteService: the service of an API server beside workers: it monitors them, polls nothing."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self, cast

from headwater.clock import Clock
from headwater.engine.cleanup import paused_until
from headwater.engine.cluster.event_relay import decode_events, encode_events
from headwater.engine.cluster.worker_counters import WorkerCounters, add_difference, decode_counters
from headwater.engine.hosts.access import HostAccess
from headwater.engine.hosts.gates import Gates
from headwater.engine.hosts.visitors import visitor_locks
from headwater.engine.lane_table import LaneTable
from headwater.engine.loops import repeat, run_until
from headwater.engine.outage_guard import OutageStatus
from headwater.engine.poller import log_outcome
from headwater.engine.service import Service
from headwater.errors import ConfigError, HeadwaterError
from headwater.logs import get_logger
from headwater.model import Outcome, Subject
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.postgres import NotifyChannel, PostgresDatabase
from headwater.store.shards import Shards, WorkerStatus, all_draining

log = get_logger()
_MONITOR_SECONDS = 1.0
_RECONNECT_SECONDS = 2.0
_HOSTS_PAUSE_FACTOR = 20.0  # pause between readings of all closed hosts, times their duration
_MAX_KNOWN_WORKERS = 1000


class RemoteService(Service):
    """Events, counters and host states of all workers, and requests to them."""

    def __init__(self, store: Store, clock: Clock, policy: Policy, *, paused: bool = False) -> None:
        super().__init__(store, clock, policy, paused=paused)
        self._closed = False
        self.lanes = LaneTable()  # empty: lanes are in the workers
        self.guard = OutageStatus()  # workers detect outages

    async def __aenter__(self) -> Self:
        database = self._store.database
        if not database.takes_workers:
            raise ConfigError("--no-scheduler: workers need PostgreSQL, see app.database-url")
        self._shards = Shards(database)
        self._channel = NotifyChannel(cast(PostgresDatabase, database))
        self._counted: dict[str, WorkerCounters] = {}  # by worker, including former ones
        self._read_hosts_at = 0.0
        await self._store.check()
        self._locks = visitor_locks(self._store, self._clock)
        self.gates = Gates(await self._store.hosts.all(), self._clock)
        self.hosts = HostAccess(
            self.gates, self._store.hosts, self._policy, self._locks, lambda: self._closed
        )
        await self._monitor()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()
        await self._locks.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Monitor the workers until `stop` is set."""
        await run_until(stop, (self._monitor_loop, self._listen_loop, self._schema_loop))

    def close(self) -> None:
        """Accept no more requests and visits (S8)."""
        self._closed = True

    async def publish(self, subject: Subject, outcome: Outcome) -> None:
        """Log the first poll of a source that a visit made; send its events to all API servers."""
        log_outcome(outcome)
        with suppress(HeadwaterError):  # the poll is stored: events may be lost
            await self._channel.send(list(encode_events(self._events_of(subject, outcome))))

    async def _monitor_loop(self) -> None:
        unexpected = "[Cluster] monitoring the workers failed; trying again"
        await repeat(self._clock, _MONITOR_SECONDS, self._monitor, unexpected, self._set_error)

    def _set_error(self, _message: str, error: HeadwaterError) -> None:
        self._store.database_error = str(error)

    async def _monitor(self) -> None:
        """Read the state that workers store."""
        await self._shards.synchronize(self._clock)
        await self._pause_state.read()
        self.cleanup_paused_until = await paused_until(self._store, self._clock.now())
        await self._locks.confirm()
        started = self._clock.monotonic()
        if started >= self._read_hosts_at:  # less often if many hosts must wait
            for state in await self._store.hosts.closed(self._clock.now()):
                self.gates.learn(state)
            spent = self._clock.monotonic() - started
            self._read_hosts_at = started + spent * _HOSTS_PAUSE_FACTOR
        self.gates.prune()
        self._count(await self._shards.workers())
        self._store.database_error = None

    def _count(self, workers: Sequence[WorkerStatus]) -> None:
        """Add what workers counted since the last reading, or since they started meanwhile."""
        found = {one.id: decode_counters(one.counts) for one in workers}
        for one in workers:
            new = WorkerCounters() if one.started_at > self.metrics.started_at else found[one.id]
            # a worker that was reaped and comes back continues its counters
            add_difference(self.metrics, self._counted.pop(one.id, new), found[one.id])
        self._counted.update(found)
        while len(self._counted) > max(_MAX_KNOWN_WORKERS, len(found)):
            del self._counted[next(iter(self._counted))]
        self.workers = tuple(found.values())
        self.workers_alive = sum(not one.is_silent for one in workers)
        self.workers_all_draining = all_draining(workers)
        ticks = [one.ticked_at for one in workers if one.ticked_at is not None]
        self.last_tick = max(ticks, default=self.last_tick)

    async def _listen_loop(self) -> None:
        while True:
            since = self._clock.now()
            try:
                async for text in self._channel.listen():
                    for event in decode_events(text):
                        if event.at >= since:  # else it was sent for an earlier listener
                            self.events.forward(event)
            except HeadwaterError as error:
                log.warning("[Cluster] events of the workers are interrupted", error=str(error))
            await self._clock.sleep(_RECONNECT_SECONDS)
