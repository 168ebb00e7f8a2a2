"""CheckerState: what a checker knows of sources, lanes and faults, with its own rules.

Nothing here uses `headwater.rules` functions: an error there must not hide itself.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from headwater.clock import Clock
from headwater.model import Source, SourceType
from headwater.rules.policy import HoldScope, Policy
from headwater.simulation.event_trail import MAX_TRACE_LINES, TrailStep, Violation, trace
from headwater.simulation.request_counts import RequestCounts
from headwater.simulation.virtual_hosts import VisitResult

FUTURE = timedelta(seconds=5)  # S2
_NEVER = float("-inf")
_INSTANT_SECONDS = 0.001
_MAX_FAULTS = 60  # steps of the machine in a trace


class FailureCounts(NamedTuple):
    """The fields of a source that failures change."""

    failures: int
    permanent: int
    kind: str | None
    enabled: bool
    in_storm: bool = False  # Y6

    @classmethod
    def of(cls, source: Source) -> "FailureCounts":
        """Return those of a source."""
        failures, permanent = source.consecutive_failures, source.permanent_failures
        kind, enabled = source.permanent_kind, source.enabled
        return cls(failures, permanent, kind, enabled, source.in_storm)

    def after_failure(self, kind: str, limit: int, *, permanent: bool) -> "FailureCounts":
        """Return the counts after a failure that counts (F2, F3)."""
        if not permanent:
            return self._replace(failures=self.failures + 1, permanent=0, kind=None)
        count = self.permanent + 1
        if self.permanent and self.kind != kind:
            kind = "permanent"
        enabled = self.enabled and count < limit
        return FailureCounts(self.failures + 1, count, kind, enabled, self.in_storm)


class StormVerdict(Enum):
    """Whether a storm of the host explains a failure (Y6)."""

    NO = "no"
    MAYBE = "maybe"  # a clock change allows both
    YES = "yes"


class VisitAnswer(NamedTuple):
    """The result of a visit, with what it depends on whether a failure counts."""

    result: VisitResult
    outage: str | None  # at that time
    storm: StormVerdict


@dataclass(slots=True)
class SourceRecord:
    """A source as stored last, and the expected effects of its polls."""

    id: str
    source: Source
    number: int  # in the order of sources; part of the digest
    lane: str
    delay: float
    cap: int  # minutes
    limit: int  # permanent failures in a row that disable it (F3)
    has_probation: bool = False  # Y9
    due_used: datetime | None = None  # the `last_polled` whose due time a poll has used
    held_since: float = 0.0  # P9, where holds are for one source
    held_until: float = 0.0
    edited_at: float = 0.0  # when anything but a poll last changed it
    pending: bool = False  # a poll has started and is not stored yet
    expected_at: datetime | None = None  # the `last_polled` that its poll must store
    posts: set[str] = field(default_factory=set)
    due_at: datetime | None = None
    is_probation: bool = False  # its poll is an attempt to enable it
    answer: VisitAnswer | None = None

    def store(self, source: Source) -> None:
        """Remember the stored state, and compute `due_at` (S2, S3, Y9)."""
        self.source, last = source, source.last_polled
        if not source.enabled:
            self.due_at = self._next_attempt() if self.has_probation else None
        else:
            minutes = self.effective_minutes()
            self.due_at = None if last is None else last + timedelta(minutes=minutes)

    def _next_attempt(self) -> datetime | None:
        """Return the next attempt to poll an auto-disabled source (Y9)."""
        disabled_at, last = self.source.disabled_at, self.source.last_polled
        if disabled_at is None or last is None:
            return None
        attempts = [disabled_at + timedelta(days=days) for days in (1, 3, 7, 14, 28)]
        return min((at for at in attempts if at > last), default=None)

    def effective_minutes(self) -> int:
        """Return the effective interval (S3)."""
        interval = doubled = self.source.poll_interval_minutes
        for _ in range(self.source.consecutive_failures):
            doubled *= 2
            if doubled >= self.cap:
                return max(interval, self.cap)
        return doubled


@dataclass(slots=True)
class LaneRecord:
    """The expected state of one lane: a host, or one owner's share of X."""

    name: str
    max_delay: float = 0.0
    visiting: str | None = None  # the source of the running request
    free_at: float = 0.0
    held_until: float = 0.0
    held_since: float = 0.0
    held_before: float = 0.0  # the previous `held_until`
    held_by: str = ""  # the source whose poll received the hold
    began_at: float = float("-inf")
    last_due: datetime | None = None  # the due time of the last source that was polled
    resumed_in: int = 0  # the number of the resume after which it was polled
    steps: deque[TrailStep] = field(default_factory=lambda: deque(maxlen=MAX_TRACE_LINES))

    def rest(self, until: float) -> None:
        """Allow no request before that time."""
        if until > self.free_at:
            self.free_at = until


@dataclass(slots=True)
class FaultHistory:
    """Recent faults, which relax checked rules; all times are monotonic seconds."""

    slots: int
    up: bool = False  # whether a process runs
    up_since: float = _NEVER
    down_since: float = 0.0
    clock_changed_at: float = _NEVER  # the clock was set, or the machine slept
    sleep_began_at: float = _NEVER
    set_back_at: float = _NEVER
    set_back_steps: list[tuple[float, float]] = field(default_factory=list)  # when, seconds
    set_forward_at: float = _NEVER
    network_fault: str | None = None  # the actual state of the network
    network_ok_since: float = _NEVER
    outage: str | None = None  # the state of the network that the engine assumes
    outage_at: float = _NEVER
    outages: int = 0
    resumed_at: float = _NEVER  # after an outage, a sleep or a clock change
    resumes: int = 0
    probed_at: float = _NEVER
    resolved_at: float = _NEVER  # the last time that a host name had an address
    in_flight: int = 0
    slept_seconds: float = 0.0
    down_seconds: float = 0.0
    full_at: float = _NEVER  # the last time that all slots were in use

    @property
    def just_started(self) -> bool:
        """Whether the process started after the last resume, or just before that sleep."""
        awake = self.sleep_began_at - self.up_since
        slept_at_once = self.resumed_at == self.clock_changed_at and awake < _INSTANT_SECONDS
        return self.up_since > self.resumed_at or slept_at_once

    def clock_changed(self, at: float, began: float) -> None:
        """Note that the clock was set, or that the machine slept since `began`."""
        if began > self.clock_changed_at:  # else it slept again at once
            self.sleep_began_at = began
        self.clock_changed_at = at

    def set_back_since(self, at: float) -> float:
        """Return by how many seconds the clock was set back since then."""
        return sum(seconds for when, seconds in self.set_back_steps if when > at)

    def poll_started(self, at: float) -> None:
        """Count a poll as in flight."""
        self.in_flight += 1
        if self.in_flight >= self.slots:
            self.full_at = at

    def clock_jumped_since(self, at: float) -> bool:
        """Whether the clock was set forward and a process started since.

        The new process has only that clock: stored holds and delays seem to be over.
        """
        return self.up_since > at and self.set_forward_at > at


class CheckerState:
    """The state that all checks share; the first violation ends the run."""

    def __init__(self, clock: Clock, policy: Policy, slots: int) -> None:
        self.clock = clock
        self.policy = policy
        self.fault_history = FaultHistory(slots)
        self.sources: dict[str, SourceRecord] = {}
        self._lanes: dict[str, LaneRecord] = {}
        self._fault_steps: deque[TrailStep] = deque(maxlen=_MAX_FAULTS)
        self.violation: Violation | None = None
        self.on_violation: Callable[[], None] = lambda: None
        self.polls = 0
        self.request_counts = RequestCounts()

    def add(self, sources: Iterable[tuple[Source, str]]) -> None:
        """Add sources, each with the name of its lane."""
        for number, (source, lane) in enumerate(sources, 1):
            record = self.sources[source.id] = record_of(source, number, self.policy, lane)
            self.lane(lane).max_delay = max(self.lane(lane).max_delay, record.delay)

    def lane(self, name: str) -> LaneRecord:
        """Return the record of a lane."""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = LaneRecord(name)
        return lane

    def is_held_by_source(self, lane: str) -> bool:
        """Whether holds of this lane are for single sources (P9)."""
        return self.policy.hold_scope(lane) is HoldScope.SOURCE and "/" not in lane

    def note(self, record: SourceRecord, what: str, detail: object = "") -> None:
        """Remember a step of a source for traces."""
        step = TrailStep(self.clock.monotonic(), self.clock.now(), what, record.id, detail)
        self.lane(record.lane).steps.append(step)

    def note_fault(self, what: str, detail: str = "") -> None:
        """Remember a fault of the machine, which concerns every host."""
        step = TrailStep(self.clock.monotonic(), self.clock.now(), what, detail=detail)
        self._fault_steps.append(step)

    def violate(self, rule: str, host: str, source_id: str, what: str) -> None:
        """Keep the first violation of a rule and end the run."""
        if self.violation is None:
            steps = trace(list(self.lane(host).steps), list(self._fault_steps))
            at = self.clock.monotonic()
            self.violation = Violation(rule, what, host, source_id, at, steps)
            self.on_violation()


def record_of(source: Source, number: int, policy: Policy, lane: str) -> SourceRecord:
    """Return the initial record of a source."""
    cap = (source.max_backoff_hours or policy.max_backoff_hours) * 60
    limit = source.max_failures or policy.max_failures
    # the first one set of source, host, wildcard, type (P2)
    delay = redirect_delay(source.type, policy, lane) if lane else 0.0
    if lane and source.poll_delay_seconds is not None:
        delay = float(source.poll_delay_seconds)
    record = SourceRecord(source.id, source, number, lane, delay, cap, limit, policy.probation)
    record.store(source)
    return record


def redirect_delay(type_: SourceType, policy: Policy, lane: str) -> float:
    """Return the pause of a host after a redirected request (P3)."""
    host = lane.split("/")[0]
    labels = host.split(".")
    names = [host, *("*." + ".".join(labels[first:]) for first in range(1, len(labels)))]
    for name in names:
        override = policy.host_overrides.get(name)
        if override is not None and override.poll_delay_seconds is not None:
            return float(override.poll_delay_seconds)
    return float(policy.type_delay_seconds.get(type_, 0))
