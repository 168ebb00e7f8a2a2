"""Commands that take sources in from OPML, and give them out."""

import os
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from headwater.api.schemas import ImportedOut
from headwater.app import App
from headwater.cli import output
from headwater.cli.invocation import Invocation, invocation
from headwater.cli.polling import poll_and_show
from headwater.errors import UsageError
from headwater.operations.subscriptions import Imported, ImportOutcome, export_opml

commands = typer.Typer()
_PANEL = "Sources"
_COLUMNS = (output.Column("Outcome"), output.wide("URL"), output.wide("Error"))
_STYLES = {ImportOutcome.ADDED: "green", ImportOutcome.EXISTS: "dim", ImportOutcome.REJECTED: "red"}
_MOST_BYTES = 64 * 1024 * 1024


@commands.command(
    "import", rich_help_panel=_PANEL, epilog="Example: headwater import subscriptions.opml --poll"
)
def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.opml", help="The list; - for a pipe.")],
    poll: Annotated[bool, typer.Option("--poll", help="Poll what was added at once.")] = False,
    json: output.Json = False,
) -> None:
    """Add the feeds of an OPML file that are not watched yet."""
    call = invocation(ctx)
    data = read_list(file)
    lines = call.do(lambda app: _imported(call, app, data))
    added = [line.source_id for line in lines if line.outcome is ImportOutcome.ADDED]
    if json:
        output.show_json({"items": output.plain(ImportedOut.of(line) for line in lines)})
    else:
        _show(lines)
    ids = [source_id for source_id in added if source_id is not None]
    if poll and ids:
        poll_and_show(call, ids)
    if lines and all(line.outcome is ImportOutcome.REJECTED for line in lines):
        raise typer.Exit(1)


@commands.command(rich_help_panel=_PANEL, epilog="Example: headwater export subscriptions.opml")
def export(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Where to; else standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write the sources of a podcast as OPML, with whole URLs."""
    call = invocation(ctx)
    if file is not None and file.exists() and not force:
        raise UsageError(f"{file} is there already; --force replaces it")
    document = call.do(lambda app: _exported(call, app))
    if file is None:
        sys.stdout.write(document.decode("utf-8"))
        return
    _write(file, document)
    output.note(f"Wrote {file}")


async def _imported(call: Invocation, app: App, data: bytes) -> list[Imported]:
    _, podcast = await call.place(app)
    return await app.imports.take(podcast, data)


async def _exported(call: Invocation, app: App) -> bytes:
    _, podcast = await call.place(app)
    return await export_opml(app.store, podcast, app.clock.now())


def read_list(file: Path) -> bytes:
    """The bytes of a list, from a file or a pipe."""
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{file} is larger than {_MOST_BYTES // 1024**2} MB: that is no list")
    return data


def _write(file: Path, document: bytes) -> None:
    """Put a whole file in place, or nothing."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(document)
        os.replace(draft, file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


def _show(lines: list[Imported]) -> None:
    on_terminal = output.on_terminal()
    told = [line for line in lines if not on_terminal or line.outcome is ImportOutcome.REJECTED]
    if told or not on_terminal:
        rows: list[list[output.Cell]] = [
            [Text(x.outcome, style=_STYLES[x.outcome]), x.url, x.error or ""] for x in told
        ]
        output.show_table(_COLUMNS, rows, empty="")
    if on_terminal:
        counts = Counter(line.outcome for line in lines)
        parts = ", ".join(f"{counts[o]:,} {o}" for o in ImportOutcome if counts[o])
        output.say(Text(parts or "The file names no feeds.", style="bold"))
