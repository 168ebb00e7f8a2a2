"""Why a source is polled when it is: the steps from its interval to its lane's next turn."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import HostState, Source
from headwater.rules.policy import Policy
from headwater.rules.politeness import (
    delay_origin,
    hold_seconds,
    host_free_at,
    host_of,
    poll_delay,
)
from headwater.rules.schedule import backoff_cap, due_at, effective_interval

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class Step:
    """One reason on the way to the next poll."""

    what: str
    detail: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """When a source will be polled next, and why."""

    next_poll_at: datetime | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class LaneNow:
    """How things stand in a source's lane while a service runs; no table tells."""

    ahead: int | None = None  # how many wait before the source; None: it does not wait
    seconds_before: float = 0.0  # the delays of those
    in_flight: bool = False  # some source of the lane is being polled
    polling: bool = False  # and it is this one
    paused: bool = False  # the scheduler is switched off (G2)
    outage: str | None = None  # the kind of the outage that lasts (O2, O3)


def next_poll_at(
    source: Source, state: HostState, now: datetime, policy: Policy
) -> datetime | None:
    """The later of the source's due time and the lane's hold or next allowed visit."""
    due = due_at(source, policy)
    if due is None:
        return None
    if source.requested_at is not None:
        due = now
    free = host_free_at(state, now)
    own_hold = now + timedelta(seconds=hold_seconds(source.hold, now))
    waits = [moment for moment in (free, own_hold) if moment > now]
    return max([due, *waits])


def explain(
    source: Source,
    state: HostState,
    now: datetime,
    policy: Policy,
    *,
    polled: bool = True,
    key_advice: str | None = None,
    lane: LaneNow | None = None,
) -> Explanation:
    """The next poll of a source, step by step.

    `polled`: whether it ever was, since first contact invents a last poll (P6).
    `key_advice`: how to give its owner the API key that it lacks (X1).
    `lane`: how its lane stands, where a service runs.
    """
    steps = _schedule_steps(source, policy, polled=polled)
    if key_advice is not None:
        steps.append(Step("API key", f"none; {key_advice}"))
    steps += _lane_steps(source, state, now, policy)
    if lane is None:
        return Explanation(next_poll_at(source, state, now, policy), tuple(steps))
    next_at = next_poll_at(source, state, now, policy)
    if next_at is not None and lane.ahead is not None:
        next_at = max(next_at, now) + timedelta(seconds=lane.seconds_before)
    steps += _steps_now(lane, next_at)
    by_hand = source.requested_at is not None or lane.polling
    waits_for_better_times = (lane.paused or lane.outage is not None) and not by_hand
    return Explanation(None if waits_for_better_times else next_at, tuple(steps))


def span(seconds: float) -> str:
    """A length of time in its two largest units, rounded down: `3 h`, `2 min 5 s`."""
    left = max(int(seconds), 0)
    for index, (size, unit) in enumerate(_UNITS):
        if left >= size or size == 1:
            count, rest = divmod(left, size)
            if count < 10 and index + 1 < len(_UNITS):
                smaller, name = _UNITS[index + 1]
                if rest >= smaller:
                    return f"{count} {unit} {rest // smaller} {name}"
            return f"{count} {unit}"
    return "0 s"


def _schedule_steps(source: Source, policy: Policy, *, polled: bool) -> list[Step]:
    requested = []
    if source.requested_at is not None:
        requested.append(Step("requested", "somebody asked for a poll", source.requested_at))
    if not source.enabled:
        reason = source.disabled_reason or "switched off by a person"
        return [Step("disabled", f"{reason}; `headwater enable` starts it again"), *requested]
    own = timedelta(minutes=source.poll_interval_minutes)
    steps = [Step("interval", f"every {_told(own)}"), *requested]
    if source.last_polled is None:
        steps.append(Step("first contact", "the next tick spreads first polls over one interval"))
        return steps
    interval = effective_interval(source, policy)
    due = source.last_polled + interval
    if not polled:
        counted = "counted as if polled then, so that first polls spread over one interval"
        steps.append(Step("first contact", counted, source.last_polled))
        return [*steps, Step("due", "first contact plus the interval", due)]
    steps.append(Step("last polled", "its newest poll", source.last_polled))
    if source.consecutive_failures > 0:
        steps.append(_backoff_step(source, own, interval, backoff_cap(source, policy)))
    return [
        *steps,
        Step("due", "last polled plus the effective interval; the next tick takes it up", due),
    ]


def _backoff_step(source: Source, own: timedelta, interval: timedelta, cap: timedelta) -> Step:
    failures = source.consecutive_failures
    told = (
        f"failed once: {_told(own)} doubled"
        if failures == 1
        else f"failed {failures} times in a row: {_told(own)} doubled each time"
    )
    return Step("backoff", f"{told} is {_told(interval)}, at most {_told(cap)}")


def _lane_steps(source: Source, state: HostState, now: datetime, policy: Policy) -> list[Step]:
    steps = [
        Step("hold", hold.reason, hold.until)
        for hold in (state.hold, source.hold)
        if hold is not None and hold_seconds(hold, now) > 0
    ]
    if state.next_allowed_at is not None and state.next_allowed_at > now:
        steps.append(Step("next allowed", "the lane's delay", state.next_allowed_at))
    delay = poll_delay(source, policy).total_seconds()
    host = host_of(source) or "no host: the null lane"
    origin = delay_origin(source, policy)
    return [*steps, Step("lane", f"{host}, {delay:g} s between polls ({origin})")]


def _steps_now(lane: LaneNow, next_at: datetime | None) -> list[Step]:
    steps = []
    if lane.polling:
        steps.append(Step("in flight", "it is being polled right now"))
    elif lane.ahead is not None:
        steps.append(Step("lane position", _position(lane), next_at if lane.ahead else None))
    elif lane.in_flight:
        steps.append(Step("lane position", "another source of the lane is being polled right now"))
    if lane.paused:
        told = "the scheduler is switched off; only what is asked for by hand is polled"
        steps.append(Step("paused", told))
    if lane.outage is not None:
        probes = "only probes and what is asked for by hand are polled"
        steps.append(Step("outage", f"this machine seems cut off ({lane.outage}); {probes}"))
    return steps


def _position(lane: LaneNow) -> str:
    told = {0: "next in its lane", 1: "1 source waits before it"}.get(
        lane.ahead or 0, f"{lane.ahead} sources wait before it"
    )
    if lane.in_flight:
        told = f"{told}, one is being polled right now"
    waits = lane.ahead and lane.seconds_before >= 1
    return f"{told}; their delays take {span(lane.seconds_before)}" if waits else told


def _told(length: timedelta) -> str:
    """An interval, to the minute: nobody is to read 16 h for 1,000 minutes."""
    minutes = int(length.total_seconds()) // 60
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    told = " ".join(f"{count} {unit}" for count, unit in parts if count)
    return told or span(length.total_seconds())
