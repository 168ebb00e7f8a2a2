"""The commands status and incidents."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import typer

from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, Styled, wide
from headwater.model import Health
from headwater.rules.admission import timestamp
from headwater.rules.incidents import Incident, Severity

commands = typer.Typer()
_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


@commands.command(
    epilog="Example: headwater status || mail -s 'Headwater' me@example.org < /dev/null"
)
def status(ctx: typer.Context, json: output.Json = False) -> None:
    """Show what is wrong and what to do; exit 1 while anything is.

    Anything: any open incident, of any user. Sources that a person disabled are none, nor is a
    pause of cleanup, which is shown.
    """
    from headwater.app import App
    from headwater.engine.cleanup import paused_until
    from headwater.operations.incidents import checked_incidents

    call = invocation(ctx)

    async def state(app: App) -> tuple[list[Incident], Mapping[Health, int], datetime | None]:
        open_ = await checked_incidents(app.store, app.policy, call.now, None)
        by_health = await app.store.source_counts.by_health()
        return open_, by_health, await paused_until(app.store, call.now)

    found, by_health, paused = call.do(state)
    if json:
        incidents = [output.schema_json("IncidentOut", one) for one in found]
        until = None if paused is None else timestamp(paused)
        output.show_json({"ok": not found, "incidents": incidents, "cleanupPausedUntil": until})
    else:
        _show_status(found, by_health[Health.FAILING], paused)
    if found:
        raise typer.Exit(1)


@commands.command(epilog="Example: headwater incidents --all")
def incidents(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", help="Also those of the last 90 days.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 50,
    json: output.Json = False,
) -> None:
    """List problems, open ones first, the worst first."""
    from headwater.app import App
    from headwater.operations.incidents import checked_incidents

    call = invocation(ctx)

    async def found(app: App) -> list[Incident]:
        is_open = await checked_incidents(app.store, app.policy, call.now, None)
        if not all_:
            return is_open[:limit]
        return await app.store.incidents.page(None, limit=limit)

    columns: tuple[Column[Incident], ...] = (
        Column("Severity", lambda one: Styled(one.severity.value, _STYLES[one.severity])),
        Column("Opened", lambda one: humanize.clock(one.opened_at)),
        Column("Closed", _closed, optional=1),
        wide("What is wrong", lambda one: one.title),
        wide("What to do", lambda one: one.advice, optional=2),
    )
    output.show_items(
        columns, call.do(found), schema="IncidentOut", json=json, empty="No problems."
    )


def _show_status(found: list[Incident], failing: int, paused: datetime | None) -> None:
    for incident in found:
        output.say(
            Styled(f"{incident.severity.value}: ", _STYLES[incident.severity]), incident.title
        )
        output.say(f"  {incident.advice}")
    if paused is not None:  # C3
        title = f"cleanup is paused until {humanize.clock(paused)}"
        output.say(
            Styled("note: ", "yellow"), f"{title}: the clock jumped, or was wrong at a start"
        )
        output.say("  Check the clock before cleanup resumes.")
    if not found and (failing or paused is None):
        output.say(Styled(_without_incidents(failing), "green"))


def _without_incidents(failing: int) -> str:
    if not failing:
        return "Everything is fine."
    sources = "1 source is" if failing == 1 else f"{failing:,} sources are"
    return (
        f"Nothing needs you now. {sources} failing and tried again: headwater list --health failing"
    )


def _closed(incident: Incident) -> str:
    return "" if incident.closed_at is None else humanize.clock(incident.closed_at)
