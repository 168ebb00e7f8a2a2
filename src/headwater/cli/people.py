"""Commands about users, podcasts and API keys."""

import sys
from typing import Annotated

import typer

from headwater.api.schemas import PodcastOut, UserOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.errors import UsageError
from headwater.model import Podcast, User
from headwater.operations.people import (
    KeyChange,
    add_podcast,
    add_user,
    edit_podcast,
    providers_of,
    remove_podcast,
    remove_user,
    set_key,
)

commands = typer.Typer()
_PANEL = "People"
_users = typer.Typer(epilog="Example: headwater users add anna", invoke_without_command=True)
_podcasts = typer.Typer(
    epilog="Example: headwater podcasts add morning --max-article-age-days 3",
    invoke_without_command=True,
)
_keys = typer.Typer(epilog="Example: headwater keys set x < key.txt", invoke_without_command=True)
commands.add_typer(_users, name="users", rich_help_panel=_PANEL)
commands.add_typer(_podcasts, name="podcasts", rich_help_panel=_PANEL)
commands.add_typer(_keys, name="keys", rich_help_panel=_PANEL)

Name = Annotated[str, typer.Argument(help="The name, or the id.")]
Provider = Annotated[str, typer.Argument(help="Whose API: x.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Age = Annotated[int | None, typer.Option(metavar="DAYS", help="Skip posts older than this.")]
Dedupe = Annotated[
    bool | None, typer.Option("--dedupe/--no-dedupe", help="Skip what another source has.")
]


@_users.callback()
def users(ctx: typer.Context, json: output.Json = False) -> None:
    """List users, or add and remove them."""
    if ctx.invoked_subcommand is not None:
        return
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
    if ctx.invoked_subcommand is not None:
        return
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
) -> None:
    """Change what is given of a podcast."""
    call = invocation(ctx)
    if rename is None and max_article_age_days is None and dedupe is None:
        raise UsageError("there is nothing to change: name at least one setting")

    async def edited(app: App) -> Podcast:
        user = await app.store.people.user(call.user)
        return await edit_podcast(
            app.store,
            await app.store.people.podcast(user.id, name),
            name=rename,
            max_article_age_days=max_article_age_days,
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


@_keys.callback()
def keys(ctx: typer.Context, json: output.Json = False) -> None:
    """List a user's API keys, or set and remove them."""
    if ctx.invoked_subcommand is None:
        _list_keys(ctx, json=json)


@_keys.command("list", epilog="Example: headwater keys list")
def list_keys(ctx: typer.Context, json: output.Json = False) -> None:
    """List for which providers a user has a key; keys are never shown."""
    _list_keys(ctx, json=json)


@_keys.command("set", epilog="Example: headwater keys set x < key.txt")
def set_key_(ctx: typer.Context, provider: Provider) -> None:
    """Store an API key, read from a prompt or standard input; sources that waited are polled."""
    call = invocation(ctx)
    secret = _secret(provider)

    async def stored(app: App) -> tuple[KeyChange, User]:
        user = await app.store.people.user(call.user)
        now = app.clock.now()
        return await set_key(app.store, app.vault, user, provider, secret, now), user

    change, user = call.do(stored)
    waited = words.counted(change.sources_requested, "source")
    output.say(f"Stored the {change.provider} key of {user.name}; {waited} will be polled")


@_keys.command("remove", epilog="Example: headwater keys remove x")
def remove_key_(ctx: typer.Context, provider: Provider) -> None:
    """Forget an API key."""
    call = invocation(ctx)

    async def removed(app: App) -> None:
        user = await app.store.people.user(call.user)
        await app.store.people.remove_key(user.id, provider)

    call.do(removed)
    output.say(f"Removed the {provider} key")


def _list_keys(ctx: typer.Context, *, json: bool) -> None:
    call = invocation(ctx)

    async def listed(app: App) -> list[str]:
        return list(await providers_of(app.store, await app.store.people.user(call.user)))

    found = call.do(listed)
    if json:
        output.show_json([{"provider": provider} for provider in found])
        return
    output.show_table((output.Column("Provider"),), [[name] for name in found], empty="No keys.")


def _secret(provider: str) -> str:
    """Read a key where no other process can see it: never from an argument (U6)."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"API key for {provider}", hide_input=True, err=True))
    return sys.stdin.readline(65_536)


def _podcast_row(podcast: Podcast) -> list[output.Cell]:
    days = podcast.max_article_age_days
    dedupe = "yes" if podcast.dedupe_across_sources else "no"
    return [podcast.id, podcast.name, "default" if days is None else f"{days} d", dedupe]
