"""Polls as tests write them: what happens to a source, and what becomes of it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from headwater import errors
from headwater.model import (
    Answer,
    Entry,
    FailureType,
    Outcome,
    Post,
    SkipReason,
    Source,
    Subject,
    Validators,
)
from headwater.rules.admission import Known, admit, link_mark, mark, sift
from headwater.rules.failure import classify
from headwater.rules.outcome import failed, succeeded
from headwater.rules.policy import Policy
from tests.factories import NOW, a_policy, a_subject

POLICY = a_policy()
LATER = NOW + timedelta(minutes=30)
FRESH = Validators(etag='"2"', last_modified="Tue, 17 Feb 2026 12:00:00 GMT")
STALE = Validators(etag='"1"', last_modified=None)
GONE = errors.BadStatus(404, "HTTP 404 Not Found from https://feeds.example.org/news.xml")
FAILING: dict[str, Any] = {
    "consecutive_failures": 3,
    "permanent_failures": 2,
    "permanent_kind": "404",
    "last_failure_type": FailureType.PERMANENT,
    "last_error": "HTTP 404 Not Found",
    "failing_since": NOW - timedelta(hours=3),
}
CLEAR: dict[str, Any] = {
    "consecutive_failures": 0,
    "permanent_failures": 0,
    "permanent_kind": None,
    "last_failure_type": None,
    "last_error": None,
    "failing_since": None,
}


def fail(source: Source, error: Exception, now: datetime = NOW, policy: Policy = POLICY) -> Source:
    """The source after a poll that ended in this error."""
    return failure_of(a_subject(source), error, now, policy).source


def failure_of(
    subject: Subject, error: Exception, now: datetime = NOW, policy: Policy = POLICY
) -> Outcome:
    """The outcome of a poll that ended in this error."""
    return failed(subject, classify(error), started_at=now, now=now, policy=policy)


def succeed(
    source: Source,
    *entries: Entry,
    now: datetime = NOW,
    known: Known | None = None,
    policy: Policy = POLICY,
    **answer: Any,
) -> Outcome:
    """The outcome of a poll that brought these entries; `answer` says what else was special."""
    plain = Answer(status=200, entries=entries, validators=FRESH, body_hash="new")
    brought = replace(plain, **answer)
    sifted = sift(source, brought.entries, now, policy)
    known = known or Known()
    return succeeded(
        a_subject(source), brought, sifted, known, started_at=now, now=now, policy=policy
    )


def unchanged(source: Source, now: datetime = NOW) -> Outcome:
    """The outcome of a poll that was answered with 304."""
    return succeed(source, now=now, status=304, unchanged=True, validators=source.validators)


def skips(
    source: Source, *entries: Entry, known: Known | None = None, **podcast: Any
) -> dict[SkipReason, int]:
    """The skips of a poll at NOW that brought these entries to a podcast like this."""
    sifted = sift(source, entries, NOW, POLICY)
    admission = admit(a_subject(source, **podcast), sifted, known or Known(), NOW, POLICY)
    return dict(admission.skipped)


def known_from(posts: Iterable[Post], late_keys: Iterable[str] = ()) -> Known:
    """What the store would know once these posts and keys were stored."""
    posts = tuple(posts)
    return Known(
        marks=frozenset(mark(post.content_hash) for post in posts),
        marks_at_link=frozenset((mark(p.content_hash), link_mark(p.url)) for p in posts),
        late_keys=frozenset(late_keys),
    )
