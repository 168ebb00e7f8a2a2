"""What a poll changes (F2, F3, R1, P7, P9)."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headwater.model import (
    Answer,
    Failure,
    FailureType,
    Hold,
    Outcome,
    OutcomeKind,
    Source,
    SourceType,
    Subject,
    changed,
    made,
)
from headwater.rules.admission import Known, Sifted, admit, last_seen, late_keys_after
from headwater.rules.discretion import discreet
from headwater.rules.policy import HoldScope, Policy
from headwater.rules.politeness import host_of, lane_of
from headwater.rules.schedule import backoff_cap


def succeeded(
    subject: Subject,
    answer: Answer,
    sifted: Sifted,
    known: Known,
    *,
    started_at: datetime,
    now: datetime,
    policy: Policy,
) -> Outcome:
    """Decide what an answer changes: posts, the source's state, the story for the history."""
    before = subject.source
    admission = admit(subject, sifted, known, now, policy)
    late_keys = None
    changes = _well_again(now)
    if answer.unchanged:
        changes |= {"first_poll_done": True, "validators": answer.validators}
    elif answer.complete:
        late_keys = late_keys_after(before, sifted, policy)
        changes |= _up_to_date(before, answer, now)
        if late_keys is not None:
            changes["late_keys_kept"] = not late_keys.forget_all
    redirected_to = answer.redirected_to
    if redirected_to is not None:
        redirected_to = discreet(redirected_to, before.url)
    story = {
        "before": before,
        "source": changed(before, changes),
        "kind": OutcomeKind.STORED if admission.posts else OutcomeKind.UNCHANGED,
        "started_at": started_at,
        "posts": admission.posts,
        "skipped": admission.skipped,
        "status": answer.status,
        "size": answer.size,
        "redirected_to": redirected_to,
        "late_keys": late_keys,
        "dedupe_in_podcast": subject.dedupe_across_sources,
    }
    return made(Outcome, story)


def failed(
    subject: Subject,
    failure: Failure,
    *,
    started_at: datetime,
    now: datetime,
    policy: Policy,
) -> Outcome:
    """Decide what a failure changes: counters, backoff, a hold, perhaps the end of polling."""
    before = subject.source
    failure = replace(failure, message=discreet(failure.message, before.url))
    source = replace(before, last_polled=now, requested_at=None, hold=None)
    if not failure.local:  # a local outage is not the source's fault (F6)
        source = _disabled_if_hopeless(_worse(source, failure, now), policy)
    hold = _hold(before, failure, now, policy)
    hold_lane = None
    if hold is not None:
        if _hold_scope(before, failure, policy) is HoldScope.SOURCE:
            source = replace(source, hold=hold)
        else:
            hold_lane = _lane_that_answered(subject, failure)
    return Outcome(
        before=before,
        source=source,
        kind=OutcomeKind.FAILED,
        started_at=started_at,
        failure=failure,
        status=failure.status,
        size=failure.size,
        hold=hold,
        hold_lane=hold_lane,
    )


def untouched(subject: Subject, failure: Failure, *, started_at: datetime) -> Outcome:
    """Say why nothing was asked and nothing is recorded: the host is on hold (P10)."""
    return Outcome(
        before=subject.source,
        source=subject.source,
        kind=OutcomeKind.FAILED,
        started_at=started_at,
        failure=failure,
        status=failure.status,
        recorded=False,
    )


def discarded(outcome: Outcome) -> Outcome:
    """Say that what a poll brought was thrown away: its source is another one by now (D4)."""
    message = "the source was edited or removed meanwhile; what came was discarded"
    failure = Failure(FailureType.TRANSIENT, "edited", message, status=outcome.status)
    return replace(
        outcome,
        source=outcome.before,
        kind=OutcomeKind.FAILED,
        failure=failure,
        posts=(),
        skipped={},
        recorded=False,
    )


def edited(before: Source, after: Source, now: datetime) -> Source:
    """What a person's edit entails beyond the fields that were set (F5, S9)."""
    moved = (before.url, before.type) != (after.url, after.type)
    switched = before.enabled != after.enabled
    if moved:
        after = replace(_unburdened(after), host=host_of(after), hold=None)
    if moved or (after.include_history and not before.include_history):
        after = _forgetful(after)
    elif not switched:
        return after  # nothing that a poll in flight could not live with (D4)
    if switched and after.enabled:
        after = _unburdened(after)
    elif switched:
        after = replace(after, disabled_reason=None)  # a person's decision, not ours (F3)
    requested_at = now if after.enabled else None
    return replace(after, requested_at=requested_at, generation=before.generation + 1)


def _unburdened(source: Source) -> Source:
    return replace(
        source,
        consecutive_failures=0,
        permanent_failures=0,
        permanent_kind=None,
        last_failure_type=None,
        last_error=None,
        failing_since=None,
        disabled_reason=None,
    )


def _forgetful(source: Source) -> Source:
    return replace(
        source,
        last_seen_id=None,
        seen_keys=(),
        validators=type(source.validators)(),
        body_hash=None,
    )


def _well_again(now: datetime) -> dict[str, Any]:
    """What every success changes (F2)."""
    return {
        "last_polled": now,
        "last_success_at": now,
        "requested_at": None,
        "consecutive_failures": 0,
        "permanent_failures": 0,
        "permanent_kind": None,
        "last_failure_type": None,
        "last_error": None,
        "failing_since": None,
        "hold": None,
    }


def _up_to_date(source: Source, answer: Answer, now: datetime) -> dict[str, Any]:
    """What a whole new document changes (R3, P7, P8)."""
    seen_id, seen_keys = answer.last_seen_id, source.seen_keys
    if source.type is not SourceType.TWITTER:
        seen_id, seen_keys = last_seen(source, answer.entries, now)
    return {
        "first_poll_done": True,
        "last_seen_id": seen_id,
        "seen_keys": seen_keys,
        "validators": answer.validators,
        "body_hash": answer.body_hash,
    }


def _worse(source: Source, failure: Failure, now: datetime) -> Source:
    permanent = failure.type is FailureType.PERMANENT
    kind = failure.kind
    if source.permanent_failures and source.permanent_kind != kind:
        kind = "permanent"  # they differ (F3)
    return replace(
        source,
        consecutive_failures=source.consecutive_failures + 1,
        permanent_failures=source.permanent_failures + 1 if permanent else 0,
        permanent_kind=kind if permanent else None,
        last_failure_type=failure.type,
        last_error=failure.message,
        failing_since=source.failing_since or now,
    )


def _disabled_if_hopeless(source: Source, policy: Policy) -> Source:
    limit = source.max_failures if source.max_failures is not None else policy.max_failures
    if not source.enabled or source.permanent_failures < limit:
        return source
    count, kind = source.permanent_failures, source.permanent_kind
    reason = f"Auto-disabled after {count} consecutive {kind} errors"
    return replace(source, enabled=False, disabled_reason=reason)


def _hold(source: Source, failure: Failure, now: datetime, policy: Policy) -> Hold | None:
    if failure.hold_seconds is None:
        return None
    cap = backoff_cap(source, policy).total_seconds()
    length = timedelta(seconds=min(failure.hold_seconds, cap))
    reason = failure.message
    if failure.hold_host is not None:  # others share the host, but may not see this source's URL
        reason = f"HTTP {failure.status} from {failure.hold_host}"
    return Hold(until=now + length, set_at=now, reason=reason)


def _hold_scope(source: Source, failure: Failure, policy: Policy) -> HoldScope:
    if source.type is SourceType.TWITTER:
        return HoldScope.HOST  # the owner's lane (P9)
    return policy.hold_scope(failure.hold_host or host_of(source))


def _lane_that_answered(subject: Subject, failure: Failure) -> str | None:
    own = lane_of(subject.source, subject.user_id)
    if own is None or subject.source.type is SourceType.TWITTER:
        return own
    return failure.hold_host or own
