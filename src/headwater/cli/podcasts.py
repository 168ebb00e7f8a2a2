"""The podcasts commands."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, number, wide
from headwater.errors import UsageError, WouldDelete
from headwater.model import Podcast, User
from headwater.operations.podcast_views import ListedPodcast, with_pending
from headwater.operations.users_and_podcasts import (
    DeletionCheck,
    add_podcast,
    edit_podcast,
    remove_podcast,
)

commands = typer.Typer()
_podcasts = typer.Typer(
    epilog="Example: headwater podcasts add morning --max-article-age-days 3",
    invoke_without_command=True,
)
commands.add_typer(_podcasts, name="podcasts")
Name = Annotated[str, typer.Argument(help="The name, or the id.")]
Age = Annotated[int | None, typer.Option(metavar="DAYS", help="Skip entries older than this.")]
Dedupe = Annotated[
    bool | None,
    typer.Option("--dedupe/--no-dedupe", help="Skip posts that another source has stored."),
]
Stories = Annotated[
    bool | None,
    typer.Option("--stories/--no-stories", help="Take a story once that several sources report."),
]
Keep = Annotated[
    str | None, typer.Option(metavar="QUERY", help="Hide posts that do not match this.")
]
Block = Annotated[str | None, typer.Option(metavar="QUERY", help="Hide posts that match this.")]
Automatic = Annotated[
    bool | None,
    typer.Option("--automatic/--no-automatic", help="Make articles of new posts at every tick."),
]


class PodcastDefault(StrEnum):
    """Settings of a podcast that --clear resets to the default."""

    MAX_ARTICLE_AGE_DAYS = "max-article-age-days"
    KEEP = "keep"
    BLOCK = "block"


# The function of `list` is also that of the group: it lists if there is no subcommand.
@_podcasts.callback()
@_podcasts.command(
    "list", help="List a user's podcasts.", epilog="Example: headwater podcasts list --user anna"
)
def podcasts(
    ctx: typer.Context,
    all_users: Annotated[bool, typer.Option("--all-users", help="Of all users.")] = False,
    json: output.Json = False,
) -> None:
    """List a user's podcasts, or add, edit and remove them."""
    if ctx.invoked_subcommand is not None:
        return

    async def read(app: App, user: User) -> tuple[Sequence[ListedPodcast], Mapping[str, User]]:
        found = await app.store.accounts.podcasts(None if all_users else user.id)
        owners = await app.store.accounts.owners([podcast.id for podcast in found])
        return await with_pending(app.store, found, app.clock.now(), app.policy), owners

    columns: tuple[Column[ListedPodcast], ...] = (
        Column("ID", lambda one: one.podcast.id),
        wide("Name", lambda one: one.podcast.name),
        Column("Max age", lambda one: _max_age(one.podcast)),
        Column("Dedupe", lambda one: _yes_or_no(one.podcast.dedupe_across_sources)),
        Column("Stories", lambda one: "once" if one.podcast.stories else "each"),
        Column("Filters", lambda one: _filters(one.podcast)),
        Column("Automatic", lambda one: _yes_or_no(one.podcast.aggregate_automatically)),
        number("Pending", lambda one: one.pending_posts),
    )
    found, owners = invocation(ctx).do_for_user(read)
    if all_users:
        columns = (wide("User", lambda one: owners[one.podcast.id].name), *columns)
    output.show_items(columns, found, schema="PodcastOut", json=json, empty="No podcasts.")


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _max_age(podcast: Podcast) -> str:
    days = podcast.max_article_age_days
    return "default" if days is None else f"{days} d"


def _filters(podcast: Podcast) -> str:
    return ", ".join(name for name in ("keep", "block") if getattr(podcast, name) is not None)


@_podcasts.command(
    "add", epilog="Example: headwater podcasts add morning --max-article-age-days 3 --dedupe"
)
def add_podcast_(
    ctx: typer.Context,
    name: Name,
    max_article_age_days: Age = None,
    dedupe: Dedupe = None,
    stories: Stories = None,
    keep: Keep = None,
    block: Block = None,
    automatic: Automatic = None,
) -> None:
    """Add a podcast."""
    podcast = invocation(ctx).do_for_user(
        lambda app, user: add_podcast(
            app.store,
            user,
            name,
            app.clock.now(),
            max_article_age_days=max_article_age_days,
            dedupe_across_sources=bool(dedupe),
            stories=stories is not False,
            keep=keep,
            block=block,
            aggregate_automatically=bool(automatic),
        ),
        creates=True,
    )
    output.say(f"Added {podcast.id} {podcast.name}")


@_podcasts.command("edit", epilog="Example: headwater podcasts edit morning --rename evening")
def edit_podcast_(
    ctx: typer.Context,
    name: Name,
    rename: Annotated[str | None, typer.Option(metavar="NAME", help="The new name.")] = None,
    max_article_age_days: Age = None,
    dedupe: Dedupe = None,
    stories: Stories = None,
    keep: Keep = None,
    block: Block = None,
    automatic: Automatic = None,
    clear: Annotated[
        list[PodcastDefault] | None, typer.Option(help="Reset to the default.")
    ] = None,
    yes: output.Yes = False,
) -> None:
    """Change settings of a podcast.

    A lower age limit that deletes something at once has to be confirmed.
    """
    options = {"name": rename, "max_article_age_days": max_article_age_days}
    options |= {"dedupe_across_sources": dedupe, "stories": stories, "keep": keep, "block": block}
    options |= {"aggregate_automatically": automatic}
    changes: dict[str, Any] = {field: one for field, one in options.items() if one is not None}
    for option in clear or ():
        field = option.replace("-", "_")
        if field in changes:
            raise UsageError(f"--{option} and --clear {option} contradict each other")
        changes[field] = None
    if not changes:
        raise UsageError("there is nothing to change: name at least one setting")

    async def edit(app: App, user: User, *, confirmed: bool) -> Podcast:
        podcast = await app.store.accounts.podcast(user.id, name)
        now = app.clock.now()
        check = None if confirmed else DeletionCheck(now, app.policy)
        return await edit_podcast(app.store, podcast, now, check=check, **changes)

    call = invocation(ctx)
    try:
        podcast = call.do_for_user(partial(edit, confirmed=yes))
    except WouldDelete as error:
        articles, posts = (
            humanize.counted(error.articles, "unprocessed article"),
            humanize.counted(error.posts, "waiting post"),
        )
        output.confirm(f"This deletes {articles} and {posts} at once. Go on?", yes=False)
        podcast = call.do_for_user(partial(edit, confirmed=True))
    output.say(f"Changed {podcast.id} {podcast.name}")


@_podcasts.command("remove", epilog="Example: headwater podcasts remove morning --yes")
def remove_podcast_(ctx: typer.Context, name: Name, yes: output.Yes = False) -> None:
    """Remove a podcast with its sources, posts and articles."""
    call = invocation(ctx)
    podcast = call.do_for_user(lambda app, user: app.store.accounts.podcast(user.id, name))
    output.confirm(f"Remove {podcast.name} with all its sources?", yes=yes)
    call.do(lambda app: remove_podcast(app.store, podcast))
    output.say(f"Removed {podcast.id} {podcast.name}")
