"""Trail: what happened of late, host by host, and the story that a broken rule comes with."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headwater.clock import Clock

_TOLD = 40  # lines of a story, so that no host needs to keep more
_KEPT = 60  # of what befell the machine
# Plain tuples, as `Step` has them: every poll leaves several, and nobody reads most of them.
Steps = deque[tuple[float, datetime, str, str, object]]


class Step(NamedTuple):
    """One thing that happened."""

    at: float
    wall: datetime
    what: str
    source_id: str
    detail: object


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that did not hold, and what went before."""

    rule: str
    what: str
    host: str
    source_id: str
    at: float
    story: Sequence[str]

    def __str__(self) -> str:
        return f"{self.rule} at {told_at(self.at)}: {self.what}"


def steps() -> Steps:
    """Room for the last steps at a host."""
    return deque(maxlen=_TOLD)


class Trail:
    """What befell the whole machine, and with it what happened at a host."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._machine: deque[Step] = deque(maxlen=_KEPT)

    def befell(self, what: str, detail: object = "") -> None:
        """Remember what happened to everybody."""
        clock = self._clock
        self._machine.append(Step(clock.monotonic(), clock.now(), what, "", detail))

    def story(self, at_host: Steps) -> list[str]:
        """What happened at a host, with what befell the machine meanwhile."""
        own = [Step(*step) for step in at_host]
        first = own[0].at if own else 0.0
        around = [step for step in self._machine if step.at >= first] or list(self._machine)[-3:]
        return [_line(step) for step in sorted([*around, *own], key=_moment)[-_TOLD:]]

    def machine(self) -> Iterable[str]:
        """What befell the machine of late."""
        return [_line(step) for step in self._machine]


def told_at(seconds: float) -> str:
    """A moment of the story: day, hour, minute, second."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return f"day {int(days)} {int(hours):02}:{int(minutes):02}:{rest:06.3f}"


def _moment(step: Step) -> float:
    return step.at


def _line(step: Step) -> str:
    detail = f" {step.detail}" if step.detail != "" else ""
    source = f" {step.source_id}" if step.source_id else ""
    return f"{told_at(step.at)}  (clock {step.wall:%Y-%m-%d %H:%M:%S})  {step.what}{source}{detail}"
