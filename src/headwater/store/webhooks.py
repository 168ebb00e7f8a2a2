"""Webhooks and the outbox of their messages, stored in the transactions that they report (V2)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import lru_cache
from itertools import islice

from headwater.errors import NotFound, UsageError
from headwater.model import Outcome, SealedSecret
from headwater.query.evaluator import matches
from headwater.query.parser import parse_filter
from headwater.rules.incidents import Incident
from headwater.rules.webhook_messages import (
    Happening,
    WebhookEvent,
    happenings,
    incident_happening,
    message_id,
    payload,
)
from headwater.store.api_keys import StoredKey, refuse_retired
from headwater.store.database import Row, Session, Tables, reads, reads_single, writes, writes_apart
from headwater.store.row_mapping import RowReader, columns, decoder, encoded, to_ms

MAX_WEBHOOKS = 50  # of a podcast, and for all podcasts
_MESSAGES_AT_ONCE = 200  # that are in memory, each with up to 20 kB (H1)
OWNER = "webhook"  # what secrets are bound to, together with the id of their webhook
_parsed_query = lru_cache(maxsize=256)(parse_filter)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint that receives events."""

    id: str
    podcast_id: str | None  # None: of all podcasts
    url: str
    events: tuple[WebhookEvent, ...]
    query: str | None
    enabled: bool
    disabled_reason: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A message to an endpoint, and its result."""

    number: int
    id: str
    webhook_id: str | None  # None: to a channel
    event: str
    payload: str
    created_at: datetime
    attempts: int = 0
    next_attempt_at: datetime | None = None
    delivered_at: datetime | None = None
    status: int | None = None
    error: str | None = None
    next_attempt_set_at: datetime | None = None  # when it began to wait for that (O4)


WEBHOOK_COLUMNS = [field.name for field in fields(Webhook)]
DELIVERY_COLUMNS = [field.name for field in fields(WebhookDelivery)]
_SECRET = "key_id, nonce, ciphertext"  # noqa: S105 - columns
_read_webhook = RowReader(
    "webhooks",
    {
        "id": None, "podcast_id": None, "url": None,
        "events": lambda text: tuple(WebhookEvent(name) for name in json.loads(text)),
        "query": None, "enabled": decoder(bool), "disabled_reason": None,
        "created_at": decoder(datetime),
    },
    Webhook,
)  # fmt: skip
_DELIVERY_TIMES = ("created_at", "next_attempt_at", "delivered_at", "next_attempt_set_at")
_read_delivery = RowReader(
    "deliveries",
    {name: decoder(datetime) if name in _DELIVERY_TIMES else None for name in DELIVERY_COLUMNS},
    WebhookDelivery,
)


def publish(session: Session, outcomes: Iterable[Outcome]) -> None:
    """Store messages about what these polls changed, in their transaction."""
    news = [o for o in outcomes if o.posts or o.disabled or o.recovered]
    if not news:
        return
    webhooks = _enabled(session)
    if not webhooks:
        return
    wanted = {webhook.podcast_id for webhook in webhooks}
    news = [o for o in news if None in wanted or o.source.podcast_id in wanted]
    reported = (happening for outcome in news for happening in happenings(outcome))
    at_once = max(_MESSAGES_AT_ONCE // len(webhooks), 1)
    while some := list(islice(reported, at_once)):
        ids = [happening.subject for happening in some if happening.post is not None]
        sql = "SELECT id FROM posts WHERE id IN :ids"
        stored = {row[0] for row in session.fetch(sql, {"ids": ids})} if ids else ()
        _add_messages(session, webhooks, [h for h in some if h.post is None or h.subject in stored])


def publish_incidents(session: Session, incidents: Sequence[Incident]) -> set[str]:
    """Store messages about incidents that begin or end, in their transaction (Y1).

    Webhooks of the podcasts whose sources it began with receive it, and those of all podcasts.
    Returns the ids of the messages.
    """
    sql = "SELECT podcast_id FROM incident_podcasts WHERE incident_id = :id"
    podcasts = {one.id: [row[0] for row in session.fetch(sql, {"id": one.id})] for one in incidents}
    return publish_others(session, [incident_happening(one, podcasts[one.id]) for one in incidents])


def publish_others(session: Session, reported: Sequence[Happening]) -> set[str]:
    """Store messages about events other than polls, in their transaction; return their ids."""
    webhooks = _enabled(session) if reported else []
    return _add_messages(session, webhooks, reported) if webhooks else set()


def _enabled(session: Session) -> list[Webhook]:
    sql = f"SELECT {columns(WEBHOOK_COLUMNS)} FROM webhooks WHERE enabled ORDER BY created_at, id"
    return _read_webhook.all(session.fetch(sql))


def _add_messages(
    session: Session, webhooks: Sequence[Webhook], reported: Iterable[Happening]
) -> set[str]:
    rows = []
    for happening in reported:
        receivers = [webhook for webhook in webhooks if _concerns(webhook, happening)]
        text = payload(happening.event, happening.at, happening.data) if receivers else ""
        rows += [
            message_row(webhook.id, happening.event, happening.subject, text, happening.at)
            for webhook in receivers
        ]
    if rows:
        session.insert_rows("deliveries", rows, "ON CONFLICT (id) DO NOTHING")
    return {str(row["id"]) for row in rows}


def _concerns(webhook: Webhook, happening: Happening) -> bool:
    if webhook.podcast_id is not None and webhook.podcast_id not in happening.podcast_ids:
        return False
    if happening.event not in webhook.events:
        return False
    if webhook.query is None or happening.post is None:
        return True
    return matches(_parsed_query(webhook.query), happening.post)


def message_row(
    webhook_id: str, event: str, subject: str, text: str, at: datetime
) -> dict[str, object]:
    """A message to a webhook, as it is stored."""
    return {
        "id": message_id(webhook_id, event, subject),
        "webhook_id": webhook_id,
        "event": str(event),
        "payload": text,
        "created_at": to_ms(at),
        "next_attempt_at": to_ms(at),
        "next_attempt_set_at": to_ms(at),
    }


def _row_of(webhook: Webhook) -> dict[str, object]:
    row = {name: encoded(getattr(webhook, name)) for name in WEBHOOK_COLUMNS}
    return row | {"events": json.dumps([event.value for event in webhook.events])}


def _add(session: Session, webhook: Webhook, sealed: SealedSecret) -> None:
    """Insert a webhook; UsageError if its podcast has too many."""
    same = "podcast_id = :podcast" if webhook.podcast_id is not None else "podcast_id IS NULL"
    sql = f"SELECT count(*) FROM webhooks WHERE {same}"
    if session.fetch(sql, {"podcast": webhook.podcast_id})[0][0] >= MAX_WEBHOOKS:
        raise UsageError(f"there are {MAX_WEBHOOKS} webhooks already; remove one first")
    session.insert_rows("webhooks", [_row_of(webhook) | asdict(sealed)])
    refuse_retired(session, sealed)


def _edit(session: Session, webhook: Webhook, sealed: SealedSecret | None) -> None:
    """Replace a webhook, and its secret if one is given."""
    _get(session, webhook.id, webhook.podcast_id)
    row = _row_of(webhook) | ({} if sealed is None else asdict(sealed))
    session.update_rows("webhooks", [row])
    if sealed is not None:
        refuse_retired(session, sealed)


def _remove(session: Session, webhook: Webhook) -> None:
    """Delete a webhook with its messages."""
    session.execute("DELETE FROM deliveries WHERE webhook_id = :id", {"id": webhook.id})
    session.execute("DELETE FROM webhooks WHERE id = :id", {"id": webhook.id})


def _get(session: Session, webhook_id: str, podcast_id: str | None) -> Webhook:
    """A webhook of a podcast, or one for all podcasts."""
    found = _listed(session, podcast_id, webhook_id)
    if not found:
        raise NotFound(f"there is no webhook {webhook_id}")
    return found[0]


def _listed(
    session: Session, podcast_id: str | None, webhook_id: str | None = None
) -> list[Webhook]:
    """The webhooks of a podcast, or those for all podcasts, oldest first."""
    where = "podcast_id = :podcast" if podcast_id is not None else "podcast_id IS NULL"
    where += " AND id = :id" if webhook_id is not None else ""
    sql = f"""SELECT {columns(WEBHOOK_COLUMNS)} FROM webhooks WHERE {where}
        ORDER BY created_at, id"""
    return _read_webhook.all(session.fetch(sql, {"podcast": podcast_id, "id": webhook_id}))


def _of_user(session: Session, user_id: str, *, for_all: bool) -> list[Webhook]:
    """The webhooks of a user's podcasts, and those for all podcasts if wanted, oldest first."""
    sql = f"""SELECT {columns(WEBHOOK_COLUMNS)} FROM webhooks
        WHERE podcast_id IN (SELECT id FROM podcasts WHERE user_id = :user)
        OR (podcast_id IS NULL AND :for_all) ORDER BY created_at, id"""
    return _read_webhook.all(session.fetch(sql, {"user": user_id, "for_all": for_all}))


def _disable(session: Session, webhook_id: str, reason: str) -> None:
    """Disable a webhook for a reason other than a person's wish."""
    sql = "UPDATE webhooks SET enabled = FALSE, disabled_reason = :reason WHERE id = :id"
    session.execute(sql, {"id": webhook_id, "reason": reason})


def _add_test(session: Session, webhook: Webhook, event: str, subject: str, at: datetime) -> str:
    """Store a test message and return its id."""
    text = payload(event, at, {"webhookId": webhook.id})
    row = message_row(webhook.id, event, subject, text, at)
    session.insert_rows("deliveries", [row])
    return str(row["id"])


def _deliveries(
    session: Session, webhook_id: str, *, limit: int, before: int | None = None
) -> list[WebhookDelivery]:
    """The messages to an endpoint, newest first."""
    older = " AND number < :before" if before is not None else ""
    sql = f"""SELECT {columns(DELIVERY_COLUMNS)} FROM deliveries
        WHERE webhook_id = :id{older} ORDER BY number DESC LIMIT :limit"""
    params = {"id": webhook_id, "before": before, "limit": limit}
    return _read_delivery.all(session.fetch(sql, params))


def _delivery(session: Session, webhook_id: str, delivery_id: str) -> WebhookDelivery:
    """One message to an endpoint."""
    sql = f"""SELECT {columns(DELIVERY_COLUMNS)} FROM deliveries
        WHERE id = :id AND webhook_id = :webhook"""
    rows = session.fetch(sql, {"id": delivery_id, "webhook": webhook_id})
    if not rows:
        raise NotFound(f"there is no delivery {delivery_id}")
    return _read_delivery.one(rows[0])


def _resend(session: Session, webhook_id: str, delivery_id: str, now: datetime) -> WebhookDelivery:
    """Send a message again, with the same id."""
    _delivery(session, webhook_id, delivery_id)
    sql = """UPDATE deliveries SET attempts = 0, next_attempt_at = :now,
        next_attempt_set_at = :now, delivered_at = NULL WHERE id = :id"""
    session.execute(sql, {"id": delivery_id, "now": to_ms(now)})
    return _delivery(session, webhook_id, delivery_id)


def _with_due(session: Session, now: datetime) -> list[str]:
    """The ids of enabled webhooks that have a message to send now."""
    sql = """SELECT w.id FROM webhooks w WHERE w.enabled AND EXISTS (
        SELECT 1 FROM deliveries d WHERE d.webhook_id = w.id AND d.next_attempt_at <= :now)"""
    return [row[0] for row in session.fetch(sql, {"now": to_ms(now)})]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An endpoint with its secret and the first messages to send now, in order."""

    webhook: Webhook
    sealed: SealedSecret
    deliveries: tuple[WebhookDelivery, ...]


def _outgoing(session: Session, webhook_id: str, now: datetime, limit: int) -> Outgoing | None:
    """What an endpoint is to be sent now; None if it is gone or disabled."""
    sql = f"""SELECT {_SECRET}, {columns(WEBHOOK_COLUMNS)} FROM webhooks
        WHERE id = :id AND enabled"""
    rows: list[Row] = session.fetch(sql, {"id": webhook_id})
    if not rows:
        return None
    sql = f"""SELECT {columns(DELIVERY_COLUMNS)} FROM deliveries
        WHERE webhook_id = :id AND next_attempt_at <= :now ORDER BY number LIMIT :limit"""
    params = {"id": webhook_id, "now": to_ms(now), "limit": limit}
    found = _read_delivery.all(session.fetch(sql, params))
    return Outgoing(_read_webhook.one(rows[0][3:]), SealedSecret(*rows[0][:3]), tuple(found))


def _record_attempts(session: Session, attempts: Sequence[WebhookDelivery]) -> None:
    """Store the results of attempts to deliver messages; a delivered one stays delivered."""
    names = (
        "id", "attempts", "next_attempt_at", "next_attempt_set_at", "delivered_at", "status",
        "error",
    )  # fmt: skip
    sql = f"""UPDATE deliveries SET {", ".join(f"{name} = :{name}" for name in names[1:])}
        WHERE id = :id AND delivered_at IS NULL"""
    rows = [{name: encoded(getattr(each, name)) for name in names} for each in attempts]
    session.execute_many(sql, rows)


def _restart_waits(session: Session, now: datetime, *, limit: int) -> int:
    """Let waits that began in the future, as the clock was set back, begin now (O4)."""
    sql = """UPDATE deliveries SET next_attempt_set_at = :now,
            next_attempt_at = :now + (next_attempt_at - next_attempt_set_at)
        WHERE number IN (
            SELECT d.number FROM webhooks w
            JOIN deliveries d ON d.webhook_id = w.id AND d.next_attempt_at > :now
            WHERE d.next_attempt_set_at > :now
            UNION ALL SELECT d.number FROM channels c
            JOIN deliveries d ON d.channel_id = c.id AND d.next_attempt_at > :now
            WHERE d.next_attempt_set_at > :now LIMIT :limit)"""
    return session.execute(sql, {"now": to_ms(now), "limit": limit})


def _not_sealed_with(
    session: Session, key_id: str, *, limit: int, after: tuple[str, str] = ("", "")
) -> list[StoredKey]:
    """Secrets encrypted with other master keys, by webhook."""
    sql = f"""SELECT {_SECRET}, id FROM webhooks WHERE key_id <> :key AND id > :after
        ORDER BY id LIMIT :limit"""
    rows = session.fetch(sql, {"key": key_id, "after": after[1], "limit": limit})
    return [StoredKey(OWNER, row[3], SealedSecret(*row[:3])) for row in rows]


def _reseal(session: Session, moved: Sequence[tuple[StoredKey, SealedSecret]]) -> int:
    """Store re-encrypted secrets except those changed meanwhile; return how many."""
    sql = """UPDATE webhooks SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext
        WHERE id = :id AND key_id = :old_id AND nonce = :old_nonce"""
    count = 0
    for before, sealed in moved:
        old = {"old_id": before.sealed.key_id, "old_nonce": before.sealed.nonce}
        count += session.execute(sql, asdict(sealed) | old | {"id": before.provider})
    return count


def _key_ids(session: Session) -> set[str]:
    """The ids of all master keys in use."""
    return {row[0] for row in session.fetch("SELECT DISTINCT key_id FROM webhooks")}


class Webhooks(Tables):
    """The webhooks table and the outbox of its messages."""

    add = writes(_add)
    edit = writes(_edit)
    remove = writes(_remove)
    get = reads(_get)
    listed = reads(_listed)
    of_user = reads(_of_user)
    disable = writes_apart(_disable)
    add_test = writes(_add_test)
    deliveries = reads(_deliveries)
    delivery = reads(_delivery)
    resend = writes(_resend)
    with_due = reads_single(_with_due)
    outgoing = reads(_outgoing)
    record_attempts = writes_apart(_record_attempts)
    restart_waits = writes_apart(_restart_waits)
    not_sealed_with = reads_single(_not_sealed_with)
    reseal = writes(_reseal)
    key_ids = reads_single(_key_ids)
