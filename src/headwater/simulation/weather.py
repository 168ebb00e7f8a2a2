"""Weather: what befalls machine, network and people in a story, all planned from the seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from headwater.simulation.web import Trouble

HOUR, DAY = 3600.0, 86_400.0
LOOK_SECONDS = 6 * HOUR


class Event(StrEnum):
    """What can happen."""

    LOOK = "look"  # somebody looks whether all is as it should be
    TROUBLE = "trouble"
    CLOCK = "clock"
    SUSPEND = "suspend"
    STOP = "stop"
    KILL = "kill"
    REQUEST = "request"
    ENABLE = "enable"


@dataclass(frozen=True, slots=True)
class Happening:
    """Something at a moment; how long, or how far, depends on what it is."""

    at: float
    event: Event
    seconds: float = 0.0
    trouble: Trouble | None = None


_STORMS = (
    Event.TROUBLE, Event.CLOCK, Event.SUSPEND, Event.STOP, Event.KILL, Event.KILL,
    Event.REQUEST, Event.REQUEST, Event.ENABLE,
)  # fmt: skip


def calm(days: float) -> list[Happening]:
    """Nothing but looks."""
    count = int(days * DAY / LOOK_SECONDS)
    return [Happening(number * LOOK_SECONDS, Event.LOOK) for number in range(1, count + 1)]


def stormy(days: float, rng: Random) -> list[Happening]:
    """Outages, clocks that jump, sleep, restarts of both kinds, and people, at any time."""
    plan = [*calm(days), *_storms(days, rng)]
    plan.sort(key=lambda one: one.at)
    return plan


def _storms(days: float, rng: Random) -> Iterator[Happening]:
    at = rng.uniform(HOUR, 12 * HOUR)
    while at < days * DAY:
        event = rng.choice(_STORMS)
        yield _happening(at, event, rng)
        at += rng.expovariate(1 / (4 * HOUR)) if rng.random() < 0.8 else rng.uniform(0, 90)


def _happening(at: float, event: Event, rng: Random) -> Happening:
    match event:
        case Event.TROUBLE:
            trouble = rng.choice(tuple(Trouble))
            return Happening(at, event, rng.choice((300.0, 900.0, HOUR, 6 * HOUR)), trouble)
        case Event.CLOCK:
            far = rng.choice((2.0, 60.0, HOUR, 5 * HOUR, DAY, 400 * DAY))
            return Happening(at, event, rng.choice((-far, far)))
        case Event.SUSPEND:
            return Happening(at, event, rng.choice((30.0, HOUR, 8 * HOUR, 3 * DAY)))
        case Event.STOP | Event.KILL:
            return Happening(at, event, rng.choice((0.0, 1.0, 20.0, HOUR)))
    return Happening(at, event)
