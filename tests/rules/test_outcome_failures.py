"""The effects of a failed poll."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import errors
from headwater.model import (
    FailureType,
    OutcomeKind,
    Source,
)
from tests.factories import NOW, a_policy, a_source, a_subject
from tests.rules.poll_outcomes import (
    FAILING,
    GONE,
    LATER,
    STALE,
    fail,
    failure_of,
    succeed,
)


def test_f2_a_first_failure_is_counted_dated_and_reported():
    source = fail(a_source(last_polled=NOW - timedelta(hours=1)), errors.TimedOut("too slow"))
    assert source.consecutive_failures == 1
    assert source.last_failure_type is FailureType.TRANSIENT
    assert source.last_error == "too slow"
    assert source.failing_since == NOW


def test_f2_the_next_failure_is_counted_and_keeps_the_first_date():
    source = fail(a_source(**FAILING), GONE)
    assert source.consecutive_failures == 4
    assert source.last_failure_type is FailureType.PERMANENT
    assert source.failing_since == FAILING["failing_since"]


def test_s7_success_and_failure_move_last_polled_and_clear_the_request():
    source = a_source(last_polled=NOW - timedelta(days=1), requested_at=NOW)
    for after in (fail(source, GONE, LATER), succeed(source, now=LATER).source):
        assert after.last_polled == LATER
        assert after.requested_at is None


def test_f2_a_failure_keeps_the_seen_state():
    source = a_source(
        last_seen_id="2026-02-16T08:00:00.000Z",
        seen_keys=("a",),
        validators=STALE,
        body_hash="old",
        last_success_at=NOW - timedelta(days=1),
        first_poll_done=True,
    )
    after = fail(source, GONE, LATER)
    changed = {"last_polled", "last_error", "last_failure_type", "failing_since"}
    changed |= {"consecutive_failures", "permanent_failures", "permanent_kind"}
    kept = {name: getattr(source, name) for name in vars(source) if name not in changed}
    assert replace(after, **kept) == after


def test_f2_the_outcome_of_a_failure_contains_it():
    outcome = failure_of(a_subject(), GONE)
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.status == 404
    assert outcome.posts == ()
    assert outcome.failure is not None
    assert outcome.failure.kind == "404"
    assert outcome.recorded


def fail_often(source: Source, *kinds: int | str) -> Source:
    troubles: dict[int | str, Exception] = {"DNS": errors.NameNotFound("no such name")}
    troubles |= {"timeout": errors.TimedOut("too slow"), "local": errors.LocalFault("no route")}
    for number, kind in enumerate(kinds):
        error = troubles.get(kind) or errors.BadStatus(int(kind), f"HTTP {kind}")
        source = fail(source, error, NOW + timedelta(minutes=number))
    return source


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ([404] * 4, None),
        ([404] * 5, "Auto-disabled after 5 consecutive 404 errors"),
        ([410] * 5, "Auto-disabled after 5 consecutive 410 errors"),
        ([401] * 5, "Auto-disabled after 5 consecutive 401 errors"),
        ([403] * 5, "Auto-disabled after 5 consecutive 403 errors"),
        (["DNS"] * 5, "Auto-disabled after 5 consecutive DNS errors"),
        ([404, 404, 410, 404, 404], "Auto-disabled after 5 consecutive permanent errors"),
        (["DNS", 404, 404, 404, 404], "Auto-disabled after 5 consecutive permanent errors"),
        ([404, 404, 404, 404, "DNS"], "Auto-disabled after 5 consecutive permanent errors"),
        ([410, 500, 404, 404, 404, 404, 404], "Auto-disabled after 5 consecutive 404 errors"),
        ([500] * 10 + [404], None),
        ([404] * 4 + ["timeout"] + [404] * 4, None),
        ([404] * 4 + [429] + [404] * 5, "Auto-disabled after 5 consecutive 404 errors"),
        ([404] * 3 + ["local"] * 9 + [404] * 2, "Auto-disabled after 5 consecutive 404 errors"),
        (["timeout"] * 100, None),
        ([500, 503, 429] * 30, None),
        (["local"] * 100, None),
    ],
)
def test_f3_a_source_is_disabled_when_its_last_five_failures_are_permanent(kinds, reason):
    source = fail_often(a_source(), *kinds)
    assert source.disabled_reason == reason
    assert source.enabled is (reason is None)
    assert source.consecutive_failures == sum(kind != "local" for kind in kinds)


@pytest.mark.parametrize(("own", "configured"), [(None, 3), (3, 5), (3, 1)])
def test_f3_the_limit_of_the_source_overrides_the_configuration(own, configured):
    source, policy = a_source(max_failures=own), a_policy(max_failures=configured)
    for _ in range(2):
        source = fail(source, GONE, policy=policy)
        assert source.enabled
    source = fail(source, GONE, policy=policy)
    assert not source.enabled
    assert source.disabled_reason == "Auto-disabled after 3 consecutive 404 errors"


def test_f3_a_limit_of_one_disables_at_the_first_permanent_failure_only():
    policy = a_policy(max_failures=1)
    assert fail(a_source(), errors.TimedOut("slow"), policy=policy).enabled
    source = fail(a_source(), GONE, policy=policy)
    assert source.disabled_reason == "Auto-disabled after 1 consecutive 404 errors"


def test_f3_the_reason_reports_the_actual_count_if_the_limit_was_lowered():
    source = fail_often(a_source(max_failures=10), *[404] * 7)
    source = fail(replace(source, max_failures=2), GONE)
    assert source.disabled_reason == "Auto-disabled after 8 consecutive 404 errors"


def test_f3_the_outcome_that_disables_reports_it_once():
    source = fail_often(a_source(), *[404] * 4)
    outcome = failure_of(a_subject(source), GONE)
    assert outcome.disabled
    assert not failure_of(a_subject(outcome.source), GONE).disabled


def test_f3_a_source_disabled_by_a_user_gets_no_reason_from_manual_polls():
    source = fail_often(a_source(enabled=False), *[404] * 9)
    assert source.disabled_reason is None
    assert not source.enabled
    assert source.consecutive_failures == 9


def test_f3_a_failed_manual_poll_keeps_the_reason_of_an_auto_disabled_source():
    source = fail_often(a_source(), *[404] * 5)
    again = fail(source, errors.BadStatus(500, "HTTP 500"), LATER)
    assert again.disabled_reason == "Auto-disabled after 5 consecutive 404 errors"
    assert not again.enabled


@given(st.lists(st.sampled_from([404, 410, "DNS", 500, "timeout", "local"]), max_size=30))
def test_f3_only_a_run_of_permanent_failures_disables(kinds):
    source = fail_often(a_source(), *kinds)
    counted = [kind for kind in kinds if kind != "local"]
    runs = "".join("p" if kind in (404, 410, "DNS") else "t" for kind in counted)
    assert source.enabled is ("ppppp" not in runs)
    assert (source.disabled_reason is None) is source.enabled


@given(st.integers(0, 10**12))
def test_f4_transient_failures_never_disable_however_many(count):
    source = a_source(consecutive_failures=count, max_failures=1)
    after = fail(source, errors.BadStatus(503, "HTTP 503"))
    assert after.enabled
    assert after.consecutive_failures == count + 1


def test_f6_a_local_failure_moves_no_counter():
    source = a_source(**FAILING, last_polled=NOW - timedelta(hours=1), requested_at=NOW)
    after = fail(source, errors.NameUnresolved("the resolver did not answer"), LATER)
    assert after == replace(source, last_polled=LATER, requested_at=None)


def test_f6_a_local_failure_does_not_change_the_health():
    after = fail(a_source(), errors.LocalFault("no route"))
    assert after.consecutive_failures == 0
    assert after.last_error is None
    assert after.failing_since is None


def test_p7_a_failed_poll_does_not_complete_the_first_poll():
    assert not fail(a_source(), GONE).first_poll_done
    assert not fail(a_source(), errors.LocalFault("no route")).first_poll_done
