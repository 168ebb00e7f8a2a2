"""StormChecks: which failures are the fault of a host, by a second version of the rule (Y6)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from headwater.model import FailureType
from headwater.simulation.checker_state import (
    CheckerState,
    FailureCounts,
    SourceRecord,
    StormVerdict,
    VisitAnswer,
)
from headwater.simulation.virtual_hosts import VisitResult

_WINDOW = timedelta(hours=1)
_WINDOW_SECONDS = _WINDOW.total_seconds()
_SETTLED_SECONDS = _WINDOW_SECONDS + 120.0  # after a clock change: a tick corrects times first
_GRACE_SECONDS = 2.0
_LEAST_SOURCES = 3
_LEAST_PERCENT = 60  # of the addresses that were polled


class ObservedFailure(NamedTuple):
    """A permanent failure that was counted."""

    at: float
    kind: str
    before: FailureCounts
    after: FailureCounts


@dataclass(slots=True)
class HostRecord:
    """The sources of a host, and its storm."""

    sources: list[SourceRecord] = field(default_factory=list)
    stormy_since: float | None = None
    began_at: datetime | None = None  # its last storm, by the wall clock
    is_finished: bool = True  # its end was stored
    over_at: float | None = (
        None  # when a success ended it, until the polls of its sources are checked
    )
    to_retry: set[str] = field(default_factory=set)  # sources that fail since the storm
    # by source: the counts without the failures of a storm that begins
    restored: dict[str, FailureCounts] = field(default_factory=dict)
    must_restore: bool = False
    may_begin: bool = False  # a storm, with the visit that ended last


class StormChecks:
    """Compares counted failures with those of other sources of the same host."""

    def __init__(self, state: CheckerState, tick_seconds: float) -> None:
        self._state = state
        self._grace = tick_seconds + _GRACE_SECONDS
        self._faults = state.fault_history
        self._hosts: dict[str | None, HostRecord] = {}
        self._counted: dict[str, list[ObservedFailure]] = {}  # by source, one after another

    def verdict(self, record: SourceRecord, result: VisitResult) -> StormVerdict:
        """Return whether a storm explains the failure of a visit that ends now."""
        if not result.permanent or record.source.host is None:
            return StormVerdict.NO
        host, at = self._host(record), self._state.clock.monotonic()
        host.restored, host.must_restore, host.may_begin = {}, False, False
        if self.lasts(record) is StormVerdict.YES:
            return StormVerdict.YES
        runs = self._recent_runs(host, result.kind, at)
        failing = {self._state.sources[id_].source.url for id_ in runs} | {record.source.url}
        is_storm = len(failing) >= _LEAST_SOURCES and self._is_most(host, failing)
        host.restored = self._restored(runs, result.kind)
        if host.stormy_since is not None or self._is_unsettled(at):
            host.may_begin = True
            return StormVerdict.MAYBE
        host.must_restore = host.may_begin = is_storm
        return StormVerdict.YES if is_storm else StormVerdict.NO

    def verdict_for(self, record: SourceRecord, answer: VisitAnswer) -> StormVerdict:
        """Return whether a storm explains the failure of one source that made or shared a visit.

        A source that has not succeeded since the last storm does not begin another.
        """
        host = self._host(record)
        if answer.storm is StormVerdict.NO:
            return answer.storm
        if host.stormy_since is None:
            return StormVerdict.NO if record.source.in_storm else answer.storm
        began_now = record.expected_at is not None and host.began_at == record.expected_at
        if began_now and record.source.in_storm:
            return StormVerdict.MAYBE  # with another source that shared the visit
        return answer.storm

    def began(self, name: str, now: datetime) -> None:
        """Note that a storm was stored; the failures that led to it do not count any more."""
        self._fill_hosts()
        host = self._hosts[name]
        if not host.may_begin:
            first = host.sources[0]
            self._state.violate("Y6", first.lane, first.id, f"{name}: a storm began without reason")
        host.stormy_since, host.began_at = self._state.clock.monotonic(), now
        host.is_finished, host.over_at, host.to_retry = False, None, set()
        for source in host.sources:
            self._counted.pop(source.id, None)

    def ended(self, name: str) -> None:
        """Note that the end of a storm was stored."""
        host, first = self._hosts[name], self._hosts[name].sources[0]
        host.is_finished = True
        if self.lasts(first) is StormVerdict.YES:
            self._state.violate("Y6", first.lane, first.id, f"{name}: the storm is not over")
        host.stormy_since = None

    def poll_started(self, record: SourceRecord, at: float) -> None:
        """Check that a source is polled after a storm because that was requested."""
        host = self._hosts.get(record.source.host)
        if host is None or host.over_at is None or record.id not in host.to_retry:
            return
        if host.over_at < at - self._grace:
            self._check_retried(record)

    def check_all(self) -> None:
        """Find sources of storms that are over whose polls were not requested."""
        since, faults = self._state.clock.monotonic() - self._grace, self._faults
        if not faults.up or max(faults.up_since, faults.clock_changed_at) > since:
            return
        for host in self._hosts.values():
            if host.over_at is None or host.over_at > since:
                continue
            host.over_at = None
            if not host.is_finished:
                first, text = host.sources[0], "the storm lasts after a success"
                self._state.violate("Y6", first.lane, first.id, f"{first.source.host}: {text}")
            for id_ in sorted(host.to_retry):
                self._check_retried(self._state.sources[id_])

    def _check_retried(self, record: SourceRecord) -> None:
        source = record.source
        # an outage may have taken back the failure in the storm: an older one is left (O2)
        is_failing = source.enabled and source.last_failure_type is FailureType.PERMANENT
        if is_failing and source.requested_at is None:
            text = f"{record.id} waits for its backoff after a storm"
            self._state.violate("Y6", record.lane, record.id, text)

    def lasts(self, record: SourceRecord) -> StormVerdict:
        """Return whether the host of a source has a storm now."""
        host = self._host(record)
        if host.stormy_since is None:
            return StormVerdict.NO
        return StormVerdict.MAYBE if self._is_redated(host) else StormVerdict.YES

    def has_lasted(self, record: SourceRecord, seconds: float) -> bool:
        """Return whether the host of a source has had a storm for this long."""
        since, at = self._host(record).stormy_since, self._state.clock.monotonic()
        is_sure = self.lasts(record) is StormVerdict.YES
        return is_sure and since is not None and since < at - seconds

    def counted(
        self, record: SourceRecord, kind: str, before: FailureCounts, after: FailureCounts
    ) -> None:
        """Note a permanent failure of a source that had succeeded before."""
        failure = ObservedFailure(self._state.clock.monotonic(), kind, before, after)
        run = self._counted.setdefault(record.id, [])
        if run and run[-1].after.permanent != before.permanent:  # an outage took some back
            run.clear()
        run.append(failure)
        self._host(record).to_retry.discard(record.id)

    def spared(self, record: SourceRecord) -> None:
        """Note a failure that is its host's fault; check that those that led to it are undone."""
        host = self._host(record)
        if host.must_restore:
            for id_, counts in host.restored.items():
                other = self._state.sources[id_]
                if counts != counts_of(other):
                    text = f"{id_} has {counts_of(other)} in a storm, expected {counts}"
                    self._state.violate("Y6", other.lane, id_, text)
        host.restored, host.must_restore = {}, False
        host.to_retry.add(record.id)

    def interrupted(self, record: SourceRecord, *, succeeded: bool) -> None:
        """Note a poll without a permanent failure; a success that was stored ends a storm."""
        self._counted.pop(record.id, None)
        host, at = self._host(record), self._state.clock.monotonic()
        host.to_retry.discard(record.id)
        if succeeded and host.stormy_since is not None:
            # a tick corrects the beginning of a storm after the clock was set back (O4)
            settled_at = max(self._faults.set_back_at, self._faults.up_since) + self._grace
            if not self._is_redated(host) or settled_at < at:
                host.stormy_since, host.over_at = None, at

    def edited(self, record: SourceRecord, counts: FailureCounts) -> bool:
        """Return whether an edit removes the failures of a storm that begins."""
        restored = self._host(record).restored
        expected = restored.get(record.id)
        if expected is not None and counts != counts_of(record):
            del restored[record.id]
        return counts == expected

    def stopped(self) -> None:
        """Note that the process ended: only storms are stored."""
        self._counted.clear()

    def _host(self, record: SourceRecord) -> HostRecord:
        self._fill_hosts()
        return self._hosts[record.source.host]

    def _fill_hosts(self) -> None:
        if not self._hosts:
            for one in self._state.sources.values():
                self._hosts.setdefault(one.source.host, HostRecord()).sources.append(one)

    def _recent_runs(
        self, host: HostRecord, kind: str, at: float
    ) -> dict[str, list[ObservedFailure]]:
        """Return the failures of the last hour of sources that failed in this way.

        Not of those that have not succeeded since the last storm.
        """
        found = {}
        for source in host.sources:
            if source.source.in_storm:
                continue
            since = at - _WINDOW_SECONDS
            run = [one for one in self._counted.get(source.id, ()) if one.at > since]
            if any(one.kind == kind for one in run):
                found[source.id] = run
        return found

    def _is_most(self, host: HostRecord, failing: set[str]) -> bool:
        since = self._state.clock.now() - _WINDOW
        polled = {
            one.source.url
            for one in host.sources
            if one.source.first_poll_done
            and not one.source.in_storm
            and one.source.last_polled is not None
            and one.source.last_polled >= since
        }
        return len(failing) * 100 >= len(polled | failing) * _LEAST_PERCENT

    def _restored(
        self, runs: dict[str, list[ObservedFailure]], kind: str
    ) -> dict[str, FailureCounts]:
        """Return the counts without failures of this kind, of sources that did not change since."""
        found = {}
        for id_, run in runs.items():
            record, counts = self._state.sources[id_], run[0].before
            now, last = counts_of(record), run[-1].after
            if (now.permanent, now.enabled) != (last.permanent, last.enabled):
                continue
            for failure in run:
                if failure.kind != kind:
                    counts = counts.after_failure(failure.kind, record.limit, permanent=True)
            found[id_] = counts._replace(failures=now.failures, in_storm=True)
        return found

    def _is_redated(self, host: HostRecord) -> bool:
        """Whether the clock was set back since a storm began, which moves its beginning."""
        return host.stormy_since is not None and self._faults.set_back_at >= host.stormy_since

    def _is_unsettled(self, at: float) -> bool:
        """Whether a clock change may have changed which sources seem to be polled lately."""
        faults, since = self._faults, at - _SETTLED_SECONDS
        was_set_back = faults.set_back_at > faults.up_since - 2 * _WINDOW_SECONDS
        return faults.clock_changed_at > since or (faults.up_since > since and was_set_back)


def counts_of(record: SourceRecord) -> FailureCounts:
    """Return the stored counts of a source."""
    return FailureCounts.of(record.source)
