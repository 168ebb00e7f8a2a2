"""Commands about the workers of a cluster."""

from datetime import datetime

import typer

from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.operations.cluster import ClusterView, cluster_view
from headwater.store.shards import WorkerSeen

commands = typer.Typer()
_cluster = typer.Typer(epilog="Example: headwater cluster status", invoke_without_command=True)
commands.add_typer(_cluster, name="cluster", rich_help_panel="Polling")


@_cluster.callback()
def cluster(ctx: typer.Context) -> None:
    """Look after the workers that share a PostgreSQL database."""
    if ctx.invoked_subcommand is None:
        status(ctx)


@_cluster.command("status", epilog="Example: headwater cluster status --json")
def status(ctx: typer.Context, json: output.Json = False) -> None:
    """Show workers, shards, and what waits for them."""

    async def looked(app: App) -> ClusterView:
        settings = app.settings
        return await cluster_view(
            app.store,
            app.policy,
            tick_seconds=settings.source.tick_seconds,
            lease_seconds=settings.cluster.lease_seconds,
        )

    view = invocation(ctx).do(looked)
    if json:
        # the web framework takes a while to import, and no other command needs it
        from headwater.api.cluster import ClusterOut

        output.show_json(ClusterOut.of(view).plain())
        return
    columns = (
        output.wide("Worker"),
        output.number("Shards"),
        output.number("In flight"),
        output.number("Polls"),
        output.number("Leases lost"),
        output.Column("Since"),
        output.Column("Seen"),
    )
    rows = [
        [
            one.id,
            str(one.shards),
            str(one.in_flight),
            f"{one.polls:,}",
            str(one.leases_lost),
            words.clock(one.started_at),
            _seen(one, view.now),
        ]
        for one in view.workers
    ]
    output.show_table(columns, rows, empty="No workers. `headwater worker` starts one.")
    output.say(_told(view, view.now))


def _seen(worker: WorkerSeen, now: datetime) -> str:
    age = f"{max((now - worker.seen_at).total_seconds(), 0):.0f} s"
    return f"silent for {age}" if worker.is_silent else f"{age} ago"


def _told(view: ClusterView, now: datetime) -> str:
    backlog = view.backlog
    oldest = backlog.oldest_overdue_at
    late = "" if oldest is None else f", the oldest for {(now - oldest).total_seconds():.0f} s"
    jobs = f"jobs: {view.waiting_jobs} waiting, {view.stalled_jobs} stalled"
    sources = f"{backlog.due:,} {'source' if backlog.due == 1 else 'sources'} due"
    sources = f"{sources}, {backlog.overdue:,} overdue{late}"
    told = f"{view.open_shards} of {view.shards} shards open; {jobs}; {sources}"
    if all(worker.is_silent for worker in view.workers):
        return f"No worker is alive: `headwater worker` starts one. {told}"
    return told
