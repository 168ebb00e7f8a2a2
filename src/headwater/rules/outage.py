"""When trouble is ours and not the sources' (F6, O2, O3)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headwater.model import Failure, FailureType, Source

WINDOW_SECONDS = 600.0
PROBE_SECONDS = 30.0
_NAMES = 3
_HOSTS = 5
_DAY_SECONDS = 86_400.0
_MOST_SPREAD_SECONDS = 300.0
_LANES_PER_SECOND = 10.0


@dataclass(slots=True)
class OutageWatch:
    """Evidence for and against an outage of our own; moments are monotonic seconds."""

    resolved: dict[str, float] = field(default_factory=dict)  # names: when they last resolved
    succeeded: dict[str, float] = field(default_factory=dict)  # hosts: when a poll last succeeded
    _lost: dict[str, float] = field(default_factory=dict)  # names that resolved before and failed
    _polled: dict[str, float] = field(default_factory=dict)
    _turned: dict[str, tuple[float, str]] = field(default_factory=dict)
    _last_resolved: float = float("-inf")

    def name_resolved(self, host: str, at: float) -> None:
        """A name had an address."""
        self.resolved[host] = at
        self._lost.clear()
        self._last_resolved = at

    def name_lost(self, host: str, at: float) -> None:
        """A name could not be looked up; evidence only if it resolved before (O2)."""
        if host in self.resolved:
            self._lost[host] = at

    def host_succeeded(self, host: str, at: float) -> None:
        """A poll of the host went well."""
        self._polled[host] = at
        self.succeeded.pop(host, None)  # in the order of their moments: the oldest are found first
        self.succeeded[host] = at
        self._turned.clear()

    def host_failed(self, host: str, failure: Failure, at: float) -> None:
        """A poll of the host failed; permanent ones of good hosts are evidence (O3)."""
        self._polled[host] = at
        good_at = self.succeeded.get(host)
        recent = good_at is not None and at - good_at <= _DAY_SECONDS
        if recent and failure.type is FailureType.PERMANENT and failure.status is not None:
            self._turned[host] = (at, failure.kind)
        else:
            self._turned.pop(host, None)

    def verdict(self, at: float) -> str | None:
        """The kind of failure that an outage explains now, or None: `DNS`, `404` and so on."""
        since = at - WINDOW_SECONDS
        lost = sum(1 for moment in self._lost.values() if moment > since)
        if lost >= _NAMES and self._last_resolved <= since:
            return "DNS"
        kinds = Counter(kind for moment, kind in self._turned.values() if moment > since)
        for kind, count in kinds.items():
            if count >= _HOSTS and count * 2 > self._polled_since(since):
                return kind
        return None

    def began_after(self, kind: str, at: float) -> float:
        """The moment after which failures of a kind belong to an outage that is noticed now (O2).

        That is ten minutes ago, or when a name last resolved if that is longer ago: an outage of
        names is noticed no sooner than ten minutes after that.
        """
        since = at - WINDOW_SECONDS
        if kind != "DNS":
            return since
        return max(min(since, self._last_resolved), since - WINDOW_SECONDS)

    def _polled_since(self, since: float) -> int:
        return sum(1 for moment in self._polled.values() if moment > since)

    def forget_old(self, at: float) -> None:
        """Let go of what is past every window; not during an outage, whose probes need it."""
        since = at - WINDOW_SECONDS
        for moments in (self._lost, self._polled):
            _keep_after(moments, since)
        self._turned = {h: t for h, t in self._turned.items() if t[0] > since}
        _drop_up_to(self.succeeded, at - _DAY_SECONDS)


def explained_by(failure: Failure, outage_kind: str) -> bool:
    """Whether a failure is of an outage's kind."""
    return failure.kind == outage_kind or (failure.local and outage_kind == "DNS")


def as_local(failure: Failure) -> Failure:
    """The same failure as our own trouble: transient, and moving no counter (F6)."""
    return replace(failure, type=FailureType.TRANSIENT, local=True)


def given_back(current: Source, before: Source) -> Source:
    """The source with the failures of an outage taken back, and a switch-off they caused (O2)."""
    switched_off = before.enabled and not current.enabled and current.disabled_reason is not None
    return replace(
        current,
        consecutive_failures=before.consecutive_failures,
        permanent_failures=before.permanent_failures,
        permanent_kind=before.permanent_kind,
        last_failure_type=before.last_failure_type,
        last_error=before.last_error,
        failing_since=before.failing_since,
        enabled=True if switched_off else current.enabled,
        disabled_reason=before.disabled_reason if switched_off else current.disabled_reason,
    )


def spread_seconds(lanes: int) -> float:
    """Over how long lanes come back after an outage, so that they make no burst (O2)."""
    return min(lanes / _LANES_PER_SECOND, _MOST_SPREAD_SECONDS)


def _keep_after(moments: dict[str, float], since: float) -> None:
    for host in _older(moments.items(), since):
        del moments[host]


def _drop_up_to(moments: dict[str, float], since: float) -> None:
    """The same where the oldest stand first: no look at all the others."""
    while moments and moments[oldest := next(iter(moments))] <= since:
        del moments[oldest]


def _older(items: Iterable[tuple[str, float]], since: float) -> list[str]:
    return [host for host, moment in items if moment <= since]
