"""The hosts of the virtual web: how each answers, and when it misbehaves."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple

from headwater import errors

DAY_SECONDS = 86_400.0
_LIMITS = (None, 30.0, 600.0, 3600.0, 6 * 3600.0)  # what limiting hosts ask for
_TIMEOUT_SECONDS = 30.0
_UNTOLD_SECONDS = 600.0  # P9: the hold of a 429 that does not say how long


class Manner(StrEnum):
    """How a host behaves while it is in trouble."""

    STEADY = "steady"
    SLOW = "slow"
    DEAD = "dead"
    REFUSING = "refusing"
    FLAPPING = "flapping"
    LIMITING = "limiting"
    GONE = "gone"
    NAMELESS = "nameless"
    BROKEN = "broken"
    MOVED = "moved"


class Truth(NamedTuple):
    """What really happened to a visit, whatever becomes of it."""

    kind: str = "ok"
    permanent: bool = False  # as F1 has it
    local: bool = False  # nobody could be asked (O1)
    hold: float | None = None  # how long the host must be left alone (P9)
    asked: float | None = None  # its Retry-After


OK = Truth()
# Every failure of this web: what F1 makes of it.
TRUTHS = {
    "404": Truth("404", permanent=True),
    "410": Truth("410", permanent=True),
    "403": Truth("403", permanent=True),
    "DNS": Truth("DNS", permanent=True),
    "500": Truth("500"),
    "timeout": Truth("timeout"),
    "connection": Truth("connection"),
    "parse": Truth("parse"),
    "unexpected": Truth("unexpected"),
    "unresolved": Truth("unresolved", local=True),
    "busy": Truth("busy"),
    "hold": Truth("hold"),
}


@dataclass(slots=True)
class VirtualHost:
    """One host; outside of its times of trouble it answers well."""

    name: str
    seconds: float  # that it usually takes to answer
    manner: Manner = Manner.STEADY
    since: float = 0.0
    until: float = float("inf")
    wave_seconds: float = 3600.0  # of a host that flaps
    goes_to: str | None = None  # where a host that moved sends visitors

    def visit(self, at: float, rng: Random) -> tuple[float, Truth]:
        """How long a visit takes, and what comes of it."""
        if self.manner is Manner.STEADY or not self.since <= at < self.until:
            return self.seconds * (0.5 + rng.random()), OK
        return self._in_trouble(at, rng)

    def moved_to(self, at: float) -> str | None:
        """The host that visitors are sent on to, if any."""
        return self.goes_to if self.since <= at < self.until else None

    def _in_trouble(self, at: float, rng: Random) -> tuple[float, Truth]:
        seconds = self.seconds * (0.5 + rng.random())
        match self.manner:
            case Manner.SLOW:
                return 5.0 + 20.0 * rng.random(), OK
            case Manner.DEAD:
                return _TIMEOUT_SECONDS, TRUTHS["timeout"]
            case Manner.REFUSING:
                return seconds, TRUTHS["connection"]
            case Manner.FLAPPING if int((at - self.since) / self.wave_seconds) % 2 == 0:
                return seconds, TRUTHS["500"]
            case Manner.LIMITING if rng.random() < 0.4:
                return seconds, _limited(rng)
            case Manner.GONE:
                return seconds, TRUTHS[rng.choice(("404", "410", "403"))]
            case Manner.NAMELESS:
                return 0.05, TRUTHS["DNS"]
            case Manner.BROKEN:
                return seconds, TRUTHS[rng.choice(("parse", "unexpected", "404"))]
        return seconds, OK


def _limited(rng: Random) -> Truth:
    """An answer of 429, or 503, with a time to wait or without one."""
    asked = rng.choice(_LIMITS)
    if rng.random() < 0.3:
        return Truth("503", hold=asked, asked=asked)
    return Truth("429", hold=_UNTOLD_SECONDS if asked is None else asked, asked=asked)


def error_of(truth: Truth, host: str) -> Exception:
    """The error that a fetcher would raise."""
    match truth.kind:
        case "DNS":
            return errors.NameNotFound(f"{host} does not exist", name=host)
        case "unresolved":
            return errors.NameUnresolved(f"no name server answered for {host}", name=host)
        case "timeout":
            return errors.TimedOut(f"{host} did not answer within {_TIMEOUT_SECONDS:.0f} s")
        case "connection":
            return errors.ConnectFailed(f"{host} refused the connection")
        case "parse":
            return errors.NotAFeed(f"what {host} sent is no feed")
        case "unexpected":
            return ValueError("something that nobody thought of")
    status = int(truth.kind)
    message = f"HTTP {status} from https://{host}/"
    return errors.BadStatus(status, message, host=host, hold_seconds=truth.asked)
