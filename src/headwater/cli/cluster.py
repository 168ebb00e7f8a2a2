"""Commands about the workers of a cluster."""

from datetime import datetime

import typer

from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.operations.cluster import ClusterView, cluster_view

commands = typer.Typer()
_cluster = typer.Typer(epilog="Example: headwater cluster status", no_args_is_help=True)
commands.add_typer(_cluster, name="cluster", rich_help_panel="Polling")


@_cluster.callback()
def cluster() -> None:
    """Look after the workers that share a PostgreSQL database."""


@_cluster.command("status", epilog="Example: headwater cluster status --json")
def status(ctx: typer.Context, json: output.Json = False) -> None:
    """Show workers, shards, and what waits for them."""

    async def looked(app: App) -> tuple[ClusterView, datetime]:
        now, settings = app.clock.now(), app.settings
        view = await cluster_view(
            app.store,
            now,
            app.policy,
            tick_seconds=settings.source.tick_seconds,
            lease_seconds=settings.cluster.lease_seconds,
        )
        return view, now

    view, now = invocation(ctx).do(looked)
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
            f"{max((now - one.seen_at).total_seconds(), 0):.0f} s ago",
        ]
        for one in view.workers
    ]
    output.show_table(columns, rows, empty="No workers. `headwater worker` starts one.")
    output.say(_told(view, now))


def _told(view: ClusterView, now: datetime) -> str:
    backlog = view.backlog
    oldest = backlog.oldest_overdue_at
    late = "" if oldest is None else f", the oldest for {(now - oldest).total_seconds():.0f} s"
    jobs = f"{view.waiting_jobs} waiting, {view.stalled_jobs} stalled"
    sources = f"{backlog.due:,} sources due, {backlog.overdue:,} overdue{late}"
    return f"{view.open_shards} of {view.shards} shards open, {jobs}; {sources}"
