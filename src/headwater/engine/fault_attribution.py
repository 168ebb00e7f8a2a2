"""FaultAttribution: whose fault a failure is: ours, the host's or the source's (O1-O3, Y6)."""

from contextlib import suppress
from functools import partial

from headwater.clock import Clock
from headwater.engine.outage_guard import Edit, OutageGuard
from headwater.errors import NotFound
from headwater.logs import get_logger
from headwater.model import Failure, FailureType, Outcome, Subject
from headwater.rules.failure_storms import (
    MIN_SOURCES,
    WINDOW_SECONDS,
    CountedFailure,
    as_fault_of_host,
    has_recovered,
    may_be_in_storm,
    most_others,
    without_counted,
)
from headwater.rules.politeness import host_of
from headwater.store.storms import Storms

log = get_logger()
Runs = dict[str, list[CountedFailure]]  # by source, one after another
_KNOWN_SECONDS = 60.0  # for which a storm is not looked up again


class FaultAttribution:
    """The one place that decides whether a failure counts against its source."""

    def __init__(self, outages: OutageGuard, storms: Storms, edit: Edit, clock: Clock) -> None:
        self._outages = outages
        self._storms = storms
        self._edit = edit
        self._clock = clock
        # by host and source: its permanent failures of the last hour that are still counted
        self._failed: dict[str, Runs] = {}
        self._lasting: dict[str, float] = {}  # by host: until when a storm is known to last

    async def judge(self, subject: Subject, failure: Failure, error: Exception) -> Failure:
        """The failure, marked as local in an outage, or as the host's fault in a storm."""
        failure = self._outages.judge(subject, failure, error)
        host = host_of(subject.source)
        if host is None or not may_be_in_storm(subject.source, failure):
            return failure
        if await self._storm_lasts(host) or await self._begins(subject, failure, host):
            return as_fault_of_host(failure)
        return failure

    def learn(self, outcome: Outcome) -> None:
        """Note a finished poll; a success ends an outage and a storm."""
        self._outages.learn(outcome)
        failure, source = outcome.failure, outcome.source
        if failure is None:
            if self._failed or self._lasting:  # else nothing has failed
                host = host_of(source) or ""
                self._lasting.pop(host, None)
                self._failed.get(host, {}).pop(source.id, None)
        elif outcome.recorded and not failure.by_host and not failure.local:
            self._note_failure(outcome, failure)

    def _note_failure(self, outcome: Outcome, failure: Failure) -> None:
        host, id_ = host_of(outcome.source) or "", outcome.source.id
        if may_be_in_storm(outcome.before, failure):
            counted = CountedFailure(
                self._clock.monotonic(), failure.kind, outcome.before, outcome.source
            )
            failed = self._failed.setdefault(host, {})
            run = failed.get(id_, [])
            failed[id_] = [*run, counted] if counted.continues(run) else [counted]
        elif failure.type is FailureType.TRANSIENT and host in self._failed:
            self._failed[host].pop(id_, None)  # it has reset the count (F3)

    def drop_old_evidence(self) -> None:
        """Drop evidence that is too old to count."""
        self._outages.drop_old_evidence()
        since = self._clock.monotonic() - WINDOW_SECONDS
        for host, failed in list(self._failed.items()):
            recent = {
                id_: run
                for id_, all_of_it in failed.items()
                if (run := [one for one in all_of_it if one.at > since])
            }
            if recent:
                self._failed[host] = recent
            else:
                del self._failed[host]

    async def _storm_lasts(self, host: str) -> bool:
        at = self._clock.monotonic()
        if at < self._lasting.get(host, float("-inf")):
            return True
        lasts = await self._storms.lasting(host) is not None
        if lasts:
            self._lasting[host] = at + _KNOWN_SECONDS
        return lasts

    async def _begins(self, subject: Subject, failure: Failure, host: str) -> bool:
        """Whether a storm begins with this failure; then take back those that led to it."""
        earlier = self._failed_alike(host, failure.kind)
        failing = _addresses(earlier, subject)
        if not has_recovered(subject.source) or len(failing) < MIN_SOURCES:
            return False
        now, most = self._clock.now(), most_others(len(failing))
        others = await self._storms.others_polled(host, now, list(failing), limit=most + 1)
        if others > most:
            return False
        log.warning("[Polling] a failure storm began", host=host, kind=failure.kind)
        await self._storms.begin(host, failure.kind, now)
        self._failed.pop(host, None)
        for id_, run in earlier.items():
            with suppress(NotFound):  # removed meanwhile
                await self._edit(id_, partial(without_counted, run=run, kind=failure.kind))
        return True

    def _failed_alike(self, host: str, kind: str) -> Runs:
        """The failures of the last hour of the sources that failed in this way.

        Not of those that have failed since the last storm.
        """
        since = self._clock.monotonic() - WINDOW_SECONDS
        recent = (
            (id_, [one for one in run if one.at > since])
            for id_, run in self._failed.get(host, {}).items()
        )
        return {
            id_: run
            for id_, run in recent
            if any(one.kind == kind for one in run) and has_recovered(run[-1].before)
        }


def _addresses(earlier: Runs, subject: Subject) -> set[str]:
    """The failing addresses: one counts once, however many users watch it."""
    return {*(run[-1].after.url for run in earlier.values()), subject.source.url}
