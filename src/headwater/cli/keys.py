"""Commands about users' API keys."""

import sys
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli import output, words
from headwater.cli.invocation import invocation
from headwater.cli.people import PANEL
from headwater.errors import SecretError
from headwater.model import User
from headwater.operations.people import KeyChange, providers_of, remove_key, set_key
from headwater.operations.rotation import Rotation, rotate_master_key

commands = typer.Typer()
_keys = typer.Typer(epilog="Example: headwater keys set x < key.txt", invoke_without_command=True)
commands.add_typer(_keys, name="keys", rich_help_panel=PANEL)
Provider = Annotated[str, typer.Argument(help="Whose API: x.")]


@_keys.callback()
def keys(ctx: typer.Context, json: output.Json = False) -> None:
    """List a user's API keys, set, remove or reseal them."""
    if ctx.invoked_subcommand is None:
        _list_keys(ctx, json=json)


@_keys.command("list", epilog="Example: headwater keys list")
def list_keys(ctx: typer.Context, json: output.Json = False) -> None:
    """List for which providers a user has a key."""
    _list_keys(ctx, json=json)


@_keys.command("set", epilog="Example: headwater keys set x < key.txt")
def set_key_(ctx: typer.Context, provider: Provider) -> None:
    """Store an API key, read from a prompt or standard input."""
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
        await remove_key(app.store, await app.store.people.user(call.user), provider)

    call.do(removed)
    output.say(f"Removed the {provider} key")


@_keys.command("rotate", epilog="Example: headwater keys rotate")
def rotate(ctx: typer.Context) -> None:
    """Seal all users' API keys anew, also beside a running service."""
    done = invocation(ctx).do(lambda app: rotate_master_key(app.store, app.master_keys))
    sealed = words.counted(done.resealed, "API key")
    output.say(f"Sealed {sealed} with {_described(done)} master key {done.key_id}")
    if done.forgotten:
        gone = words.counted(done.forgotten, "older master key")
        output.say(f"Removed {gone}; API keys in older backups cannot be read any more")
    for reason in done.unread:
        output.note(reason)
    if done.unread:
        raise SecretError(
            f"{words.counted(len(done.unread), 'API key')} could not be sealed anew; master keys"
            f" they need are kept until they are stored again or removed"
        )


def _described(done: Rotation) -> str:
    return "the new" if done.is_new else "the"


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
