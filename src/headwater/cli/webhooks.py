"""The webhooks command."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import typer

from headwater.app import App
from headwater.cli import humanize, output
from headwater.cli.cli_context import invocation
from headwater.cli.columns import Column, wide
from headwater.errors import NotFound
from headwater.operations.webhooks import (
    NewWebhook,
    WebhookSettings,
    add_webhook,
    edit_webhook,
    remove_webhook,
    resend,
    send_test,
)
from headwater.rules.url_secrets import masked
from headwater.rules.webhook_messages import WebhookEvent
from headwater.store.webhooks import Webhook, WebhookDelivery

commands = typer.Typer()
T = TypeVar("T")
_NEWEST = 1000  # messages that can be named by the beginning of their ids
webhooks = typer.Typer(
    epilog="Example: headwater webhooks add https://studio.example.org/hook",
    invoke_without_command=True,
)
commands.add_typer(webhooks, name="webhooks")
ForAll = Annotated[
    bool, typer.Option("--all-podcasts", help="Of all podcasts, instead of those of one.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")]


@webhooks.callback()
@webhooks.command("list", help="List webhooks.", epilog="Example: headwater webhooks list")
def list_(ctx: typer.Context, all_podcasts: ForAll = False, json: output.Json = False) -> None:
    """List webhooks, or add, edit, test and remove them."""
    if ctx.invoked_subcommand is not None:
        return

    async def read(app: App, podcast_id: str | None) -> Sequence[Webhook]:
        return await app.store.webhooks.listed(podcast_id)

    columns: tuple[Column[Webhook], ...] = (
        Column("ID", lambda webhook: webhook.id),
        wide("URL", lambda webhook: masked(webhook.url)),
        Column("Events", lambda webhook: ", ".join(webhook.events)),
        wide("Query", lambda webhook: webhook.query or "", optional=1),
        wide("State", _state),
    )
    found = _do(ctx, read, all_podcasts=all_podcasts)
    output.show_items(columns, found, schema="WebhookOut", json=json, empty="No webhooks.")


def _state(webhook: Webhook) -> str:
    if webhook.enabled:
        return "enabled"
    return f"disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "disabled"


@webhooks.command(
    "add", epilog="Example: headwater webhooks add https://studio.example.org/hook --query river"
)
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="The endpoint.")],
    event: Annotated[
        list[WebhookEvent] | None,
        typer.Option(help="An event it receives; may be repeated. By default post.created."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Only posts that match this query are reported.")
    ] = None,
    all_podcasts: ForAll = False,
) -> None:
    """Add a webhook and print its secret, which is shown only now."""

    async def add_(app: App, podcast_id: str | None) -> NewWebhook:
        allowed = app.settings.fetch.allow_private_networks
        given = WebhookSettings(url, event or (WebhookEvent.POST_CREATED,), query)
        now = app.clock.now()
        return await add_webhook(app.store, app.vault, podcast_id, given, now, allowed=allowed)

    made = _do(ctx, add_, all_podcasts=all_podcasts, creates=True)
    # standard output has the secret alone, so that a script can use it as it is
    output.say(made.secret)
    output.note(f"Added {made.webhook.id}; its secret is shown only now")


@webhooks.command("edit", epilog="Example: headwater webhooks edit 7c5a --query river --enable")
def edit(
    ctx: typer.Context,
    id_: Id,
    url: Annotated[str | None, typer.Option(help="Another endpoint.")] = None,
    event: Annotated[
        list[WebhookEvent] | None,
        typer.Option(help="An event it receives, instead of those it has; may be repeated."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Only posts that match this query are reported; '' all.")
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether messages are sent.")
    ] = None,
    all_podcasts: ForAll = False,
) -> None:
    """Change a webhook; what is not given stays as it is."""

    async def edit_(app: App, owner: str | None) -> Webhook:
        before = await _found(app, owner, id_)
        given = WebhookSettings(
            before.url if url is None else url,
            event or before.events,
            before.query if query is None else query or None,
            before.enabled if enabled is None else enabled,
        )
        allowed = app.settings.fetch.allow_private_networks
        return await edit_webhook(app.store, app.vault, before, given, allowed=allowed)

    after = _do(ctx, edit_, all_podcasts=all_podcasts)
    output.say(f"Saved {after.id}, {_state(after)}")


@webhooks.command("remove", epilog="Example: headwater webhooks remove 7c5a --yes")
def remove(
    ctx: typer.Context, id_: Id, all_podcasts: ForAll = False, yes: output.Yes = False
) -> None:
    """Remove a webhook with its messages."""
    webhook = _do(ctx, lambda app, owner: _found(app, owner, id_), all_podcasts=all_podcasts)
    output.confirm(f"Remove the webhook to {masked(webhook.url)}?", yes=yes)
    invocation(ctx).do(lambda app: remove_webhook(app.store, webhook))
    output.say(f"Removed {webhook.id}")


@webhooks.command("test", epilog="Example: headwater webhooks test 7c5a")
def send_test_(ctx: typer.Context, id_: Id, all_podcasts: ForAll = False) -> None:
    """Send a test message; the service delivers it within seconds."""

    async def send(app: App, owner: str | None) -> WebhookDelivery:
        return await send_test(app.store, await _found(app, owner, id_), app.clock.now())

    output.say(f"Stored {_do(ctx, send, all_podcasts=all_podcasts).id}")


@webhooks.command("deliveries", epilog="Example: headwater webhooks deliveries 7c5a")
def deliveries(
    ctx: typer.Context,
    id_: Id,
    all_podcasts: ForAll = False,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 50,
    json: output.Json = False,
) -> None:
    """Show the messages of the last 7 days, newest first."""
    now = invocation(ctx).now

    async def read(app: App, owner: str | None) -> Sequence[WebhookDelivery]:
        webhook = await _found(app, owner, id_)
        return await app.store.webhooks.deliveries(webhook.id, limit=limit)

    columns: tuple[Column[WebhookDelivery], ...] = (
        Column("ID", lambda one: one.id),
        Column("Stored", lambda one: humanize.moment(one.created_at, now)),
        Column("Event", lambda one: one.event),
        Column("Attempts", lambda one: str(one.attempts)),
        Column("Delivered", lambda one: humanize.moment(one.delivered_at, now)),
        Column("Next", lambda one: humanize.moment(one.next_attempt_at, now)),
        wide("Error", lambda one: one.error or "", optional=1),
    )
    found = _do(ctx, read, all_podcasts=all_podcasts)
    output.show_items(
        columns, found, schema="WebhookDeliveryOut", json=json, empty="No deliveries."
    )


@webhooks.command("resend", epilog="Example: headwater webhooks resend 7c5a msg_2f1c9a7e105b")
def resend_(
    ctx: typer.Context,
    id_: Id,
    delivery: Annotated[
        str, typer.Argument(metavar="DELIVERY", help="The id of a message, or its beginning.")
    ],
    all_podcasts: ForAll = False,
) -> None:
    """Send a message again, with the same id."""

    async def send(app: App, owner: str | None) -> WebhookDelivery:
        webhook = await _found(app, owner, id_)
        newest = await app.store.webhooks.deliveries(webhook.id, limit=_NEWEST)
        matching = [one.id for one in newest if one.id.startswith(delivery)]
        chosen = matching[0] if len(matching) == 1 else delivery
        return await resend(app.store, webhook, chosen, app.clock.now())

    output.say(f"Stored {_do(ctx, send, all_podcasts=all_podcasts).id} to be sent again")


async def _found(app: App, podcast_id: str | None, wanted: str) -> Webhook:
    found = await app.store.webhooks.listed(podcast_id)
    matching = [webhook for webhook in found if webhook.id.startswith(wanted)]
    if len(matching) != 1:
        several = "several webhooks begin" if matching else "no webhook begins"
        raise NotFound(f"{several} with {wanted!r}; `headwater webhooks` lists them")
    return matching[0]


def _do(
    ctx: typer.Context,
    work: Callable[[App, str | None], Awaitable[T]],
    *,
    all_podcasts: bool,
    creates: bool = False,
) -> T:
    """Run work with the podcast that --podcast names, or for all podcasts."""
    call = invocation(ctx)
    if all_podcasts:
        return call.do(lambda app: work(app, None), creates=creates)
    return call.do_in_podcast(lambda app, podcast: work(app, podcast.id), creates=creates)
