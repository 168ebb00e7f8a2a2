"""Channels: where users get messages about incidents, with the outbox that webhooks use (Y3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from headwater.errors import NotFound, UsageError
from headwater.rules.channels import Channel, ChannelChoice, ChannelKind, due_at
from headwater.rules.incidents import Incident
from headwater.rules.webhook_messages import incident_happening, message_id, payload
from headwater.store import webhooks
from headwater.store.database import (
    Session,
    Tables,
    reads,
    reads_single,
    writes,
    writes_apart,
)
from headwater.store.row_mapping import RowReader, columns, decoder, encoded, row_reader, to_ms
from headwater.store.webhooks import DELIVERY_COLUMNS, WebhookDelivery

OF_SERVICE = "default"  # the user who receives problems of the whole service
_MOST_PENDING = 200  # messages that are sent together
_COLUMNS = "id, user_id, kind, coalesce(target, webhook_id), is_digest, hour, created_at"
_read_channel = row_reader(Channel, "channels")
_read_delivery = RowReader(
    "deliveries",
    {name: decoder(datetime) if name.endswith("_at") else None for name in DELIVERY_COLUMNS},
    WebhookDelivery,
)


def publish_incidents(session: Session, incidents: Sequence[Incident]) -> None:
    """Store messages about incidents that begin or end, in their transaction (Y1, Y3).

    Each channel gets one message when an incident begins and one when it ends. An end alone is not
    reported: the channel must have existed at the beginning. A webhook that is informed by its own
    events gets no digest of them either.
    """
    if not incidents:
        return
    informed = webhooks.publish_incidents(session, incidents)
    channels = _read_channel.all(session.fetch(f"SELECT {_COLUMNS} FROM channels FOR KEY SHARE"))
    rows = []
    for incident in incidents:
        happening = incident_happening(incident, ())
        at = happening.at
        text = payload(happening.event, at, happening.data)
        for channel in channels:
            id_ = message_id(channel.target, happening.event, incident.id)
            if id_ in informed or not _concerns(channel, incident):
                continue
            row = webhooks.message_row(channel.id, happening.event, incident.id, text, at)
            due = to_ms(due_at(channel, at))
            rows.append(
                row | {"webhook_id": None, "channel_id": channel.id, "next_attempt_at": due}
            )
    if rows:
        session.insert_rows("deliveries", rows, "ON CONFLICT (id) DO NOTHING")


def _concerns(channel: Channel, incident: Incident) -> bool:
    if incident.closed_at is not None and channel.created_at > incident.opened_at:
        return False
    owner = OF_SERVICE if incident.user_id is None else incident.user_id
    return channel.user_id in (None, owner)


def _listed(session: Session, user_id: str) -> list[Channel]:
    """The channels of a user, in their order."""
    sql = f"SELECT {_COLUMNS} FROM channels WHERE user_id = :user ORDER BY place, id"
    return _read_channel.all(session.fetch(sql, {"user": user_id}))


def _replace(
    session: Session, user_id: str | None, chosen: Sequence[ChannelChoice], now: datetime
) -> None:
    """Replace the channels of a user, or those of the configuration; equal ones stay what they are.

    Messages that were not sent yet follow a changed hour; those of a removed channel are deleted.
    """
    where = "user_id IS NULL" if user_id is None else "user_id = :user"
    lock = "SELECT id FROM users WHERE id = :user FOR NO KEY UPDATE"
    if user_id is not None and not session.fetch(lock, {"user": user_id}):
        raise NotFound(f"there is no user {user_id!r}")
    sql = f"SELECT {_COLUMNS} FROM channels WHERE {where}"
    stored = _read_channel.all(session.fetch(sql, {"user": user_id}))
    known = {(one.kind, one.target): one for one in stored}
    for place, choice in enumerate(chosen):
        if choice.kind is ChannelKind.WEBHOOK:
            _require_webhook(session, user_id, choice.target)
        old = known.pop((choice.kind, choice.target), None)
        if old is None:
            session.insert_rows("channels", [_new_row(user_id, choice, place, now)])
            continue
        sql = """UPDATE channels SET is_digest = :digest, hour = :hour, place = :place
            WHERE id = :id"""
        params = {"id": old.id, "digest": choice.is_digest, "hour": choice.hour, "place": place}
        session.execute(sql, params)
        if (old.is_digest, old.hour) != (choice.is_digest, choice.hour):
            sql = """UPDATE deliveries SET next_attempt_at = :due
                WHERE channel_id = :id AND next_attempt_at IS NOT NULL AND attempts = 0"""
            due = to_ms(due_at(choice, now))
            session.execute(sql, {"id": old.id, "due": due})
    for gone in known.values():
        session.execute("DELETE FROM channels WHERE id = :id", {"id": gone.id})


def _require_webhook(session: Session, user_id: str | None, webhook_id: str) -> None:
    """Raise UsageError unless it is a webhook of the user; OF_SERVICE has those of all podcasts."""
    sql = """SELECT 1 FROM webhooks w LEFT JOIN podcasts p ON p.id = w.podcast_id
        WHERE w.id = :id AND coalesce(p.user_id, :operator) = :user"""
    if not session.fetch(sql, {"id": webhook_id, "operator": OF_SERVICE, "user": user_id}):
        raise UsageError(f"there is no webhook {webhook_id}", field="id")


def _new_row(
    user_id: str | None, choice: ChannelChoice, place: int, now: datetime
) -> dict[str, object]:
    is_webhook = choice.kind is ChannelKind.WEBHOOK
    return {
        "id": str(uuid4()),
        "user_id": user_id,
        "kind": choice.kind.value,
        "target": None if is_webhook else choice.target,
        "webhook_id": choice.target if is_webhook else None,
        "is_digest": choice.is_digest,
        "hour": choice.hour,
        "place": place,
        "created_at": to_ms(now),
    }


def _with_due(session: Session, now: datetime) -> list[str]:
    """The ids of channels that have a message to send now."""
    sql = """SELECT DISTINCT d.channel_id FROM deliveries d
        JOIN channels c ON c.id = d.channel_id LEFT JOIN webhooks w ON w.id = c.webhook_id
        WHERE d.channel_id IS NOT NULL AND d.next_attempt_at <= :now
        AND (w.id IS NULL OR w.enabled)"""
    return [row[0] for row in session.fetch(sql, {"now": to_ms(now)})]


@dataclass(frozen=True, slots=True)
class PendingNotices:
    """A channel with everything that it has not received yet, in order."""

    channel: Channel
    deliveries: tuple[WebhookDelivery, ...]


def _pending(session: Session, channel_id: str) -> PendingNotices | None:
    """What a channel is to receive, also what waits for a retry or an hour; None: nothing.

    Together, because the end of a problem must not overtake its beginning.
    """
    found = session.fetch(f"SELECT {_COLUMNS} FROM channels WHERE id = :id", {"id": channel_id})
    sql = f"""SELECT {columns(DELIVERY_COLUMNS)} FROM deliveries
        WHERE channel_id = :id AND next_attempt_at IS NOT NULL ORDER BY number LIMIT :most"""
    rows = session.fetch(sql, {"id": channel_id, "most": _MOST_PENDING})
    if not found or not rows:
        return None
    return PendingNotices(_read_channel.one(found[0]), tuple(_read_delivery.all(rows)))


def _add_results(session: Session, results: Sequence[tuple[Channel, WebhookDelivery]]) -> None:
    """Store messages that were sent at once, such as tests, with their results."""
    listed = {row[0] for row in session.fetch("SELECT id FROM channels FOR KEY SHARE")}
    names = [name for name in DELIVERY_COLUMNS if name != "number"]
    rows = [
        {name: encoded(getattr(result, name)) for name in names} | {"channel_id": channel.id}
        for channel, result in results
        if channel.id in listed
    ]
    if rows:
        session.insert_rows("deliveries", rows)


def _last_results(session: Session, user_id: str) -> dict[str, WebhookDelivery]:
    """The newest message of each channel that was sent at least once, by channel."""
    sql = f"""SELECT {columns(DELIVERY_COLUMNS, "d")}, d.channel_id FROM deliveries d
        WHERE d.number IN (
            SELECT max(m.number) FROM deliveries m JOIN channels c ON c.id = m.channel_id
            WHERE c.user_id = :user AND m.attempts > 0 GROUP BY m.channel_id)"""
    rows = session.fetch(sql, {"user": user_id})
    return {row[-1]: _read_delivery.one(row[:-1]) for row in rows}


class Channels(Tables):
    """The channels of users and of the configuration, and their messages."""

    listed = reads(_listed)
    replace = writes(_replace)
    replace_configured = writes_apart(_replace)
    with_due = reads_single(_with_due)
    pending = reads(_pending)
    add_results = writes(_add_results)
    last_results = reads(_last_results)
