"""Puts the commands together, with the options that all of them share."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater import __version__
from headwater.cli import (
    articles,
    cluster,
    demo,
    keys,
    listing,
    moving,
    people,
    polling,
    previewing,
    serving,
    showing,
    simulating,
    sources,
    subscriptions,
    tokens,
    upkeep,
    working,
)
from headwater.cli.invocation import Invocation
from headwater.settings import LogLevel

_ABOUT = "Watch feeds, web pages and X timelines politely; hand over clean, deduplicated posts."
_EXAMPLE = "Example: headwater add https://example.org/feed --poll"
_GROUPS = (
    serving, working, cluster, demo, simulating, polling, previewing, listing, showing, sources,
    subscriptions, articles, people, keys, tokens, upkeep, moving,
)  # fmt: skip


def create_program() -> typer.Typer:
    """All commands; help is drawn with boxes on a terminal only."""
    style = "rich" if sys.stdout.isatty() else None
    program = typer.Typer(
        help=_ABOUT,
        epilog=_EXAMPLE,
        rich_markup_mode=style,  # type: ignore[arg-type]
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    program.callback()(_globals)
    for group in _GROUPS:
        program.add_typer(group.commands)
    return program


def _globals(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration file instead of headwater.yaml."),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="sqlite:///file.db or postgresql://…")
    ] = None,
    user: Annotated[str, typer.Option(metavar="NAME", help="Whose podcasts.")] = "default",
    podcast: Annotated[str, typer.Option(metavar="NAME", help="Which podcast.")] = "default",
    log_level: Annotated[LogLevel | None, typer.Option(help="How much to log.")] = None,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    if version:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit
    ctx.obj = Invocation(
        config_file=config,
        database_url=database_url,
        user=user,
        podcast=podcast,
        log_level=log_level,
    )
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
