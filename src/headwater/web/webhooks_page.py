"""Webhooks of a podcast, and for administrators those of all podcasts; their messages (V2)."""

import json
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headwater.api.middleware.authentication import need_admin
from headwater.api.schemas.pagination import cursor_for, position_in
from headwater.errors import UsageError
from headwater.operations.webhooks import (
    NewWebhook,
    WebhookSettings,
    add_webhook,
    edit_webhook,
    remove_webhook,
    resend,
    send_test,
)
from headwater.rules.webhook_messages import WebhookEvent
from headwater.store.webhooks import Webhook, WebhookDelivery
from headwater.web.forms import fields_of, one
from headwater.web.page_context import page_context
from headwater.web.rendering import DashboardPage, done

_DELIVERIES = 20  # messages on a page
_pages = APIRouter(include_in_schema=False)


async def _page(request: Request) -> DashboardPage:
    """The page of the podcast in the path; without one, of all podcasts, for administrators."""
    podcast_id = request.path_params.get("p")
    if podcast_id is None:
        need_admin(request)
    return DashboardPage(
        request, await page_context(request.app.state.app.store, request, podcast_id)
    )


WebhooksPage = Annotated[DashboardPage, Depends(_page)]


async def _webhook(page: WebhooksPage, w: str) -> Webhook:
    found: Webhook = await page.store.webhooks.get(w, _owner(page))
    return found


OwnWebhook = Annotated[Webhook, Depends(_webhook)]


@_pages.get("")
async def show_webhooks(page: WebhooksPage) -> Response:
    """Show the endpoints."""
    return await _list(page)


@_pages.post("")
async def create_webhook(page: WebhooksPage) -> Response:
    """Add an endpoint, and show its secret once."""
    app, given = page.app, await _given(page)
    allowed, now = app.settings.fetch.allow_private_networks, app.clock.now()
    try:
        made = await add_webhook(app.store, app.vault, _owner(page), given, now, allowed=allowed)
    except UsageError as error:
        return await _list(page, given=given, error=error)
    return await _list(page, made=made)


@_pages.get("/{w}")
async def show_webhook(page: WebhooksPage, webhook: OwnWebhook) -> Response:
    """Show the settings of an endpoint and its messages."""
    return await _one(page, webhook)


@_pages.post("/{w}")
async def change_webhook(page: WebhooksPage, webhook: OwnWebhook) -> Response:
    """Replace the settings of an endpoint; without a secret it keeps the one it has."""
    app, given = page.app, await _given(page)
    allowed = app.settings.fetch.allow_private_networks
    try:
        await edit_webhook(app.store, app.vault, webhook, given, allowed=allowed)
    except UsageError as error:
        return await _one(page, webhook, given=given, error=error)
    return done(_path(page, webhook), "webhook-saved")


@_pages.post("/{w}/test")
async def test_webhook(page: WebhooksPage, webhook: OwnWebhook) -> Response:
    """Send a test message."""
    page.app.visit_limits.check_visit(page.caller_id, webhook.url)
    await send_test(page.store, webhook, page.app.clock.now())
    return done(_path(page, webhook), "webhook-test")


@_pages.post("/{w}/delete")
async def delete_webhook(page: WebhooksPage, webhook: OwnWebhook) -> Response:
    """Remove an endpoint with its messages."""
    await remove_webhook(page.store, webhook)
    return done(_path(page), "webhook-removed")


@_pages.post("/{w}/deliveries/{d}/resend")
async def resend_delivery(page: WebhooksPage, webhook: OwnWebhook, d: str) -> Response:
    """Send a message again."""
    page.app.visit_limits.check_visit(page.caller_id, webhook.url)
    await resend(page.store, webhook, d, page.app.clock.now())
    return done(_path(page, webhook), "webhook-resent")


routes = APIRouter()
routes.include_router(_pages, prefix="/podcasts/{p}/webhooks")
routes.include_router(_pages, prefix="/webhooks")


def _owner(page: DashboardPage) -> str | None:
    """The id of the podcast; None: webhooks of all podcasts."""
    return None if page.context.podcast is None else page.context.podcast.id


def _path(page: DashboardPage, webhook: Webhook | None = None) -> str:
    owner = _owner(page)
    path = "/webhooks" if owner is None else f"/podcasts/{quote(owner, safe='')}/webhooks"
    return path if webhook is None else f"{path}/{quote(webhook.id, safe='')}"


async def _given(page: DashboardPage) -> WebhookSettings:
    fields = await fields_of(page.request)
    return WebhookSettings(
        one(fields, "url"),
        fields.get("event", []),
        one(fields, "query") or None,
        bool(one(fields, "enabled")),
        one(fields, "secret") or None,
    )


async def _list(
    page: DashboardPage,
    *,
    made: NewWebhook | None = None,
    given: WebhookSettings | None = None,
    error: UsageError | None = None,
) -> Response:
    return page.show(
        "webhooks.html",
        status=200 if error is None else 422,
        path=_path(page),
        webhooks=await page.store.webhooks.listed(_owner(page)),
        events=list(WebhookEvent),
        made=made,
        given=given or WebhookSettings(""),
        error=error,
    )


async def _one(
    page: DashboardPage,
    webhook: Webhook,
    *,
    given: WebhookSettings | None = None,
    error: UsageError | None = None,
) -> Response:
    cursor = page.request.query_params.get("cursor")
    (before,) = position_in(cursor, int) or (None,)
    limit = _DELIVERIES + 1
    found = await page.store.webhooks.deliveries(webhook.id, limit=limit, before=before)
    path, more = _path(page, webhook), len(found) > _DELIVERIES
    return page.show(
        "webhook.html",
        status=200 if error is None else 422,
        parent=_path(page),
        path=path,
        webhook=webhook,
        deliveries=found[:_DELIVERIES],
        subjects={delivery.id: _subject(delivery) for delivery in found},
        first_url=path if cursor else None,
        next_url=f"{path}?cursor={cursor_for((found[-2].number,))}" if more else None,
        events=list(WebhookEvent),
        given=given or webhook,
        error=error,
    )


def _subject(delivery: WebhookDelivery) -> str:
    """What a message is about: the title of a post or an incident, or the name of a source."""
    data = json.loads(delivery.payload)["data"]
    return str(data.get("title") or data.get("label") or "")
