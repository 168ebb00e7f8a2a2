"""Commands about users and podcasts."""

from enum import StrEnum
from typing import Annotated

import typer

from headwater.api.schemas import PodcastOut, UserOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.errors import UsageError
from headwater.model import Podcast
from headwater.operations.people import (
    add_podcast,
    add_user,
    edit_podcast,
    remove_podcast,
    remove_user,
)

commands = typer.Typer()
PANEL = "People"
_users = typer.Typer(epilog="Example: headwater users add anna", invoke_without_command=True)
_podcasts = typer.Typer(
    epilog="Example: headwater podcasts add morning --max-article-age-days 3",
    invoke_without_command=True,
)
commands.add_typer(_users, name="users", rich_help_panel=PANEL)
commands.add_typer(_podcasts, name="podcasts", rich_help_panel=PANEL)

Name = Annotated[str, typer.Argument(help="The name, or the id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Age = Annotated[int | None, typer.Option(metavar="DAYS", help="Skip posts older than this.")]
Dedupe = Annotated[
    bool | None, typer.Option("--dedupe/--no-dedupe", help="Skip what another source has.")
]


class Clearable(StrEnum):
    """Settings of a podcast that can be taken back."""

    MAX_ARTICLE_AGE_DAYS = "max-article-age-days"


@_users.callback()
def users(ctx: typer.Context, json: output.Json = False) -> None:
    """List users, or add and remove them."""
    if ctx.invoked_subcommand is None:
        _list_users(ctx, json=json)


@_users.command("list", epilog="Example: headwater users list")
def list_users(ctx: typer.Context, json: output.Json = False) -> None:
    """List users."""
    _list_users(ctx, json=json)


def _list_users(ctx: typer.Context, *, json: bool) -> None:
    found = invocation(ctx).do(lambda app: app.store.people.users())
    if json:
        output.show_json(output.plain(UserOut.of(user) for user in found))
        return
    columns = (output.Column("ID"), output.wide("Name"), output.Column("Since"))
    rows = [[user.id, user.name, words.clock(user.created_at)] for user in found]
    output.show_table(columns, rows, empty="No users.")


@_users.command("add", epilog="Example: headwater users add anna")
def add_user_(ctx: typer.Context, name: Name) -> None:
    """Add a user."""
    user = invocation(ctx).do(lambda app: add_user(app.store, name, app.clock.now()))
    output.say(f"Added {user.id} {user.name}")


@_users.command("remove", epilog="Example: headwater users remove anna --yes")
def remove_user_(ctx: typer.Context, name: Name, yes: Yes = False) -> None:
    """Remove a user with all podcasts, sources and keys."""
    call = invocation(ctx)
    user = call.do(lambda app: app.store.people.user(name))
    if not yes:
        typer.confirm(f"Remove {user.name} with all their podcasts?", abort=True, err=True)
    call.do(lambda app: remove_user(app.store, user))
    output.say(f"Removed {user.id} {user.name}")


@_podcasts.callback()
def podcasts(ctx: typer.Context, json: output.Json = False) -> None:
    """List a user's podcasts, or add, edit and remove them."""
    if ctx.invoked_subcommand is None:
        _list_podcasts(ctx, json=json)


@_podcasts.command("list", epilog="Example: headwater podcasts list --user anna")
def list_podcasts(ctx: typer.Context, json: output.Json = False) -> None:
    """List a user's podcasts."""
    _list_podcasts(ctx, json=json)


def _list_podcasts(ctx: typer.Context, *, json: bool) -> None:
    call = invocation(ctx)

    async def listed(app: App) -> list[Podcast]:
        user = await app.store.people.user(call.user)
        return list(await app.store.people.podcasts(user.id))

    found = call.do(listed)
    if json:
        output.show_json(output.plain(PodcastOut.of(podcast) for podcast in found))
        return
    columns = (
        output.Column("ID"),
        output.wide("Name"),
        output.Column("Max age"),
        output.Column("Dedupe"),
    )
    output.show_table(columns, [_podcast_row(podcast) for podcast in found], empty="No podcasts.")


@_podcasts.command(
    "add", epilog="Example: headwater podcasts add morning --max-article-age-days 3 --dedupe"
)
def add_podcast_(
    ctx: typer.Context, name: Name, max_article_age_days: Age = None, dedupe: Dedupe = None
) -> None:
    """Add a podcast."""
    call = invocation(ctx)

    async def added(app: App) -> Podcast:
        return await add_podcast(
            app.store,
            await app.store.people.user(call.user),
            name,
            app.clock.now(),
            max_article_age_days=max_article_age_days,
            dedupe_across_sources=bool(dedupe),
        )

    podcast = call.do(added)
    output.say(f"Added {podcast.id} {podcast.name}")


@_podcasts.command("edit", epilog="Example: headwater podcasts edit morning --rename evening")
def edit_podcast_(
    ctx: typer.Context,
    name: Name,
    rename: Annotated[str | None, typer.Option(metavar="NAME", help="The new name.")] = None,
    max_article_age_days: Age = None,
    dedupe: Dedupe = None,
    clear: Annotated[list[Clearable] | None, typer.Option(help="Back to the default.")] = None,
) -> None:
    """Change what is given of a podcast."""
    call = invocation(ctx)
    if clear and max_article_age_days is not None:
        option = Clearable.MAX_ARTICLE_AGE_DAYS
        raise UsageError(f"--{option} and --clear {option} contradict each other")
    if rename is None and max_article_age_days is None and dedupe is None and not clear:
        raise UsageError("there is nothing to change: name at least one setting")

    async def edited(app: App) -> Podcast:
        user = await app.store.people.user(call.user)
        return await edit_podcast(
            app.store,
            await app.store.people.podcast(user.id, name),
            name=rename,
            max_article_age_days=max_article_age_days,
            default_article_age=bool(clear),
            dedupe_across_sources=dedupe,
        )

    podcast = call.do(edited)
    output.say(f"Changed {podcast.id} {podcast.name}")


@_podcasts.command("remove", epilog="Example: headwater podcasts remove morning --yes")
def remove_podcast_(ctx: typer.Context, name: Name, yes: Yes = False) -> None:
    """Remove a podcast with its sources, posts and articles."""
    call = invocation(ctx)

    async def found(app: App) -> Podcast:
        user = await app.store.people.user(call.user)
        return await app.store.people.podcast(user.id, name)

    podcast = call.do(found)
    if not yes:
        typer.confirm(f"Remove {podcast.name} with all its sources?", abort=True, err=True)
    call.do(lambda app: remove_podcast(app.store, podcast))
    output.say(f"Removed {podcast.id} {podcast.name}")


def _podcast_row(podcast: Podcast) -> list[output.Cell]:
    days = podcast.max_article_age_days
    dedupe = "yes" if podcast.dedupe_across_sources else "no"
    return [podcast.id, podcast.name, "default" if days is None else f"{days} d", dedupe]
