"""The cluster of workers that share a PostgreSQL database: status, draining, number of shards."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.errors import AlreadyPolling, NotFound, UsageError
from headwater.operations.readiness import ALL_DRAINING, HOW_TO_POLL_AGAIN
from headwater.operations.service_status import overdue_after
from headwater.rules.policy import Policy
from headwater.rules.shards import MAX_SHARDS, SHARDS
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.shards import Shards, WorkerStatus, all_draining
from headwater.store.source_counts import DueCounts


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The workers of a database and the shards that they share."""

    now: datetime  # by the database's clock, like all timestamps of workers
    workers: Sequence[WorkerStatus]
    shards: int
    open_shards: int
    backlog: DueCounts


async def cluster_view(store: Store, policy: Policy, *, tick_seconds: float) -> ClusterView:
    """The current state of the workers of this database."""
    shards = _shards(store)
    now = await shards.now()
    count, opened = await shards.counts()
    return ClusterView(
        now=now,
        workers=await shards.workers(),
        shards=count,
        open_shards=opened,
        backlog=await store.source_counts.due(now, policy, overdue_after(tick_seconds)),
    )


async def drain(store: Store, name: str, *, draining: bool) -> tuple[WorkerStatus, str | None]:
    """Have a worker hand over its shards and take none, or take some again.

    `name`: its id or the beginning of it. A drained worker runs until it is stopped. Returns a
    warning too if no other worker is left to take the shards.
    """
    worker = await find_worker(store, name)
    describe("worker.drain" if draining else "worker.undrain", worker.id)
    await _shards(store).drain(worker.id, draining)
    idle = draining and all_draining(await _shards(store).workers())
    warning = f"{ALL_DRAINING}; {HOW_TO_POLL_AGAIN}" if idle else None
    return await find_worker(store, worker.id), warning


async def find_worker(store: Store, name: str) -> WorkerStatus:
    """The worker whose id is or begins with a name; NotFound unless there is exactly one."""
    found = [one for one in await _shards(store).workers() if one.id.startswith(name)]
    exact = [one for one in found if one.id == name] or found
    if len(exact) == 1:
        return exact[0]
    if not exact:
        raise NotFound(f"there is no worker {name}; `headwater cluster` lists them")
    raise UsageError(f"{len(exact)} workers begin with {name}; name one of them completely")


async def change_shards(store: Store, count: int) -> tuple[int, int]:
    """Divide the hosts into another number of shards; return the numbers before and after.

    Raises AlreadyPolling while workers or another polling process run.
    """
    if not SHARDS <= count <= MAX_SHARDS:
        raise UsageError(f"the number of shards is between {SHARDS} and {MAX_SHARDS}")
    shards, database = _shards(store), store.database
    if not await database.acquire_poll_lock():
        raise AlreadyPolling("workers or `serve` use this database; stop them first")
    try:
        before, _ = await shards.counts()
        if before != count:
            describe("cluster.shards", "cluster", before=before, after=count)
            await shards.resize(count)
    finally:
        database.release()
    return before, count


def _shards(store: Store) -> Shards:
    if not store.database.takes_workers:
        raise UsageError("a cluster needs PostgreSQL; this database is a SQLite file")
    return Shards(store.database)
