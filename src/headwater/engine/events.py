"""Events: what happened, for whoever listens."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headwater.clock import Clock
from headwater.model import Outcome


class EventKind(StrEnum):
    """What can happen."""

    POLL_STARTED = "poll.started"
    POLL_FINISHED = "poll.finished"
    SOURCE_DISABLED = "source.disabled"
    SOURCE_RECOVERED = "source.recovered"
    TICK = "tick"
    OUTAGE = "outage"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    kind: EventKind
    at: datetime
    source_id: str | None = None
    outcome: Outcome | None = None
    text: str | None = None


class Events:
    """Tells every listener, at once and in order; a listener must neither block nor raise."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: list[Callable[[Event], None]] = []

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Add a listener; call the answer to remove it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(
        self,
        kind: EventKind,
        *,
        source_id: str | None = None,
        outcome: Outcome | None = None,
        text: str | None = None,
    ) -> None:
        """Pass on what happened."""
        if self._listeners:
            event = Event(kind, self._clock.now(), source_id, outcome, text)
            for listener in list(self._listeners):
                listener(event)
