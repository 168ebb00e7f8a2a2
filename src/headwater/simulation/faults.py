"""Fault plans: faults of the machine and its network, and requests of users, from a seed."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from headwater.simulation.virtual_web import NetworkFault

HOUR, DAY = 3600.0, 86_400.0
CHECK_SECONDS = 6 * HOUR


class FaultKind(StrEnum):
    """The steps of a plan."""

    CHECK = "check"  # not a fault: check all rules
    NETWORK = "network"
    CLOCK = "clock"
    SUSPEND = "suspend"
    STOP = "stop"
    KILL = "kill"
    REQUEST = "request"
    ENABLE = "enable"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault at a time; `seconds` is its length, or how far the clock is set."""

    at: float
    kind: FaultKind
    seconds: float = 0.0
    network: NetworkFault | None = None


_FAULT_MIX = (
    FaultKind.NETWORK, FaultKind.CLOCK, FaultKind.SUSPEND, FaultKind.STOP, FaultKind.KILL,
    FaultKind.KILL, FaultKind.REQUEST, FaultKind.REQUEST, FaultKind.ENABLE,
)  # fmt: skip


def checks_only(days: float) -> list[PlannedFault]:
    """Return a plan without faults, which checks all rules every six hours."""
    count = int(days * DAY / CHECK_SECONDS)
    return [PlannedFault(number * CHECK_SECONDS, FaultKind.CHECK) for number in range(1, count + 1)]


def random_faults(days: float, rng: Random) -> list[PlannedFault]:
    """Return a plan with checks and faults of every kind at random times."""
    plan, at = checks_only(days), rng.uniform(HOUR, 12 * HOUR)
    while at < days * DAY:
        plan.append(_fault(at, rng.choice(_FAULT_MIX), rng))
        at += rng.expovariate(1 / (4 * HOUR)) if rng.random() < 0.8 else rng.uniform(0, 90)
    return sorted(plan, key=lambda fault: fault.at)


def _fault(at: float, kind: FaultKind, rng: Random) -> PlannedFault:
    match kind:
        case FaultKind.NETWORK:
            network = rng.choice(tuple(NetworkFault))
            return PlannedFault(at, kind, rng.choice((300.0, 900.0, HOUR, 6 * HOUR)), network)
        case FaultKind.CLOCK:
            change = rng.choice((2.0, 60.0, HOUR, 5 * HOUR, DAY, 400 * DAY))
            return PlannedFault(at, kind, rng.choice((-change, change)))
        case FaultKind.SUSPEND:
            return PlannedFault(at, kind, rng.choice((30.0, HOUR, 8 * HOUR, 3 * DAY)))
        case FaultKind.STOP | FaultKind.KILL:
            return PlannedFault(at, kind, rng.choice((0.0, 1.0, 20.0, HOUR)))
    return PlannedFault(at, kind)
