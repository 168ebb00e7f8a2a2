"""Detects local outages: failures that are not the sources' fault (F6, O2, O3)."""

from collections import Counter
from dataclasses import dataclass, field, replace

from headwater.model import Failure, FailureType, Source

WINDOW_SECONDS = 600.0
PROBE_SECONDS = 30.0
_MIN_NAMES = 3
_MIN_HOSTS = 5
_DAY_SECONDS = 86_400.0
_MAX_SPREAD_SECONDS = 300.0
_LANES_PER_SECOND = 10.0


@dataclass(slots=True)
class OutageWatch:
    """Evidence for and against a local outage; times are monotonic seconds."""

    resolved: dict[str, float] = field(default_factory=dict)  # name -> when it last resolved
    succeeded: dict[str, float] = field(default_factory=dict)  # host -> when a poll last succeeded
    _lost: dict[str, float] = field(default_factory=dict)  # names that resolved before and now fail
    _polled: dict[str, float] = field(default_factory=dict)
    _now_failing: dict[str, tuple[float, str]] = field(default_factory=dict)
    _last_resolved: float = float("-inf")

    def name_resolved(self, host: str, at: float) -> None:
        """Record that a name resolved."""
        self.resolved[host] = at
        self._lost.clear()
        self._last_resolved = at

    def name_lost(self, host: str, at: float) -> None:
        """Record a failed lookup; it is evidence only if the name resolved before (O2)."""
        if host in self.resolved:
            self._lost[host] = at

    def host_succeeded(self, host: str, at: float) -> None:
        """Record a successful poll of a host."""
        self._polled[host] = at
        self.succeeded.pop(host, None)  # keeps the dict ordered by time, oldest first
        self.succeeded[host] = at
        self._now_failing.clear()

    def host_failed(self, host: str, failure: Failure, at: float) -> None:
        """Record a failed poll; evidence if permanent and the host succeeded within a day (O3)."""
        self._polled[host] = at
        succeeded_at = self.succeeded.get(host)
        recent = succeeded_at is not None and at - succeeded_at <= _DAY_SECONDS
        if recent and failure.type is FailureType.PERMANENT and failure.status is not None:
            self._now_failing[host] = (at, failure.kind)
        else:
            self._now_failing.pop(host, None)

    def outage_kind(self, at: float) -> str | None:
        """The failure kind that a current outage explains (`DNS`, `404` …), or None."""
        since = at - WINDOW_SECONDS
        lost = sum(1 for moment in self._lost.values() if moment > since)
        if lost >= _MIN_NAMES and self._last_resolved <= since:
            return "DNS"
        kinds = Counter(kind for moment, kind in self._now_failing.values() if moment > since)
        for kind, count in kinds.items():
            polled = sum(1 for moment in self._polled.values() if moment > since)
            if count >= _MIN_HOSTS and count * 2 > polled:
                return kind
        return None

    def began_after(self, kind: str, at: float) -> float:
        """The time after which failures of a kind belong to an outage detected now (O2).

        Ten minutes ago, or when a name last resolved if that is earlier: a DNS outage is
        detected ten minutes after that at the earliest.
        """
        since = at - WINDOW_SECONDS
        if kind != "DNS":
            return since
        return max(min(since, self._last_resolved), since - WINDOW_SECONDS)

    def forget_old(self, at: float) -> None:
        """Drop old evidence; not called during an outage, whose probes need it."""
        since, day_ago = at - WINDOW_SECONDS, at - _DAY_SECONDS
        self._lost = {host: moment for host, moment in self._lost.items() if moment > since}
        self._polled = {host: moment for host, moment in self._polled.items() if moment > since}
        self._now_failing = {h: t for h, t in self._now_failing.items() if t[0] > since}
        # this one is ordered by time, and large: do not scan the rest
        while self.succeeded and self.succeeded[oldest := next(iter(self.succeeded))] <= day_ago:
            del self.succeeded[oldest]


def explained_by(failure: Failure, outage_kind: str) -> bool:
    """Whether an outage of this kind explains a failure."""
    return failure.kind == outage_kind or (failure.local and outage_kind == "DNS")


def as_local(failure: Failure) -> Failure:
    """The same failure marked local: transient, changes no counter (F6)."""
    return replace(failure, type=FailureType.TRANSIENT, local=True)


def with_failures_rolled_back(current: Source, before: Source) -> Source:
    """The source with an outage's failures rolled back, and any auto-disable they caused (O2).

    A poll in flight is stored if it succeeds; a failure would count from those that are taken
    back, and is discarded (D4).
    """
    was_disabled = before.enabled and not current.enabled and current.disabled_reason is not None
    return replace(
        current,
        consecutive_failures=before.consecutive_failures,
        permanent_failures=before.permanent_failures,
        permanent_kind=before.permanent_kind,
        last_failure_type=before.last_failure_type,
        last_error=before.last_error,
        failing_since=before.failing_since,
        in_storm=before.in_storm,
        enabled=True if was_disabled else current.enabled,
        disabled_reason=before.disabled_reason if was_disabled else current.disabled_reason,
        disabled_at=before.disabled_at if was_disabled else current.disabled_at,
    )


def spread_seconds(lanes: int) -> float:
    """How long the lanes' return after an outage is spread, to avoid a burst (O2)."""
    return min(lanes / _LANES_PER_SECOND, _MAX_SPREAD_SECONDS)
