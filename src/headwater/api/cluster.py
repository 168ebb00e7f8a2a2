"""The workers of a cluster."""

from typing import Any

from fastapi import APIRouter, Depends
from pydantic import Field

from headwater.api.callers import need_admin
from headwater.api.schemas import Moment, Shape
from headwater.app import App
from headwater.engine.counts import counts_from
from headwater.errors import NotFound
from headwater.operations.cluster import ClusterView, cluster_view
from headwater.store.shards import WorkerSeen


class WorkerOut(Shape):
    """A worker, as it was last seen."""

    id: str = Field(description="What it goes by.")
    machine: str = Field(description="Where it runs.")
    pid: int = Field(description="Its process there.")
    started_at: Moment = Field(description="When it started.")
    seen_at: Moment = Field(description="When it last told that it lives.")
    silent: bool = Field(
        description="It has not told for long that it lives: soon others take its shards over."
    )
    shards: int = Field(description="How many shards it has open.")
    in_flight: int = Field(description="How many polls are under way there.")
    polls: int = Field(description="How many ended since its start.")
    leases_lost: int = Field(description="How many shards others took over from it.")
    lanes: int = Field(description="How many lanes have something to do there.")
    sources_waiting: int = Field(description="How many sources wait in these lanes.")
    commits: int = Field(description="How often it stored results.")
    results: int = Field(description="How many results it stored, many in a commit.")
    results_waiting: int = Field(description="How many wait for a database that is away.")
    parse_kills: int = Field(description="Documents over the time or memory for parsing.")
    ticks_failed: int = Field(description="How many of its ticks did not work.")
    loop_lag_max_seconds: float = Field(
        description="How late its event loop got to a timer at most, in the last minutes."
    )

    @classmethod
    def of(cls, worker: WorkerSeen) -> "WorkerOut":
        """A worker as it is served."""
        counts = counts_from(worker.counts)
        return cls(
            id=worker.id,
            machine=worker.machine,
            pid=worker.pid,
            started_at=worker.started_at,
            seen_at=worker.seen_at,
            silent=worker.is_silent,
            shards=worker.shards,
            in_flight=worker.in_flight,
            polls=worker.polls,
            leases_lost=worker.leases_lost,
            lanes=counts.lanes,
            sources_waiting=counts.waiting,
            commits=counts.commits,
            results=counts.results,
            results_waiting=counts.results_waiting,
            parse_kills=counts.parse_kills,
            ticks_failed=counts.ticks_failed,
            loop_lag_max_seconds=counts.loop_lag_max_seconds,
        )


class ClusterOut(Shape):
    """How the workers of this database stand."""

    workers: list[WorkerOut] = Field(description="Those that were seen of late, oldest first.")
    shards: int = Field(description="How many parts the hosts are shared out in.")
    open_shards: int = Field(description="How many of them are polled right now.")
    waiting_jobs: int = Field(description="How many wake-ups wait for a worker.")
    stalled_jobs: int = Field(description="How many belong to workers that fell silent.")
    due: int = Field(description="How many sources are due.")
    overdue: int = Field(description="How many sources have been due for more than two ticks.")
    oldest_overdue_at: Moment | None = Field(
        description="Since when the longest of them has been due; null: none is overdue."
    )

    @classmethod
    def of(cls, view: ClusterView) -> "ClusterOut":
        """The cluster as it is served."""
        return cls(
            workers=[WorkerOut.of(one) for one in view.workers],
            shards=view.shards,
            open_shards=view.open_shards,
            waiting_jobs=view.waiting_jobs,
            stalled_jobs=view.stalled_jobs,
            due=view.backlog.due,
            overdue=view.backlog.overdue,
            oldest_overdue_at=view.backlog.oldest_overdue_at,
        )


def cluster_routes(app: App) -> APIRouter:
    """`/api/cluster`."""
    routes = APIRouter(prefix="/api/cluster", tags=["scheduler"])

    nobody: dict[int | str, dict[str, Any]] = {
        404: {"description": "There is no cluster: this database is a SQLite file."}
    }

    @routes.get("", dependencies=[Depends(need_admin)], responses=nobody)
    async def get_cluster() -> ClusterOut:
        """Show the workers that share this database; there are none with SQLite."""
        if not app.store.database.takes_workers:
            raise NotFound("there is no cluster: workers share a PostgreSQL database")
        settings = app.settings
        view = await cluster_view(
            app.store,
            app.policy,
            tick_seconds=settings.source.tick_seconds,
            lease_seconds=settings.cluster.lease_seconds,
        )
        return ClusterOut.of(view)

    return routes
