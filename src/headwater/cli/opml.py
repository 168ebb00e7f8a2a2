"""The import and export commands: sources from OPML files, to OPML and YAML files."""

import os
import secrets
import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import output
from headwater.cli.cli_context import CliContext, invocation, is_given
from headwater.cli.columns import Column, Styled, wide
from headwater.cli.poll import poll_and_show
from headwater.errors import UsageError
from headwater.operations.opml_import import Imported, ImportOutcome, export_opml

if TYPE_CHECKING:
    from headwater.app import App
    from headwater.model import User

commands = typer.Typer()
_STYLES = {ImportOutcome.ADDED: "green", ImportOutcome.EXISTS: "dim", ImportOutcome.REJECTED: "red"}
_MAX_BYTES = 64 * 1024 * 1024


@commands.command("import", epilog="Example: headwater import subscriptions.opml --poll")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE.opml", help="The file; - reads standard input.")
    ],
    poll: Annotated[bool, typer.Option("--poll", help="Poll the added sources at once.")] = False,
    json: output.Json = False,
) -> None:
    """Add the feeds of an OPML file that the podcast does not have."""
    call = invocation(ctx)
    data = read_opml_file(file)
    lines = call.do_in_podcast(lambda app, podcast: app.imports.take(podcast, data), creates=True)
    if json:
        output.show_json({"items": [output.schema_json("ImportedOut", line) for line in lines]})
    else:
        _show(lines)
    added = [x.source_id for x in lines if x.outcome is ImportOutcome.ADDED and x.source_id]
    if poll and added:
        poll_and_show(call, added)
    if lines and all(line.outcome is ImportOutcome.REJECTED for line in lines):
        raise typer.Exit(1)


class ExportFormat(StrEnum):
    """What `export` writes."""

    OPML = "opml"
    YAML = "yaml"


@commands.command(epilog="Example: headwater export podcasts.yaml --format yaml")
def export(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="File to write instead of standard output.")
    ] = None,
    format_: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="opml: the sources of a podcast. yaml: all podcasts of the user, or the one that "
            "--podcast names, for `headwater apply`.",
        ),
    ] = ExportFormat.OPML,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write sources as OPML, or podcasts with their sources as YAML.

    Addresses are complete, with passwords and tokens in them.
    """
    if file is not None and file.exists() and not force:
        raise UsageError(f"{file} is there already; --force replaces it")
    call = invocation(ctx)
    if format_ is ExportFormat.OPML:
        document = call.do_in_podcast(
            lambda app, podcast: export_opml(app.store, podcast, app.clock.now())
        )
    else:
        document = _configuration(call, one_podcast=is_given(ctx, "podcast"))
    if file is None:
        sys.stdout.write(document.decode("utf-8"))
        return
    _write(file, document)
    output.note(f"Wrote {file}")


def _configuration(call: CliContext, *, one_podcast: bool) -> bytes:
    # imported here: the other commands of this module need no YAML
    from headwater.operations.configuration import export_configuration

    async def exported(app: "App", user: "User") -> bytes:
        podcast = await app.store.accounts.podcast(user.id, call.podcast) if one_podcast else None
        return await export_configuration(app.store, user, podcast)

    return call.do_for_user(exported)


def read_opml_file(file: Path) -> bytes:
    """Return the bytes of an OPML file, or of standard input."""
    data = read_input(file, _MAX_BYTES)
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{file} is larger than {_MAX_BYTES // 1024**2} MB: that is no OPML file")
    return data


def read_input(file: Path, most: int) -> bytes:
    """Return the bytes of a file, or of standard input; one more than `most` if there are more."""
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(most + 1)
        with file.open("rb") as stream:
            return stream.read(most + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _write(file: Path, document: bytes) -> None:
    """Write the whole file or leave the old one as it is."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(document)
        os.replace(draft, file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


def _show(lines: list[Imported]) -> None:
    on_terminal = output.on_terminal()
    shown = [line for line in lines if not on_terminal or line.outcome is ImportOutcome.REJECTED]
    if shown or not on_terminal:
        columns: tuple[Column[Imported], ...] = (
            Column("Outcome", lambda line: Styled(line.outcome, _STYLES[line.outcome])),
            wide("URL", lambda line: line.url),
            wide("Error", lambda line: line.error or ""),
        )
        output.show_table(columns, shown)
    if on_terminal:
        counts = Counter(line.outcome for line in lines)
        parts = ", ".join(f"{counts[o]:,} {o}" for o in ImportOutcome if counts[o])
        output.say(Styled(parts, "bold"))
