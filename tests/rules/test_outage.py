"""When trouble is ours and not the sources'."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import errors
from headwater.model import Failure, FailureType
from headwater.rules.failure import classify
from headwater.rules.outage import (
    OutageWatch,
    as_local,
    explained_by,
    given_back,
    spread_seconds,
)
from tests.factories import NOW, a_source
from tests.rules.polling import FAILING, GONE, fail

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
        assert watch.verdict(now) is None, count
        watch.name_lost(name, now)
    assert watch.verdict(now) == "DNS"


def test_o2_an_outage_of_names_began_when_the_last_one_resolved():
    watch = watch_that_resolved(NAMES)
    ten_minutes = 10 * MINUTE
    for minutes, began in [(5, -5), (10, 0), (12, 0), (20, 0), (60, 40)]:
        noticed = START + minutes * MINUTE
        assert watch.began_after("DNS", noticed) == START + began * MINUTE
        assert watch.began_after("404", noticed) == noticed - ten_minutes


def test_o2_one_name_that_fails_again_and_again_is_its_own_trouble():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for second in range(20):
        watch.name_lost(NAMES[0], now + second)
    assert watch.verdict(now + 20) is None


def test_o2_names_that_never_resolved_are_no_evidence():
    watch, now = watch_that_resolved(NAMES[:2]), START + 60 * MINUTE
    for name in (*NAMES[:2], "mistyped.example", "another.example", "third.example"):
        watch.name_lost(name, now)
    assert watch.verdict(now) is None


def test_o2_a_machine_that_never_resolved_anything_sees_no_outage():
    watch = OutageWatch()
    for name in HOSTS:
        watch.name_lost(name, START)
    assert watch.verdict(START) is None


def test_o2_one_name_that_resolves_within_ten_minutes_proves_the_contrary():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    watch.name_resolved("well.example", now - 9 * MINUTE)
    for name in NAMES:
        watch.name_lost(name, now)
    assert watch.verdict(now) is None


def test_o2_the_first_name_that_resolves_ends_it():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for name in NAMES:
        watch.name_lost(name, now)
    watch.name_resolved(NAMES[0], now + 1)
    assert watch.verdict(now + 1) is None
    watch.name_lost(NAMES[1], now + 11 * MINUTE)
    assert watch.verdict(now + 11 * MINUTE) is None


def test_o2_losses_further_apart_than_ten_minutes_do_not_add_up():
    watch, now = watch_that_resolved(NAMES), START + 60 * MINUTE
    for number, name in enumerate(NAMES):
        watch.name_lost(name, now + number * 6 * MINUTE)
    assert watch.verdict(now + 12 * MINUTE) is None


# Permanent kinds (O3)


@pytest.mark.parametrize(("hosts", "outage"), [(4, None), (5, "404"), (10, "404")])
def test_o3_five_good_hosts_that_turn_to_one_permanent_kind_are_an_outage(hosts, outage):
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:hosts]:
        watch.host_failed(host, NOT_FOUND, now)
    assert watch.verdict(now) == outage


def test_o3_the_hosts_must_be_more_than_half_of_those_polled():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:5]:
        watch.host_failed(host, NOT_FOUND, now)
    for host in HOSTS[5:9]:
        watch.host_failed(host, DOWN, now)
    assert watch.verdict(now) == "404"
    watch.host_failed(HOSTS[9], DOWN, now)
    assert watch.verdict(now) is None


def test_o3_two_kinds_do_not_add_up():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for number, host in enumerate(HOSTS[:8]):
        watch.host_failed(host, (NOT_FOUND, FORBIDDEN)[number % 2], now)
    assert watch.verdict(now) is None


def test_o3_transient_failures_are_no_evidence():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS:
        watch.host_failed(host, DOWN, now)
    assert watch.verdict(now) is None


def test_o3_hosts_that_did_not_succeed_within_a_day_are_no_evidence():
    watch, now = watch_that_succeeded(HOSTS[:4]), START + DAY / 2
    for host in HOSTS[:9]:
        watch.host_failed(host, NOT_FOUND, now)
    assert watch.verdict(now) is None
    old, now = watch_that_succeeded(HOSTS), START + DAY + MINUTE
    for host in HOSTS:
        old.host_failed(host, NOT_FOUND, now)
    assert old.verdict(now) is None


def test_o3_one_success_meanwhile_proves_the_contrary():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:5]:
        watch.host_failed(host, NOT_FOUND, now)
    watch.host_succeeded(HOSTS[9], now + 1)
    assert watch.verdict(now + 1) is None


def test_o3_failures_further_apart_than_ten_minutes_do_not_add_up():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for number, host in enumerate(HOSTS[:5]):
        watch.host_failed(host, NOT_FOUND, now + number * 3 * MINUTE)
    assert watch.verdict(now + 12 * MINUTE) is None


def test_o3_a_host_that_fails_otherwise_now_has_not_turned():
    watch, now = watch_that_succeeded(HOSTS), START + 60 * MINUTE
    for host in HOSTS[:5]:
        watch.host_failed(host, NOT_FOUND, now)
    watch.host_failed(HOSTS[0], DOWN, now + 1)
    assert watch.verdict(now + 1) is None


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
def test_o2_letting_go_of_old_evidence_never_changes_the_verdict(happenings):
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
        assert tidy.verdict(now) == untidy.verdict(now)


# What an outage does to failures and sources


def test_o2_during_an_outage_even_a_name_that_does_not_exist_is_transient_and_ours():
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
def test_o2_only_failures_of_its_kind_are_the_outages(error, outage, explained):
    assert explained_by(classify(error), outage) is explained


@pytest.mark.parametrize("state", [{}, FAILING, {"consecutive_failures": 9}])
@pytest.mark.parametrize("failures", [1, 4, 9])
def test_o2_the_failures_of_an_outage_are_given_back_with_the_auto_disable(state, failures):
    before = a_source(**state)
    current = before
    for minute in range(failures):
        current = fail(current, GONE, NOW + timedelta(minutes=minute))
    assert current.consecutive_failures == before.consecutive_failures + failures
    restored = given_back(current, before)
    assert restored == replace(before, last_polled=current.last_polled)


def test_o2_a_source_that_a_person_disabled_stays_disabled():
    before = a_source()
    current = replace(fail(before, GONE), enabled=False, disabled_reason=None)
    restored = given_back(current, before)
    assert not restored.enabled
    assert restored.consecutive_failures == 0


def test_o2_a_source_that_was_disabled_before_the_outage_stays_so():
    before = a_source(enabled=False, disabled_reason="Auto-disabled after 5 consecutive 410 errors")
    restored = given_back(fail(before, GONE), before)
    assert not restored.enabled
    assert restored.disabled_reason == before.disabled_reason


def test_f6_what_is_given_back_is_what_a_local_failure_would_have_left():
    before = a_source(**FAILING)
    local = fail(before, errors.LocalFault("no route"))
    assert given_back(fail(before, GONE), before) == local


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_o2_lanes_come_back_spread_out_but_within_minutes(some, more):
    few, many = sorted((some, more))
    assert 0 <= spread_seconds(few) <= spread_seconds(many) <= 5 * MINUTE


def test_a_failure_is_judged_by_its_kind_not_its_words():
    failure = Failure(FailureType.PERMANENT, kind="410", message="DNS 404", status=410)
    assert not explained_by(failure, "404")
