"""Commands for whoever runs Headwater: config, backup, restore, doctor."""

import json as json_
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from headwater.app import App, master_key_file, open_store
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation, run
from headwater.clock import SystemClock
from headwater.errors import ConfigError
from headwater.operations import doctor as doctor_
from headwater.operations.backups import read_backup, write_backup
from headwater.operations.checks import Check, Verdict
from headwater.operations.survey import has_keys, survey
from headwater.settings import Settings, effective

commands = typer.Typer()
_PANEL = "Upkeep"
_MARKS = {
    Verdict.OK: Text("✓", style="green"),
    Verdict.NOTE: Text("!", style="yellow"),
    Verdict.WRONG: Text("✗", style="bold red"),
}


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater config --json")
def config(ctx: typer.Context, json: output.Json = False) -> None:
    """Show every setting, secrets masked, and where it is from."""
    values = effective(invocation(ctx).settings)
    if json:
        output.show_json([value._asdict() for value in values])
        return
    columns = (output.Column("Key"), output.wide("Value"), output.Column("Origin"))
    rows = [[v.key, _shown(v.value), _origin(v.origin)] for v in values]
    output.show_table(columns, rows, empty="")


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater backup headwater-monday.db")
def backup(ctx: typer.Context, file: Annotated[Path, typer.Argument(help="A new file.")]) -> None:
    """Copy everything into one file, while the service goes on."""
    rows = invocation(ctx).do(lambda app: write_backup(app.store, file))
    size = file.stat().st_size / 1024**2
    output.say(f"Wrote {words.counted(rows, 'row')} to {file} ({size:,.1f} MB)")


@commands.command(
    rich_help_panel=_PANEL, epilog="Example: headwater restore headwater-monday.db --yes"
)
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A backup.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Replace everything in the database with what a backup holds."""
    if not yes:
        typer.confirm(f"Replace everything with {file}?", abort=True, err=True)

    async def restored(app: App) -> int:
        return await read_backup(app.store, file)

    output.say(f"Restored {words.counted(invocation(ctx).do(restored), 'row')} from {file}")


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater doctor")
def doctor(ctx: typer.Context, json: output.Json = False) -> None:
    """Check program, surroundings and database; say what to do."""
    checks = run(_examined(invocation(ctx)))
    if json:
        rows = [
            {"check": c.name, "verdict": c.verdict, "detail": c.detail, "advice": c.advice}
            for c in checks
        ]
        output.show_json(rows)
    else:
        _show(checks)
    if any(check.verdict is Verdict.WRONG for check in checks):
        raise typer.Exit(1)


async def _examined(call: Invocation) -> list[Check]:
    found = [*doctor_.surroundings(), await doctor_.names()]
    try:
        settings = call.settings
    except ConfigError as error:
        return [*found, doctor_.configuration(None, error)]
    found += [doctor_.configuration(settings, None), doctor_.room(settings)]
    absent = doctor_.database_file(settings)
    if absent is not None:
        return [*found, absent]
    return [*found, *await _database(settings)]


async def _database(settings: Settings) -> list[Check]:
    clock = SystemClock()
    async with open_store(settings, clock=clock) as store:
        found = await doctor_.database(store)
        current = await doctor_.is_current(store)
        keys_stored = current and await has_keys(store)
        key_file = master_key_file(settings.database_url)
        found.append(doctor_.master_key(settings, key_file, keys_stored=keys_stored))
        return [*found, *await survey(store, clock.now())] if current else found


def _show(checks: list[Check]) -> None:
    if not output.on_terminal():
        for check in checks:
            advice = f"  → {check.advice}" if check.advice else ""
            output.say(f"{_MARKS[check.verdict]} {check.name}: {check.detail}{advice}")
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        line = _MARKS[check.verdict].copy().append(f" {check.name:<{width}}  ", style="bold")
        output.say(line.append(check.detail, style="none"))
        if check.advice:
            output.say(Text(f"  {'':<{width}}  → {check.advice}", style="cyan"))
    wrong = sum(check.verdict is Verdict.WRONG for check in checks)
    told = "All is well." if not wrong else f"{words.counted(wrong, 'thing')} to mend."
    output.say(Text(f"\n{told}", style="bold red" if wrong else "bold green"))


def _shown(value: object) -> str:
    """A value as the configuration file would have it."""
    return value if isinstance(value, str) else json_.dumps(value, ensure_ascii=False)


def _origin(origin: str) -> output.Cell:
    return Text(origin, style="dim" if origin == "default" else "cyan")
