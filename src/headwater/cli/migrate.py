"""The migrate command: updates the schema, or copies everything into another database."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from headwater.app import master_key_file, open_store
from headwater.cli import humanize, output
from headwater.cli.cli_context import CliContext, invocation, run
from headwater.cli.columns import Column, Styled, number, wide
from headwater.clock import SystemClock
from headwater.errors import StoreError, UsageError
from headwater.operations.copy_database import (
    CopyProgress,
    CopyResult,
    OnProgress,
    TableComparison,
    copy_database,
)
from headwater.rules.url_secrets import masked
from headwater.settings import Settings

commands = typer.Typer()
_PROGRAM = "headwater migrate"
_KINDS = ("sqlite:///", "postgresql://", "postgres://")
_SAME, _DIFFERS = Styled("same", "green"), Styled("differs", "bold red")
_EXAMPLE = "headwater migrate --from sqlite:///data/headwater.db --to postgresql://db/headwater"


@commands.command(epilog=f"Example: {_EXAMPLE}")
def migrate(
    ctx: typer.Context,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Copy this database …")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="… into this empty database.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Update the schema, or copy into another database."""
    call = invocation(ctx)
    if from_ is None and to is None:
        _update_schema(call.settings, json=json)
        return
    if from_ is None or to is None:
        raise UsageError("a move needs both --from URL and --to URL")
    _check_urls(from_, to)
    _copy(call, from_, to, json=json)


def _update_schema(settings: Settings, *, json: bool) -> None:
    async def update() -> tuple[int, int]:
        async with open_store(settings, clock=SystemClock(), program=_PROGRAM) as store:
            return await store.prepare()

    before, after = run(update())
    if json:
        output.show_json({"before": before, "after": after})
    elif before == after:
        output.say(f"The schema has version {after} already; nothing to do")
    else:
        output.say(f"Updated the schema from version {before} to {after}")


def _check_urls(from_: str, to: str) -> None:
    for option, url in (("--from", from_), ("--to", to)):
        if not url.startswith(_KINDS):
            raise UsageError(f"{option}: {masked(url)!r} is neither sqlite:///… nor postgresql://…")
    file = Path(from_.removeprefix("sqlite:///"))
    if from_.startswith("sqlite:///") and not file.is_file():
        raise UsageError(f"--from: there is no database {file}")


def _copy(call: CliContext, from_: str, to: str, *, json: bool) -> None:
    async def copied(report: OnProgress) -> CopyResult:
        clock = SystemClock()
        settings = [call.settings.model_copy(update={"database_url": url}) for url in (from_, to)]
        opened = [open_store(one, clock=clock, program=_PROGRAM) for one in settings]
        async with opened[0] as source, opened[1] as target:
            return await copy_database(source, target, clock, report)

    call.log_errors()
    with _progress_bar() as report:
        result = run(copied(report))
    key_files = _key_files(call.settings, from_, to)
    if json:
        _show_json(result, key_files)
    else:
        _show(result)
    if result.differing:
        raise StoreError(_difference(result))
    if not json:
        _show_next_steps(result, key_files)


@contextmanager
def _progress_bar() -> Iterator[OnProgress]:
    """Show progress on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # rich takes a while to import, and a pipe needs none of it
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn

    from headwater.cli.terminal import progress_bar

    columns = (MofNCompleteColumn(), "rows", TimeRemainingColumn())
    bar = progress_bar("{task.description}", *columns)
    tasks = {}

    def report(progress: CopyProgress) -> None:
        total = max(progress.rows, progress.total)
        if progress.step not in tasks:
            tasks[progress.step] = bar.add_task("", total=total)
        name = f"{progress.step} {progress.table}"
        bar.update(tasks[progress.step], description=name, completed=progress.rows, total=total)

    with bar:
        yield report


def _show(result: CopyResult) -> None:
    columns: tuple[Column[TableComparison], ...] = (
        Column("Table", lambda one: one.table),
        number("Source rows", lambda one: one.source.rows),
        number("Target rows", lambda one: one.target.rows),
        wide("Source hash", lambda one: one.source.hash),
        wide("Target hash", lambda one: one.target.hash),
        Column("Verdict", lambda one: _SAME if one.same else _DIFFERS),
    )
    output.show_table(columns, result.tables)


def _show_json(result: CopyResult, key_files: tuple[Path, Path] | None) -> None:
    tables = [
        {
            "table": one.table,
            "source": {"rows": one.source.rows, "hash": one.source.hash},
            "target": {"rows": one.target.rows, "hash": one.target.hash},
            "same": one.same,
        }
        for one in result.tables
    ]
    key = None if key_files is None else {"source": str(key_files[0]), "target": str(key_files[1])}
    document = {"copied": result.copied, "resumed": result.went_on, "same": not result.differing}
    output.show_json(document | {"masterKeyFile": key, "tables": tables})


def _difference(result: CopyResult) -> str:
    names = ", ".join(result.differing)
    if result.was_complete:
        return f"not the same any more: {names}; the move was complete, one side has changed since"
    return (
        f"not the same on both sides: {names}; one of them was changed during the move. Start "
        "again with an empty target, and with nothing else using either database"
    )


def _key_files(settings: Settings, from_: str, to: str) -> tuple[Path, Path] | None:
    """Return the master key's present and future file, if it must be moved by hand."""
    old, new = master_key_file(from_), master_key_file(to)
    given = settings.encryption.master_key is not None
    return None if given or old == new or not old.is_file() else (old, new)


def _show_next_steps(result: CopyResult, key_files: tuple[Path, Path] | None) -> None:
    """Print what to do next, on standard error: standard output has the table."""
    total = humanize.counted(sum(one.target.rows for one in result.tables), "row")
    if result.was_complete:
        output.note(f"Nothing was left to copy; both sides have the same {total}.")
    else:
        copied = humanize.counted(result.copied, "row")
        output.note(f"Copied {copied}; both sides have the same {total}.")
    if key_files is not None:
        old, new = key_files
        where = "" if new.is_absolute() else " (relative to the directory that headwater runs in)"
        taken = "; that file belongs to another database, keep it" if new.exists() else ""
        output.note(f"Move the master key too, from {old} to {new}{where}{taken}.")
    if result.was_complete:
        output.note("If app.database-url is what you gave as --to, there is nothing to do.")
    else:
        output.note("Then set app.database-url to what you gave as --to, and start headwater.")
