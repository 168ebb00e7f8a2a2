"""Commands about access tokens."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from headwater.api.schemas import TokenOut
from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.cli.people import PANEL
from headwater.errors import UsageError
from headwater.model import Token
from headwater.operations.people import DEFAULT
from headwater.operations.tokens import NewToken, add_token, list_tokens, revoke_token
from headwater.rules.urls import masked
from headwater.settings import Settings

commands = typer.Typer()
_tokens = typer.Typer(
    epilog="Example: headwater tokens add laptop --admin", invoke_without_command=True
)
commands.add_typer(_tokens, name="tokens", rich_help_panel=PANEL)


@_tokens.callback()
def tokens(ctx: typer.Context, json: output.Json = False) -> None:
    """List access tokens of the API, or add and revoke them."""
    if ctx.invoked_subcommand is None:
        _list_tokens(ctx, json=json)


@_tokens.command("list", epilog="Example: headwater tokens list")
def list_tokens_(ctx: typer.Context, json: output.Json = False) -> None:
    """List access tokens of all users, without their secrets."""
    _list_tokens(ctx, json=json)


@_tokens.command("add", epilog="Example: headwater tokens add reader --user default")
def add_token_(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A name to know it by.")],
    admin: Annotated[
        bool, typer.Option("--admin", help="For everything and everybody, not for one user.")
    ] = False,
) -> None:
    """Make an access token for the user and show its secret, this once."""
    call = invocation(ctx)
    if admin and call.user != DEFAULT:
        raise UsageError("--admin and --user contradict each other")

    async def added(app: App) -> tuple[NewToken, str]:
        user = None if admin else await app.store.people.user(call.user)
        made = await add_token(app.store, user, name, app.clock.now())
        return made, "an administrator" if user is None else user.name

    made, whose = call.do(added)
    # the secret is the whole answer, so that a script can take it as it is
    output.say(made.secret)
    output.note(f"Token {made.token.name} for {whose}: shown this once, kept as a hash")
    output.note(f"It is good where {_database(call.settings)} is served")


@_tokens.command("revoke", epilog="Example: headwater tokens revoke reader")
def revoke(
    ctx: typer.Context,
    wanted: Annotated[
        str, typer.Argument(metavar="ID|NAME", help="Its id, the beginning of that, or its name.")
    ],
) -> None:
    """Revoke an access token: from now on nobody comes in with it."""

    async def revoked(app: App) -> tuple[Token, bool]:
        token = await revoke_token(app.store, wanted)
        return token, await app.store.tokens.exist()

    token, others = invocation(ctx).do(revoked)
    output.say(f"Revoked {token.id} {token.name}")
    if not others:
        output.note("That was the last one: on loopback the API is open, elsewhere it is closed")


def _list_tokens(ctx: typer.Context, *, json: bool) -> None:
    async def listed(app: App) -> tuple[Sequence[Token], Mapping[str, str]]:
        users = await app.store.people.users()
        return await list_tokens(app.store), {user.id: user.name for user in users}

    found, names = invocation(ctx).do(listed)
    if json:
        output.show_json(output.plain(TokenOut.of(token) for token in found))
        return
    columns = (
        output.Column("ID"),
        output.wide("Name"),
        output.Column("For"),
        output.Column("Since"),
    )
    rows = [
        [token.id, token.name, _whose(token, names), words.clock(token.created_at)]
        for token in found
    ]
    output.show_table(columns, rows, empty="No tokens.")


def _database(settings: Settings) -> str:
    """The database as somebody in another folder would name it."""
    file = settings.database_file
    return masked(settings.database_url) if file is None else str(file.absolute())


def _whose(token: Token, names: Mapping[str, str]) -> str:
    if token.user_id is None:
        return "admin"
    return names.get(token.user_id, token.user_id)
