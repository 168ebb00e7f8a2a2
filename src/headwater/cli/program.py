"""The command table: the module of a command is imported when the command is used."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from headwater import __version__
from headwater.cli.cli_context import CliContext, LogLevel
from headwater.cli.deferred_imports import defer_imports

_ABOUT = "Watch feeds, web pages and X timelines politely; hand over clean, deduplicated posts."
_EXAMPLE = "Example: headwater add https://example.org/feed --poll"
# By panel of the help: module, command, and the first sentence of the command's docstring,
# repeated here (a test compares them) because help and completion import no command.
_PANELS = {
    "Polling": (
        ("serve", "serve", "Poll sources when they are due, and serve the API."),
        ("cluster", "worker", "Poll sources when they are due, beside other workers."),
        ("cluster", "cluster", "Show the workers that share a PostgreSQL database."),
        ("demo", "demo", "Watch Headwater poll a small simulated web on this machine."),
        ("simulate", "simulate", "Simulate days of polling in seconds."),
        ("poll", "poll", "Poll sources now and report the outcomes."),
        ("preview", "preview", "Fetch a URL and show which entries would be stored."),
    ),
    "Sources": (
        ("show_sources", "list", "List sources with their health and their next poll."),
        ("show_sources", "show", "Show everything known about a source, and its last polls."),
        ("show_sources", "explain", "Explain step by step when a source is polled next."),
        ("edit_sources", "add", "Add a source; a visit finds out its type if not given."),
        ("edit_sources", "edit", "Change settings of a source."),
        ("edit_sources", "enable", "Enable a source, reset its failures, and request a poll."),
        ("edit_sources", "disable", "Disable a source until it is enabled again."),
        ("edit_sources", "accept", "Change a source as one of its suggestions says."),
        ("edit_sources", "remove", "Remove a source with its posts, articles and history."),
        ("opml", "import", "Add the feeds of an OPML file that the podcast does not have."),
        ("opml", "export", "Write sources as OPML, or podcasts with their sources as YAML."),
        ("configuration", "apply", "Apply a YAML file of podcasts, sources and filters."),
    ),
    "Posts and articles": (
        ("posts_and_articles", "posts", "Show the posts of a podcast or source, newest first."),
        ("posts_and_articles", "post", "Show one post with its whole text."),
        (
            "posts_and_articles",
            "articles",
            "Show articles, newest first, or mark some as processed.",
        ),
        ("posts_and_articles", "aggregate", "Create articles from posts that are in no article."),
        ("article_processing", "unprocess", "Undo that articles were marked as processed."),
        ("article_processing", "discard", "Delete an article and free its posts."),
        ("article_processing", "batches", "List the names that articles were processed with."),
        (
            "article_processing",
            "annotate",
            "Store a score or a JSON object with an article or post.",
        ),
    ),
    "Search": (
        ("search", "search", "Search in the posts or articles of a podcast."),
        ("search", "searches", "List the saved searches of a podcast, or add and remove them."),
    ),
    "Delivery": (
        ("webhooks", "webhooks", "List webhooks, or add, edit, test and remove them."),
        ("mcp", "mcp", "Serve the Model Context Protocol: tools for language models."),
        ("notices", "notices", "Show where messages about problems go, or change that."),
    ),
    "People": (
        ("accounts", "users", "List users, or add and remove them."),
        ("podcasts", "podcasts", "List a user's podcasts, or add, edit and remove them."),
        ("accounts", "keys", "List a user's API keys, or set, remove and re-encrypt them."),
        ("accounts", "tokens", "List access tokens of the API, or add and revoke them."),
    ),
    "Maintenance": (
        ("incidents", "status", "Show what is wrong and what to do; exit 1 while anything is."),
        ("incidents", "incidents", "List problems, open ones first, the worst first."),
        ("audit", "audit", "Show what people have changed, and logins, newest first."),
        ("maintenance", "config", "Show every setting and its origin, secrets masked."),
        ("maintenance", "backup", "Copy the database into one file while the service runs."),
        ("maintenance", "restore", "Replace the contents of the database with a backup."),
        ("maintenance", "vacuum", "Return the space of deleted rows, and report the size."),
        ("maintenance", "doctor", "Check the installation and the database, and suggest repairs."),
        ("migrate", "migrate", "Update the schema, or copy into another database."),
    ),
}
_MODULES = {name: module for rows in _PANELS.values() for module, name, _ in rows}


class LazyCommands(TyperGroup):
    """The root of the program: lists commands from the table, imports the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, rows in _PANELS.items():
            for _, name, summary in rows:
                self.add_command(TyperCommand(name, help=summary, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, imported."""
        if args[0] in _MODULES:
            if ctx.resilient_parsing:  # completion
                defer_imports()
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Import the module of a command and put the command in place of its table entry."""
        module = import_module(f"headwater.cli.{_MODULES[name]}")
        loader = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        loader.add_typer(module.commands)
        self.add_command(typer.main.get_group(loader).commands[name], name)

    def load_all(self) -> None:
        """Import every command, for those who read the whole program."""
        for name in _MODULES:
            self.load(name)


def create_program() -> LazyCommands:
    """Return the program; help is drawn with boxes on a terminal only."""
    program = typer.Typer(
        cls=LazyCommands,
        help=_ABOUT,
        epilog=_EXAMPLE,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        invoke_without_command=True,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    program.callback()(_globals)
    command = typer.main.get_command(program)
    assert isinstance(command, LazyCommands)
    return command


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


def _globals(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration file instead of headwater.yaml."),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="sqlite:///file.db or postgresql://…")
    ] = None,
    user: Annotated[
        str, typer.Option(metavar="NAME", envvar="HEADWATER_USER", help="Owner of the podcast.")
    ] = "default",
    podcast: Annotated[
        str, typer.Option(metavar="NAME", envvar="HEADWATER_PODCAST", help="The podcast.")
    ] = "default",
    log_level: Annotated[LogLevel | None, typer.Option(help="Least severe level to log.")] = None,
    version: Annotated[  # noqa: ARG001 - its callback uses it
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    command = ctx.invoked_subcommand or ""
    ctx.obj = CliContext(config, database_url, user, podcast, log_level, command)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
