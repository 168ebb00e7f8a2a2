"""Trail: what happened of late, host by host, and the story that a broken rule comes with."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headwater.clock import Clock

_PER_HOST = 60
_TOLD = 40


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


class Trail:
    """The last steps at every host, and what befell the whole machine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hosts: dict[str, deque[tuple[float, datetime, str, str, object]]] = {}
        self._machine: deque[Step] = deque(maxlen=_PER_HOST)

    def note(self, host: str, what: str, source_id: str, detail: object = "") -> None:
        """Remember a step at a host."""
        steps = self._hosts.get(host)
        if steps is None:
            steps = self._hosts[host] = deque(maxlen=_PER_HOST)
        clock = self._clock
        # a plain tuple: every poll leaves several, and nobody reads most of them
        steps.append((clock.monotonic(), clock.now(), what, source_id, detail))

    def befell(self, what: str, detail: object = "") -> None:
        """Remember what happened to everybody."""
        clock = self._clock
        self._machine.append(Step(clock.monotonic(), clock.now(), what, "", detail))

    def story(self, host: str) -> list[str]:
        """What happened at a host, with what befell the machine meanwhile."""
        own = [Step(*step) for step in self._hosts.get(host, ())]
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
