"""Messages of webhooks: their content and signature, as Standard Webhooks has it (V2)."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headwater.errors import UsageError
from headwater.model import Outcome, Post, Source
from headwater.query.evaluator import Searchable, SearchableSource
from headwater.rules.admission import timestamp
from headwater.rules.incidents import Incident
from headwater.rules.retention import post_expires_at
from headwater.rules.url_secrets import masked

MAX_PAYLOAD_BYTES = 20_480
SECRET_PREFIX = "whsec_"  # noqa: S105 - no secret
SECRET_BYTES = range(24, 65)
TEST_EVENT = "webhook.test"
# fields of a post: its texts, and what the API does not have
_LEFT_OUT = ("body", "markdown", "page_text", "is_linked", "kept_until", "conversation_id")
_MAX_TEXT = 300  # characters of a field, in a message that is too long otherwise


class WebhookEvent(StrEnum):
    """What a webhook can report."""

    POST_CREATED = "post.created"
    SOURCE_DISABLED = "source.disabled"
    SOURCE_RECOVERED = "source.recovered"
    INCIDENT_OPENED = "incident.opened"
    INCIDENT_CLOSED = "incident.closed"
    ARTICLES_EXPIRING = "articles.expiring"


@dataclass(frozen=True, slots=True)
class Happening:
    """Something to report: the event, what it is about, and the data of the message."""

    event: WebhookEvent
    podcast_ids: Collection[str]  # webhooks of these podcasts, and those of all, receive it
    subject: str  # makes the id of the message unique together with the event
    data: Mapping[str, Any]
    at: datetime
    post: Searchable | None = None  # for the query of a webhook


def happenings(outcome: Outcome) -> Iterator[Happening]:
    """What a poll reports, in order."""
    source = outcome.source
    searchable = SearchableSource(source.id, source.label, source.title, source.url, source.type)
    # the same time for all of a poll: a retried transaction stores the same messages
    at = outcome.started_at
    for post in outcome.posts:
        if post.filtered_by is None:  # B2
            yield _of_post(outcome, searchable, post, at)
    changes = (
        (outcome.disabled, WebhookEvent.SOURCE_DISABLED),
        (outcome.recovered, WebhookEvent.SOURCE_RECOVERED),
    )
    for applies, event in changes:
        if applies:
            subject = f"{source.id} {timestamp(at)}"
            yield Happening(event, (source.podcast_id,), subject, source_data(source), at)


def _of_post(outcome: Outcome, searchable: SearchableSource, post: Post, at: datetime) -> Happening:
    podcast_id = outcome.source.podcast_id
    item = Searchable(
        searchable,
        post.title,
        post.body,
        post.url,
        post.published_at or post.created_at,
        author=post.author,
        categories=post.categories,
        language=post.language,
        completeness=post.completeness,
    )
    data = {"podcastId": podcast_id, **post_data(post, outcome.article_age)}
    return Happening(WebhookEvent.POST_CREATED, (podcast_id,), post.id, data, at, item)


def incident_happening(incident: Incident, podcast_ids: Collection[str]) -> Happening:
    """The beginning or end of an incident that concerns these podcasts (Y1)."""
    event, at = WebhookEvent.INCIDENT_OPENED, incident.opened_at
    if incident.closed_at is not None:
        event, at = WebhookEvent.INCIDENT_CLOSED, incident.closed_at
    data = {
        "id": incident.id,
        "kind": incident.kind.value,
        "severity": incident.severity.value,
        "title": incident.title,
        "advice": incident.advice,
        "host": incident.host,
        "sourceIds": list(incident.source_ids),
        "openedAt": incident.opened_at,
        "closedAt": incident.closed_at,
    }
    return Happening(event, podcast_ids, incident.id, data, at)


def expiring_happening(
    podcast_id: str, until: datetime, at: datetime, *, articles: int, posts: int
) -> Happening:
    """Items of a podcast that expire before `until` and were not reported yet (E5)."""
    data = {"podcastId": podcast_id, "articles": articles, "posts": posts}
    subject = f"{podcast_id} {timestamp(until)}"
    return Happening(WebhookEvent.ARTICLES_EXPIRING, (podcast_id,), subject, data, at)


def post_data(post: Post, age: timedelta | None) -> dict[str, Any]:
    """The fields of a post as in the API, without its texts; `age`: the age limit."""
    shown = {shown: getattr(post, name) for shown, name in _POST_FIELDS}
    return shown | {"expiresAt": None if age is None else post_expires_at(post, age)}


def source_data(source: Source) -> dict[str, Any]:
    """The source in a message."""
    return {
        "id": source.id,
        "podcastId": source.podcast_id,
        "label": source.label or source.title,
        "type": source.type.value,
        "url": masked(source.url),
        "consecutiveFailures": source.consecutive_failures,
        "lastError": source.last_error,
        "disabledReason": source.disabled_reason,
    }


def payload(event: str, at: datetime, data: Mapping[str, Any]) -> str:
    """The body of a message, at most MAX_PAYLOAD_BYTES: long fields are cut, `truncated` is set."""
    text = _json(event, at, data)
    if len(text.encode()) <= MAX_PAYLOAD_BYTES:
        return text
    without_lists = {n: [] if isinstance(v, list | tuple) else v for n, v in data.items()}
    text = _json(event, at, without_lists | {"truncated": True})
    if len(text.encode()) <= MAX_PAYLOAD_BYTES:
        return text
    short = {n: v[:_MAX_TEXT] if isinstance(v, str) else v for n, v in without_lists.items()}
    return _json(event, at, short | {"truncated": True})


def _json(event: str, at: datetime, data: Mapping[str, Any]) -> str:
    return _encoder.encode({"type": event, "timestamp": timestamp(at), "data": data})


def _plain(value: Any) -> Any:
    """What JSON has no value for: a time, or a dataclass as an object."""
    if isinstance(value, datetime):
        return timestamp(value)
    return {_camel(field.name): getattr(value, field.name) for field in fields(value)}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
_POST_FIELDS = [(_camel(one.name), one.name) for one in fields(Post) if one.name not in _LEFT_OUT]


def message_id(webhook_id: str, event: str, subject: str) -> str:
    """The id of a message: the same however often it is stored or sent."""
    digest = hashlib.sha256(f"{webhook_id} {event} {subject}".encode()).hexdigest()
    return f"msg_{digest[:32]}"


def secret_bytes(text: str) -> bytes:
    """The key in a secret such as `whsec_…`; UsageError if it is malformed, too short or long."""
    try:
        if not text.startswith(SECRET_PREFIX):
            raise ValueError(text)
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"a secret is {SECRET_PREFIX} and Base64", field="secret") from None
    if len(key) not in SECRET_BYTES:
        least, most = SECRET_BYTES[0], SECRET_BYTES[-1]
        problem = f"a secret has {least} to {most} bytes, this one has {len(key)}"
        raise UsageError(problem, field="secret")
    return key


def secret_text(key: bytes) -> str:
    """A key as a secret for people."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def signed_headers(key: bytes, id_: str, at: datetime, body: str) -> dict[str, str]:
    """The headers of a message: its id, the time it is sent, and the signature of all three."""
    seconds = str(int(at.timestamp()))
    digest = hmac.digest(key, f"{id_}.{seconds}.{body}".encode(), "sha256")
    return {
        "webhook-id": id_,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def known_events(names: Iterable[str]) -> tuple[WebhookEvent, ...]:
    """Events by name, each once; UsageError for an unknown one or none."""
    events = tuple(WebhookEvent)
    found = list(dict.fromkeys(names))
    for name in found:
        if name not in [event.value for event in events]:
            known = ", ".join(events)
            raise UsageError(f"there is no event {name!r}; there are: {known}", field="events")
    if not found:
        raise UsageError("choose at least one event", field="events")
    return tuple(WebhookEvent(name) for name in found)
