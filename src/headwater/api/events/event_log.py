"""EventLog: a bounded, numbered buffer of the newest events, for streams to read and resume."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from sys import getsizeof
from typing import Any, NamedTuple

from headwater.api.schemas.service_outputs import IncidentOut
from headwater.api.schemas.source_outputs import PollOut
from headwater.clock import Clock
from headwater.engine.events import Event, EventKind, Events
from headwater.model import SkipReason
from headwater.operations.manual_polls import report_of

_EVENT_BYTES = 800  # memory of one event: its dictionary, ids, timestamps and short texts
_MAX_DIGITS = 18
# alias and name; a model for every poll would take five times as long
_INCIDENT_FIELDS = [(field.alias or name, name) for name, field in IncidentOut.model_fields.items()]
_POLL_FIELDS = [(field.alias or name, name) for name, field in PollOut.model_fields.items()]


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Capacity of the log."""

    most_events: int = 10_000
    most_bytes: int = 16_777_216


class LoggedEvent(NamedTuple):
    """A stored event, without references to outcomes, sources or bodies."""

    number: int
    kind: EventKind
    data: dict[str, Any]  # as streams send it, but with datetime objects and unmasked URLs
    size: int


class EventLog:
    """The newest events within the limits, and the number of open streams."""

    def __init__(
        self,
        events: Events,
        clock: Clock,
        limits: EventLimits | None = None,
        *,
        most_streams_per_user: int,
    ) -> None:
        self.clock = clock
        self.limits = limits or EventLimits()
        self.most_streams_per_user = most_streams_per_user
        self.open_streams: Counter[str | None] = Counter()  # by user; None: all administrators
        self.run = str(round(clock.now().timestamp() * 1000))  # marks the ids of this process
        self.newest = 0  # the number of the newest event
        self.size = 0
        self.new_event = asyncio.Event()
        self.closed = asyncio.Event()
        self._dropped = 0  # the number of the newest dropped event
        self._events: deque[LoggedEvent] = deque()
        self._stop_listening = events.listen(self._on_event)

    def __len__(self) -> int:
        """The number of stored events."""
        return self.newest - self._dropped

    def close(self) -> None:
        """Stop recording and end every stream."""
        self._stop_listening()
        self.closed.set()

    def id_of(self, number: int) -> str:
        """The public id of an event."""
        return f"{self.run}-{number}"

    def resume_after(self, last_id: str | None) -> tuple[int, str | None]:
        """The number after which a client resumes, and why it missed events, if it did."""
        if not last_id:
            return self.newest, None
        run, _, digits = last_id.partition("-")
        known = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
        if run != self.run or not known or int(digits) > self.newest:
            return self.newest, "the id is unknown; the service may have been restarted"
        if not self.has_all_after(int(digits)):
            return self.newest, "events after this id are no longer stored"
        return int(digits), None

    def has_all_after(self, number: int) -> bool:
        """Whether all events after this number are stored."""
        return number >= self._dropped

    def after(self, number: int, most: int) -> Sequence[LoggedEvent]:
        """At most `most` events after this number, oldest first."""
        first = max(number - self._dropped, 0)
        return list(islice(self._events, first, first + most))

    def _on_event(self, event: Event) -> None:
        about: dict[str, Any] = {"at": event.at}
        if event.subject is not None:
            source = event.subject.source
            about |= {
                "sourceId": source.id,
                "podcastId": source.podcast_id,
                "userId": event.user_id,
                "url": source.url,
                "host": source.host,
            }
        if event.kind is not EventKind.POST_CREATED or event.outcome is None:
            self._store(event.kind, about | _details(event))
            return
        posts = event.outcome.posts
        beyond = len(posts) - self.limits.most_events
        if beyond > 0:  # more than the log can hold: do not process the others (H2)
            self._events.clear()
            self.size = 0
            self.newest += beyond
            self._dropped = self.newest
            posts = posts[beyond:]
        for post in posts:
            brief = {
                "id": post.id,
                "seq": post.seq,
                "title": post.title,
                "url": post.url,
                "publishedAt": post.published_at,
                "author": post.author,
                "contentHash": post.content_hash,
                "createdAt": post.created_at,
                "language": post.language,
                "imageUrl": post.image_url,
                "completeness": post.completeness,
                "textFrom": post.text_from,
            }
            self._store(event.kind, about | brief)

    def _store(self, kind: EventKind, data: dict[str, Any]) -> None:
        size = _EVENT_BYTES + getsizeof(data.get("url")) + getsizeof(data.get("title"))
        self.newest += 1
        self.size += size
        self._events.append(LoggedEvent(self.newest, kind, data, size))
        limits = self.limits
        while len(self) > limits.most_events or self.size > limits.most_bytes:
            oldest = self._events.popleft()
            self._dropped = oldest.number
            self.size -= oldest.size
        self.new_event.set()


def _details(event: Event) -> dict[str, Any]:
    """What an event has beyond its time and its source."""
    outcome = event.outcome
    match event.kind:
        case EventKind.ARTICLES_EXPIRING if event.expiring is not None:
            owner = {"podcastId": event.podcast_id, "userId": event.user_id}
            return {**owner, "articles": event.expiring.articles, "posts": event.expiring.posts}
        case EventKind.TICK:
            return {"sources": int(event.text or 0)}
        case EventKind.OUTAGE:
            return {"kind": event.text}
        case EventKind.INCIDENT_OPENED | EventKind.INCIDENT_CLOSED if event.incident is not None:
            incident = event.incident
            data = {alias: getattr(incident, name) for alias, name in _INCIDENT_FIELDS}
            return data | {"userId": incident.user_id}
        case EventKind.SOURCE_DISABLED if outcome is not None:
            return {"disabledReason": outcome.source.disabled_reason}
        case EventKind.POLL_FINISHED if outcome is not None:
            report = report_of(outcome)
            data = {alias: getattr(report, name) for alias, name in _POLL_FIELDS}
            return data | {"skipped": {**dict.fromkeys(SkipReason, 0), **report.skipped}}
    return {}
