"""The notices command."""

from enum import StrEnum
from typing import Annotated

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, Styled, wide
from headwater.model import User
from headwater.operations.notices import (
    ShownChannel,
    add_channel,
    notices_of,
    remove_channel,
    send_tests,
)
from headwater.rules.channels import DIGEST_HOUR, ChannelChoice, ChannelKind
from headwater.rules.url_secrets import masked

commands = typer.Typer()
notices = typer.Typer(
    epilog="Example: headwater notices add email ann@example.org", invoke_without_command=True
)
commands.add_typer(notices, name="notices")


class _Kind(StrEnum):
    """The kinds that a person can choose."""

    email = "email"
    ntfy = "ntfy"
    webhook = "webhook"


Target = Annotated[
    str, typer.Argument(help="The address, the URL of the topic, or the id of the webhook.")
]


@notices.callback()
@notices.command("list", help="List channels.", epilog="Example: headwater notices list")
def list_(ctx: typer.Context, json: output.Json = False) -> None:
    """Show where messages about problems go, or change that."""
    if ctx.invoked_subcommand is not None:
        return
    _show(ctx, invocation(ctx).do_for_user(lambda app, user: notices_of(app.store, user)), json)


@notices.command(
    "add", epilog="Example: headwater notices add email ann@example.org --digest --hour 6"
)
def add(
    ctx: typer.Context,
    kind: Annotated[_Kind, typer.Argument(help="email, ntfy or webhook.")],
    target: Target,
    digest: Annotated[bool, typer.Option("--digest", help="One message a day.")] = False,
    hour: Annotated[
        int, typer.Option(min=0, max=23, help="The hour of the daily message, in UTC.")
    ] = DIGEST_HOUR,
) -> None:
    """Add a channel, or change when it gets messages."""
    choice = ChannelChoice(ChannelKind(kind.value), target, digest, hour)

    async def add_(app: App, user: User) -> None:
        allowed = app.settings.fetch.allow_private_networks
        await add_channel(app.store, user, choice, app.clock, allowed=allowed)

    invocation(ctx).do_for_user(add_, creates=True)
    output.say(f"Added {kind.value} {masked(target)}; `headwater notices test` tries it")


@notices.command("remove", epilog="Example: headwater notices remove ann@example.org")
def remove(ctx: typer.Context, target: Target) -> None:
    """Remove a channel."""
    call = invocation(ctx)
    call.do_for_user(lambda app, user: remove_channel(app.store, user, target, app.clock))
    output.say(f"Removed {masked(target)}")


@notices.command("test", epilog="Example: headwater notices test")
def send_tests_(ctx: typer.Context, json: output.Json = False) -> None:
    """Send a test message to each channel; exit 1 if one failed."""

    async def send(app: App, user: User) -> list[ShownChannel]:
        async with app.network() as network:
            return await send_tests(app.store, app.notifier(network), user, app.clock)

    tested = invocation(ctx).do_for_user(send)
    _show(ctx, tested, json)
    if any(one.last is None or one.last.error for one in tested):
        raise typer.Exit(1)


def _show(ctx: typer.Context, shown: list[ShownChannel], json: bool) -> None:
    if json:
        output.show_json(output.schema_json("NoticesOut", shown))
        return
    now = invocation(ctx).now
    columns: tuple[Column[ShownChannel], ...] = (
        Column("Kind", lambda one: one.channel.kind.value),
        wide("Target", lambda one: masked(one.channel.target)),
        Column("When", _when),
        Column("Last", lambda one: humanize.moment(one.last.created_at if one.last else None, now)),
        wide("Result", _result),
    )
    output.show_table(columns, shown, empty="No channels.")


def _when(shown: ShownChannel) -> str:
    channel = shown.channel
    return f"daily at {channel.hour:02}:00 UTC" if channel.is_digest else "immediately"


def _result(shown: ShownChannel) -> str | Styled:
    last = shown.last
    if last is None:
        return ""
    if last.error is not None:
        return Styled(last.error, "red")
    return Styled("delivered", "green")
