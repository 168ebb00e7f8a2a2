"""MemoryWebhooks and MemoryChannels: an in-memory outbox with three receivers (V2, Y3)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from headwater.model import SealedSecret
from headwater.rules.channels import Channel, ChannelChoice, ChannelKind, due_at
from headwater.rules.incidents import Incident
from headwater.rules.webhook_messages import (
    Happening,
    WebhookEvent,
    incident_happening,
    message_id,
    payload,
)
from headwater.simulation.message_checks import MessageChecks
from headwater.simulation.virtual_loop import START
from headwater.store.channels import PendingNotices
from headwater.store.webhooks import Outgoing, Webhook, WebhookDelivery

POSTS, AT_ONCE, DAILY = "posts", "at-once", "daily"
DIGEST_HOUR = 8
_EVENTS = {
    POSTS: (
        WebhookEvent.POST_CREATED,
        WebhookEvent.SOURCE_DISABLED,
        WebhookEvent.SOURCE_RECOVERED,
    ),
    AT_ONCE: (WebhookEvent.ARTICLES_EXPIRING,),  # incidents reach it through its channel
    DAILY: (WebhookEvent.ARTICLES_EXPIRING,),
}
_MOST_PENDING = 200


class MemoryWebhooks:
    """Three webhooks; two of them are receivers of channels."""

    def __init__(self, checks: MessageChecks) -> None:
        self._checks = checks
        self._webhooks = {
            id_: Webhook(id_, None, f"https://{id_}.receiver.example/", events, None, True, None,
                         START)
            for id_, events in _EVENTS.items()
        }  # fmt: skip
        self._waiting: dict[str, dict[str, WebhookDelivery]] = {id_: {} for id_ in _EVENTS}
        self._ids: set[str] = set()
        self._number = 0

    def publish(self, reported: Iterable[Happening]) -> None:
        """Store messages about what a poll changed, together with the poll."""
        for one in reported:
            if one.event in _EVENTS[POSTS]:
                self.add(POSTS, one, one.at)

    def add(self, receiver: str, happening: Happening, due: datetime) -> None:
        """Store a message."""
        id_ = message_id(receiver, happening.event, happening.subject)
        if id_ in self._ids:
            return
        self._ids.add(id_)
        self._number += 1
        self._waiting[receiver][id_] = WebhookDelivery(
            self._number,
            id_,
            receiver,
            happening.event,
            payload(happening.event, happening.at, happening.data),
            happening.at,
            next_attempt_at=due,
            next_attempt_set_at=happening.at,
        )
        self._checks.stored(receiver, id_, happening.event, happening.subject, due)

    def waiting(self, receiver: str) -> list[WebhookDelivery]:
        """Return what a receiver has not received yet, in order."""
        return list(self._waiting[receiver].values())

    def has_due(self, receiver: str, now: datetime) -> bool:
        """Return whether there is a message to send now."""
        return any(_is_due(one, now) for one in self._waiting[receiver].values())

    async def with_due(self, now: datetime) -> list[str]:
        """Return the webhooks that have a message to send now."""
        return [POSTS] if self.has_due(POSTS, now) else []

    async def outgoing(self, webhook_id: str, now: datetime, limit: int) -> Outgoing | None:
        """Return what a webhook is to be sent now."""
        due = [one for one in self._waiting[webhook_id].values() if limit and _is_due(one, now)]
        secret = SealedSecret("key", b"", b"")
        return Outgoing(self._webhooks[webhook_id], secret, tuple(due[:limit]))

    async def record_attempts(self, attempts: Sequence[WebhookDelivery]) -> None:
        """Store the results of attempts; a message that is over does not wait any more."""
        for one in attempts:
            receiver = one.webhook_id or ""
            self._checks.attempted(receiver, one)
            if one.next_attempt_at is None:
                self._waiting[receiver].pop(one.id, None)
            else:
                self._waiting[receiver][one.id] = one

    async def disable(self, webhook_id: str, _reason: str) -> None:
        """Fail: no simulated receiver responds with 410."""
        raise NotImplementedError(webhook_id)

    async def restart_waits(self, now: datetime, *, limit: int) -> int:
        """Let waits that began in the future, as the clock was set back, begin now (O4)."""
        count = 0
        for waiting in self._waiting.values():
            for id_, one in waiting.items():
                at, set_at = one.next_attempt_at, one.next_attempt_set_at
                if at is None or set_at is None or not (at > now < set_at) or count >= limit:
                    continue
                count += 1
                waiting[id_] = replace(
                    one, next_attempt_at=now + (at - set_at), next_attempt_set_at=now
                )
        return count


class MemoryChannels:
    """Two channels: one reports incidents at once, the other once a day."""

    def __init__(self, webhooks: MemoryWebhooks) -> None:
        self._webhooks = webhooks
        kind = ChannelKind.WEBHOOK
        self._channels = {
            AT_ONCE: Channel(AT_ONCE, None, kind, AT_ONCE, False, None, START),
            DAILY: Channel(DAILY, None, kind, DAILY, True, DIGEST_HOUR, START),
        }

    def publish(self, incidents: Sequence[Incident]) -> None:
        """Store messages about incidents that begin or end, together with them."""
        for incident in incidents:
            happening = incident_happening(incident, ())
            for channel in self._channels.values():
                self._webhooks.add(channel.id, happening, due_at(channel, happening.at))

    async def replace_configured(
        self, _user_id: None, chosen: Sequence[ChannelChoice], _now: datetime
    ) -> None:
        """Do nothing: the configuration has no channel."""
        if chosen:
            raise NotImplementedError(chosen)

    async def with_due(self, now: datetime) -> list[str]:
        """Return the channels that have a message to send now."""
        return [id_ for id_ in self._channels if self._webhooks.has_due(id_, now)]

    async def pending(self, channel_id: str) -> PendingNotices | None:
        """Return all that a channel has not received yet; None: nothing."""
        found = self._webhooks.waiting(channel_id)[:_MOST_PENDING]
        return PendingNotices(self._channels[channel_id], tuple(found)) if found else None


def _is_due(delivery: WebhookDelivery, now: datetime) -> bool:
    return delivery.next_attempt_at is not None and delivery.next_attempt_at <= now
