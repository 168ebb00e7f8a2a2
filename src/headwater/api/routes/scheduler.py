"""The scheduler of this process, and the workers of a cluster."""

from typing import Annotated, Any

from fastapi import Depends

from headwater.api.dependencies import CurrentApp, CurrentService
from headwater.api.middleware.authentication import need_admin
from headwater.api.openapi import body_example, documented_router
from headwater.api.schemas.inputs import DrainIn, SchedulerIn
from headwater.api.schemas.service_outputs import (
    ClusterOut,
    DrainedWorkerOut,
    SchedulerOut,
    WorkerOut,
)
from headwater.errors import NotFound
from headwater.operations.cluster import cluster_view, drain
from headwater.operations.service_status import scheduler_view, switch_scheduler

_NO_CLUSTER: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is no cluster: the database is a SQLite file."}
}
routes = documented_router("/api", "scheduler")


@routes.get("/scheduler")
async def get_scheduler(service: CurrentService) -> SchedulerOut:
    """Get the state of the scheduler."""
    return SchedulerOut.of(scheduler_view(service))


@routes.put("/scheduler", dependencies=[Depends(need_admin)])
async def change_scheduler(
    service: CurrentService, body: Annotated[SchedulerIn, body_example({"paused": False})]
) -> SchedulerOut:
    """Pause or resume the scheduler.

    The state survives restarts. While paused, only requested polls are made; polls in progress
    finish.
    """
    return SchedulerOut.of(await switch_scheduler(service, paused=body.paused))


@routes.get("/cluster", dependencies=[Depends(need_admin)], responses=_NO_CLUSTER)
async def get_cluster(app: CurrentApp) -> ClusterOut:
    """Get the workers that share a PostgreSQL database."""
    _refuse_without_cluster(app)
    tick_seconds = app.settings.source.tick_seconds
    return ClusterOut.of(await cluster_view(app.store, app.policy, tick_seconds=tick_seconds))


@routes.put("/cluster/drain", dependencies=[Depends(need_admin)], responses=_NO_CLUSTER)
async def drain_worker(
    app: CurrentApp,
    body: Annotated[DrainIn, body_example({"worker": "db1/4211/9f3c01aa", "draining": True})],
) -> DrainedWorkerOut:
    """Drain a worker before it is stopped, or let it take shards again.

    A draining worker hands over its shards within seconds and polls nothing until it is stopped.
    If every worker is draining, nothing is polled: `warning` then says so.
    """
    _refuse_without_cluster(app)
    worker, warning = await drain(app.store, body.worker, draining=body.draining)
    return DrainedWorkerOut(**dict(WorkerOut.of(worker)), warning=warning)


def _refuse_without_cluster(app: CurrentApp) -> None:
    if not app.store.database.takes_workers:
        raise NotFound("there is no cluster: workers share a PostgreSQL database")
