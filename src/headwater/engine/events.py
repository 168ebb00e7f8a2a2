"""Events: what happened in the service, passed to listeners in this process."""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from headwater.clock import Clock
from headwater.model import Outcome, Podcast, Subject
from headwater.rules.incidents import Incident
from headwater.store.expiry import ExpiringCounts


class EventKind(StrEnum):
    """The kinds of events."""

    POLL_STARTED = "poll.started"
    POLL_FINISHED = "poll.finished"
    POST_CREATED = "post.created"  # one event for all new posts of a poll
    SOURCE_DISABLED = "source.disabled"
    SOURCE_RECOVERED = "source.recovered"
    ARTICLES_EXPIRING = "articles.expiring"  # one event for all of a podcast
    TICK = "tick"
    OUTAGE = "outage"
    INCIDENT_OPENED = "incident.opened"
    INCIDENT_CLOSED = "incident.closed"


class Event(NamedTuple):
    """One event; a tuple, which is three times as fast to create as a dataclass."""

    kind: EventKind
    at: datetime
    subject: Subject | None = None  # the source as its poll found it, and its owner
    outcome: Outcome | None = None
    text: str | None = None
    seconds: float | None = None  # duration of a tick, or how long a source was due
    incident: Incident | None = None
    podcast: Podcast | None = None  # of an event without a source
    expiring: ExpiringCounts | None = None

    @property
    def source_id(self) -> str | None:
        """The id of its source."""
        return None if self.subject is None else self.subject.source.id

    @property
    def podcast_id(self) -> str | None:
        """The id of its podcast, or of its source's."""
        if self.podcast is not None:
            return self.podcast.id
        return None if self.subject is None else self.subject.source.podcast_id

    @property
    def user_id(self) -> str | None:
        """The owner of its source or podcast, the only user who may see it (U2)."""
        if self.podcast is not None:
            return self.podcast.user_id
        return None if self.subject is None else self.subject.user_id


Listener = Callable[[Event], None]


class Events:
    """Calls every listener, at once and in order; a listener must neither block nor raise."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[EventKind, tuple[Listener, ...]] = {}

    @property
    def listeners(self) -> int:
        """How many listeners there are."""
        return len({id(one) for many in self._listeners.values() for one in many})

    def listen(
        self, listener: Listener, kinds: Iterable[EventKind] = EventKind
    ) -> Callable[[], None]:
        """Add a listener for events of these kinds; call the result to remove it.

        Events without a listener are not created: every poll emits some.
        """
        for kind in kinds:
            # a new tuple for every change: emitting need not copy it
            self._listeners[kind] = (*self._listeners.get(kind, ()), listener)

        def remove() -> None:
            for kind, known in self._listeners.items():
                # each access creates a new bound method: compare by equality
                self._listeners[kind] = tuple(other for other in known if other != listener)

        return remove

    def emit(
        self,
        kind: EventKind,
        subject: Subject | None = None,
        *,
        outcome: Outcome | None = None,
        text: str | None = None,
        seconds: float | None = None,
        incident: Incident | None = None,
        podcast: Podcast | None = None,
        expiring: ExpiringCounts | None = None,
    ) -> None:
        """Create an event and pass it to the listeners of its kind."""
        if self._listeners.get(kind):
            now = self._clock.now()
            event = Event(kind, now, subject, outcome, text, seconds, incident, podcast, expiring)
            self.forward(event)

    def forward(self, event: Event) -> None:
        """Pass an event of this or another process to the listeners of its kind."""
        for listener in self._listeners.get(event.kind, ()):
            listener(event)
