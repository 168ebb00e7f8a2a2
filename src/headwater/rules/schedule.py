"""When a source is polled (S2, S3, P6)."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from headwater.model import Source
from headwater.rules.policy import Policy

# 2^27 minutes are 255 years, beyond every cap that settings allow; the SQL twin bounds it alike.
MAX_DOUBLINGS = 27
CLOCK_TOLERANCE = timedelta(seconds=5)
_MINUTE = timedelta(minutes=1)


def effective_interval(source: Source, policy: Policy) -> timedelta:
    """The rest of a source between two polls, longer while it fails (S3)."""
    cap = backoff_cap_minutes(source.max_backoff_hours, policy)
    minutes = effective_minutes(source.poll_interval_minutes, source.consecutive_failures, cap)
    return minutes * _MINUTE


def effective_minutes(interval: int, failures: int, cap: int) -> int:
    """The formula of S3, all in minutes."""
    if failures <= 0:
        return interval
    return max(interval, min(interval << min(failures, MAX_DOUBLINGS), cap))


def backoff_cap(source: Source, policy: Policy) -> timedelta:
    """The longest rest that failures, and holds, can give a source (S3, P9)."""
    return timedelta(minutes=backoff_cap_minutes(source.max_backoff_hours, policy))


def backoff_cap_minutes(own_hours: int | None, policy: Policy) -> int:
    """The cap of S3 in minutes: the source's own, else the configured one."""
    return 60 * (own_hours if own_hours is not None else policy.max_backoff_hours)


def due_at(source: Source, policy: Policy) -> datetime | None:
    """The moment from which a source is due; None before first contact, or when disabled (S2)."""
    if source.requested_at is not None:  # a person may poll a disabled one too (S4)
        return source.requested_at
    if not source.enabled or source.last_polled is None:
        return None
    return source.last_polled + effective_interval(source, policy)


def is_due(source: Source, now: datetime, policy: Policy) -> bool:
    """Whether the scheduler shall poll the source now (S2, S4)."""
    if source.requested_at is not None:  # at once, also where the clock was set back since (S9)
        return True
    moment = due_at(source, policy)
    return moment is not None and moment <= now


def is_from_the_future(source: Source, now: datetime) -> bool:
    """Whether the clock was set back since the last poll, so that it must be rewritten (S2)."""
    return source.last_polled is not None and source.last_polled > now + CLOCK_TOLERANCE


def first_contact(source: Source, now: datetime, rng: Random) -> Source:
    """Pretend a poll at a random moment of the last interval, so first polls spread out (P6)."""
    milliseconds_ago = int(rng.uniform(0, source.poll_interval_minutes) * 60_000)
    return replace(source, last_polled=now - timedelta(milliseconds=milliseconds_ago))
