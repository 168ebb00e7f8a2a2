"""What a poll changes (F2, F3, R1, P7, P9)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from headwater.model import (
    Answer,
    Failure,
    FailureType,
    Outcome,
    OutcomeKind,
    Redirect,
    SkipReason,
    Source,
    SourceType,
    Subject,
    Suggestion,
    SuggestionKind,
    Validators,
    changed,
    made,
)
from headwater.rules.admission import (
    Admission,
    Known,
    NewByDate,
    admit,
    article_age,
    last_seen,
    late_keys_after,
)
from headwater.rules.holds import held_lane, hold_of, is_of_source
from headwater.rules.moves import followed_redirect, is_other_page
from headwater.rules.page_versions import PageVersions, new_text, noise_suggestion
from headwater.rules.policy import Policy
from headwater.rules.politeness import host_of
from headwater.rules.schedule import is_due
from headwater.rules.url_secrets import without_url_secrets

_NO_FAILURES: dict[str, Any] = {
    "consecutive_failures": 0,
    "permanent_failures": 0,
    "permanent_kind": None,
    "last_failure_type": None,
    "last_error": None,
    "failing_since": None,
}


def succeeded(
    subject: Subject,
    answer: Answer,
    dated: NewByDate,
    known: Known,
    *,
    started_at: datetime,
    now: datetime,
    policy: Policy,
    versions: PageVersions | None = None,
) -> Outcome:
    """Decide what an answer changes: new posts, the source's state, the poll's history row.

    `versions`: what was stored of a page that has changed.
    """
    before = subject.source
    admission = admit(subject, dated, known, now, policy)
    if versions is not None and admission.posts:
        admission = _with_new_text(before, admission, versions)
    late_keys = None
    changes = _success_fields(now)
    if not before.enabled and before.requested_at is None and is_due(before, started_at, policy):
        changes |= {"enabled": True, "disabled_reason": None, "disabled_at": None}  # Y9
    redirect, suggestions = _suggested(before, answer.moved_to, admission, versions, now)
    changes["redirect"] = redirect
    if answer.unchanged:
        changes |= {"first_poll_done": True, "validators": answer.validators}
    elif answer.complete:
        late_keys = late_keys_after(before, dated, policy)
        changes |= _document_fields(before, answer, now)
        if late_keys is not None:
            changes["late_keys_kept"] = not late_keys.forget_all
    target = answer.redirected_to
    fields: dict[str, Any] = {
        "before": before,
        "source": changed(before, changes),
        "kind": OutcomeKind.STORED if admission.posts else OutcomeKind.UNCHANGED,
        "started_at": started_at,
        "posts": admission.posts,
        "skipped": admission.skipped,
        "status": answer.status,
        "size": answer.size,
        "redirected_to": None if target is None else without_url_secrets(target, before.url),
        "late_keys": late_keys,
        "suggestions": suggestions,
        "dedupe_in_podcast": subject.dedupe_across_sources,
        "article_age": article_age(subject.max_article_age_days, policy),
    }
    return made(Outcome, fields)


def failed(
    subject: Subject, failure: Failure, *, started_at: datetime, now: datetime, policy: Policy
) -> Outcome:
    """Decide what a failure changes: counters, backoff, a hold, auto-disabling."""
    before = subject.source
    failure = replace(failure, message=without_url_secrets(failure.message, before.url))
    source = replace(before, last_polled=now, requested_at=None, hold=None)
    if not failure.local:  # a local outage is not the source's fault (F6)
        source = _disabled_if_over_limit(_with_failure(source, failure, now), policy)
    hold = hold_of(before, failure, now, policy)
    hold_lane = None if hold is None else held_lane(subject, failure, policy)
    if is_of_source(before, failure, policy):
        source = replace(source, hold=hold)
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
    """The outcome of a poll that sent no request because the host is on hold (P10)."""
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
    """The outcome of a poll whose result was discarded: the source changed meanwhile (D4)."""
    message = "the source was changed or removed during the poll; the result was discarded"
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


def ended_failures(outcome: Outcome) -> dict[str, Any]:
    """The count that a success resets even if it was 0 when the poll began.

    An outage that takes back failures may have restored an earlier count meanwhile (O2).
    """
    if outcome.failure is not None or not outcome.before.consecutive_failures:
        return {}
    return {"permanent_failures": 0, "permanent_kind": None}


def without_filtered_posts(outcome: Outcome) -> Outcome:
    """The outcome with the posts that its events report (B2)."""
    shown = tuple(post for post in outcome.posts if post.filtered_by is None)
    return outcome if len(shown) == len(outcome.posts) else changed(outcome, {"posts": shown})


def edited(
    before: Source, after: Source, now: datetime, *, is_same_document: bool = False
) -> Source:
    """Apply the consequences of a user's edit: resets and a requested poll (F5, S9).

    `is_same_document`: another URL of what was polled until now (Y4). It is not read again.
    """
    moved = (before.url, before.type) != (after.url, after.type)
    switched = before.enabled != after.enabled
    if moved:
        after = replace(after, **_NO_FAILURES, disabled_reason=None, disabled_at=None)
        after = replace(after, host=host_of(after), hold=None, redirect=None, in_storm=False)
    rewatched = before.watch != after.watch  # W4: the same page has another text now
    is_other = moved and not is_same_document
    if is_other:
        after = replace(after, title=None)
    if is_other or rewatched or (after.include_history and not before.include_history):
        after = replace(
            after, last_seen_id=None, seen_keys=(), validators=Validators(), body_hash=None
        )
    elif not switched and not moved:
        return after  # a poll in flight may still store its result (D4)
    if switched and after.enabled:
        after = replace(after, **_NO_FAILURES, disabled_reason=None, disabled_at=None)
    elif switched:
        after = replace(
            after, disabled_reason=None, disabled_at=None
        )  # disabled by a user, not automatically (F3)
    requested_at = now if after.enabled else None
    return replace(after, requested_at=requested_at, generation=before.generation + 1)


def moved_source(before: Source, *, url: str, now: datetime) -> Source:
    """The source with the URL that it redirects to: what it has read stays read (Y4).

    The responses until now came from there, so that nothing is imported again. If failures
    disabled the source, it is enabled.
    """
    return edited(before, _at(url, before), now, is_same_document=True)


def replaced_feed(before: Source, *, url: str, now: datetime) -> Source:
    """The source with the URL of another feed of its site: it is read from where it was (Y5).

    The same entries may have other texts there, so that their hashes would not show that they
    are known. If failures disabled the source, it is enabled.
    """
    return replace(edited(before, _at(url, before), now), last_seen_id=before.last_seen_id)


def _at(url: str, source: Source) -> Source:
    enabled = source.enabled or source.disabled_reason is not None
    return replace(source, url=url, enabled=enabled)


def _with_new_text(source: Source, admission: Admission, before: PageVersions) -> Admission:
    """The admission of a changed page; without its post if nothing in it is new (W5)."""
    found = (new_text(source, post, before) for post in admission.posts)
    posts = tuple(post for post in found if post is not None)
    skipped = dict(admission.skipped)
    if left_out := len(admission.posts) - len(posts):
        skipped[SkipReason.DUPLICATE] = skipped.get(SkipReason.DUPLICATE, 0) + left_out
    return replace(admission, posts=posts, skipped=skipped)


def _suggested(
    before: Source,
    moved_to: str | None,
    admission: Admission,
    versions: PageVersions | None,
    now: datetime,
) -> tuple[Redirect | None, Mapping[SuggestionKind, Suggestion | None]]:
    """The redirect that is stored after a success, and changed suggestions (W6, Y4, Y5)."""
    found: dict[SuggestionKind, Suggestion | None] = {}
    post = next(iter(admission.posts), None)  # a page has one
    if versions is not None and post is not None:
        found[SuggestionKind.IGNORE] = noise_suggestion(before, post, versions, now)
    if before.consecutive_failures and before.type is SourceType.RSS:
        found[SuggestionKind.FEED] = None  # it is not lost any more
    if moved_to is None and before.redirect is None:
        return None, found
    is_other = is_other_page(before, moved_to, post, versions)
    redirect, moves = followed_redirect(before, moved_to, now, is_other=is_other)
    return redirect, {**found, **moves}


def _success_fields(now: datetime) -> dict[str, Any]:
    """Fields that every success changes (F2)."""
    return {
        "last_polled": now,
        "last_success_at": now,
        "requested_at": None,
        "hold": None,
        "in_storm": False,  # Y6
        **_NO_FAILURES,
    }


def _document_fields(source: Source, answer: Answer, now: datetime) -> dict[str, Any]:
    """Fields that a complete new document changes (R3, P7, P8)."""
    seen_id, seen_keys = answer.last_seen_id, source.seen_keys
    if source.type is not SourceType.TWITTER:
        seen_id, seen_keys = last_seen(source, answer.entries, now)
    return {
        "first_poll_done": True,
        "last_seen_id": seen_id,
        "seen_keys": seen_keys,
        "validators": answer.validators,
        "body_hash": answer.body_hash,
        "title": answer.title or source.title,  # T5
    }


def _with_failure(source: Source, failure: Failure, now: datetime) -> Source:
    return replace(
        source,
        consecutive_failures=source.consecutive_failures + 1,
        last_failure_type=failure.type,
        last_error=failure.message,
        failing_since=source.failing_since or now,
        **_permanent_count(source, failure),
    )


def _permanent_count(source: Source, failure: Failure) -> dict[str, Any]:
    """The count that disables a source; a failure that is its host's fault leaves it (F3, Y6)."""
    if failure.by_host:
        return {"in_storm": True}
    if failure.type is not FailureType.PERMANENT:
        return {"permanent_failures": 0, "permanent_kind": None}
    is_other = source.permanent_failures and source.permanent_kind != failure.kind
    kind = "permanent" if is_other else failure.kind  # they differ (F3)
    return {"permanent_failures": source.permanent_failures + 1, "permanent_kind": kind}


def _disabled_if_over_limit(source: Source, policy: Policy) -> Source:
    limit = source.max_failures if source.max_failures is not None else policy.max_failures
    if not source.enabled or source.permanent_failures < limit:
        return source
    count, kind = source.permanent_failures, source.permanent_kind
    reason = f"Auto-disabled after {count} consecutive {kind} errors"
    return replace(source, enabled=False, disabled_reason=reason, disabled_at=source.last_polled)
