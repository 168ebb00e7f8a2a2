"""IncidentChecks: each problem opens one incident, which closes once, when it is over (Y1)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from headwater.model import EPOCH, Outcome
from headwater.rules.incidents import Incident, IncidentChanges, IncidentKey, IncidentKind
from headwater.simulation.checker_state import CheckerState, SourceRecord, StormVerdict
from headwater.simulation.storm_checks import StormChecks
from headwater.simulation.virtual_hosts import VisitResult

_GRACE_SECONDS = 2.0
_TOLERANCE = timedelta(seconds=1)
_REJECTED = ("401", "403", "429", "503")
_REJECTING_AFTER = timedelta(hours=6)
_LEAST_POSTS, _MOST_POSTS = 10, 50
_LEAST_SILENCE = timedelta(days=7)
_OUTAGE = IncidentKey(IncidentKind.OUTAGE)


@dataclass(slots=True)
class ProblemRecord:
    """What is wrong with a source, by its polls."""

    since: datetime | None = None  # its first failure after the last success
    changed_at: float = 0.0  # when it was stored last
    kind: str | None = None  # of its last failure
    was_reported: bool = False  # this failure is, or was, part of an incident other than a storm
    published: list[datetime] = field(default_factory=list)


class IncidentChecks:
    """Compares incidents with the problems of sources."""

    def __init__(self, state: CheckerState, storms: StormChecks, tick_seconds: float) -> None:
        self._state = state
        self._storms = storms
        self._faults = state.fault_history
        self._grace = tick_seconds + _GRACE_SECONDS
        self._failing_after = timedelta(hours=state.policy.failing_hours)
        self._problems: dict[str, ProblemRecord] = {}  # by source, once there was one
        self._open: dict[IncidentKey, Incident] = {}
        self.opened: list[Incident] = []
        self.closed: list[Incident] = []
        self.failures_begun = self.failures_ended = 0  # of single sources

    def stored(self, record: SourceRecord, result: VisitResult, outcome: Outcome) -> None:
        """Note the result of a poll."""
        posts = [post.published_at for post in outcome.posts if post.published_at is not None]
        known = self._problems.get(record.id)
        if known is None and not posts and result.kind == "ok":
            return  # most polls
        problem = self._problems.setdefault(record.id, ProblemRecord())
        problem.kind = result.kind
        self._update(record, problem)
        last_polled = record.source.last_polled or EPOCH
        minutes = {at.replace(second=0, microsecond=0) for at in posts if at <= last_polled}
        problem.published = sorted(minutes.union(problem.published))[-_MOST_POSTS:]

    def edited(self, record: SourceRecord) -> None:
        """Note that something other than a poll changed a source."""
        problem = self._problems.get(record.id)
        if problem is not None:
            self._update(record, problem)

    def changed(self, changes: IncidentChanges) -> None:
        """Check incidents that begin, change and end."""
        for incident in changes.closed:
            known = self._open.pop(incident.key, None)
            self.closed.append(incident)
            if known is None:
                self._wrong(incident, "it closed twice")
            elif self._lasts(incident.key, known.source_ids):
                self._wrong(incident, "it closed, but the problem lasts")
        for incident in changes.opened:
            self.opened.append(incident)
            if incident.key in self._open:
                self._wrong(incident, "it opened twice")
            self._check_sources(incident, incident.source_ids)
            self._open[incident.key] = incident
        for incident in changes.updated:
            before = set(self._open[incident.key].source_ids)
            self._open[incident.key] = incident
            gone = before.difference(incident.source_ids)
            if self._lasts(incident.key, sorted(gone)):
                self._wrong(incident, f"one of {sorted(gone)} left it and still has the problem")
            self._check_sources(incident, sorted(set(incident.source_ids) - before))

    def check_all(self) -> None:
        """Find problems without an incident, and incidents without a problem."""
        at, faults = self._state.clock.monotonic(), self._faults
        since = at - self._grace
        if not faults.up or max(faults.up_since, faults.clock_changed_at) > since:
            return
        if faults.outage is not None and faults.outage_at < since and _OUTAGE not in self._open:
            self._state.violate("Y1", "", "", "an outage has no incident")
        failing, silent = self._members()
        for id_, problem in self._problems.items():
            record = self._state.sources[id_]
            if problem.changed_at > since:
                continue
            if self._must_be_reported(record, problem) and id_ not in failing:
                self._missed(record, f"it fails since {problem.since}")
            if self._is_silent(record, problem) and id_ not in silent:
                self._missed(record, f"it is silent since {problem.published[-1]}")
            if id_ in failing and not _is_failing(record):
                self._missed(record, "it works and is part of an incident")

    def _members(self) -> tuple[set[str], set[str]]:
        """Return the sources of incidents about failures, and those of silent ones."""
        failing, silent = set[str](), set[str]()
        for key, incident in self._open.items():
            group = silent if key.kind is IncidentKind.SILENT else failing
            group.update(incident.source_ids)
        return failing, silent

    def _update(self, record: SourceRecord, problem: ProblemRecord) -> None:
        problem.changed_at = self._state.clock.monotonic()
        if not record.source.consecutive_failures:
            self.failures_ended += problem.since is not None
            problem.since, problem.was_reported = None, False
        elif problem.since is None:
            self.failures_begun += 1
            problem.since = record.source.last_polled

    def _check_sources(self, incident: Incident, added: tuple[str, ...] | list[str]) -> None:
        """Check that sources that become part of an incident have its problem."""
        if incident.key == _OUTAGE and self._faults.outage is None:
            self._wrong(incident, "there is no outage")
        for id_ in added:
            record, problem = self._state.sources[id_], self._problems.get(id_)
            if problem is None or not self._has(incident.kind, record, problem):
                self._wrong(incident, f"{id_} does not have this problem")
                return
            if incident.kind in (IncidentKind.SILENT, IncidentKind.STORM):
                continue
            if problem.was_reported:
                self._wrong(incident, f"the failure of {id_} was reported before")
            problem.was_reported = True

    def _has(self, kind: IncidentKind, record: SourceRecord, problem: ProblemRecord) -> bool:
        """Whether a source has a problem that opens an incident of this kind."""
        now, since = self._state.clock.now(), problem.since
        length = timedelta() if since is None else now - since + _TOLERANCE
        match kind:
            case IncidentKind.DISABLED:
                return _is_auto_disabled(record)
            case IncidentKind.FAILING:
                return _is_failing(record) and length >= self._failing_after
            case IncidentKind.REJECTING:
                rejected = problem.kind in _REJECTED and length >= _REJECTING_AFTER
                return rejected and not self._is_answered(record, now)
            case IncidentKind.STORM:
                is_stormy = self._storms.lasts(record) is not StormVerdict.NO
                # one that never succeeded is part of it once it would have an incident of its own
                is_long = length >= min(self._failing_after, _REJECTING_AFTER)
                is_member = record.source.first_poll_done or is_long
                return is_stormy and _is_failing(record) and is_member
            case IncidentKind.SILENT:
                return self._is_silent(record, problem)
        return False

    def _is_answered(self, record: SourceRecord, now: datetime) -> bool:
        """Whether a source of the same host succeeded within six hours."""
        since = now - _REJECTING_AFTER
        others = (one.source for one in self._state.sources.values() if one.source.enabled)
        host = record.source.host
        successes = (one.last_success_at for one in others if one.host == host)
        return any(at is not None and at >= since + _TOLERANCE for at in successes)

    def _must_be_reported(self, record: SourceRecord, problem: ProblemRecord) -> bool:
        """Whether a source must be part of an incident about failures."""
        if _is_auto_disabled(record):
            return True
        if problem.since is None or not _is_failing(record):
            return False
        is_in_storm = self._storms.has_lasted(record, self._grace)
        if is_in_storm and record.source.first_poll_done:
            return True
        grace = timedelta(seconds=self._grace)
        if self._state.clock.now() - problem.since > self._failing_after + grace:
            return True
        return self._is_rejecting(record.source.host, grace)

    def _is_rejecting(self, host: str | None, grace: timedelta) -> bool:
        """Whether a host has surely rejected all its sources for six hours."""
        since = self._state.clock.now() - _REJECTING_AFTER - grace
        if host is None or "/" in host:
            return False
        for record in self._state.sources.values():
            source, problem = record.source, self._problems.get(record.id)
            if source.host != host:
                continue
            is_rejected = problem is not None and problem.kind in _REJECTED
            began_at = None if problem is None else problem.since
            is_long = _is_failing(record) and began_at is not None and began_at < since
            if _is_auto_disabled(record) or (source.enabled and not (is_rejected and is_long)):
                return False
        return True

    def _lasts(self, key: IncidentKey, source_ids: tuple[str, ...] | list[str]) -> bool:
        """Whether one of the sources of an incident still has its problem."""
        if key == _OUTAGE:
            return self._faults.outage is not None
        records = [self._state.sources[id_] for id_ in source_ids]
        if key.kind is IncidentKind.SILENT:
            return any(self._is_silent(one, self._problems[one.id]) for one in records)
        if key.kind is IncidentKind.STORM:
            records = [one for one in records if self._storms.lasts(one) is StormVerdict.YES]
        return any(_is_failing(one) for one in records)

    def _is_silent(self, record: SourceRecord, problem: ProblemRecord) -> bool:
        """Whether a source that used to publish has published nothing for long."""
        times, succeeded_at = problem.published, record.source.last_success_at
        if len(times) < _LEAST_POSTS or succeeded_at is None or not record.source.enabled:
            return False
        longest = max(after - before for before, after in pairwise(times))
        silent_at = times[-1] + max(_LEAST_SILENCE, 3 * longest)
        return silent_at < min(succeeded_at, self._state.clock.now())

    def _wrong(self, incident: Incident, what: str) -> None:
        first = incident.source_ids[0] if incident.source_ids else ""
        lane = self._state.sources[first].lane if first else ""
        self._state.violate("Y1", lane, first, f"incident {incident.title!r}: {what}")

    def _missed(self, record: SourceRecord, what: str) -> None:
        self._state.violate("Y1", record.lane, record.id, f"{record.id}: {what}")


def _is_failing(record: SourceRecord) -> bool:
    is_polled = record.source.enabled and record.source.consecutive_failures > 0
    return is_polled or _is_auto_disabled(record)


def _is_auto_disabled(record: SourceRecord) -> bool:
    return record.source.disabled_reason is not None and not record.source.enabled
