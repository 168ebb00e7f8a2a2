"""The trace of a violated rule: recent events of a host and of the machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

MAX_TRACE_LINES = 40  # of a violation; no host keeps more steps


class TrailStep(NamedTuple):
    """One event."""

    at: float
    wall: datetime
    what: str
    source_id: str = ""
    detail: object = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was violated, with the events before it."""

    rule: str
    what: str
    host: str
    source_id: str
    at: float
    trace: Sequence[str]

    def __str__(self) -> str:
        return f"{self.rule} at {format_time(self.at)}: {self.what}"


def trace(host_steps: Sequence[TrailStep], faults: Sequence[TrailStep]) -> list[str]:
    """Return the steps at a host and the faults of the machine since, one per line."""
    first = host_steps[0].at if host_steps else 0.0
    since = [step for step in faults if step.at >= first] or faults[-3:]
    merged = sorted([*since, *host_steps], key=lambda step: step.at)
    return [_line(step) for step in merged[-MAX_TRACE_LINES:]]


def format_time(seconds: float) -> str:
    """Return a time since the start as day, hour, minute and second."""
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    return f"day {int(days)} {int(hours):02}:{int(minutes):02}:{rest:06.3f}"


def _line(step: TrailStep) -> str:
    detail = f" {step.detail}" if step.detail != "" else ""
    source = f" {step.source_id}" if step.source_id else ""
    time = f"{format_time(step.at)}  (clock {step.wall:%Y-%m-%d %H:%M:%S})"
    return f"{time}  {step.what}{source}{detail}"
