"""The effects of Retry-After and rate limits."""

from datetime import timedelta

import pytest

from headwater import errors
from headwater.model import (
    Failure,
    FailureType,
    Hold,
    OutcomeKind,
    SourceType,
)
from headwater.rules.failure_kinds import classify
from headwater.rules.outcome import untouched
from headwater.rules.policy import HoldScope, HostOverride
from headwater.rules.politeness import lane_of
from tests.factories import NOW, a_policy, a_source, a_subject
from tests.rules.poll_outcomes import FAILING, GONE, fail, failure_of, succeed


def busy(seconds: float | None, *, status: int = 429, host: str | None = None) -> Exception:
    return errors.BadStatus(status, f"HTTP {status}", host=host, hold_seconds=seconds)


@pytest.mark.parametrize(
    ("status", "asked_for", "seconds"),
    [
        (429, None, 600),
        (429, 30, 30),
        (429, 86_400, 86_400),
        (429, 86_401, 86_400),
        (429, 1e300, 86_400),
        (503, 120, 120),
        (503, 10**9, 86_400),
    ],
)
def test_p9_the_lane_is_held_for_the_requested_time_up_to_the_backoff_cap(
    status, asked_for, seconds
):
    outcome = failure_of(a_subject(), busy(asked_for, status=status))
    assert outcome.hold == Hold(NOW + timedelta(seconds=seconds), NOW, f"HTTP {status}")
    assert outcome.hold_lane == "feeds.example.org"
    assert outcome.source.hold is None


def test_p9_a_503_without_retry_after_holds_nothing():
    outcome = failure_of(a_subject(), busy(None, status=503))
    assert outcome.hold is None
    assert outcome.hold_lane is None


@pytest.mark.parametrize(("own", "configured", "hours"), [(2, 24, 2), (None, 6, 6), (48, 6, 48)])
def test_p9_the_cap_of_a_hold_is_the_sources_backoff_cap(own, configured, hours):
    subject = a_subject(max_backoff_hours=own)
    outcome = failure_of(subject, busy(10**8), policy=a_policy(max_backoff_hours=configured))
    assert outcome.hold is not None
    assert outcome.hold.until == NOW + timedelta(hours=hours)


@pytest.mark.parametrize("host", ["cdn.example.net", "x.com"])
def test_p9_the_responding_host_is_held_not_the_redirecting_one(host):
    outcome = failure_of(a_subject(), busy(60, host=host))
    assert outcome.hold_lane == host


def test_p9_hold_scope_source_holds_only_the_source():
    policy = a_policy(
        host_overrides={"feeds.example.org": HostOverride(hold_scope=HoldScope.SOURCE)}
    )
    outcome = failure_of(a_subject(), busy(60), policy=policy)
    assert outcome.source.hold == Hold(NOW + timedelta(seconds=60), NOW, "HTTP 429")
    assert outcome.hold_lane is None


def test_p9_the_scope_is_that_of_the_responding_host():
    narrow = {"cdn.example.net": HostOverride(hold_scope=HoldScope.SOURCE)}
    policy = a_policy(host_overrides=narrow)
    assert failure_of(a_subject(), busy(60, host="cdn.example.net"), policy=policy).source.hold
    assert failure_of(a_subject(), busy(60), policy=policy).source.hold is None


def test_p9_x_holds_the_lane_of_the_owner_whatever_its_api_host():
    subject = a_subject(user_id="ada", type=SourceType.TWITTER, url="@name")
    outcome = failure_of(subject, busy(900, host="api.x.com"))
    assert outcome.hold_lane == lane_of(subject.source, "ada")
    assert outcome.hold_lane != lane_of(subject.source, "bob")


def test_p9_a_hold_counts_as_a_transient_failure_too():
    source = failure_of(a_subject(), busy(60)).source
    assert source.consecutive_failures == 1
    assert source.permanent_failures == 0


def test_p9_a_successful_poll_after_a_hold_clears_it():
    held = a_source(hold=Hold(NOW, NOW - timedelta(minutes=10), "HTTP 429"))
    assert succeed(held).source.hold is None
    assert fail(held, GONE).hold is None


def test_p10_a_poll_on_hold_changes_nothing_and_is_not_recorded():
    subject = a_subject(**FAILING, last_polled=NOW - timedelta(hours=1))
    until = NOW + timedelta(minutes=5)
    failure = classify(errors.OnHold(until, "HTTP 429"))
    outcome = untouched(subject, failure, started_at=NOW)
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.source == outcome.before == subject.source
    assert not outcome.recorded
    assert outcome.failure == Failure(FailureType.TRANSIENT, "hold", failure.message)
    assert failure.message.startswith("on hold until 2026-02-17T12:05:00Z")


def test_u2_a_shared_hold_names_the_host_and_not_the_url():
    error = errors.BadStatus(429, "HTTP 429 from https://a.org/private", host="a.org")
    outcome = failure_of(a_subject(), error)
    assert outcome.hold is not None
    assert outcome.hold.reason == "HTTP 429 from a.org"
    assert outcome.source.last_error == "HTTP 429 from https://a.org/private"
