"""The way to a source's next poll as a picture: a bar of rests, a flight of backoff steps, a lane.

Where things stand is in percent of the width, so that a picture fits every screen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from headwater.model import EPOCH, Source
from headwater.rules.explanation import Explanation, LaneNow, Step, span
from headwater.rules.policy import Policy
from headwater.rules.schedule import MAX_DOUBLINGS, backoff_cap_minutes, effective_minutes

_NARROWEST = 11.0  # percent: what is short still shows
_LABELLED = 17.0  # percent: narrower than this, a length does not fit in
_MOST_STEPS = 8
_MOST_AHEAD = 6
_TALLEST, _LOWEST = 100.0, 14.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the bar: why the source rests, from when to when."""

    kind: str  # interval, backoff, waiting, hold, delay: also the class it is coloured by
    words: str
    length: str
    x: float
    width: float

    @property
    def is_labelled(self) -> bool:
        """Whether its length fits in."""
        return self.width >= _LABELLED


@dataclass(frozen=True, slots=True)
class BackoffStep:
    """The interval after so many failures in a row."""

    failures: int
    length: str
    height: float
    is_current: bool
    is_cap: bool

    @property
    def words(self) -> str:
        """After which failures it is that long."""
        if self.failures == 0:
            return "no failure"
        if self.is_cap:
            return f"{self.failures} or more failures"
        return "1 failure" if self.failures == 1 else f"{self.failures} failures"


@dataclass(frozen=True, slots=True)
class LanePicture:
    """Who is in the source's lane: somebody being polled, others before it, the source itself."""

    polling_other: bool
    ahead: int
    hidden: int  # of those ahead, how many more there are than are drawn
    is_in_line: bool
    polling: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn, and the same in words."""

    begins_at: datetime | None
    ends_at: datetime | None
    begins_with: str  # what happened there
    stretches: tuple[Stretch, ...]
    now_x: float | None
    backoff: tuple[BackoffStep, ...]
    lane: LanePicture
    steps: tuple[Step, ...]


def picture_of(
    source: Source, explanation: Explanation, lane: LaneNow, now: datetime, policy: Policy
) -> Picture:
    """The picture of an explanation, as it stands now."""
    # two may hold it, its lane and itself: the later one counts
    named = {step.what: step for step in sorted(explanation.steps, key=lambda s: s.at or EPOCH)}
    moments = _moments(source, explanation, named, now)
    edges = _edges(moments)
    begins = moments[0][1] if moments else None
    return Picture(
        begins_at=begins,
        ends_at=moments[-1][1] if len(moments) > 1 else None,
        begins_with="First contact" if "first contact" in named else "Last poll",
        stretches=_stretches(source, moments, edges),
        now_x=_place(now, moments, edges),
        backoff=_flight(source, policy),
        lane=_lane(lane),
        steps=tuple(_told_here(step) for step in explanation.steps),
    )


def _moments(
    source: Source, explanation: Explanation, named: Mapping[str, Step], now: datetime
) -> list[tuple[str, datetime]]:
    """What ends at which moment, from the last poll to the next, none of it before the other."""
    next_at = explanation.next_poll_at
    if source.last_polled is None or next_at is None or source.last_polled >= next_at:
        return []
    moments = [("last", source.last_polled)]
    if source.requested_at is not None:
        _add(moments, "interval", now)
    else:
        own = source.last_polled + timedelta(minutes=source.poll_interval_minutes)
        _add(moments, "interval", own)
        if "backoff" in named:
            _add(moments, "backoff", named["due"].at)
    due = moments[-1]
    for name, kind in (("hold", "hold"), ("next allowed", "delay")):
        if name in named:
            _add(moments, kind, named[name].at)
    if moments[-1] == due:
        _add(moments, "waiting", now)
    return moments


def _add(moments: list[tuple[str, datetime]], kind: str, at: datetime | None) -> None:
    """What is shorter than a second is nothing to look at."""
    if at is not None and at - moments[-1][1] >= timedelta(seconds=1):
        moments.append((kind, at))


def _edges(moments: Sequence[tuple[str, datetime]]) -> list[float]:
    """Where each moment stands; a week beside a minute leaves the minute room to be seen."""
    if len(moments) < 2:
        return []
    lengths = [(after[1] - before[1]).total_seconds() ** 0.5 for before, after in pairwise(moments)]
    free = 100 - _NARROWEST * len(lengths)
    edges = [0.0]
    for length in lengths:
        edges.append(edges[-1] + _NARROWEST + free * length / sum(lengths))
    return edges


def _stretches(
    source: Source, moments: Sequence[tuple[str, datetime]], edges: Sequence[float]
) -> tuple[Stretch, ...]:
    words = {
        "interval": "asked for before its rest was over" if source.requested_at else "its interval",
        "backoff": "backoff: it rests longer while it fails",
        "waiting": "overdue: waits for its turn",
        "hold": "hold: its host asked to be left alone",
        "delay": "pause between two polls of its host",
    }
    return tuple(
        Stretch(
            kind=kind,
            words=words[kind],
            length=span((at - since).total_seconds()),
            x=round(x, 2),
            width=round(end - x, 2),
        )
        for ((_, since), (kind, at)), (x, end) in zip(
            pairwise(moments), pairwise(edges), strict=True
        )
    )


def _place(
    moment: datetime, moments: Sequence[tuple[str, datetime]], edges: Sequence[float]
) -> float | None:
    """Where a moment stands on the bar; None if there is no bar."""
    if not edges:
        return None
    for ((_, since), (_, until)), (x, end) in zip(pairwise(moments), pairwise(edges), strict=True):
        if moment <= until:
            passed = max((moment - since) / (until - since), 0.0)
            return round(x + (end - x) * passed, 2)
    return edges[-1]


def _flight(source: Source, policy: Policy) -> tuple[BackoffStep, ...]:
    """The intervals after 0, 1, 2 … failures up to the cap, around the current one (S3)."""
    if source.consecutive_failures <= 0 or not source.enabled:
        return ()
    own, cap = source.poll_interval_minutes, backoff_cap_minutes(source.max_backoff_hours, policy)
    rests = [effective_minutes(own, failures, cap) for failures in range(MAX_DOUBLINGS + 1)]
    last = rests.index(rests[-1])
    current = min(source.consecutive_failures, last)
    first = max(0, min(current - _MOST_STEPS // 2, last + 1 - _MOST_STEPS))
    shown = range(first, min(first + _MOST_STEPS, last + 1))
    return tuple(
        BackoffStep(
            failures=failures,
            length=span(rests[failures] * 60),
            height=_height(failures - first, len(shown)),
            is_current=failures == current,
            is_cap=failures == last,
        )
        for failures in shown
    )


def _height(index: int, count: int) -> float:
    """Steps of one height: each is twice as long as the one before, and nobody could draw that."""
    rise = (_TALLEST - _LOWEST) / max(count - 1, 1)
    return round(_LOWEST + rise * index, 1)


def _lane(lane: LaneNow) -> LanePicture:
    ahead = lane.ahead or 0
    return LanePicture(
        polling_other=lane.in_flight and not lane.polling,
        ahead=min(ahead, _MOST_AHEAD),
        hidden=max(ahead - _MOST_AHEAD, 0),
        is_in_line=lane.ahead is not None and not lane.polling,
        polling=lane.polling,
    )


def _told_here(step: Step) -> Step:
    """A step for somebody at this page, who has buttons instead of a command line."""
    detail = step.detail
    if step.what == "disabled":
        detail = detail.replace("`headwater enable` starts it again", "Enable starts it again")
    elif step.what == "API key":
        detail = "none; its owner can add one under Accounts"
    return Step(step.what, detail, step.at)
