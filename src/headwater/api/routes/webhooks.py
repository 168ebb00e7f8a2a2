"""Webhooks of a podcast, and for administrators those of all podcasts; their deliveries (V2)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic.alias_generators import to_camel

from headwater.api.dependencies import (
    CurrentApp,
    CurrentCaller,
    OwnPodcast,
    Page,
    path_parameter,
    refuse_body,
)
from headwater.api.middleware.authentication import need_admin
from headwater.api.openapi import body_example, created, documented_router
from headwater.api.schemas.pagination import ListPage, page_of, position_in
from headwater.api.schemas.webhooks import (
    EXAMPLE_DELIVERY,
    EXAMPLE_INPUT,
    EXAMPLE_WEBHOOK,
    NewWebhookOut,
    WebhookDeliveryOut,
    WebhookIn,
    WebhookOut,
)
from headwater.operations.webhooks import (
    add_webhook,
    edit_webhook,
    remove_webhook,
    resend,
    send_test,
)
from headwater.store.webhooks import Webhook

WebhookId = Annotated[str, path_parameter("A webhook's id.", EXAMPLE_WEBHOOK)]
DeliveryId = Annotated[str, path_parameter("A delivery's id.", EXAMPLE_DELIVERY)]
Body = Annotated[WebhookIn, body_example(EXAMPLE_INPUT)]


async def _of_podcast(request: Request, podcast: OwnPodcast) -> None:
    request.state.webhook_owner = podcast.id


async def _of_all(request: Request) -> None:
    need_admin(request)
    request.state.webhook_owner = None


async def _owner(request: Request) -> str | None:
    """The id of the podcast in the path; None: webhooks of all podcasts."""
    # dependencies also run if the path is not valid; then it is the id of no podcast
    owner: str | None = getattr(request.state, "webhook_owner", "")
    return owner


Owner = Annotated[str | None, Depends(_owner)]


async def _webhook(app: CurrentApp, podcast_id: Owner, w: WebhookId) -> Webhook:
    return await app.store.webhooks.get(w, podcast_id)


OwnWebhook = Annotated[Webhook, Depends(_webhook)]


async def list_webhooks(app: CurrentApp, podcast_id: Owner) -> ListPage[WebhookOut]:
    """List the webhooks, oldest first."""
    found = await app.store.webhooks.listed(podcast_id)
    return page_of(found, len(found), WebhookOut.of, lambda webhook: (webhook.id,))


async def create_webhook(
    request: Request, app: CurrentApp, podcast_id: Owner, body: Body, response: Response
) -> NewWebhookOut:
    """Add a webhook; only this response has its secret.

    Messages are signed as specified by Standard Webhooks. An endpoint that does not respond with
    2xx gets a message again after 5 seconds, 5 and 30 minutes, 2, 5, 10, 14, 20 and 24 hours.
    Redirects are not followed. 410 disables the webhook.
    """
    allowed, now = app.settings.fetch.allow_private_networks, app.clock.now()
    new = await add_webhook(app.store, app.vault, podcast_id, body.settings, now, allowed=allowed)
    response.headers["Location"] = f"{request.url.path}/{new.webhook.id}"
    response.headers["Cache-Control"] = "no-store"
    return NewWebhookOut.of(new)


async def get_webhook(webhook: OwnWebhook) -> WebhookOut:
    """Get a webhook, without its secret."""
    return WebhookOut.of(webhook)


async def replace_webhook(app: CurrentApp, webhook: OwnWebhook, body: Body) -> WebhookOut:
    """Replace the settings of a webhook; without `secret` it keeps the one it has."""
    allowed = app.settings.fetch.allow_private_networks
    edited = await edit_webhook(app.store, app.vault, webhook, body.settings, allowed=allowed)
    return WebhookOut.of(edited)


async def delete_webhook(app: CurrentApp, webhook: OwnWebhook) -> None:
    """Delete a webhook with its messages."""
    await remove_webhook(app.store, webhook)


async def test_webhook(
    app: CurrentApp, caller: CurrentCaller, webhook: OwnWebhook
) -> WebhookDeliveryOut:
    """Send a test message, of the type `webhook.test`.

    It is sent within seconds while the service polls; its delivery shows the result.
    """
    app.visit_limits.check_visit(caller.user_id, webhook.url)
    return WebhookDeliveryOut.of(await send_test(app.store, webhook, app.clock.now()))


async def list_deliveries(
    app: CurrentApp, webhook: OwnWebhook, page: Page
) -> ListPage[WebhookDeliveryOut]:
    """List the messages of the last 7 days, newest first."""
    (before,) = position_in(page.cursor, int) or (None,)
    limit = page.limit + 1
    found = await app.store.webhooks.deliveries(webhook.id, limit=limit, before=before)
    return page_of(found, page.limit, WebhookDeliveryOut.of, lambda one: (one.number,))


async def resend_delivery(
    app: CurrentApp, caller: CurrentCaller, webhook: OwnWebhook, d: DeliveryId
) -> WebhookDeliveryOut:
    """Send a message again, with the same id."""
    app.visit_limits.check_visit(caller.user_id, webhook.url)
    return WebhookDeliveryOut.of(await resend(app.store, webhook, d, app.clock.now()))


_NO_BODY = {"status_code": 202, "dependencies": [Depends(refuse_body)]}
_ROUTES: tuple[tuple[str, str, str, Callable[..., Awaitable[Any]], dict[str, Any]], ...] = (
    ("GET", "", "list_{}s", list_webhooks, {}),
    ("POST", "", "create_{}", create_webhook, {"status_code": 201}),
    ("GET", "/{w}", "get_{}", get_webhook, {}),
    ("PUT", "/{w}", "replace_{}", replace_webhook, {}),
    ("DELETE", "/{w}", "delete_{}", delete_webhook, {"status_code": 204}),
    ("POST", "/{w}/test", "test_{}", test_webhook, _NO_BODY),
    ("GET", "/{w}/deliveries", "list_{}_deliveries", list_deliveries, {}),
    ("POST", "/{w}/deliveries/{d}/resend", "resend_{}_delivery", resend_delivery, _NO_BODY),
)


def _routes(prefix: str, noun: str, owner: Callable[..., Awaitable[None]]) -> APIRouter:
    """The routes below a path; `noun` makes their operation ids unique."""
    routes = documented_router(prefix, "webhooks")
    routes.dependencies.append(Depends(owner))
    for method, path, name, endpoint, options in _ROUTES:
        if endpoint is create_webhook:
            title = to_camel(noun)
            ids = (f"{verb}{title[0].upper()}{title[1:]}" for verb in ("get", "replace", "delete"))
            options = options | {"responses": created("w", prefix, *ids)}
        routes.add_api_route(path, endpoint, methods=[method], name=name.format(noun), **options)
    return routes


routes = _routes("/api/users/{u}/podcasts/{p}/webhooks", "webhook", _of_podcast)
routes_for_all = _routes("/api/webhooks", "global_webhook", _of_all)
