"""How a cluster of workers stands: who polls what, and what waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.errors import UsageError
from headwater.operations.standing import OVERDUE_TICKS
from headwater.rules.policy import Policy
from headwater.rules.shards import SHARDS
from headwater.store import Store
from headwater.store.census import Backlog
from headwater.store.shards import Shards, WorkerSeen


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Workers, and the shards that they share out."""

    now: datetime  # by the database's clock, as all moments of workers are
    workers: Sequence[WorkerSeen]
    shards: int
    open_shards: int
    waiting_jobs: int
    stalled_jobs: int
    backlog: Backlog


async def cluster_view(
    store: Store, policy: Policy, *, tick_seconds: float, lease_seconds: float
) -> ClusterView:
    """How the workers of this database stand."""
    if not store.database.takes_workers:
        raise UsageError("a cluster needs PostgreSQL; this database is a SQLite file")
    shards = Shards(store.database)
    now = await shards.now()
    standing = await shards.standing(lease_seconds)
    patience = timedelta(seconds=OVERDUE_TICKS * tick_seconds)
    return ClusterView(
        now=now,
        workers=await shards.workers(),
        shards=SHARDS,
        open_shards=standing.open,
        waiting_jobs=standing.waiting,
        stalled_jobs=standing.stalled,
        backlog=await store.census.backlog(now, policy, patience),
    )
