"""The users, keys and tokens commands."""

import sys
from datetime import datetime
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation, is_given
from headwater.cli.columns import Cell, Column, Styled, wide
from headwater.cli.moments import moment_of
from headwater.errors import SecretError, UsageError
from headwater.model import Token, TokenScope, User
from headwater.operations.key_rotation import rotate_master_key
from headwater.operations.tokens import NewToken, add_token, revoke_token
from headwater.operations.users_and_podcasts import (
    KeyChange,
    add_user,
    remove_key,
    remove_user,
    set_key,
)
from headwater.rules.url_secrets import masked
from headwater.store.tokens import ListedToken

commands = typer.Typer()


def _group(name: str, example: str) -> typer.Typer:
    group = typer.Typer(epilog=f"Example: headwater {example}", invoke_without_command=True)
    commands.add_typer(group, name=name)
    return group


_ALL_TOKENS = 1 << 62
_WITHOUT_USER = {  # who a token is for
    TokenScope.ADMIN: "an administrator",
    TokenScope.READ: "readers of all users' data",
    TokenScope.METRICS: "readers of the metrics",
}
_users = _group("users", "users add anna")
_keys = _group("keys", "keys set x < key.txt")
_tokens = _group("tokens", "tokens add laptop --admin")
Name = Annotated[str, typer.Argument(help="The name, or the id.")]
Provider = Annotated[str, typer.Argument(help="The provider of the API: x.")]


# The function of `list` is also that of the group: it lists if there is no subcommand.
@_users.callback()
@_users.command("list", help="List users.", epilog="Example: headwater users list")
def users(ctx: typer.Context, json: output.Json = False) -> None:
    """List users, or add and remove them."""
    if ctx.invoked_subcommand is not None:
        return
    columns: tuple[Column[User], ...] = (
        Column("ID", lambda user: user.id),
        wide("Name", lambda user: user.name),
        Column("Since", lambda user: humanize.clock(user.created_at)),
    )
    found = invocation(ctx).do(lambda app: app.store.accounts.users())
    output.show_items(columns, found, schema="UserOut", json=json, empty="No users.")


@_users.command("add", epilog="Example: headwater users add anna")
def add_user_(ctx: typer.Context, name: Name) -> None:
    """Add a user."""
    user = invocation(ctx).do(lambda app: add_user(app.store, name, app.clock.now()), creates=True)
    output.say(f"Added {user.id} {user.name}")


@_users.command("remove", epilog="Example: headwater users remove anna --yes")
def remove_user_(ctx: typer.Context, name: Name, yes: output.Yes = False) -> None:
    """Remove a user with all podcasts, sources and keys."""
    call = invocation(ctx)
    user = call.do(lambda app: app.store.accounts.user(name))
    output.confirm(f"Remove {user.name} with all their podcasts?", yes=yes)
    call.do(lambda app: remove_user(app.store, user))
    output.say(f"Removed {user.id} {user.name}")


@_keys.callback()
@_keys.command(
    "list",
    help="List the providers for which a user has a key.",
    epilog="Example: headwater keys list",
)
def keys(ctx: typer.Context, json: output.Json = False) -> None:
    """List a user's API keys, or set, remove and re-encrypt them."""
    if ctx.invoked_subcommand is not None:
        return
    found = invocation(ctx).do_for_user(lambda app, user: app.store.api_keys.providers(user.id))
    if json:
        output.show_json([{"provider": provider} for provider in found])
    else:
        output.show_table((Column("Provider", str),), found, empty="No keys.")


@_keys.command("set", epilog="Example: headwater keys set x < key.txt")
def set_key_(ctx: typer.Context, provider: Provider) -> None:
    """Store an API key, read from a prompt or standard input."""
    # never from an argument, where other processes could see it (U6)
    if sys.stdin.isatty():
        secret = str(typer.prompt(f"API key for {provider}", hide_input=True, err=True))
    else:
        secret = sys.stdin.readline(65_536)

    async def store(app: App, user: User) -> tuple[KeyChange, User]:
        now = app.clock.now()
        return await set_key(app.store, app.vault, user, provider, secret, now), user

    change, user = invocation(ctx).do_for_user(store, creates=True)
    requested = humanize.counted(change.sources_requested, "source")
    output.say(f"Stored the {change.provider} key of {user.name}; {requested} will be polled")


@_keys.command("remove", epilog="Example: headwater keys remove x")
def remove_key_(ctx: typer.Context, provider: Provider) -> None:
    """Remove an API key."""
    invocation(ctx).do_for_user(lambda app, user: remove_key(app.store, user, provider))
    output.say(f"Removed the {provider} key")


@_keys.command("rotate", epilog="Example: headwater keys rotate")
def rotate(ctx: typer.Context) -> None:
    """Encrypt all users' API keys again, also while a service runs."""
    done = invocation(ctx).do(lambda app: rotate_master_key(app.store, app.master_keys))
    encrypted = humanize.counted(done.resealed, "API key")
    which = "the new" if done.is_new else "the"
    output.say(f"Encrypted {encrypted} with {which} master key {done.key_id}")
    if done.forgotten:
        gone = humanize.counted(done.forgotten, "older master key")
        output.say(f"Removed {gone}; API keys in older backups cannot be read any more")
    for reason in done.unread:
        output.note(reason)
    if done.unread:
        unread = humanize.counted(len(done.unread), "API key")
        raise SecretError(
            f"{unread} could not be encrypted again; the master keys they need are kept until"
            " they are stored again or removed"
        )


@_tokens.callback()
@_tokens.command(
    "list",
    help="List access tokens of all users, without their secrets.",
    epilog="Example: headwater tokens list",
)
def tokens(ctx: typer.Context, json: output.Json = False) -> None:
    """List access tokens of the API, or add and revoke them."""
    if ctx.invoked_subcommand is not None:
        return

    call = invocation(ctx)
    now = call.now
    found = call.do(lambda app: app.store.tokens.listed(only=None, limit=_ALL_TOKENS))
    columns: tuple[Column[ListedToken], ...] = (
        Column("ID", lambda one: one.token.id[:8] if output.on_terminal() else one.token.id),
        wide("Name", lambda one: one.token.name),
        Column("For", _owner),
        Column("Since", lambda one: humanize.clock(one.token.created_at), optional=1),
        Column("Scope", lambda one: one.token.scope),
        Column("Expires", lambda one: _expires(one.token, now)),
        Column("Last use", lambda one: humanize.when(one.token.last_used_at, now)),
    )
    output.show_items(columns, found, schema="TokenOut", json=json, empty="No tokens.")


def _owner(one: ListedToken) -> str:
    return one.user or ("admin" if one.token.scope is TokenScope.ADMIN else "all users")


def _expires(token: Token, now: datetime) -> Cell:
    if token.expires_at is None:
        return "never"
    text = humanize.clock(token.expires_at)
    return text if token.expires_at > now else Styled(f"{text} (expired)", "red")


@_tokens.command(
    "add", epilog="Example: headwater tokens add reader --user default --scope read --expires 30d"
)
def add_token_(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the token.")],
    admin: Annotated[bool, typer.Option("--admin", help="The same as --scope admin.")] = False,
    scope: Annotated[
        TokenScope | None,
        typer.Option(
            help="What it permits; by default everything of the user. A read token without "
            "--user reads the data of all users."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="When it expires, such as 30d, 12h or 2027-01-31."),
    ] = None,
) -> None:
    """Create an access token for the user and show its secret once."""
    call = invocation(ctx)
    if admin and scope not in (None, TokenScope.ADMIN):
        raise UsageError(f"--admin and --scope {scope} contradict each other")
    scope = TokenScope.ADMIN if admin else scope or TokenScope.USER
    named = is_given(ctx, "user")
    if named and scope in (TokenScope.ADMIN, TokenScope.METRICS):
        raise UsageError(f"--user and the scope {scope} contradict each other")
    of_user = named or scope is TokenScope.USER
    expires_at = None if expires is None else moment_of(expires, call.now)

    async def add(app: App) -> tuple[NewToken, str]:
        user = await app.store.accounts.user(call.user) if of_user else None
        now = app.clock.now()
        made = await add_token(app.store, user, name, now, scope=scope, expires_at=expires_at)
        return made, _WITHOUT_USER[scope] if user is None else user.name

    made, owner = call.do(add, creates=True)
    # standard output has the secret alone, so that a script can use it as it is
    output.say(made.secret)
    until = "" if expires_at is None else f" until {humanize.clock(expires_at)}"
    output.note(f"Token {made.token.name} for {owner}{until}: shown only now, stored as a hash")
    file = call.settings.database_file  # absolute: readers may be in another directory
    database = masked(call.settings.database_url) if file is None else str(file.absolute())
    output.note(f"It is valid where {database} is served")


@_tokens.command("revoke", epilog="Example: headwater tokens revoke reader")
def revoke(
    ctx: typer.Context,
    wanted: Annotated[
        str, typer.Argument(metavar="ID|NAME", help="Its id, the beginning of that, or its name.")
    ],
) -> None:
    """Revoke an access token: it gives no access from now on."""

    async def revoke_(app: App) -> tuple[Token, bool]:
        token = await revoke_token(app.store, wanted)
        return token, await app.store.tokens.exist()

    token, others = invocation(ctx).do(revoke_)
    output.say(f"Revoked {token.id} {token.name}")
    if not others:
        output.note("That was the last one: on loopback the API is open, elsewhere it is closed")
