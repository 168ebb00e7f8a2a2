"""The worker and cluster commands: processes that share a PostgreSQL database."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from headwater import __version__, logs
from headwater.app import App, open_app
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation, run
from headwater.cli.columns import Column, number
from headwater.cli.serve import set_up, stop_on_signals
from headwater.clock import SharedClock
from headwater.errors import DatabaseUnavailable, UsageError
from headwater.operations import cluster as clusters
from headwater.operations.cluster import ClusterView, cluster_view
from headwater.operations.readiness import ALL_DRAINING, HOW_TO_POLL_AGAIN
from headwater.rules.url_secrets import masked
from headwater.settings import Settings
from headwater.store.shards import WorkerStatus, all_draining

if TYPE_CHECKING:
    from headwater.engine.cluster.worker import ClusterWorker

commands = typer.Typer()
_cluster = typer.Typer(epilog="Example: headwater cluster status", invoke_without_command=True)
commands.add_typer(_cluster, name="cluster")
log = logs.get_logger()
# Errors of a server that does not accept our name or password: a retry cannot help.
_REFUSED = re.compile(r"(database|role) .* does not exist|authentication failed|pg_hba")
_RETRY_SECONDS = 5.0
_DRAIN_SECONDS = 60.0  # how long `drain` waits; the worker continues without it
_CHECK_SECONDS = 0.5


@commands.command(epilog="Example: headwater --database-url postgresql://db/headwater worker")
def worker(ctx: typer.Context) -> None:
    """Poll sources when they are due, beside other workers.

    All workers share one PostgreSQL database.
    """
    run(_work(set_up(invocation(ctx), {})))


async def _work(settings: Settings) -> None:
    stop = stop_on_signals()
    async with _endpoints(settings) as connected:
        retried = False
        while not stop.is_set():
            try:
                clock, program = SharedClock(), "headwater worker"
                async with (
                    open_app(settings, clock=clock, program=program, upgrades=True) as app,
                    app.worker() as running,
                ):
                    database = masked(settings.database_url)
                    log.info("working", worker=running.id, version=__version__, database=database)
                    with connected(app, running):
                        await running.run(stop)
            except DatabaseUnavailable as error:
                if not retried and _REFUSED.search(str(error)):
                    raise
                retried = True
                log.warning("[Cluster] the database is unavailable; retrying", error=str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _RETRY_SECONDS)
    log.info("stopped")


@asynccontextmanager
async def _endpoints(
    settings: Settings,
) -> "AsyncIterator[Callable[[App, ClusterWorker], AbstractContextManager[None]]]":
    """Serve health, readiness and metrics if there is a port, also without a database.

    Yields what connects the endpoints to a running worker.
    """
    if settings.worker.port is None:
        yield lambda _app, _worker: nullcontext()
        return
    # the web framework takes a while to import
    from headwater.api.server import serving, web_server
    from headwater.api.worker_endpoints import WorkerEndpoints

    endpoints = WorkerEndpoints(settings)
    host, port = settings.worker.host, settings.worker.port
    async with serving(lambda: web_server(endpoints), host, port, "app.worker.port") as (url, *_):
        log.info("[Cluster] serving health, readiness and metrics", url=url)
        yield endpoints.connected


@_cluster.callback()
def cluster(ctx: typer.Context) -> None:
    """Show the workers that share a PostgreSQL database."""
    if ctx.invoked_subcommand is None:
        status(ctx)


@_cluster.command("status", epilog="Example: headwater cluster status --json")
def status(ctx: typer.Context, json: output.Json = False) -> None:
    """Show workers, shards and due sources."""
    view = invocation(ctx).do(
        lambda app: cluster_view(
            app.store, app.policy, tick_seconds=app.settings.source.tick_seconds
        )
    )
    if json:
        # the web framework takes a while to import, and no other command needs it
        from headwater.api.schemas.service_outputs import ClusterOut

        output.show_json(ClusterOut.of(view).plain())
        return

    def seen(worker: WorkerStatus) -> str:
        age = f"{max((view.now - worker.seen_at).total_seconds(), 0):.0f} s"
        drained = ", draining" if worker.draining else ""
        return (f"silent for {age}" if worker.is_silent else f"{age} ago") + drained

    columns: tuple[Column[WorkerStatus], ...] = (
        Column("Worker", lambda worker: worker.id),
        number("Shards", lambda worker: worker.shards),
        number("In flight", lambda worker: worker.in_flight, optional=1),
        number("Polls", lambda worker: f"{worker.polls:,}", optional=2),
        number("Leases lost", lambda worker: worker.leases_lost, optional=3),
        Column("Since", lambda worker: humanize.clock(worker.started_at), optional=4),
        Column("Seen", seen),
    )
    output.show_table(columns, view.workers, empty="No workers. `headwater worker` starts one.")
    output.say(_summary(view))


@_cluster.command("drain", epilog="Example: headwater cluster drain db1/4211")
def drain(
    ctx: typer.Context,
    worker: Annotated[str, typer.Argument(help="The id of the worker, or its beginning.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let it take shards again.")] = False,
) -> None:
    """Hand over the shards of a worker before it is stopped.

    Waits until it has none left. Warns if no other worker is left to poll.
    """

    async def drained(app: App) -> WorkerStatus:
        found, warning = await clusters.drain(app.store, worker, draining=not undo)
        if warning is not None:
            output.note(f"Warning: {warning}")
        deadline = app.clock.monotonic() + _DRAIN_SECONDS
        while found.shards and not undo and app.clock.monotonic() < deadline:
            await app.clock.sleep(_CHECK_SECONDS)
            found = await clusters.find_worker(app.store, found.id)
        return found

    found = invocation(ctx).do(drained)
    if undo:
        output.say(f"{found.id} takes shards again.")
    elif not found.shards:
        output.say(f"{found.id} is drained: it has no shards and can be stopped.")
    else:
        raise UsageError(f"{found.id} still has {found.shards} shards; it goes on draining")


@_cluster.command("shards", epilog="Example: headwater cluster shards 1024")
def shards(
    ctx: typer.Context,
    count: Annotated[int, typer.Argument(help="256 to 4096; one worker needs no more than 256.")],
) -> None:
    """Change the number of shards, while no worker runs."""
    before, after = invocation(ctx).do(lambda app: clusters.change_shards(app.store, count))
    output.say(
        f"{after} shards already." if before == after else f"{before} shards are {after} now."
    )


def _summary(view: ClusterView) -> str:
    backlog = view.backlog
    oldest = backlog.oldest_overdue_at
    late = "" if oldest is None else f", the oldest for {(view.now - oldest).total_seconds():.0f} s"
    sources = f"{humanize.counted(backlog.due, 'source')} due, {backlog.overdue:,} overdue{late}"
    summary = f"{view.open_shards} of {view.shards} shards open; {sources}"
    if all(worker.is_silent for worker in view.workers):
        return f"No worker is alive: `headwater worker` starts one. {summary}"
    if all_draining(view.workers):
        return f"Warning: {ALL_DRAINING}; {HOW_TO_POLL_AGAIN}. {summary}"
    return summary
