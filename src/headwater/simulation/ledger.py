"""What a checker knows of sources and hosts, and the rules of the specification worked out anew.

Nothing here is taken from `headwater.rules`: a mistake there must not hide itself.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headwater.model import Source, SourceType
from headwater.rules.policy import Policy
from headwater.simulation.hosts import Truth
from headwater.simulation.trail import Steps, steps

FUTURE = timedelta(seconds=5)  # S2


@dataclass(slots=True)
class Account:
    """One source as it ought to be."""

    id: str
    lane: str
    delay: float
    interval: int  # minutes
    cap: int  # minutes
    limit: int  # permanent failures in a row that end it (F3)
    enabled: bool
    last_polled: datetime | None
    failures: int = 0
    permanent: int = 0
    kind: str | None = None
    requested: bool = False
    spent: datetime | None = None  # the `last_polled` whose due time was used up by a poll
    held_until: float = 0.0  # P9, where holds are for one source
    asked_at: float = 0.0  # when something else than a poll last changed it
    pending: bool = False  # a poll has begun and is not stored yet
    ended_in_trouble: bool = False  # it was switched off while the network was broken
    number: int = 0
    type: SourceType = SourceType.RSS
    expected_at: datetime | None = None  # the wall clock's moment of the answer to be stored
    posts: set[str] = field(default_factory=set)
    due_at: datetime | None = None
    answer: tuple[Truth, str | None, bool] | None = None  # with the outage and trouble of then

    def settle(self) -> None:
        """Work out from when on it is due by time (S2, S3)."""
        last = self.last_polled
        self.due_at = None if last is None else last + timedelta(minutes=self.rest())

    def rest(self) -> int:
        """The effective interval in minutes (S3)."""
        if self.failures == 0:
            return self.interval
        doubled = self.interval
        for _ in range(self.failures):
            doubled *= 2
            if doubled >= self.cap:
                doubled = self.cap
                break
        return max(self.interval, doubled)


@dataclass(slots=True)
class Spot:
    """One host, or one owner's share of X, as it ought to be left alone."""

    name: str
    most_delay: float = 0.0
    guest: str | None = None  # the source that is being asked for
    free_at: float = 0.0
    held_until: float = 0.0
    held_since: float = 0.0
    held_before: float = 0.0
    held_by: str = ""  # the source that was told so
    began_at: float = float("-inf")
    last_due: datetime | None = None  # when the last one that began had fallen due
    returned_after: int = 0  # the outage after which it came back
    steps: Steps = field(default_factory=steps)  # what happened there of late

    def rest(self, until: float) -> None:
        """Leave it alone until then."""
        if until > self.free_at:
            self.free_at = until


def account_of(source: Source, policy: Policy, lane: str) -> Account:
    """The account of a source that nothing has happened to yet."""
    cap = source.max_backoff_hours or policy.max_backoff_hours
    account = Account(
        id=source.id,
        lane=lane,
        delay=delay_of(source, policy, lane),
        interval=source.poll_interval_minutes,
        cap=cap * 60,
        limit=source.max_failures or policy.max_failures,
        enabled=source.enabled,
        last_polled=source.last_polled,
        failures=source.consecutive_failures,
        permanent=source.permanent_failures,
        kind=source.permanent_kind,
        requested=source.requested_at is not None,
    )
    account.settle()
    return account


def delay_of(source: Source, policy: Policy, lane: str) -> float:
    """The pause after a poll: the first that is set of source, host, wildcard, type (P2)."""
    if not lane:
        return 0.0
    if source.poll_delay_seconds is not None:
        return float(source.poll_delay_seconds)
    return passing_delay(source.type, policy, lane)


def passing_delay(type_: SourceType, policy: Policy, lane: str) -> float:
    """The pause of a host that a visitor was sent on to (P3)."""
    host = lane.split("/")[0]
    labels = host.split(".")
    names = [host, *("*." + ".".join(labels[first:]) for first in range(1, len(labels)))]
    for name in names:
        override = policy.host_overrides.get(name)
        if override is not None and override.poll_delay_seconds is not None:
            return float(override.poll_delay_seconds)
    return float(policy.type_delay_seconds.get(type_, 0))
