"""OutageGuard: notices when trouble is ours, and takes back what it did to sources (O1-O3)."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial

from headwater.clock import Clock
from headwater.errors import (
    BadStatus,
    BrokenBody,
    ConnectFailed,
    NameNotFound,
    NameUnresolved,
    NoContent,
    NotAFeed,
    NotFound,
    TimedOut,
    TlsFailed,
    TooExpensive,
    TooLarge,
)
from headwater.logs import get_logger
from headwater.model import Failure, HostState, Outcome, Source, Subject, Visit
from headwater.rules.outage import (
    WINDOW_SECONDS,
    OutageWatch,
    as_local,
    explained_by,
    given_back,
)
from headwater.rules.politeness import host_of, host_of_lane
from headwater.rules.urls import is_address

log = get_logger()
_REMEMBER_GOOD_SECONDS = 3600.0  # how often a host's being good is written down again
# failures that only come once the host's name had an address
_ANSWERED = (
    BadStatus, ConnectFailed, TimedOut, TlsFailed, TooLarge, BrokenBody, NotAFeed, NoContent,
    TooExpensive,
)  # fmt: skip
Edit = Callable[[str, Callable[[Source], Source]], Awaitable[Source]]


class OutageGuard:
    """Weighs every poll's end; while an outage lasts, failures move no counter."""

    def __init__(self, states: Iterable[HostState], clock: Clock, edit: Edit) -> None:
        self._clock = clock
        self._edit = edit
        self._watch = OutageWatch()
        self._kept_at: dict[str, float] = {}
        self._recent: deque[tuple[float, Outcome]] = deque()
        self.kind: str | None = None  # of the outage that lasts
        self.since: datetime | None = None
        self.on_change: Callable[[str | None], None] = lambda _: None
        self._restore(states)

    @property
    def lasts(self) -> bool:
        """Whether there is an outage now."""
        return self.kind is not None

    def hosts_to_probe(self) -> list[str]:
        """Hosts that were good: that succeeded of late, else that once resolved (O2)."""
        return list(self._watch.succeeded) or list(self._watch.resolved)

    def judge(self, subject: Subject, failure: Failure, error: Exception) -> Failure:
        """Weigh a failure; one that an outage explains is our own (O2, O3)."""
        at, host = self._clock.monotonic(), host_of(subject.source)
        if host is None:
            return failure
        if isinstance(error, NameNotFound | NameUnresolved):
            self._name_failed(error, host, at)
        elif isinstance(error, _ANSWERED):
            self._name_answered(host, at)
            self._watch.host_failed(host, failure, at)
        self._look(at)
        if self.kind is not None and explained_by(failure, self.kind):
            return as_local(failure)
        return failure

    def _name_failed(self, error: NameNotFound | NameUnresolved, host: str, at: float) -> None:
        if error.name is not None and error.name != host:
            self._name_answered(host, at)  # it did resolve: a redirect led elsewhere
        elif not host.endswith(".invalid"):
            self._watch.name_lost(host, at)

    def _name_answered(self, host: str, at: float) -> None:
        if is_address(host):
            return
        self._watch.name_resolved(host, at)
        if self.kind == "DNS":
            self._end()

    def evidence(self, outcome: Outcome, lane: str) -> tuple[Visit, ...]:
        """The good news of a lane's host, to be stored now and then."""
        if outcome.failure is not None or not lane:
            return ()
        at = self._clock.monotonic()
        kept_at = self._kept_at.get(lane)
        if kept_at is not None and at - kept_at < _REMEMBER_GOOD_SECONDS:
            return ()
        self._kept_at[lane] = at
        resolved = not is_address(host_of_lane(lane))
        return (Visit(lane, self._clock.now(), succeeded=True, resolved=resolved),)

    def learn(self, outcome: Outcome) -> None:
        """Remember a finished poll: a success ends an outage, failures may be given back."""
        at, host = self._clock.monotonic(), host_of(outcome.source)
        if outcome.failure is None and host is not None:
            if not is_address(host):
                self._watch.name_resolved(host, at)
            self._watch.host_succeeded(host, at)
            self._end()
        elif outcome.failure is not None and not outcome.failure.local and outcome.recorded:
            self._recent.append((at, outcome))
            if self.kind is not None and explained_by(outcome.failure, self.kind):
                self.on_change(self.kind)  # judged before the outage was noticed: give it back too
        while self._recent and self._recent[0][0] <= at - 2 * WINDOW_SECONDS:
            self._recent.popleft()

    async def give_back(self, kind: str) -> int:
        """Take an outage's failures of the last minutes back from their sources (O2)."""
        taken: dict[str, tuple[Source, Source]] = {}  # before the first failure, after the last
        since = self._watch.began_after(kind, self._clock.monotonic())
        for at, outcome in self._recent:
            failure = outcome.failure
            if at > since and failure is not None and explained_by(failure, kind):
                before, _ = taken.get(outcome.source.id, (outcome.before, None))
                taken[outcome.source.id] = (before, outcome.source)
        self._recent.clear()
        for source_id, (before, after) in taken.items():
            restored = partial(_restored, before=before, after=after)
            try:
                await self._edit(source_id, restored)
            except NotFound:
                continue  # removed meanwhile
        return len(taken)

    def tidy(self) -> None:
        """Let go of evidence that is too old to count."""
        if not self.lasts:
            self._watch.forget_old(self._clock.monotonic())

    def _look(self, at: float) -> None:
        if self.kind is not None:
            return
        self.kind = self._watch.verdict(at)
        if self.kind is not None:
            self.since = self._clock.now()
            log.warning("[Polling] this looks like an outage on our side", kind=self.kind)
            self.on_change(self.kind)

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
        self.tidy()


def _restored(current: Source, *, before: Source, after: Source) -> Source:
    """Give a source its state back unless something else happened to it meanwhile.

    A poll that failed for the same outage, which moves no counter, is nothing else.
    """
    return given_back(current, before) if _burden(current) == _burden(after) else current


def _burden(source: Source) -> tuple[object, ...]:
    return (
        source.url,
        source.type,
        source.enabled,
        source.consecutive_failures,
        source.permanent_failures,
        source.failing_since,
        source.disabled_reason,
    )
