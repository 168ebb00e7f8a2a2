"""Holds: how long `Retry-After` stops requests, and whether of a lane or of one source (P9)."""

from datetime import datetime, timedelta

from headwater.model import Failure, Hold, Source, SourceType, Subject
from headwater.rules.policy import HoldScope, Policy
from headwater.rules.politeness import host_of, lane_of
from headwater.rules.schedule import backoff_cap

HOLD_WITHOUT_RETRY_AFTER_SECONDS = 600.0  # of a host that responds 429 without it


def hold_of(source: Source, failure: Failure, now: datetime, policy: Policy) -> Hold | None:
    """The hold that a failure causes, at most the source's backoff cap; None if it causes none."""
    if failure.hold_seconds is None:
        return None
    cap = backoff_cap(source, policy).total_seconds()
    length = timedelta(seconds=min(failure.hold_seconds, cap))
    reason = failure.message
    if failure.hold_host is not None:  # other owners see the hold, but must not see this URL
        reason = f"HTTP {failure.status} from {failure.hold_host}"
    return Hold(until=now + length, set_at=now, reason=reason)


def is_of_source(source: Source, failure: Failure, policy: Policy) -> bool:
    """Whether a hold applies to this source alone: `hold-scope: source`."""
    host = failure.hold_host or host_of(source)
    return source.type is not SourceType.TWITTER and policy.hold_scope(host) is HoldScope.SOURCE


def held_lane(subject: Subject, failure: Failure, policy: Policy) -> str | None:
    """The lane that a hold applies to: of the host that responded; of X, the owner's."""
    source = subject.source
    own = lane_of(source, subject.user_id)
    if own is None or is_of_source(source, failure, policy):
        return None
    return own if source.type is SourceType.TWITTER else failure.hold_host or own
