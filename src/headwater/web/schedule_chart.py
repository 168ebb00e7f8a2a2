"""The chart of a source's next poll: waiting times as parts of a bar, and backoff steps.

Positions are percentages of the width, so that the chart fits every screen.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from headwater.model import EPOCH, Source
from headwater.rules.explanation import Explanation, ExplanationStep
from headwater.rules.policy import Policy
from headwater.rules.schedule import MAX_DOUBLINGS, backoff_cap_minutes, effective_minutes

_MIN_WIDTH = 11.0  # percent: short segments stay visible
_MAX_STEPS = 8


class ChartSegment(NamedTuple):
    """A part of the bar: why the source waits, and how long."""

    kind: str  # interval, backoff, waiting, hold or delay; also its CSS class
    seconds: float
    x: float
    width: float


class BackoffStep(NamedTuple):
    """The interval after a number of failures in a row."""

    failures: int
    minutes: int
    is_current: bool
    is_cap: bool


class ScheduleChart(NamedTuple):
    """The waiting times from the last poll to the next, and the position of now among them."""

    begins_at: datetime | None
    begins_with: str  # what happened then
    segments: Sequence[ChartSegment]
    now_x: float | None  # None: there is no bar
    backoff: Sequence[BackoffStep]


def schedule_chart_of(
    source: Source, explanation: Explanation, now: datetime, policy: Policy
) -> ScheduleChart:
    """Return the chart of an explanation."""
    # a lane and a source may both have a hold: the later one counts
    named = {step.what: step for step in sorted(explanation.steps, key=lambda s: s.at or EPOCH)}
    moments = _moments(source, explanation, named, now)
    lengths = [(end[1] - begin[1]).total_seconds() for begin, end in pairwise(moments)]
    # square roots: a minute stays visible next to a week
    share = (100 - _MIN_WIDTH * len(lengths)) / (sum(n**0.5 for n in lengths) or 1)
    segments: list[ChartSegment] = []
    x, now_x = 0.0, None
    for ((_, since), (kind, until)), seconds in zip(pairwise(moments), lengths, strict=True):
        width = _MIN_WIDTH + share * seconds**0.5
        segments.append(ChartSegment(kind, seconds, round(x, 2), round(width, 2)))
        if now_x is None and now <= until:
            now_x = round(x + width * max((now - since) / (until - since), 0.0), 2)
        x += width
    return ScheduleChart(
        begins_at=moments[0][1] if moments else None,
        begins_with="First contact" if "first contact" in named else "Last check",
        segments=segments,
        now_x=x if segments and now_x is None else now_x,
        backoff=_backoff_steps(source, policy),
    )


def _moments(
    source: Source, explanation: Explanation, named: Mapping[str, ExplanationStep], now: datetime
) -> list[tuple[str, datetime]]:
    """Return the end of each waiting time, from the last poll to the next, in order."""
    next_at = explanation.next_poll_at
    if source.last_polled is None or next_at is None or source.last_polled >= next_at:
        return []
    moments = [("last", source.last_polled)]

    def add(kind: str, at: datetime | None) -> None:
        """Add a waiting time, unless it is shorter than a second."""
        if at is not None and at - moments[-1][1] >= timedelta(seconds=1):
            moments.append((kind, at))

    if source.requested_at is not None:
        add("interval", now)
    else:
        add("interval", source.last_polled + timedelta(minutes=source.poll_interval_minutes))
        if "backoff" in named:
            add("backoff", named["due"].at)
    due = moments[-1]
    for name, kind in (("hold", "hold"), ("next allowed", "delay")):
        if name in named:
            add(kind, named[name].at)
    if moments[-1] == due:
        add("waiting", now)
    return moments


def _backoff_steps(source: Source, policy: Policy) -> Sequence[BackoffStep]:
    """Return the intervals after 0, 1, 2 … failures up to the cap, around the current one (S3)."""
    if source.consecutive_failures <= 0 or not source.enabled:
        return ()
    own, cap = source.poll_interval_minutes, backoff_cap_minutes(source.max_backoff_hours, policy)
    intervals = [effective_minutes(own, failures, cap) for failures in range(MAX_DOUBLINGS + 1)]
    last = intervals.index(intervals[-1])
    current = min(source.consecutive_failures, last)
    first = max(0, min(current - _MAX_STEPS // 2, last + 1 - _MAX_STEPS))
    return [
        BackoffStep(failures, intervals[failures], failures == current, failures == last)
        for failures in range(first, min(first + _MAX_STEPS, last + 1))
    ]
