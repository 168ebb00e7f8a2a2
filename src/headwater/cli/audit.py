"""The audit command."""

from typing import Annotated

import typer

from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, wide
from headwater.cli.moments import moment_of
from headwater.store.audit import AuditEntry

commands = typer.Typer()


@commands.command(epilog="Example: headwater audit --since 7d")
def audit(
    ctx: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Only since then, such as 7d, 12h or 2027-01-31."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 50,
    json: output.Json = False,
) -> None:
    """Show what people have changed, and logins, newest first."""
    call = invocation(ctx)
    start = None if since is None else moment_of(since, call.now, ago=True)
    found = call.do(lambda app: app.store.audit.newest(limit=limit, since=start))
    columns: tuple[Column[AuditEntry], ...] = (
        Column("At", lambda entry: humanize.clock(entry.at)),
        wide("Who", lambda entry: entry.who),
        Column("Action", lambda entry: entry.action),
        wide("Target", lambda entry: entry.target, optional=1),
        wide("Detail", lambda entry: entry.detail, optional=2),
    )
    output.show_items(columns, found, schema="AuditEntryOut", json=json, empty="No entries.")
