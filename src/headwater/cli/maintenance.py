"""Maintenance commands: config, backup, restore, vacuum, doctor."""

import json as json_
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated

import typer

from headwater.app import App, master_key_file, open_store
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation, run
from headwater.cli.columns import Column, Styled, wide
from headwater.cli.output import Yes
from headwater.clock import SystemClock
from headwater.errors import ConfigError
from headwater.operations import doctor as doctor_
from headwater.operations.readiness import Check, CheckStatus
from headwater.operations.storage import back_up_and_record
from headwater.settings import EffectiveValue, effective
from headwater.store.audit import describe
from headwater.store.backup_file import restore as restore_backup
from headwater.store.vacuum import vacuum as vacuum_database

commands = typer.Typer()
_SYMBOLS = {
    CheckStatus.OK: Styled("✓", "green"),
    CheckStatus.NOTE: Styled("!", "yellow"),
    CheckStatus.WRONG: Styled("✗", "bold red"),
}


@commands.command(epilog="Example: headwater config --json")
def config(ctx: typer.Context, json: output.Json = False) -> None:
    """Show every setting and its origin, secrets masked."""
    values = effective(invocation(ctx).settings)
    if json:
        output.show_json([value._asdict() for value in values])
        return
    columns: tuple[Column[EffectiveValue], ...] = (
        Column("Key", lambda one: one.key),
        wide("Value", lambda one: _yaml(one.value)),
        Column(
            "Origin", lambda one: Styled(one.origin, "dim" if one.origin == "default" else "cyan")
        ),
    )
    output.show_table(columns, values)


@commands.command(epilog="Example: headwater backup headwater-monday.db")
def backup(ctx: typer.Context, file: Annotated[Path, typer.Argument(help="A new file.")]) -> None:
    """Copy the database into one file while the service runs."""
    rows = invocation(ctx).do(lambda app: back_up_and_record(app.store, file, app.clock.now()))
    size = file.stat().st_size / 1024**2
    output.say(f"Wrote {humanize.counted(rows, 'row')} to {file} ({size:,.1f} MB)")


@commands.command(epilog="Example: headwater restore headwater-monday.db --yes")
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A backup.")],
    yes: Yes = False,
) -> None:
    """Replace the contents of the database with a backup."""
    output.confirm(f"Replace everything with {file}?", yes=yes)

    # safe beside a running service: its polls find another generation and are discarded
    def work(app: App) -> Awaitable[int]:
        describe("database.restore", file.name)
        return restore_backup(app.store.database, file)

    rows = invocation(ctx).do(work, creates=True)
    output.say(f"Restored {humanize.counted(rows, 'row')} from {file}")


@commands.command(epilog="Example: headwater vacuum")
def vacuum(ctx: typer.Context, json: output.Json = False) -> None:
    """Return the space of deleted rows, and report the size."""
    report = invocation(ctx).do(lambda app: vacuum_database(app.store.database))
    before, after = report.before.total, report.after.total
    if json:
        output.show_json({"bytesBefore": before, "bytesAfter": after, "method": report.method})
        return
    sizes = f"{before / 1024**2:,.1f} MB before, {after / 1024**2:,.1f} MB after"
    output.say(f"Vacuumed: {sizes}; {report.method}")


@commands.command(epilog="Example: headwater doctor")
def doctor(ctx: typer.Context, json: output.Json = False) -> None:
    """Check the installation and the database, and suggest repairs."""
    checks = run(_checks(invocation(ctx)))
    if json:
        rows = [
            {"check": c.name, "verdict": c.verdict, "detail": c.detail, "advice": c.advice}
            for c in checks
        ]
        output.show_json(rows)
    else:
        _show(checks)
    if any(check.verdict is CheckStatus.WRONG for check in checks):
        raise typer.Exit(1)


async def _checks(call: CliContext) -> list[Check]:
    found = [*doctor_.environment(), doctor_.pages(), await doctor_.names()]
    try:
        settings = call.settings
    except ConfigError as error:
        return [*found, doctor_.configuration(None, error)]
    found += [
        doctor_.configuration(settings, None),
        doctor_.retention(settings),
        doctor_.disk_space(settings),
    ]
    absent = doctor_.database_file(settings)
    if absent is not None:
        return [*found, absent]
    clock = SystemClock()
    async with open_store(settings, clock=clock, program="headwater doctor") as store:
        found += await doctor_.database(store)
        if not await doctor_.is_current(store):
            return found
        key_file = master_key_file(settings.database_url)
        keys_stored = await doctor_.has_keys(store)
        found.append(doctor_.master_key(settings, key_file, keys_stored=keys_stored))
        found += await doctor_.workers(store)
        return [*found, *await doctor_.survey(store, clock.now())]


def _show(checks: list[Check]) -> None:
    if not output.on_terminal():
        for check in checks:
            advice = f"  → {check.advice}" if check.advice else ""
            output.say(f"{_SYMBOLS[check.verdict]} {check.name}: {check.detail}{advice}")
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        name = Styled(f" {check.name:<{width}}  ", "bold")
        output.say(_SYMBOLS[check.verdict], name, check.detail)
        if check.advice:
            output.say(Styled(f"  {'':<{width}}  → {check.advice}", "cyan"))
    wrong = sum(check.verdict is CheckStatus.WRONG for check in checks)
    result = f"{humanize.counted(wrong, 'problem')} to fix." if wrong else "No problems found."
    output.say(Styled(f"\n{result}", "bold red" if wrong else "bold green"))


def _yaml(value: object) -> str:
    """Return a value as the configuration file would have it."""
    return value if isinstance(value, str) else json_.dumps(value, ensure_ascii=False)
