"""The webhooks page of a podcast: endpoints, and the messages to each of them (V2)."""

from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import Response

from headwater.errors import UsageError
from headwater.operations.webhooks import (
    NewWebhook,
    WebhookSettings,
    add_webhook,
    remove_webhook,
    resend,
    send_test,
)
from headwater.rules.webhook_messages import WebhookEvent
from headwater.web.forms import fields_of, one
from headwater.web.rendering import DashboardPage, PodcastPage, done

_DELIVERIES = 20  # newest messages of each endpoint
routes = APIRouter(prefix="/podcasts/{p}/webhooks", include_in_schema=False)


@routes.get("")
async def show_webhooks(page: PodcastPage) -> Response:
    """Show the endpoints with their newest messages."""
    return await _shown(page)


@routes.post("")
async def create_webhook(page: PodcastPage) -> Response:
    """Add an endpoint, and show its secret once."""
    fields = await fields_of(page.request)
    given = WebhookSettings(
        one(fields, "url"), fields.get("event", []), one(fields, "query") or None
    )
    app = page.app
    allowed, now = app.settings.fetch.allow_private_networks, app.clock.now()
    try:
        made = await add_webhook(app.store, app.vault, page.podcast.id, given, now, allowed=allowed)
    except UsageError as error:
        return await _shown(page, given=given, error=error)
    return await _shown(page, made=made)


@routes.post("/{w}/test")
async def test_webhook(page: PodcastPage, w: str) -> Response:
    """Send a test message."""
    webhook = await page.store.webhooks.get(w, page.podcast.id)
    page.app.visit_limits.check_visit(page.caller_id, webhook.url)
    await send_test(page.store, webhook, page.app.clock.now())
    return done(_path(page), "webhook-test")


@routes.post("/{w}/delete")
async def delete_webhook(page: PodcastPage, w: str) -> Response:
    """Remove an endpoint with its messages."""
    await remove_webhook(page.store, await page.store.webhooks.get(w, page.podcast.id))
    return done(_path(page), "webhook-removed")


@routes.post("/{w}/deliveries/{d}/resend")
async def resend_delivery(page: PodcastPage, w: str, d: str) -> Response:
    """Send a message again."""
    webhook = await page.store.webhooks.get(w, page.podcast.id)
    page.app.visit_limits.check_visit(page.caller_id, webhook.url)
    await resend(page.store, webhook, d, page.app.clock.now())
    return done(_path(page), "webhook-resent")


def _path(page: DashboardPage) -> str:
    return f"/podcasts/{quote(page.podcast.id, safe='')}/webhooks"


async def _shown(
    page: DashboardPage,
    *,
    made: NewWebhook | None = None,
    given: WebhookSettings | None = None,
    error: UsageError | None = None,
) -> Response:
    webhooks = await page.store.webhooks.listed(page.podcast.id)
    deliveries = {
        webhook.id: await page.store.webhooks.deliveries(webhook.id, limit=_DELIVERIES)
        for webhook in webhooks
    }
    return page.show(
        "webhooks.html",
        status=200 if error is None else 422,
        path=_path(page),
        webhooks=webhooks,
        deliveries=deliveries,
        events=list(WebhookEvent),
        made=made,
        given=given or WebhookSettings(""),
        error=error,
    )
