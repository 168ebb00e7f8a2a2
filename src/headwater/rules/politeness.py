"""Which lane a source runs in, and when that lane is free (P1-P4, O4); holds: `holds.py`."""

from datetime import datetime, timedelta

from headwater.model import Hold, HostState, Source, SourceType
from headwater.rules.policy import Policy
from headwater.rules.urls import url_host

X_HOST = "x.com"
SOON_SECONDS = 1.0  # a process waits this long for a host while it holds the host's lock


def host_of(source: Source) -> str | None:
    """The host whose lane a source belongs to; None for a URL without one (P1, P4)."""
    return X_HOST if source.type is SourceType.TWITTER else url_host(source.url)


def lane_of(source: Source, user_id: str) -> str | None:
    """The name of a source's lane: its host, and for X one per owner (P1)."""
    return lane_name(source.type, host_of(source), user_id)


def lane_name(type_: SourceType, host: str | None, user_id: str) -> str | None:
    """A lane's name from its parts, as `lane_of` computes it."""
    return f"{X_HOST}/{user_id}" if type_ is SourceType.TWITTER else host


def host_of_lane(lane: str) -> str:
    """The host that a lane's name begins with."""
    return lane.partition("/")[0]


def poll_delay(source: Source, policy: Policy) -> timedelta:
    """The pause of the lane after a poll of this source (P2)."""
    host = host_of(source)
    return timedelta(seconds=delay_seconds(source.poll_delay_seconds, source.type, host, policy))


def delay_seconds(own: float | None, type_: SourceType, host: str | None, policy: Policy) -> float:
    """The first delay that is set, an explicit 0 included (P2); the null lane has none (P4)."""
    if host is None and type_ is not SourceType.TWITTER:
        return 0.0
    if own is None:
        own = policy.host_delay_seconds(host)
    return float(policy.type_delay_seconds.get(type_, 0) if own is None else own)


def delay_origin(source: Source, policy: Policy) -> str:
    """Where a source's delay comes from, as text for users."""
    return origin_of_delay(source.poll_delay_seconds, source.type, host_of(source), policy)


def origin_of_delay(own: float | None, type_: SourceType, host: str | None, policy: Policy) -> str:
    """Which setting `delay_seconds` used, as text for users."""
    if host is None:
        return "the null lane has none"
    if own is not None:
        return "the source's own pollDelaySeconds"
    if policy.host_delay_seconds(host) is not None:
        return f"host-overrides for {host}"
    if type_ in policy.type_delay_seconds:
        return f"poll-delay-seconds.{type_}"
    return "the default"


def wait_seconds(until: datetime | None, set_at: datetime | None, now: datetime) -> float:
    """Seconds until a stored time; setting the clock back does not lengthen the wait (O4)."""
    if until is None:
        return 0.0
    left = until - now
    if set_at is not None:
        left = min(left, until - set_at)
    return max(left.total_seconds(), 0.0)


def hold_seconds(hold: Hold | None, now: datetime) -> float:
    """Seconds until a hold ends."""
    return 0.0 if hold is None else wait_seconds(hold.until, hold.set_at, now)


def visit_wait_seconds(
    state: HostState, now: datetime, *, own_until: datetime | None = None
) -> float:
    """How long a lane must still be left alone (P3, P9).

    `own_until`: end of a delay that the same visit caused and need not wait for.
    """
    held = hold_seconds(state.hold, now)
    if state.next_allowed_at == own_until:
        return held
    return max(held, wait_seconds(state.next_allowed_at, state.next_allowed_set_at, now))


def host_free_at(state: HostState, now: datetime) -> datetime:
    """When a lane may send its next request (P3, P9)."""
    return now + timedelta(seconds=visit_wait_seconds(state, now))
