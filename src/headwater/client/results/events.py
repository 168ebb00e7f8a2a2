"""What the event stream reports."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.client.results.choices import Completeness, EventKind, TextFrom
from headwater.client.results.service import Incident
from headwater.client.results.sources import Poll


@dataclass(frozen=True, kw_only=True)
class EventData:
    """What every event has: when it happened."""

    at: datetime


@dataclass(frozen=True, kw_only=True)
class SourceEventData(EventData):
    """What every event of a source has."""

    source_id: str
    podcast_id: str
    user_id: str
    url: str
    host: str | None


@dataclass(frozen=True, kw_only=True)
class PollStartedEvent(SourceEventData):
    """A poll started."""


@dataclass(frozen=True, kw_only=True)
class PollFinishedEvent(SourceEventData, Poll):
    """A poll finished, with its outcome."""


@dataclass(frozen=True, kw_only=True)
class PostCreatedEvent(SourceEventData):
    """A post was stored."""

    id: str
    title: str
    published_at: datetime | None
    author: str | None
    content_hash: str
    created_at: datetime
    seq: int | None
    language: str | None
    image_url: str | None
    completeness: Completeness | None
    text_from: TextFrom | None


@dataclass(frozen=True, kw_only=True)
class SourceDisabledEvent(SourceEventData):
    """Failures disabled a source."""

    disabled_reason: str | None


@dataclass(frozen=True, kw_only=True)
class SourceRecoveredEvent(SourceEventData):
    """A source succeeded after failures."""


@dataclass(frozen=True, kw_only=True)
class ArticlesExpiringEvent(EventData):
    """Unprocessed articles or posts in no article of a podcast expire within a day."""

    podcast_id: str
    user_id: str
    articles: int
    posts: int


@dataclass(frozen=True, kw_only=True)
class TickEvent(EventData):
    """The scheduler searched for due sources."""

    sources: int


@dataclass(frozen=True, kw_only=True)
class OutageEvent(EventData):
    """A network outage of the service's machine began; ended, if `kind` is None."""

    kind: str | None


@dataclass(frozen=True, kw_only=True)
class IncidentOpenedEvent(Incident):
    """A problem began."""

    at: datetime


@dataclass(frozen=True, kw_only=True)
class IncidentClosedEvent(Incident):
    """A problem ended."""

    at: datetime


@dataclass(frozen=True, kw_only=True)
class ResetEvent(EventData):
    """Events were missed; reload what depends on them."""

    reason: str


AnyEventData = (
    PollStartedEvent
    | PollFinishedEvent
    | PostCreatedEvent
    | SourceDisabledEvent
    | SourceRecoveredEvent
    | ArticlesExpiringEvent
    | TickEvent
    | OutageEvent
    | IncidentOpenedEvent
    | IncidentClosedEvent
    | ResetEvent
)
EVENT_TYPES: dict[str, type[AnyEventData]] = {
    "poll.started": PollStartedEvent,
    "poll.finished": PollFinishedEvent,
    "post.created": PostCreatedEvent,
    "source.disabled": SourceDisabledEvent,
    "source.recovered": SourceRecoveredEvent,
    "articles.expiring": ArticlesExpiringEvent,
    "tick": TickEvent,
    "outage": OutageEvent,
    "incident.opened": IncidentOpenedEvent,
    "incident.closed": IncidentClosedEvent,
    "reset": ResetEvent,
}


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event of the stream. `data` is a dictionary if the client does not know its kind."""

    id: str
    event: EventKind | str
    data: AnyEventData | dict[str, Any]
