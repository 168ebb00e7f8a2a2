"""OutageGuard: detects outages of our own network and undoes their effect on sources (O1-O3)."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from operator import attrgetter

from headwater import errors
from headwater.clock import Clock
from headwater.logs import get_logger
from headwater.model import Failure, HostState, Outcome, Source, Subject, Visit
from headwater.rules.outage_detection import (
    WINDOW_SECONDS,
    OutageWatch,
    as_local,
    explained_by,
    with_failures_rolled_back,
)
from headwater.rules.politeness import host_of, host_of_lane
from headwater.rules.urls import is_address

log = get_logger()
_STORE_SUCCESS_SECONDS = 3600.0  # how often a host's success is stored again
# failures that happen only after the host's name was resolved
_ANSWERED = (
    errors.BadStatus, errors.ConnectFailed, errors.TimedOut, errors.TlsFailed, errors.TooLarge,
    errors.BrokenBody, errors.NotAFeed, errors.NoContent, errors.TooExpensive,
)  # fmt: skip
# the fields of a source that show whether it changed after a failure; a failure storm that seemed
# to begin with the outage has changed only its permanent failures (Y6)
_failure_state = attrgetter(
    "url", "type", "enabled", "consecutive_failures", "failing_since", "disabled_reason"
)
Edit = Callable[[str, Callable[[Source], Source]], Awaitable[Source]]


class OutageStatus:
    """The current outage, if there is one."""

    kind: str | None = None
    since: datetime | None = None

    @property
    def lasts(self) -> bool:
        """Whether there is an outage now."""
        return self.kind is not None


class OutageGuard(OutageStatus):
    """Evaluates every poll; during an outage, failures do not count against sources."""

    def __init__(self, states: Iterable[HostState], clock: Clock, edit: Edit) -> None:
        self._clock = clock
        self._edit = edit
        self._watch = OutageWatch()
        self._stored_at: dict[str, float] = {}  # by lane: when its success was last stored
        self._recent: deque[tuple[float, Outcome]] = deque()
        self.on_change: Callable[[str | None], None] = lambda _: None
        self._restore(states)

    def hosts_to_probe(self) -> list[str]:
        """Hosts that succeeded recently, else hosts whose name was resolved (O2)."""
        return list(self._watch.succeeded) or list(self._watch.resolved)

    def judge(self, subject: Subject, failure: Failure, error: Exception) -> Failure:
        """Evaluate a failure; one that an outage explains is marked as local (O2, O3)."""
        at, host = self._clock.monotonic(), host_of(subject.source)
        if host is None:
            return failure
        if isinstance(error, errors.NameNotFound | errors.NameUnresolved):
            if error.name is not None and error.name != host:
                self._name_answered(host, at)  # it was resolved: the name of a redirect was not
            elif not host.endswith(".invalid"):
                self._watch.name_lost(host, at)
        elif isinstance(error, _ANSWERED):
            self._name_answered(host, at)
            self._watch.host_failed(host, failure, at)
        if self.kind is None:
            self.kind = self._watch.outage_kind(at)
            if self.kind is not None:
                self.since = self._clock.now()
                log.warning("[Polling] an outage on our side was detected", kind=self.kind)
                self.on_change(self.kind)
        if self.kind is not None and explained_by(failure, self.kind):
            return as_local(failure)
        return failure

    def _name_answered(self, host: str, at: float) -> None:
        if is_address(host):
            return
        self._watch.name_resolved(host, at)
        if self.kind == "DNS":
            self._end()

    def evidence(self, outcome: Outcome, lane: str) -> tuple[Visit, ...]:
        """The success of a lane's host as a record to store, at most once an hour."""
        if outcome.failure is not None or not lane:
            return ()
        at = self._clock.monotonic()
        stored_at = self._stored_at.get(lane)
        if stored_at is not None and at - stored_at < _STORE_SUCCESS_SECONDS:
            return ()
        self._stored_at[lane] = at
        resolved = not is_address(host_of_lane(lane))
        return (Visit(lane, self._clock.now(), succeeded=True, resolved=resolved),)

    def learn(self, outcome: Outcome) -> None:
        """Note a finished poll: a success ends an outage, a failure may have to be undone."""
        at, host = self._clock.monotonic(), host_of(outcome.source)
        if outcome.failure is None and host is not None:
            if not is_address(host):
                self._watch.name_resolved(host, at)
            self._watch.host_succeeded(host, at)
            self._end()
        elif outcome.failure is not None and not outcome.failure.local and outcome.recorded:
            self._recent.append((at, outcome))
            if self.kind is not None and explained_by(outcome.failure, self.kind):
                self.on_change(self.kind)  # evaluated before the outage was detected: undo it too
        while self._recent and self._recent[0][0] <= at - 2 * WINDOW_SECONDS:
            self._recent.popleft()

    async def undo_failures(self, kind: str) -> int:
        """Undo the recent failures that an outage explains; return of how many sources (O2)."""
        taken: dict[str, tuple[Source, Source]] = {}  # before the first failure, after the last
        since = self._watch.began_after(kind, self._clock.monotonic())
        for at, outcome in self._recent:
            failure = outcome.failure
            if at > since and failure is not None and explained_by(failure, kind):
                before, _ = taken.get(outcome.source.id, (outcome.before, None))
                taken[outcome.source.id] = (before, outcome.source)
        self._recent.clear()
        for source_id, (before, after) in taken.items():

            def restored(current: Source, before: Source = before, after: Source = after) -> Source:
                if _failure_state(current) != _failure_state(after):
                    return current  # it changed for another reason
                return with_failures_rolled_back(current, before)

            with suppress(errors.NotFound):  # removed meanwhile
                await self._edit(source_id, restored)
        return len(taken)

    def drop_old_evidence(self) -> None:
        """Drop evidence that is too old to count."""
        if not self.lasts:
            self._watch.forget_old(self._clock.monotonic())

    def _end(self) -> None:
        if self.kind is not None:
            log.warning("[Polling] the outage is over", kind=self.kind)
            self.kind = None
            self.since = None
            self.on_change(None)

    def _restore(self, states: Iterable[HostState]) -> None:
        now, at = self._clock.now(), self._clock.monotonic()
        good: dict[str, datetime] = {}
        for state in states:
            host = host_of_lane(state.lane)
            if state.resolved_at is not None:
                self._watch.resolved[host] = at - (now - state.resolved_at).total_seconds()
            if state.last_success_at is not None:
                good[host] = max(state.last_success_at, good.get(host, state.last_success_at))
        for host, moment in sorted(good.items(), key=lambda item: item[1]):
            self._watch.succeeded[host] = at - (now - moment).total_seconds()
        self.drop_old_evidence()
