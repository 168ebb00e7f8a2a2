"""Helpers that apply a poll to a source and return its outcome."""

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
from headwater.rules.admission import Known, admit, hash_prefix, link_key, new_by_date
from headwater.rules.failure_kinds import classify
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
    "in_storm": True,
}
CLEAR: dict[str, Any] = {
    "consecutive_failures": 0,
    "permanent_failures": 0,
    "permanent_kind": None,
    "last_failure_type": None,
    "last_error": None,
    "failing_since": None,
    "in_storm": False,
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
    """The outcome of a poll that returned these entries; `answer` has its other fields."""
    plain = Answer(status=200, entries=entries, validators=FRESH, body_hash="new")
    brought = replace(plain, **answer)
    sifted = new_by_date(source, brought.entries, now, policy)
    known = known or Known()
    return succeeded(
        a_subject(source), brought, sifted, known, started_at=now, now=now, policy=policy
    )


def unchanged(source: Source, now: datetime = NOW) -> Outcome:
    """The outcome of a poll with status 304."""
    return succeed(source, now=now, status=304, unchanged=True, validators=source.validators)


def skips(
    source: Source, *entries: Entry, known: Known | None = None, **podcast: Any
) -> dict[SkipReason, int]:
    """The skips of a poll at NOW with these entries in such a podcast."""
    sifted = new_by_date(source, entries, NOW, POLICY)
    admission = admit(a_subject(source, **podcast), sifted, known or Known(), NOW, POLICY)
    return dict(admission.skipped)


def known_from(posts: Iterable[Post], late_keys: Iterable[str] = ()) -> Known:
    """The known hashes and keys once these posts and keys are stored."""
    posts = tuple(posts)
    return Known(
        hash_prefixes=frozenset(hash_prefix(post.content_hash) for post in posts),
        prefixes_at_link=frozenset((hash_prefix(p.content_hash), link_key(p.url)) for p in posts),
        late_keys=frozenset(late_keys),
    )
