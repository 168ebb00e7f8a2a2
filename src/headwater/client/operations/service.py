"""Accounts, webhooks, incidents and the state of the service."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypedDict, Unpack

from headwater.client.operation import (
    ApiRequest,
    Page,
    body_of,
    given,
    listing,
    once,
    operation,
    path_of,
)
from headwater.client.operations.content import InPodcasts, Paging
from headwater.client.results.choices import TokenScope, WebhookEvent, When
from headwater.client.results.service import (
    AuditEntry,
    Cluster,
    DrainedWorker,
    Host,
    HostCard,
    Incident,
    Key,
    Liveness,
    NewToken,
    NewWebhook,
    Notices,
    Readiness,
    Scheduler,
    Token,
    User,
    Webhook,
    WebhookDelivery,
)


class WebhookSettings(TypedDict, total=False):
    """The settings of a webhook, except its URL."""

    events: Iterable[WebhookEvent]
    query: str | None
    enabled: bool
    secret: str | None


class ChannelTiming(TypedDict, total=False):
    """When a channel gets messages: at once, or once a day at an hour in UTC."""

    when: When
    hour: int | None


class EmailInput(ChannelTiming):
    """A channel by e-mail."""

    kind: Literal["email"]
    address: str


class NtfyInput(ChannelTiming):
    """A channel by ntfy."""

    kind: Literal["ntfy"]
    url: str


class WebhookInput(ChannelTiming):
    """A channel by a webhook."""

    kind: Literal["webhook"]
    id: str


class NoticeOperations:
    """Notification channels."""

    @operation
    def get_notices(self, user: str) -> ApiRequest[Notices]:
        """The notification channels of a user."""
        return ApiRequest("GET", path_of("users", user, "notices"), Notices)

    @operation
    def replace_notices(
        self, user: str, channels: Iterable[EmailInput | NtfyInput | WebhookInput]
    ) -> ApiRequest[Notices]:
        """Replace the notification channels of a user; those that are left out are removed."""
        path, body = path_of("users", user, "notices"), body_of(channels=list(channels))
        return ApiRequest("PUT", path, Notices, body=body)

    @operation
    def test_channels(
        self, user: str, *, idempotency_key: str | None = None
    ) -> ApiRequest[Notices]:
        """Send a test message to the notification channels of a user."""
        path, headers = path_of("users", user, "notices", "test"), once(idempotency_key)
        return ApiRequest("POST", path, Notices, headers=headers)


class AccountOperations:
    """Users, their API keys, and tokens."""

    @listing
    def users(self, **paging: Unpack[Paging]) -> ApiRequest[Page[User]]:
        """The users, the oldest first."""
        return ApiRequest("GET", path_of("users"), Page[User], given(**paging))

    @operation
    def create_user(self, name: str, *, idempotency_key: str | None = None) -> ApiRequest[User]:
        """Add a user."""
        headers = once(idempotency_key)
        return ApiRequest("POST", path_of("users"), User, body=body_of(name=name), headers=headers)

    @operation
    def get_user(self, user: str) -> ApiRequest[User]:
        """One user."""
        return ApiRequest("GET", path_of("users", user), User)

    @operation
    def rename_user(self, user: str, name: str) -> ApiRequest[User]:
        """Rename a user."""
        return ApiRequest("PUT", path_of("users", user), User, body=body_of(name=name))

    @operation
    def delete_user(self, user: str) -> ApiRequest[None]:
        """Delete a user with everything that belongs to them."""
        return ApiRequest("DELETE", path_of("users", user), type(None))

    @listing
    def api_keys(self, user: str, **paging: Unpack[Paging]) -> ApiRequest[Page[Key]]:
        """The providers for which a user has stored a key."""
        return ApiRequest("GET", path_of("users", user, "api-keys"), Page[Key], given(**paging))

    @operation
    def set_api_key(self, user: str, provider: str, api_key: str) -> ApiRequest[Key]:
        """Store or replace a user's key at a provider."""
        path, body = path_of("users", user, "api-keys", provider), body_of(api_key=api_key)
        return ApiRequest("PUT", path, Key, body=body)

    @operation
    def delete_api_key(self, user: str, provider: str) -> ApiRequest[None]:
        """Delete a user's key."""
        return ApiRequest("DELETE", path_of("users", user, "api-keys", provider), type(None))

    @listing
    def tokens(self, **paging: Unpack[Paging]) -> ApiRequest[Page[Token]]:
        """The tokens, the oldest first, without their secrets."""
        return ApiRequest("GET", path_of("tokens"), Page[Token], given(**paging))

    @operation
    def create_token(
        self,
        name: str,
        scope: TokenScope,
        *,
        user: str | None = None,
        expires_at: datetime | str | None = None,
        idempotency_key: str | None = None,
    ) -> ApiRequest[NewToken]:
        """Create a token; only this result has its secret."""
        body = body_of(name=name, scope=scope, user=user, expires_at=expires_at)
        headers = once(idempotency_key)
        return ApiRequest("POST", path_of("tokens"), NewToken, body=body, headers=headers)

    @operation
    def get_token(self, token_id: str) -> ApiRequest[Token]:
        """One token, without its secret."""
        return ApiRequest("GET", path_of("tokens", token_id), Token)

    @operation
    def delete_token(self, token_id: str) -> ApiRequest[None]:
        """Revoke a token."""
        return ApiRequest("DELETE", path_of("tokens", token_id), type(None))

    @listing
    def audit(
        self, *, since: datetime | str | None = None, **paging: Unpack[Paging]
    ) -> ApiRequest[Page[AuditEntry]]:
        """What people have changed, the newest first."""
        query = given(since=since, **paging)
        return ApiRequest("GET", path_of("audit"), Page[AuditEntry], query)


class WebhookOperations(InPodcasts):
    """Webhooks of a podcast; with None as podcast those of all podcasts."""

    @listing
    def webhooks(self, podcast: str | None) -> ApiRequest[Page[Webhook]]:
        """The webhooks, the oldest first."""
        return ApiRequest("GET", self._webhooks(podcast), Page[Webhook])

    @operation
    def create_webhook(
        self,
        podcast: str | None,
        url: str,
        *,
        idempotency_key: str | None = None,
        **settings: Unpack[WebhookSettings],
    ) -> ApiRequest[NewWebhook]:
        """Add a webhook; only this result has its secret."""
        body, headers = _webhook_body(url, settings), once(idempotency_key)
        return ApiRequest("POST", self._webhooks(podcast), NewWebhook, body=body, headers=headers)

    @operation
    def get_webhook(self, podcast: str | None, webhook_id: str) -> ApiRequest[Webhook]:
        """One webhook, without its secret."""
        return ApiRequest("GET", self._webhooks(podcast, webhook_id), Webhook)

    @operation
    def replace_webhook(
        self,
        podcast: str | None,
        webhook_id: str,
        url: str,
        **settings: Unpack[WebhookSettings],
    ) -> ApiRequest[Webhook]:
        """Replace the settings of a webhook; without `secret` it keeps the one it has."""
        path, body = self._webhooks(podcast, webhook_id), _webhook_body(url, settings)
        return ApiRequest("PUT", path, Webhook, body=body)

    @operation
    def delete_webhook(self, podcast: str | None, webhook_id: str) -> ApiRequest[None]:
        """Delete a webhook with its messages."""
        return ApiRequest("DELETE", self._webhooks(podcast, webhook_id), type(None))

    @operation
    def send_test_message(
        self, podcast: str | None, webhook_id: str, *, idempotency_key: str | None = None
    ) -> ApiRequest[WebhookDelivery]:
        """Send a test message to a webhook."""
        path, headers = self._webhooks(podcast, webhook_id, "test"), once(idempotency_key)
        return ApiRequest("POST", path, WebhookDelivery, headers=headers)

    @listing
    def deliveries(
        self, podcast: str | None, webhook_id: str, **paging: Unpack[Paging]
    ) -> ApiRequest[Page[WebhookDelivery]]:
        """The messages to a webhook in the last 7 days, the newest first."""
        path = self._webhooks(podcast, webhook_id, "deliveries")
        return ApiRequest("GET", path, Page[WebhookDelivery], given(**paging))

    @operation
    def resend_delivery(
        self,
        podcast: str | None,
        webhook_id: str,
        delivery_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> ApiRequest[WebhookDelivery]:
        """Send a message again, with the same id."""
        path = self._webhooks(podcast, webhook_id, "deliveries", delivery_id, "resend")
        return ApiRequest("POST", path, WebhookDelivery, headers=once(idempotency_key))

    def _webhooks(self, podcast: str | None, *segments: str) -> str:
        if podcast is None:
            return path_of("webhooks", *segments)
        return self.in_podcast(podcast, "webhooks", *segments)


class ServiceOperations:
    """Hosts, incidents, scheduler, workers and health of the service."""

    @listing
    def hosts(self, **paging: Unpack[Paging]) -> ApiRequest[Page[Host]]:
        """The hosts that are polled."""
        return ApiRequest("GET", path_of("hosts"), Page[Host], given(**paging))

    @operation
    def get_host(self, host: str) -> ApiRequest[HostCard]:
        """One host, with its last responses."""
        return ApiRequest("GET", path_of("hosts", host), HostCard)

    @listing
    def incidents(
        self,
        *,
        open: bool | None = None,  # noqa: A002 - its name in the API
        **paging: Unpack[Paging],
    ) -> ApiRequest[Page[Incident]]:
        """Problems, the worst first; with `open=True` only those that are not over."""
        query = given(open=open, **paging)
        return ApiRequest("GET", path_of("incidents"), Page[Incident], query)

    @operation
    def get_scheduler(self) -> ApiRequest[Scheduler]:
        """The state of the scheduler."""
        return ApiRequest("GET", path_of("scheduler"), Scheduler)

    @operation
    def change_scheduler(self, *, paused: bool) -> ApiRequest[Scheduler]:
        """Pause or resume the scheduler."""
        return ApiRequest("PUT", path_of("scheduler"), Scheduler, body=body_of(paused=paused))

    @operation
    def get_cluster(self) -> ApiRequest[Cluster]:
        """The workers that share a PostgreSQL database."""
        return ApiRequest("GET", path_of("cluster"), Cluster)

    @operation
    def drain_worker(self, worker: str, *, draining: bool = True) -> ApiRequest[DrainedWorker]:
        """Drain a worker before it is stopped, or let it take shards again."""
        body = body_of(worker=worker, draining=draining)
        return ApiRequest("PUT", path_of("cluster", "drain"), DrainedWorker, body=body)

    @operation
    def get_health(self) -> ApiRequest[Liveness]:
        """Whether the service runs, and its version."""
        return ApiRequest("GET", path_of("health"), Liveness)

    @operation
    def get_readiness(self) -> ApiRequest[Readiness]:
        """Whether the service can do its work; raises a problem with status 503 if not."""
        return ApiRequest("GET", path_of("ready"), Readiness)

    @operation
    def get_metrics(self) -> ApiRequest[str]:
        """The metrics for Prometheus, as text."""
        return ApiRequest("GET", "/metrics", str)


def _webhook_body(url: str, settings: WebhookSettings) -> dict[str, object]:
    body = body_of(url=url, **settings)
    return body | ({"events": list(settings["events"])} if "events" in settings else {})
