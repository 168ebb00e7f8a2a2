"""The hosts of the virtual web: response times, and failures for a limited time."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple

from headwater import errors

DAY_SECONDS = 86_400.0
_RETRY_AFTER = (None, 30.0, 600.0, 3600.0, 6 * 3600.0)
_TIMEOUT_SECONDS = 30.0
_DEFAULT_HOLD_SECONDS = 600.0  # P9: the hold of a 429 without Retry-After


class HostBehaviour(StrEnum):
    """The behaviour of a host between `since` and `until`."""

    STEADY = "steady"
    SLOW = "slow"
    DEAD = "dead"
    REFUSING = "refusing"
    FLAPPING = "flapping"
    RATE_LIMITED = "rate limited"
    GONE = "gone"
    NO_DNS_RECORD = "no DNS record"
    BROKEN = "broken"
    MOVED = "moved"
    STORM = "storm"  # all its sources are missing for a time (Y6)
    REJECTING = "rejecting"


class VisitResult(NamedTuple):
    """The actual result of a visit, independent of what the engine stores."""

    kind: str = "ok"
    permanent: bool = False  # as in F1
    local: bool = False  # no host could be reached (O1)
    hold: float | None = None  # how long the host must not be asked (P9)
    retry_after: float | None = None


OK = VisitResult()
_SAME_FAILURE = {  # of every visit
    HostBehaviour.REFUSING: "connection",
    HostBehaviour.STORM: "404",
    HostBehaviour.REJECTING: "503",
}
# Every failure of the virtual web, classified as F1 requires.
FAILURES = {
    **{kind: VisitResult(kind, permanent=True) for kind in ("404", "410", "403", "DNS")},
    **{kind: VisitResult(kind) for kind in ("500", "503", "timeout", "connection", "parse")},
    **{kind: VisitResult(kind) for kind in ("unexpected", "busy", "hold")},
    "unresolved": VisitResult("unresolved", local=True),
}


@dataclass(frozen=True, slots=True)
class Silence:
    """The time in which a source, whose entries have dates, publishes nothing (Y1)."""

    since: float
    until: float

    def time_published(self, at: float) -> float:
        """Return for how long the source has published until then."""
        return min(at, self.since) if at < self.until else at - (self.until - self.since)

    def time_of(self, published: float) -> float:
        """Return when the source had published for this long."""
        return published if published <= self.since else published + self.until - self.since


@dataclass(slots=True)
class VirtualHost:
    """One host; before `since` and after `until` it answers every request."""

    name: str
    seconds: float  # average response time
    behaviour: HostBehaviour = HostBehaviour.STEADY
    since: float = 0.0
    until: float = float("inf")
    flap_seconds: float = 3600.0
    redirects_to: str | None = None  # of a host that moved
    has_moved_for_good: bool = False  # its redirects are permanent (Y4)

    def visit(self, at: float, rng: Random) -> tuple[float, VisitResult]:
        """Return how long a visit takes, and its result."""
        if self.behaviour is HostBehaviour.STEADY or not self.since <= at < self.until:
            return self.seconds * (0.5 + rng.random()), OK
        return self._faulty_visit(at, rng)

    def redirect_target(self, at: float) -> str | None:
        """Return the host that requests are redirected to, if any."""
        return self.redirects_to if self.since <= at < self.until else None

    def _faulty_visit(self, at: float, rng: Random) -> tuple[float, VisitResult]:
        seconds = self.seconds * (0.5 + rng.random())
        if self.behaviour in _SAME_FAILURE:
            return seconds, FAILURES[_SAME_FAILURE[self.behaviour]]
        match self.behaviour:
            case HostBehaviour.SLOW:
                return 5.0 + 20.0 * rng.random(), OK
            case HostBehaviour.DEAD:
                return _TIMEOUT_SECONDS, FAILURES["timeout"]
            case HostBehaviour.FLAPPING if int((at - self.since) / self.flap_seconds) % 2 == 0:
                return seconds, FAILURES["500"]
            case HostBehaviour.RATE_LIMITED if rng.random() < 0.4:
                return seconds, _rate_limit(rng)
            case HostBehaviour.GONE:
                return seconds, FAILURES[rng.choice(("404", "410", "403"))]
            case HostBehaviour.NO_DNS_RECORD:
                return 0.05, FAILURES["DNS"]
            case HostBehaviour.BROKEN:
                return seconds, FAILURES[rng.choice(("parse", "unexpected", "404"))]
        return seconds, OK


def _rate_limit(rng: Random) -> VisitResult:
    """Return a 429 or 503, with or without Retry-After."""
    seconds = rng.choice(_RETRY_AFTER)
    if rng.random() < 0.3:
        return VisitResult("503", hold=seconds, retry_after=seconds)
    hold = _DEFAULT_HOLD_SECONDS if seconds is None else seconds
    return VisitResult("429", hold=hold, retry_after=seconds)


def error_of(result: VisitResult, host: str) -> Exception:
    """Return the error that a fetcher would raise."""
    make = _ERRORS.get(result.kind)
    if make is not None:
        return make(host)
    status = int(result.kind)
    message = f"HTTP {status} from https://{host}/"
    return errors.BadStatus(status, message, host=host, hold_seconds=result.retry_after)


_ERRORS: dict[str, Callable[[str], Exception]] = {
    "DNS": lambda host: errors.NameNotFound(f"{host} does not exist", name=host),
    "unresolved": lambda host: errors.NameUnresolved(f"no name server knew {host}", name=host),
    "timeout": lambda host: errors.TimedOut(f"{host} did not answer in {_TIMEOUT_SECONDS:.0f} s"),
    "connection": lambda host: errors.ConnectFailed(f"{host} refused the connection"),
    "parse": lambda host: errors.NotAFeed(f"the answer of {host} is not a feed"),
    "unexpected": lambda _: ValueError("an unexpected error"),
}
