"""Explains when a source is polled next: the steps from its interval to its lane."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from headwater.model import HostState, Source, SourceType
from headwater.rules.moves import MIN_POLLS, MIN_TIME
from headwater.rules.policy import Policy
from headwater.rules.politeness import delay_origin, hold_seconds, host_free_at, host_of, poll_delay
from headwater.rules.schedule import backoff_cap, due_at, effective_interval, probation_at
from headwater.rules.url_secrets import masked
from headwater.source_settings import FullText

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """One rule or state that decides when the next poll is."""

    what: str
    detail: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """When a source will be polled next, and why."""

    next_poll_at: datetime | None
    steps: tuple[ExplanationStep, ...]


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """The live state of a source's lane; without a running service only `paused` is known."""

    ahead: int | None = None  # sources queued before this one; None: it is not queued
    seconds_before: float = 0.0  # their delays in total
    in_flight: bool = False  # some source of the lane is being polled
    polling: bool = False  # and it is this one
    paused: bool = False  # the scheduler is switched off (G2)
    outage: str | None = None  # the kind of the current outage (O2, O3)


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
    return max([due, *(moment for moment in (free, own_hold) if moment > now)])


def explain(
    source: Source,
    state: HostState,
    now: datetime,
    policy: Policy,
    *,
    polled: bool = True,
    key_advice: str | None = None,
    lane: LaneStatus | None = None,
    pages_pending: int = 0,
    storm_kind: str | None = None,
    search: tuple[datetime, str | None] | None = None,
) -> Explanation:
    """The next poll of a source, step by step.

    `polled`: whether it was ever polled; first contact stores a synthetic `last_polled` (P6).
    `key_advice`: how to add the API key that its owner lacks (X1).
    `lane`: the live state of its lane, where a service runs.
    `pages_pending`: how many pages of its new posts are still to be read (T4).
    `storm_kind`: the failure of a storm of its host that lasts (Y6).
    `search`: when the last search for a lost feed began, and what came of it; None: it runs (Y5).
    """
    is_paused = lane is not None and lane.paused
    steps = [*_schedule_steps(source, policy, polled=polled, is_paused=is_paused)]
    if key_advice is not None:
        steps.append(ExplanationStep("API key", f"none; {key_advice}"))
    if storm_kind is not None and source.consecutive_failures:
        text = (
            f"many sources of the host fail in the same way ({storm_kind}): that is the host's "
            "fault and disables no source, until a poll of the host succeeds"
        )
        steps.append(ExplanationStep("failure storm", text))
    steps += _lane_steps(source, state, now, policy)
    steps += _page_steps(source, pages_pending)
    steps += _address_steps(source, search)
    next_at = next_poll_at(source, state, now, policy)
    if lane is None:
        return Explanation(next_at, tuple(steps))
    if next_at is not None and lane.ahead is not None:
        next_at = max(next_at, now) + timedelta(seconds=lane.seconds_before)
    steps += _steps_now(lane, next_at)
    manual = source.requested_at is not None or lane.polling
    is_suspended = (lane.paused or lane.outage is not None) and not manual
    return Explanation(None if is_suspended else next_at, tuple(steps))


def span(seconds: float) -> str:
    """A length of time in its two largest units, rounded down: `3 h`, `2 min 5 s`."""
    left = max(int(seconds), 0)
    for (size, unit), (smaller, name) in pairwise(_UNITS):
        count, rest = divmod(left, size)
        if count:
            part = f" {rest // smaller} {name}" if count < 10 and rest >= smaller else ""
            return f"{count} {unit}{part}"
    return f"{left} s"


def _schedule_steps(
    source: Source, policy: Policy, *, polled: bool, is_paused: bool
) -> Iterator[ExplanationStep]:
    own, last = timedelta(minutes=source.poll_interval_minutes), source.last_polled
    if source.enabled:
        yield ExplanationStep("interval", f"every {_interval_text(own)}")
    else:
        reason = source.disabled_reason or "disabled by a user"
        yield ExplanationStep("disabled", f"{reason}; `headwater enable` starts it again")
        if policy.probation and (attempt := probation_at(source)) is not None:
            yield ExplanationStep("probation", "it is tried again; a success enables it", attempt)
    if source.requested_at is not None:
        yield ExplanationStep("requested", "a poll was requested", source.requested_at)
    if not source.enabled:
        return
    if last is None:
        text = "first polls are spread over one interval"
        if not is_paused:
            text = "the next tick spreads first polls over one interval"
        yield ExplanationStep("first contact", text)
        return
    interval = effective_interval(source, policy)
    if not polled:
        text = "treated as polled then, so that first polls are spread over one interval"
        yield ExplanationStep("first contact", text, last)
        yield ExplanationStep("due", "first contact plus the interval", last + interval)
        return
    yield ExplanationStep("last polled", "its newest poll", last)
    failures = source.consecutive_failures
    if failures > 0:
        times = "once" if failures == 1 else f"{failures} times in a row"
        doubled = f"{_interval_text(own)} doubled{' each time' if failures > 1 else ''}"
        most = _interval_text(backoff_cap(source, policy))
        text = f"failed {times}: {doubled} is {_interval_text(interval)}, at most {most}"
        yield ExplanationStep("backoff", text)
    text = "last polled plus the effective interval"
    if not is_paused:
        text += "; the next tick queues it"
    yield ExplanationStep("due", text, last + interval)


def _lane_steps(
    source: Source, state: HostState, now: datetime, policy: Policy
) -> Iterator[ExplanationStep]:
    for hold in (state.hold, source.hold):
        if hold is not None and hold_seconds(hold, now) > 0:
            yield ExplanationStep("hold", hold.reason, hold.until)
    if state.next_allowed_at is not None and state.next_allowed_at > now:
        yield ExplanationStep("next allowed", "the lane's delay", state.next_allowed_at)
    delay = poll_delay(source, policy).total_seconds()
    host = host_of(source) or "no host: the null lane"
    origin = delay_origin(source, policy)
    yield ExplanationStep("lane", f"{host}, {delay:g} s between polls ({origin})")


def _page_steps(source: Source, pending: int) -> Iterator[ExplanationStep]:
    if source.full_text is FullText.OFF or source.type is not SourceType.RSS:
        return
    text = "the pages of new posts are read in the lanes of their hosts, after polls"
    counted = {0: "none is pending", 1: "1 is pending"}.get(pending, f"{pending:,} are pending")
    waits = "" if source.enabled or not pending else " until the source is enabled"
    yield ExplanationStep("full text", f"{text}; {counted}{waits}")


def _address_steps(
    source: Source, search: tuple[datetime, str | None] | None
) -> Iterator[ExplanationStep]:
    """What is known about other URLs of the source (Y4, Y5)."""
    redirect = source.redirect
    if redirect is not None and redirect.polls:
        times = "once" if redirect.polls == 1 else f"by {redirect.polls:,} polls"
        text = f"a permanent redirect to {masked(redirect.url)} was followed {times}"
        after = f"it is suggested after {MIN_POLLS} polls over {MIN_TIME.days} days"
        yield ExplanationStep(
            "redirect", text if redirect.is_suggested else f"{text}; {after}", redirect.since
        )
    if search is not None and (source.consecutive_failures or not source.enabled):
        began_at, result = search
        text = "its site is being searched for another feed" if result is None else result
        yield ExplanationStep("feed search", text, began_at)


def _steps_now(lane: LaneStatus, next_at: datetime | None) -> Iterator[ExplanationStep]:
    if lane.polling:
        yield ExplanationStep("in flight", "it is being polled right now")
    elif lane.ahead is not None:
        yield ExplanationStep("lane position", _position(lane), next_at if lane.ahead else None)
    elif lane.in_flight:
        text = "another source of the lane is being polled right now"
        yield ExplanationStep("lane position", text)
    if lane.paused:
        yield ExplanationStep("paused", "the scheduler is paused; only manual polls run")
    if lane.outage is not None:
        text = f"this machine seems to be offline ({lane.outage}); only probes and manual polls run"
        yield ExplanationStep("outage", text)


def _position(lane: LaneStatus) -> str:
    texts = {0: "next in its lane", 1: "1 source waits before it"}
    text = texts.get(lane.ahead or 0, f"{lane.ahead} sources wait before it")
    if lane.in_flight:
        text = f"{text}, one is being polled right now"
    waits = lane.ahead and lane.seconds_before >= 1
    return f"{text}; their delays take {span(lane.seconds_before)}" if waits else text


def _interval_text(length: timedelta) -> str:
    """An interval to the minute: 1,000 minutes are 16 h 40 min, not 16 h."""
    minutes = int(length.total_seconds()) // 60
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    text = " ".join(f"{count} {unit}" for count, unit in parts if count)
    return text or span(length.total_seconds())
