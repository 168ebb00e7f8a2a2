"""IncidentWatch: opens and closes incidents, regularly and after relevant changes (Y1)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.clock import Clock
from headwater.engine.events import Event, EventKind, Events
from headwater.logs import get_logger
from headwater.rules.incidents import (
    STALLED_SECONDS,
    Incident,
    IncidentChanges,
    ServiceState,
    incident_changes,
)
from headwater.rules.policy import Policy
from headwater.store import Store

log = get_logger()
CHECK_SECONDS = 1.0  # how soon a change is noticed
_SHARE = 0.01  # of the time may be spent on checks
_RELEVANT = (EventKind.SOURCE_DISABLED, EventKind.SOURCE_RECOVERED, EventKind.OUTAGE)


class IncidentWatch:
    """Compares the stored incidents with the stored data."""

    def __init__(
        self,
        store: Store,
        events: Events,
        clock: Clock,
        policy: Policy,
        *,
        every_seconds: float,
        service: Callable[[], ServiceState],
    ) -> None:
        self._store = store
        self._events = events
        self._clock = clock
        self._policy = policy
        self._every_seconds = every_seconds
        self._service = service
        self._next_at = float("-inf")  # the next regular check
        self._earliest_at = float("-inf")  # earlier ones would take too much time
        self._is_changed = False  # something relevant happened since the last check
        self._changes_by_people = 0
        self._stalled_since: datetime | None = None  # results wait too long; not stored yet
        self.unstored: Sequence[Incident] = ()  # begun, while the database cannot be written to
        events.listen(self._on_event, _RELEVANT)

    def _on_event(self, _event: Event) -> None:
        self._is_changed = True

    async def check_if_needed(self) -> None:
        """Check at regular intervals, and after a person or a poll changed something relevant."""
        at, by_people = self._clock.monotonic(), self._store.audit.changes
        is_changed = self._is_changed or by_people != self._changes_by_people
        if at < self._earliest_at or (at < self._next_at and not is_changed):
            return
        self._is_changed, self._changes_by_people = False, by_people
        await self.check()
        ended = self._clock.monotonic()
        self._next_at = ended + self._every_seconds
        self._earliest_at = ended + (ended - at) / _SHARE

    async def check(self) -> None:
        """Store the incidents that begin, change and end now, and emit their events."""
        changes = await planned_changes(
            self._store, self._policy, self._clock.now(), self._service_state()
        )
        if changes:
            self.unstored = changes.opened
            changes = await self._store.incidents.apply(changes)
        self.unstored, self._stalled_since = (), None
        for incident in changes.opened:
            self._publish(EventKind.INCIDENT_OPENED, incident, "[Incident] opened")
        for incident in changes.closed:
            self._publish(EventKind.INCIDENT_CLOSED, incident, "[Incident] closed")

    def _service_state(self) -> ServiceState:
        state, now = self._service(), self._clock.now()
        waiting = state.waiting_seconds or 0.0
        if waiting >= STALLED_SECONDS and self._stalled_since is None:
            self._stalled_since = now - timedelta(seconds=waiting)
        return replace(state, stalled_since=self._stalled_since)

    def _publish(self, kind: EventKind, incident: Incident, text: str) -> None:
        log.warning(text, kind=incident.kind.value, host=incident.host, title=incident.title)
        self._events.emit(kind, incident=incident)


async def planned_changes(
    store: Store, policy: Policy, now: datetime, service: ServiceState
) -> IncidentChanges:
    """The incidents that begin, change and end now."""
    hours = policy.failing_hours
    evidence = await store.incidents.evidence(now, hours)
    return incident_changes(evidence, service, now, failing_hours=hours)
