"""Accounts, webhooks, incidents, hosts and the state of the service."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headwater.client.results.choices import (
    FailureType,
    IncidentKind,
    OutcomeKind,
    Severity,
    TokenScope,
    WebhookEvent,
    When,
)


@dataclass(frozen=True, kw_only=True)
class User:
    """A user."""

    id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Key:
    """An API key of a user at a provider, without the key itself."""

    provider: str
    sources_requested: int | None


@dataclass(frozen=True, kw_only=True)
class Token:
    """An access token without its secret."""

    id: str
    name: str
    scope: TokenScope
    user: str | None
    user_id: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class NewToken(Token):
    """A token that was just created, with its secret."""

    token: str


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """A change that a person has made, or a login."""

    at: datetime
    who: str
    action: str
    target: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """An endpoint that receives events, without its secret."""

    id: str
    podcast_id: str | None
    url: str
    events: tuple[WebhookEvent, ...]
    query: str | None
    enabled: bool
    disabled_reason: str | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class NewWebhook(Webhook):
    """A webhook that was just added, with its secret."""

    secret: str


@dataclass(frozen=True, kw_only=True)
class WebhookDelivery:
    """A message to an endpoint, and its result."""

    id: str
    webhook_id: str
    event: str
    payload: str
    created_at: datetime
    attempts: int
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    status: int | None
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One problem, from start to end."""

    id: str
    kind: IncidentKind
    severity: Severity
    title: str
    advice: str
    host: str | None
    source_ids: tuple[str, ...]
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """The poll of a host in progress; both fields are null if the source is another user's."""

    source_id: str | None
    url: str | None


@dataclass(frozen=True, kw_only=True)
class HostHold:
    """A time before which a host must not be contacted."""

    until: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host of the caller's sources or pages and the state of its lane."""

    host: str
    sources: int
    enabled: int
    failing: int
    lane_length: int
    pages_pending: int
    shared_requests: int
    in_flight: InFlight | None
    delay_seconds: float
    delay_origin: str
    hold: HostHold | None
    next_allowed_at: datetime | None
    last_success_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """The response of a host to one poll."""

    source_id: str
    started_at: datetime
    outcome: OutcomeKind
    status: int | None
    failure_type: FailureType | None
    failure_kind: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True)
class HostCard(Host):
    """A host of the caller's sources with its last responses."""

    last_answers: tuple[HostAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """The state of the scheduler."""

    paused: bool
    last_tick_at: datetime | None
    lane_count: int
    waiting: int
    in_flight: int
    outage: str | None
    outage_since: datetime | None
    cleanup_paused_until: datetime | None


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker of the cluster, from its last heartbeat."""

    id: str
    machine: str
    pid: int
    started_at: datetime
    seen_at: datetime
    silent: bool
    ticked_at: datetime | None
    draining: bool
    shards: int
    in_flight: int
    polls: int
    leases_lost: int
    lanes: int
    sources_waiting: int
    commits: int
    results: int
    results_waiting: int
    parse_kills: int
    ticks_failed: int
    loop_lag_max_seconds: float


@dataclass(frozen=True, kw_only=True)
class DrainedWorker(Worker):
    """A worker after a change of its draining."""

    warning: str | None


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers that share the database, and their backlog."""

    workers: tuple[Worker, ...]
    shards: int
    open_shards: int
    due: int
    overdue: int
    oldest_overdue_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check."""

    ok: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Liveness:
    """The process is alive."""

    status: Literal["ok"]
    version: str
    schema: int | None


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Polling works."""

    status: Literal["ready"]
    checks: dict[str, Check]


@dataclass(frozen=True, kw_only=True)
class LastNotice:
    """The last message that a channel was sent."""

    at: datetime
    event: str
    delivered: bool
    attempts: int
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Channel:
    """What every notification channel has."""

    when: When
    hour: int | None
    last: LastNotice | None


@dataclass(frozen=True, kw_only=True)
class EmailChannel(Channel):
    """Notifications by e-mail."""

    kind: Literal["email"]
    address: str


@dataclass(frozen=True, kw_only=True)
class NtfyChannel(Channel):
    """Notifications by ntfy."""

    kind: Literal["ntfy"]
    url: str


@dataclass(frozen=True, kw_only=True)
class WebhookChannel(Channel):
    """Notifications by a webhook."""

    kind: Literal["webhook"]
    id: str


@dataclass(frozen=True, kw_only=True)
class Notices:
    """The notification channels of a user."""

    channels: tuple[EmailChannel | NtfyChannel | WebhookChannel, ...]
