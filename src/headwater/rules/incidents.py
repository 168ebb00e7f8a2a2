"""Incidents: which problems there are, from stored data; when each begins and ends (Y1).

An incident is one problem of one user's sources on one host, or a problem of the whole service.
Conditions that end an incident differ from those that begin it: a source that fails now and then
opens and closes none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from headwater.rules.admission import timed_id
from headwater.rules.incident_texts import SourceState, texts

SELECTOR_POLLS = 3
REJECTED_KINDS = frozenset({"401", "403", "429", "503"})
REJECTING_AFTER = timedelta(hours=6)
STALLED_SECONDS = 60.0  # results, or queries of the scheduler, that wait for this long
_FLOWING_SECONDS = 8.0  # the incident ends when the oldest has waited for less than this
_LITTLE_FREE_BYTES = 500 * 1024**2
_ENOUGH_FREE_BYTES = 750 * 1024**2


class IncidentKind(StrEnum):
    """The kinds of problems."""

    DISABLED = "disabled"  # auto-disabled (F3)
    FAILING = "failing"
    SELECTOR = "selector"
    REJECTING = "rejecting"
    STORM = "storm"
    SILENT = "silent"
    OUTAGE = "outage"
    STORING = "storing"
    DISK = "disk"


class Severity(StrEnum):
    """How bad an incident is; the texts sort worst first."""

    ERROR = "error"
    WARNING = "warning"


_OF_SERVICE = (IncidentKind.OUTAGE, IncidentKind.STORING, IncidentKind.DISK)
_WARNINGS = (IncidentKind.SILENT, IncidentKind.STORM, IncidentKind.DISK)


@dataclass(frozen=True, slots=True)
class IncidentKey:
    """What identifies an open incident: there is one at a time."""

    kind: IncidentKind
    user_id: str | None = None  # None: of the whole service
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """One problem, from start to end."""

    id: str
    kind: IncidentKind
    severity: Severity
    user_id: str | None
    host: str | None
    title: str
    advice: str
    opened_at: datetime
    closed_at: datetime | None = None
    source_ids: tuple[str, ...] = ()  # those that have the problem; at the end, those that had it

    @property
    def key(self) -> IncidentKey:
        """What identifies it while it is open."""
        return IncidentKey(self.kind, self.user_id, self.host)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The stored data that incidents follow from."""

    incidents: Sequence[Incident]  # that are open
    sources: Sequence[SourceState]  # with a problem, or part of an open incident
    working: frozenset[tuple[str, str | None]] = frozenset()  # user and host of recent successes
    storms: frozenset[str] = frozenset()  # hosts of failure storms (Y6)
    succeeded_at: datetime | None = None  # when the newest successful poll began
    free_bytes: int | None = None  # on the disk of the database; None: not known


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of the process that polls; None: not known in this process."""

    outage: bool | None = None
    waiting_seconds: float | None = None  # of the oldest result that is not stored
    stalled_since: datetime | None = None  # when results began to wait too long, if not stored yet


@dataclass(frozen=True, slots=True)
class IncidentChanges:
    """What has to be stored."""

    opened: list[Incident] = field(default_factory=list)
    updated: list[Incident] = field(default_factory=list)  # other sources, or other texts
    closed: list[Incident] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.opened or self.updated or self.closed)


def incident_changes(
    evidence: Evidence, service: ServiceState, now: datetime, *, failing_hours: int
) -> IncidentChanges:
    """The incidents that begin, change and end now."""
    failing_after = timedelta(hours=failing_hours)
    wanted = _of_sources(evidence, now, failing_after)
    found = {key: _incident(key, states, now) for key, states in wanted.items()}
    is_open = {incident.key: incident for incident in evidence.incidents}
    for kind in _OF_SERVICE:
        key = IncidentKey(kind)
        begins_at = _of_service(kind, is_open.get(key), evidence, service, now)
        if begins_at is not None:
            found[key] = _incident(key, (), begins_at)
    changes = IncidentChanges()
    for key, incident in found.items():
        known = is_open.get(key)
        if known is None:
            changes.opened.append(incident)
        elif (after := replace(incident, id=known.id, opened_at=known.opened_at)) != known:
            changes.updated.append(after)
    changes.closed.extend(
        replace(incident, closed_at=now) for key, incident in is_open.items() if key not in found
    )
    return changes


def _incident(key: IncidentKey, states: Sequence[SourceState], opened_at: datetime) -> Incident:
    shown = sorted(states, key=lambda state: state.id)
    title, advice = texts(key.kind, key.host, shown)
    return Incident(
        id=timed_id(opened_at, key.user_id or "", f"{key.kind} {key.host}"),
        kind=key.kind,
        severity=Severity.WARNING if key.kind in _WARNINGS else Severity.ERROR,
        user_id=key.user_id,
        host=key.host,
        title=title,
        advice=advice,
        opened_at=opened_at,
        source_ids=tuple(state.id for state in shown),
    )


def _of_sources(
    evidence: Evidence, now: datetime, failing_after: timedelta
) -> Mapping[IncidentKey, list[SourceState]]:
    """The sources with each problem; a failing source has one at a time, until it recovers."""
    current = {
        id_: incident.key
        for incident in evidence.incidents
        if incident.kind not in (*_OF_SERVICE, IncidentKind.SILENT)
        for id_ in incident.source_ids
    }
    rejecting = _rejecting(evidence, now)
    found: dict[IncidentKey, list[SourceState]] = {}
    for state in evidence.sources:
        place = (state.user_id, state.host)
        if state.silent_since is not None and state.enabled:
            found.setdefault(IncidentKey(IncidentKind.SILENT, *place), []).append(state)
        if not state.is_failing:
            continue
        key = current.get(state.id)
        kind = _failure_kind(state, now, failing_after, is_rejected=place in rejecting)
        is_stormy = state.host in evidence.storms
        if is_stormy and not state.auto_disabled:
            kind = IncidentKind.STORM
        # after a long storm, sources that were not polled yet are not reported a second time
        left_storm = key is not None and key.kind is IncidentKind.STORM and not is_stormy
        if left_storm and kind is not IncidentKind.FAILING:
            key = None
        if key is None and kind is not None:
            key = IncidentKey(kind, *place)
        if key is not None:
            found.setdefault(key, []).append(state)
    return found


def _failure_kind(
    state: SourceState, now: datetime, failing_after: timedelta, *, is_rejected: bool
) -> IncidentKind | None:
    """The problem of a failing source that is part of no incident yet."""
    if state.auto_disabled:
        return IncidentKind.DISABLED
    if state.kinds[:SELECTOR_POLLS] == ("selector",) * SELECTOR_POLLS:
        return IncidentKind.SELECTOR
    if is_rejected and _is_rejected(state, now):
        return IncidentKind.REJECTING
    since = state.failing_since
    if since is not None and now - since >= failing_after:
        return IncidentKind.FAILING
    return None


def _rejecting(evidence: Evidence, now: datetime) -> set[tuple[str, str | None]]:
    """User and host where every source has been rejected for six hours."""
    rejected: set[tuple[str, str | None]] = set()
    others: set[tuple[str, str | None]] = set()
    for state in evidence.sources:
        if state.is_failing:
            group = rejected if _is_rejected(state, now) else others
            group.add((state.user_id, state.host))
    return rejected - others - evidence.working


def _is_rejected(state: SourceState, now: datetime) -> bool:
    since = state.failing_since
    is_long = since is not None and now - since >= REJECTING_AFTER
    return is_long and bool(state.kinds) and state.kinds[0] in REJECTED_KINDS


def _of_service(
    kind: IncidentKind,
    known: Incident | None,
    evidence: Evidence,
    service: ServiceState,
    now: datetime,
) -> datetime | None:
    """When a problem of the whole service began; None: there is none."""
    since = now if known is None else known.opened_at
    match kind:
        case IncidentKind.OUTAGE:
            lasts = service.outage
            if known is not None and not lasts:  # a restart alone is not an end
                succeeded_at = evidence.succeeded_at
                lasts = None if succeeded_at is None or succeeded_at < since else lasts
        case IncidentKind.STORING:
            limit = STALLED_SECONDS if known is None else _FLOWING_SECONDS
            waiting = service.waiting_seconds
            lasts = None if waiting is None else waiting >= limit
            if known is None and service.stalled_since is not None:
                lasts, since = True, service.stalled_since
        case _:
            limit = _LITTLE_FREE_BYTES if known is None else _ENOUGH_FREE_BYTES
            lasts = None if evidence.free_bytes is None else evidence.free_bytes < limit
    if lasts is None:  # not known here: nothing begins or ends
        lasts = known is not None
    return since if lasts else None


def worst_first(incidents: Iterable[Incident]) -> list[Incident]:
    """Incidents by severity, then the oldest first (Y2)."""
    return sorted(incidents, key=lambda one: (one.severity, one.opened_at, one.id))
