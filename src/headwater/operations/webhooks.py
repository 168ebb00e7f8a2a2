"""Webhooks: endpoints that receive events, their test messages and deliveries (V2)."""

import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.errors import BadUrl, KeyRetired, QueryError
from headwater.model import SealedSecret
from headwater.query.parser import parse_filter
from headwater.rules.addresses import Allowed, host_refusal, refusal_text
from headwater.rules.url_secrets import masked
from headwater.rules.urls import parse_url
from headwater.rules.webhook_messages import (
    TEST_EVENT,
    WebhookEvent,
    known_events,
    secret_bytes,
    secret_text,
)
from headwater.store import Store
from headwater.store.audit import describe
from headwater.store.webhooks import OWNER, Webhook, WebhookDelivery

if TYPE_CHECKING:
    from headwater.vault import Vault

_NEW_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """What a person chooses of a webhook."""

    url: str
    events: Iterable[str] = (WebhookEvent.POST_CREATED,)
    query: str | None = None
    enabled: bool = True
    secret: str | None = None  # None: a new one, or the one that is there


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook that was just added, with its secret."""

    webhook: Webhook
    secret: str


async def add_webhook(
    store: Store,
    vault: "Vault",
    podcast_id: str | None,
    given: WebhookSettings,
    now: datetime,
    *,
    allowed: Allowed,
) -> NewWebhook:
    """Add a webhook of a podcast or, without one, of all podcasts."""
    secret = given.secret or secret_text(secrets.token_bytes(_NEW_SECRET_BYTES))
    secret_bytes(secret)
    new = Webhook(
        id=str(uuid.uuid4()),
        podcast_id=podcast_id,
        url=_checked_url(given.url, allowed),
        events=known_events(given.events),
        query=_checked_query(given.query),
        enabled=given.enabled,
        disabled_reason=None,
        created_at=now,
    )
    describe("webhook.add", f"webhook {new.id}", url=masked(new.url))
    await _with_secret(vault, new.id, secret, lambda sealed: store.webhooks.add(new, sealed))
    return NewWebhook(new, secret)


async def edit_webhook(
    store: Store, vault: "Vault", before: Webhook, given: WebhookSettings, *, allowed: Allowed
) -> Webhook:
    """Replace the settings of a webhook; without a secret it keeps the one it has."""
    after = replace(
        before,
        url=_checked_url(given.url, allowed) if given.url != before.url else before.url,
        events=known_events(given.events),
        query=_checked_query(given.query),
        enabled=given.enabled,
        disabled_reason=None if given.enabled else before.disabled_reason,
    )
    describe("webhook.edit", f"webhook {before.id}", url=masked(after.url), enabled=after.enabled)
    if given.secret is None:
        await store.webhooks.edit(after, None)
    else:
        secret_bytes(given.secret)
        await _with_secret(
            vault, after.id, given.secret, lambda sealed: store.webhooks.edit(after, sealed)
        )
    return after


async def remove_webhook(store: Store, webhook: Webhook) -> None:
    """Delete a webhook with its messages."""
    describe("webhook.remove", f"webhook {webhook.id}", url=masked(webhook.url))
    await store.webhooks.remove(webhook)


async def send_test(store: Store, webhook: Webhook, now: datetime) -> WebhookDelivery:
    """Store a test message, which is sent like any other."""
    describe("webhook.test", f"webhook {webhook.id}")
    id_ = await store.webhooks.add_test(webhook, TEST_EVENT, str(uuid.uuid4()), now)
    return await store.webhooks.delivery(webhook.id, id_)


async def resend(
    store: Store, webhook: Webhook, delivery_id: str, now: datetime
) -> WebhookDelivery:
    """Send a message again, with the same id."""
    describe("webhook.resend", f"webhook {webhook.id}", delivery=delivery_id)
    return await store.webhooks.resend(webhook.id, delivery_id, now)


async def _with_secret(
    vault: "Vault",
    webhook_id: str,
    secret: str,
    store: Callable[[SealedSecret], Awaitable[None]],
) -> None:
    """Encrypt a secret and store it; again if the master key was rotated meanwhile (U5)."""
    try:
        await store(vault.seal(secret, user_id=OWNER, provider=webhook_id))
    except KeyRetired:
        vault.reread()
        await store(vault.seal(secret, user_id=OWNER, provider=webhook_id))


def _checked_url(url: str, allowed: Allowed) -> str:
    """The URL, or a BadUrl if it can never be visited (N2, N3)."""
    host = parse_url(url).host
    reason = host_refusal(host, allowed)
    if reason is not None:
        raise BadUrl(refusal_text(host, reason), field="url")
    return url


def _checked_query(query: str | None) -> str | None:
    if query is None:
        return None
    try:
        parse_filter(query)
    except QueryError as error:
        raise QueryError(error.expected, error.position, field="query") from None
    return query
