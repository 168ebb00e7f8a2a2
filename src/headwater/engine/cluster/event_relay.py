"""EventRelay: sends the events of a worker to API servers, encoded as short JSON texts."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import TypeAdapter, ValidationError

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind, Events
from headwater.engine.service import UNKNOWN_POST
from headwater.model import Outcome, Podcast, Post, Source, Subject, Validators, changed
from headwater.rules.incidents import Incident
from headwater.store.expiry import ExpiringCounts
from headwater.store.postgres import NotifyChannel

RELAY_SECONDS = 0.2
MAX_BYTES = 7900  # of a notification; PostgreSQL allows 8000
_POSTS_PER_EVENT = 8
_MAX_TITLE = 200
_MOST_SOURCES = 50  # of an incident
_BATCH = 1000  # more would block the event loop (H2)
_MAX_PENDING = 10_000
_KEPT_FOR = timedelta(seconds=3)  # without listeners: a new one may still need them


class EventRelay:
    """Buffers events and sends them in batches; without a database the oldest are lost."""

    def __init__(self, channel: NotifyChannel, events: Events, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._pending: deque[Event] = deque(maxlen=_MAX_PENDING)
        self.has_listeners = False  # whether any API server listens
        events.listen(self._add)

    async def send(self) -> None:
        """Send the next batch; without listeners, drop events older than 3 s."""
        if self.has_listeners:
            count = min(len(self._pending), _BATCH)
            events = [self._pending.popleft() for _ in range(count)]
            if events:
                await self._channel.send(list(encode_events(events)))
            return
        oldest = self._clock.now() - _KEPT_FOR
        while self._pending and self._pending[0].at < oldest:
            self._pending.popleft()

    def _add(self, event: Event) -> None:
        self._pending.append(event)
        if not self.has_listeners and len(self._pending) > _BATCH:
            self._pending.popleft()


@dataclass(frozen=True, slots=True)
class _Message:
    kind: EventKind
    at: datetime
    user_id: str | None = None
    source: Source | None = None
    outcome: Outcome | None = None
    new_posts: int = 0
    text: str | None = None
    seconds: float | None = None
    incident: Incident | None = None
    podcast: Podcast | None = None
    expiring: ExpiringCounts | None = None


_one, _many = TypeAdapter(_Message), TypeAdapter(list[_Message])


def encode_events(events: Iterable[Event]) -> Iterator[str]:
    """Events as few texts, each short enough for a notification; longer events are left out."""
    batch, free = list[bytes](), MAX_BYTES
    for event in events:
        for message in _messages(event):
            text = _one.dump_json(message, exclude_defaults=True)
            if len(text) + 1 > free and batch:
                yield f"[{b','.join(batch).decode()}]"
                batch, free = [], MAX_BYTES
            if len(text) + 2 <= MAX_BYTES:  # else its URLs are too long
                batch.append(text)
                free -= len(text) + 1
    if batch:
        yield f"[{b','.join(batch).decode()}]"


def decode_events(text: str) -> list[Event]:
    """The events of a text; none if another program wrote it."""
    try:
        return [_event(message) for message in _many.validate_json(text)]
    except ValidationError:
        return []


def _messages(event: Event) -> Iterator[_Message]:
    source = None if event.subject is None else _short(event.subject.source)
    message = _Message(
        event.kind,
        event.at,
        event.user_id,
        source,
        text=event.text,
        seconds=event.seconds,
        incident=event.incident
        and replace(event.incident, source_ids=event.incident.source_ids[:_MOST_SOURCES]),
        podcast=event.podcast,
        expiring=event.expiring,
    )
    outcome = event.outcome
    if outcome is None:
        yield message
        return
    left_out = {"posts": (), "late_keys": None, "visits": (), "hold": None, "fence": None}
    short = {"before": _short(outcome.before), "source": _short(outcome.source)}
    bare = changed(outcome, short | left_out)
    if event.kind is not EventKind.POST_CREATED:
        yield replace(message, outcome=bare, new_posts=len(outcome.posts))
        return
    for first in range(0, len(outcome.posts), _POSTS_PER_EVENT):
        some = outcome.posts[first : first + _POSTS_PER_EVENT]
        posts = tuple(_short_post(post) for post in some)
        yield replace(message, outcome=replace(bare, posts=posts))


def _short_post(post: Post) -> Post:
    """A post without its text and lists, which events do not have."""
    return replace(
        post, title=post.title[:_MAX_TITLE], body="", markdown=None, enclosures=(), categories=()
    )


def _short(source: Source) -> Source:
    """A source without the state that only polls need."""
    return changed(
        source, {"validators": Validators(), "body_hash": None, "seen_keys": (), "hold": None}
    )


def _event(message: _Message) -> Event:
    subject = None
    if message.source is not None and message.user_id is not None:
        subject = Subject(message.source, message.user_id)
    outcome = message.outcome
    if outcome is not None and message.new_posts:
        outcome = replace(outcome, posts=(UNKNOWN_POST,) * message.new_posts)
    return Event(
        message.kind,
        message.at,
        subject,
        outcome,
        message.text,
        message.seconds,
        message.incident,
        message.podcast,
        message.expiring,
    )
