"""Events: what happened, for whoever listens."""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from headwater.clock import Clock
from headwater.model import Outcome, Subject


class EventKind(StrEnum):
    """What can happen."""

    POLL_STARTED = "poll.started"
    POLL_FINISHED = "poll.finished"
    POST_CREATED = "post.created"  # told once for all new posts of a poll
    SOURCE_DISABLED = "source.disabled"
    SOURCE_RECOVERED = "source.recovered"
    TICK = "tick"
    OUTAGE = "outage"


class Event(NamedTuple):
    """One thing that happened; a tuple, as every poll makes some and a dataclass takes thrice."""

    kind: EventKind
    at: datetime
    subject: Subject | None = None  # the source as its poll found it, and whose it is
    outcome: Outcome | None = None
    text: str | None = None
    seconds: float | None = None  # that a tick took, or that a source was due until its poll

    @property
    def source_id(self) -> str | None:
        """The source that this is about."""
        return None if self.subject is None else self.subject.source.id

    @property
    def podcast_id(self) -> str | None:
        """The podcast of that source."""
        return None if self.subject is None else self.subject.source.podcast_id

    @property
    def user_id(self) -> str | None:
        """The owner of that source, who alone may know of it (U2)."""
        return None if self.subject is None else self.subject.user_id


Listener = Callable[[Event], None]


class Events:
    """Tells every listener, at once and in order; a listener must neither block nor raise."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[EventKind, tuple[Listener, ...]] = {}

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len({id(one) for many in self._listeners.values() for one in many})

    def listen(
        self, listener: Listener, kinds: Iterable[EventKind] = EventKind
    ) -> Callable[[], None]:
        """Add a listener to events of some kinds, or all; call the answer to remove it.

        What nobody listens to costs nothing, and every poll has something to tell.
        """
        for kind in kinds:
            # made anew with every change, so that telling need not copy it
            self._listeners[kind] = (*self._listeners.get(kind, ()), listener)
        return lambda: self._forget(listener)

    def tell(
        self,
        kind: EventKind,
        subject: Subject | None = None,
        *,
        outcome: Outcome | None = None,
        text: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """Pass on what happened."""
        if self._listeners.get(kind):
            self.pass_on(Event(kind, self._clock.now(), subject, outcome, text, seconds))

    def pass_on(self, event: Event) -> None:
        """Tell of something that happened here or elsewhere."""
        for listener in self._listeners.get(event.kind, ()):
            listener(event)

    def _forget(self, listener: Listener) -> None:
        for kind, known in self._listeners.items():
            # bound methods are made anew each time they are looked up, so equality counts
            self._listeners[kind] = tuple(other for other in known if other != listener)
