"""Distinguishing local outages from failures of sources."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import errors
from headwater.model import Failure, FailureType
from headwater.rules.failure_kinds import classify
from headwater.rules.outage_detection import (
    OutageWatch,
    as_local,
    explained_by,
    spread_seconds,
    with_failures_rolled_back,
)
from headwater.rules.outcome import failed
from tests.factories import NOW, a_policy, a_source, a_subject
from tests.rules.poll_outcomes import FAILING, GONE, fail

START = 100_000.0  # monotonic seconds, far from zero on purpose
MINUTE = 60.0
DAY = 86_400.0
NAMES = ["a.example", "b.example", "c.example"]
HOSTS = [f"{letter}.example" for letter in "abcdefghij"]
NOT_FOUND = classify(errors.BadStatus(404, "HTTP 404"))
FORBIDDEN = classify(errors.BadStatus(403, "HTTP 403"))
DOWN = classify(errors.BadStatus(502, "HTTP 502"))


def watch_that_resolved(names, at=START):
    watch = OutageWatch()
    for name in names:
        watch.name_resolved(name, at)
    return watch


def watch_that_succeeded(hosts, at=START):
    watch = OutageWatch()
    for host in hosts:
        watch.host_succeeded(host, at)
    return watch


# Names (O2)


def test_o2_three_names_that_resolved_before_and_fail_now_are_an_outage():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for count, name in enumerate(NAMES):
        assert watch.outage_kind(now) is None, count
        watch.name_lost(name, now)
    assert watch.outage_kind(now) == "DNS"


def test_o2_an_outage_of_names_began_when_the_last_one_resolved():
    watch = watch_that_resolved(NAMES)
    ten_minutes = 10 * MINUTE
    for minutes, began in [(5, -5), (10, 0), (12, 0), (20, 0), (60, 40)]:
        noticed = START + minutes * MINUTE
        assert watch.began_after("DNS", noticed) == START + began * MINUTE
        assert watch.began_after("404", noticed) == noticed - ten_minutes


def test_o2_one_name_that_fails_repeatedly_is_no_outage():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for second in range(20):
        watch.name_lost(NAMES[0], now + second)
    assert watch.outage_kind(now + 20) is None


def test_o2_names_that_never_resolved_are_no_evidence():
    watch, now = watch_that_resolved(NAMES[:2]), START + 60 * MINUTE
    for name in (*NAMES[:2], "mistyped.example", "another.example", "third.example"):
        watch.name_lost(name, now)
    assert watch.outage_kind(now) is None


def test_o2_a_machine_that_never_resolved_anything_detects_no_outage():
    watch = OutageWatch()
    for name in HOSTS:
        watch.name_lost(name, START)
    assert watch.outage_kind(START) is None


def test_o2_one_name_that_resolves_within_ten_minutes_disproves_an_outage():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    watch.name_resolved("well.example", now - 9 * MINUTE)
    for name in NAMES:
        watch.name_lost(name, now)
    assert watch.outage_kind(now) is None


def test_o2_the_first_name_that_resolves_ends_the_outage():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for name in NAMES:
        watch.name_lost(name, now)
    watch.name_resolved(NAMES[0], now + 1)
    assert watch.outage_kind(now + 1) is None
    watch.name_lost(NAMES[1], now + 11 * MINUTE)
    assert watch.outage_kind(now + 11 * MINUTE) is None


def test_o2_failures_more_than_ten_minutes_apart_do_not_add_up():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for number, name in enumerate(NAMES):
        watch.name_lost(name, now + number * 6 * MINUTE)
    assert watch.outage_kind(now + 12 * MINUTE) is None


# Permanent kinds (O3)


@pytest.mark.parametrize(("hosts", "outage"), [(4, None), (5, "404"), (10, "404")])
def test_o3_five_good_hosts_that_fail_with_one_permanent_kind_are_an_outage(hosts, outage):
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:hosts]:
        watch.host_failed(host, NOT_FOUND, now)
    assert watch.outage_kind(now) == outage


def test_o3_the_hosts_must_be_more_than_half_of_those_polled():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:5]:
        watch.host_failed(host, NOT_FOUND, now)
    for host in HOSTS[5:9]:
        watch.host_failed(host, DOWN, now)
    assert watch.outage_kind(now) == "404"
    watch.host_failed(HOSTS[9], DOWN, now)
    assert watch.outage_kind(now) is None


def test_o3_two_kinds_do_not_add_up():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for number, host in enumerate(HOSTS[:8]):
        watch.host_failed(host, (NOT_FOUND, FORBIDDEN)[number % 2], now)
    assert watch.outage_kind(now) is None


def test_o3_transient_failures_are_no_evidence():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS:
        watch.host_failed(host, DOWN, now)
    assert watch.outage_kind(now) is None


def test_o3_hosts_that_did_not_succeed_within_a_day_are_no_evidence():
    watch, now = watch_that_succeeded(HOSTS[:4]), START + DAY / 2
    for host in HOSTS[:9]:
        watch.host_failed(host, NOT_FOUND, now)
    assert watch.outage_kind(now) is None
    old, now = watch_that_succeeded(HOSTS), START + DAY + MINUTE
    for host in HOSTS:
        old.host_failed(host, NOT_FOUND, now)
    assert old.outage_kind(now) is None


def test_o3_one_success_in_between_disproves_an_outage():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:5]:
        watch.host_failed(host, NOT_FOUND, now)
    watch.host_succeeded(HOSTS[9], now + 1)
    assert watch.outage_kind(now + 1) is None


def test_o3_failures_more_than_ten_minutes_apart_do_not_add_up():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for number, host in enumerate(HOSTS[:5]):
        watch.host_failed(host, NOT_FOUND, now + number * 3 * MINUTE)
    assert watch.outage_kind(now + 12 * MINUTE) is None


def test_o3_a_host_that_now_fails_with_another_kind_does_not_count():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:5]:
        watch.host_failed(host, NOT_FOUND, now)
    watch.host_failed(HOSTS[0], DOWN, now + 1)
    assert watch.outage_kind(now + 1) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["resolved", "lost", "succeeded", "404", "502", "forget"]),
            st.sampled_from(HOSTS),
            st.floats(0, 2 * MINUTE),
        ),
        max_size=60,
    )
)
def test_o2_discarding_old_evidence_never_changes_the_verdict(happenings):
    tidy, untidy, now = OutageWatch(), OutageWatch(), START
    for what, host, later in happenings:
        now += later
        for watch in (tidy, untidy):
            match what:
                case "resolved":
                    watch.name_resolved(host, now)
                case "lost":
                    watch.name_lost(host, now)
                case "succeeded":
                    watch.host_succeeded(host, now)
                case "404" | "502":
                    watch.host_failed(host, NOT_FOUND if what == "404" else DOWN, now)
        if what == "forget":
            tidy.forget_old(now)
        assert tidy.outage_kind(now) == untidy.outage_kind(now)


# Effects of an outage on failures and sources


def test_o2_during_an_outage_even_a_missing_name_is_transient_and_local():
    failure = as_local(classify(errors.NameNotFound("a.example does not exist")))
    assert failure.type is FailureType.TRANSIENT
    assert failure.local
    assert failure.kind == "DNS"
    assert failure.message == "a.example does not exist"


@pytest.mark.parametrize(
    ("error", "outage", "explained"),
    [
        (errors.NameNotFound("no"), "DNS", True),
        (errors.NameUnresolved("no answer"), "DNS", True),
        (errors.BadStatus(404, "no"), "DNS", False),
        (errors.BadStatus(404, "no"), "404", True),
        (errors.BadStatus(403, "no"), "404", False),
        (errors.NameNotFound("no"), "404", False),
        (errors.TimedOut("slow"), "404", False),
    ],
)
def test_o2_only_failures_of_the_same_kind_belong_to_the_outage(error, outage, explained):
    assert explained_by(classify(error), outage) is explained


@pytest.mark.parametrize("state", [{}, FAILING, {"consecutive_failures": 9}])
@pytest.mark.parametrize("failures", [1, 4, 9])
def test_o2_failures_of_an_outage_are_reverted_including_automatic_disabling(state, failures):
    before = a_source(**state)
    current = before
    for minute in range(failures):
        current = fail(current, GONE, NOW + timedelta(minutes=minute))
    assert current.consecutive_failures == before.consecutive_failures + failures
    restored = with_failures_rolled_back(current, before)
    assert restored == replace(before, last_polled=current.last_polled)


@pytest.mark.parametrize("in_storm", [True, False])
def test_o2_y6_the_mark_of_a_storm_is_reverted_too(in_storm):
    before = a_source(first_poll_done=True, in_storm=in_storm)
    failure = replace(classify(GONE), by_host=True)
    current = failed(a_subject(before), failure, started_at=NOW, now=NOW, policy=a_policy()).source
    assert current.in_storm
    assert with_failures_rolled_back(current, before).in_storm is in_storm


def test_o2_a_source_disabled_by_a_user_stays_disabled():
    before = a_source()
    current = replace(fail(before, GONE), enabled=False, disabled_reason=None)
    restored = with_failures_rolled_back(current, before)
    assert not restored.enabled
    assert restored.consecutive_failures == 0


def test_o2_a_source_disabled_before_the_outage_stays_disabled():
    before = a_source(enabled=False, disabled_reason="Auto-disabled after 5 consecutive 410 errors")
    restored = with_failures_rolled_back(fail(before, GONE), before)
    assert not restored.enabled
    assert restored.disabled_reason == before.disabled_reason


def test_f6_a_reverted_failure_leaves_the_state_of_a_local_failure():
    before = a_source(**FAILING)
    local = fail(before, errors.LocalFault("no route"))
    restored = with_failures_rolled_back(fail(before, GONE), before)
    assert restored == local


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_o2_lanes_resume_spread_out_within_minutes(some, more):
    few, many = sorted((some, more))
    assert 0 <= spread_seconds(few) <= spread_seconds(many) <= 5 * MINUTE


def test_a_failure_is_classified_by_its_kind_not_its_message():
    failure = Failure(FailureType.PERMANENT, kind="410", message="DNS 404", status=410)
    assert not explained_by(failure, "404")
