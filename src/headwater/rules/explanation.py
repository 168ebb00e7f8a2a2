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


def explain(source: Source, state: HostState, now: datetime, policy: Policy) -> Explanation:
    """The next poll of a source, step by step."""
    steps = [*_schedule_steps(source, policy), *_lane_steps(source, state, now, policy)]
    return Explanation(next_poll_at(source, state, now, policy), tuple(steps))


def _schedule_steps(source: Source, policy: Policy) -> list[Step]:
    requested = []
    if source.requested_at is not None:
        requested.append(Step("requested", "somebody asked for a poll", source.requested_at))
    if not source.enabled:
        reason = source.disabled_reason or "switched off by a person"
        return [Step("disabled", f"{reason}; `headwater enable` starts it again"), *requested]
    minutes = source.poll_interval_minutes
    steps = [Step("interval", f"every {minutes} min"), *requested]
    if source.last_polled is None:
        steps.append(Step("first contact", "the next tick spreads first polls over one interval"))
        return steps
    polled = "last poll" if source.first_poll_done or source.last_error else "last poll or jitter"
    steps.append(Step("last polled", polled, source.last_polled))
    if source.consecutive_failures > 0:
        interval = effective_interval(source, policy)
        cap = backoff_cap(source, policy)
        steps.append(
            Step(
                "backoff",
                f"failed {source.consecutive_failures} times in a row: {minutes} min doubled each "
                f"time is {_minutes(interval)}, at most {_minutes(cap)}",
            )
        )
    due = source.last_polled + effective_interval(source, policy)
    return [*steps, Step("due", "last polled plus the effective interval", due)]


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


def _minutes(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    return f"{minutes // 60} h" if minutes % 60 == 0 and minutes >= 120 else f"{minutes} min"
