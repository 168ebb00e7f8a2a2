"""When a source is polled (S2, S3, P6)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

from headwater.model import Source, SourceType, changed
from headwater.rules.policy import Policy

# 2^27 minutes are 255 years, beyond every configurable cap; the SQL version has the same bound.
MAX_DOUBLINGS = 27
CLOCK_TOLERANCE = timedelta(seconds=5)
# after an auto-disabled source was disabled (Y9); a generated column has the same days
PROBATION_DAYS = (1, 3, 7, 14, 28)


def effective_interval(source: Source, policy: Policy) -> timedelta:
    """The time between two polls of a source, longer while it fails (S3)."""
    cap = backoff_cap_minutes(source.max_backoff_hours, policy)
    minutes = effective_minutes(source.poll_interval_minutes, source.consecutive_failures, cap)
    return timedelta(minutes=minutes)


def effective_minutes(interval: int, failures: int, cap: int) -> int:
    """The formula of S3, all in minutes."""
    if failures <= 0:
        return interval
    return max(interval, min(interval << min(failures, MAX_DOUBLINGS), cap))


def backoff_cap(source: Source, policy: Policy) -> timedelta:
    """The longest interval that failures or holds can cause (S3, P9)."""
    return timedelta(minutes=backoff_cap_minutes(source.max_backoff_hours, policy))


def backoff_cap_minutes(own_hours: int | None, policy: Policy) -> int:
    """The cap of S3 in minutes: the source's own, else the configured one."""
    return 60 * (own_hours if own_hours is not None else policy.max_backoff_hours)


def due_at(source: Source, policy: Policy) -> datetime | None:
    """When a source becomes due; None before first contact or when disabled (S2, Y9)."""
    if source.requested_at is not None:  # a user may poll a disabled source too (S4)
        return source.requested_at
    if not source.enabled:
        return probation_at(source) if policy.probation else None
    if source.last_polled is None:
        return None
    return source.last_polled + effective_interval(source, policy)


def is_due(source: Source, now: datetime, policy: Policy) -> bool:
    """Whether the scheduler polls the source now (S2, S4)."""
    if source.requested_at is not None:  # immediately, even if the clock was set back since (S9)
        return True
    moment = due_at(source, policy)
    return moment is not None and moment <= now


def probation_at(source: Source) -> datetime | None:
    """The next attempt to poll an auto-disabled source; None after the last, or without (Y9)."""
    disabled_at, polled = source.disabled_at, source.last_polled
    if source.enabled or disabled_at is None:
        return None
    attempts = (disabled_at + timedelta(days=days) for days in PROBATION_DAYS)
    return next((at for at in attempts if polled is None or polled < at), None)


def is_from_the_future(source: Source, now: datetime) -> bool:
    """Whether the clock was set back since the last poll, so `last_polled` must be reset (S2)."""
    return source.last_polled is not None and source.last_polled > now + CLOCK_TOLERANCE


def first_contact(source: Source, now: datetime, rng: Random) -> Source:
    """Pretend a poll at a random moment of the last interval, so first polls spread out (P6)."""
    milliseconds_ago = int(rng.uniform(0, source.poll_interval_minutes) * 60_000)
    return changed(source, {"last_polled": now - timedelta(milliseconds=milliseconds_ago)})


def first_contacts(
    sources: Sequence[Source],
    polled: Mapping[tuple[SourceType, str], datetime],
    now: datetime,
    rng: Random,
) -> list[Source]:
    """First contact of many; sources with the same type and URL become due together (Y7).

    `polled`: the last polls of other sources, by type and URL.
    """
    times, found = dict(polled), list[Source]()
    for source in sources:
        key, interval = (source.type, source.url), timedelta(minutes=source.poll_interval_minutes)
        if not now - interval <= times.get(key, now - 2 * interval) <= now:
            times[key] = first_contact(source, now, rng).last_polled or now
        found.append(changed(source, {"last_polled": times[key]}))
    return found
