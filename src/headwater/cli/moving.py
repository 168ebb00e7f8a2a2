"""The command that brings a database up to date, or moves everything into another one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from headwater import logs
from headwater.app import master_key_file, open_store
from headwater.cli import output, words
from headwater.cli.invocation import Invocation, invocation, run
from headwater.clock import SystemClock
from headwater.errors import StoreError, UsageError
from headwater.operations.moving import Moved, Progress, Tell, move
from headwater.rules.urls import masked
from headwater.settings import LogLevel, Settings

commands = typer.Typer()
_KINDS = ("sqlite:///", "postgresql://", "postgres://")
_EXAMPLE = "headwater migrate --from sqlite:///data/headwater.db --to postgresql://db/headwater"
_COLUMNS = (
    output.Column("Table"),
    output.number("Source rows"),
    output.number("Target rows"),
    output.wide("Source hash"),
    output.wide("Target hash"),
    output.Column("Verdict"),
)


@commands.command(rich_help_panel="Upkeep", epilog=f"Example: {_EXAMPLE}")
def migrate(
    ctx: typer.Context,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Move all that is in here …")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="… into this empty database.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Bring the schema up to date, or move into another database."""
    call = invocation(ctx)
    if from_ is None and to is None:
        _bring_up_to_date(call.settings, json=json)
        return
    if from_ is None or to is None:
        raise UsageError("a move needs both --from URL and --to URL")
    _check_urls(from_, to)
    _move(call, from_, to, json=json)


def _bring_up_to_date(settings: Settings, *, json: bool) -> None:
    async def migrated() -> tuple[int, int]:
        async with open_store(settings, clock=SystemClock()) as store:
            return await store.prepare()

    before, after = run(migrated())
    if json:
        output.show_json({"before": before, "after": after})
        return
    told = (
        f"is {after} already; nothing was to do"
        if before == after
        else f"went from {before} to {after}"
    )
    output.say(f"The schema {told}")


def _check_urls(from_: str, to: str) -> None:
    for option, url in (("--from", from_), ("--to", to)):
        if not url.startswith(_KINDS):
            raise UsageError(f"{option}: {masked(url)!r} is neither sqlite:///… nor postgresql://…")
    file = Path(from_.removeprefix("sqlite:///"))
    if from_.startswith("sqlite:///") and not file.is_file():
        raise UsageError(f"--from: there is no database {file}")


def _move(call: Invocation, from_: str, to: str, *, json: bool) -> None:
    settings = call.settings
    logs.configure(settings.log.format, call.log_level or LogLevel.ERROR)
    with _bar() as tell:
        moved = run(_moved(settings, from_, to, tell))
    key_files = _key_files(settings, from_, to)
    if json:
        _show_json(moved, key_files)
    else:
        _show(moved)
    if moved.differing:
        raise StoreError(_difference(moved))
    if not json:
        _say_what_next(moved, key_files)


async def _moved(settings: Settings, from_: str, to: str, tell: Tell) -> Moved:
    clock = SystemClock()
    source_settings = settings.model_copy(update={"database_url": from_})
    target_settings = settings.model_copy(update={"database_url": to})
    async with (
        open_store(source_settings, clock=clock) as source,
        open_store(target_settings, clock=clock) as target,
    ):
        return await move(source, target, clock, tell)


@contextmanager
def _bar() -> Iterator[Tell]:
    """Show how far a move is, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
        console=output.console(errors=True),
        transient=True,
    )
    tasks = {}

    def tell(progress: Progress) -> None:
        total = max(progress.rows, progress.total)
        if progress.step not in tasks:
            tasks[progress.step] = bar.add_task("", total=total)
        told = f"{progress.step} {progress.table}"
        bar.update(tasks[progress.step], description=told, completed=progress.rows, total=total)

    with bar:
        yield tell


def _show(moved: Moved) -> None:
    rows: list[list[output.Cell]] = [
        [
            one.table,
            str(one.source.rows),
            str(one.target.rows),
            one.source.hash,
            one.target.hash,
            Text("same", style="green") if one.same else Text("differs", style="bold red"),
        ]
        for one in moved.tables
    ]
    output.show_table(_COLUMNS, rows, empty="")


def _show_json(moved: Moved, key_files: tuple[Path, Path] | None) -> None:
    tables = [
        {
            "table": one.table,
            "source": {"rows": one.source.rows, "hash": one.source.hash},
            "target": {"rows": one.target.rows, "hash": one.target.hash},
            "same": one.same,
        }
        for one in moved.tables
    ]
    key = None if key_files is None else {"source": str(key_files[0]), "target": str(key_files[1])}
    document = {"copied": moved.copied, "resumed": moved.went_on, "same": not moved.differing}
    output.show_json(document | {"masterKeyFile": key, "tables": tables})


def _difference(moved: Moved) -> str:
    names = ", ".join(moved.differing)
    if moved.was_complete:
        return f"not the same any more: {names}; the move was complete, one side has changed since"
    return (
        f"not the same on both sides: {names}; somebody changed one of them meanwhile. Begin again "
        "with an empty target, and nothing else at work on either side"
    )


def _key_files(settings: Settings, from_: str, to: str) -> tuple[Path, Path] | None:
    """Where the master key is and where it is looked for next, if somebody must move it."""
    there, here = master_key_file(from_), master_key_file(to)
    given = settings.encryption.master_key is not None
    return None if given or there == here or not there.is_file() else (there, here)


def _say_what_next(moved: Moved, key_files: tuple[Path, Path] | None) -> None:
    """On standard error: the answer itself is the table."""
    total = words.counted(sum(one.target.rows for one in moved.tables), "row")
    if moved.was_complete:
        output.note(f"Nothing was left to copy; both sides have the same {total}.")
    else:
        copied = words.counted(moved.copied, "row")
        output.note(f"Copied {copied}; both sides have the same {total}.")
    if key_files is not None:
        there, here = key_files
        where = "" if here.is_absolute() else " (seen from the folder that headwater runs in)"
        taken = "; one of another database is in its place, keep that" if here.exists() else ""
        output.note(f"Move the master key too, from {there} to {here}{where}{taken}.")
    if moved.was_complete:
        output.note("Where app.database-url is what you gave as --to, there is nothing to do.")
    else:
        output.note("Then set app.database-url to what you gave as --to, and start headwater.")
