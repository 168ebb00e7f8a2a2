"""When a source is polled."""

from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.rules.schedule import (
    backoff_cap,
    due_at,
    effective_interval,
    first_contact,
    is_due,
    is_from_the_future,
)
from tests.factories import NOW, a_policy, a_source

POLICY = a_policy()
MINUTE = timedelta(minutes=1)

intervals = st.integers(1, 525_600)
failures = st.integers(0, 40) | st.integers(0, 10**18)
hours = st.integers(1, 1_000_000)
spans = st.timedeltas(timedelta(days=-800), timedelta(days=800))


@pytest.mark.parametrize(
    ("interval", "count", "minutes"),
    [
        (60, 0, 60),
        (60, 1, 120),
        (60, 2, 240),
        (60, 3, 480),
        (60, 4, 960),
        (60, 5, 1440),
        (60, 6, 1440),
        (60, 1000, 1440),
        (60, 10**9, 1440),
        (60, 2**63 - 1, 1440),
        (30, 0, 30),
        (30, 1, 60),
        (1, 1, 2),
        (1, 10, 1024),
        (1, 11, 1440),
        (1440, 1, 1440),
        (1441, 3, 1441),
        (525_600, 0, 525_600),
        (525_600, 9, 525_600),
    ],
)
def test_s3_backoff_doubles_up_to_a_day_and_is_never_shorter_than_the_interval(
    interval, count, minutes
):
    source = a_source(poll_interval_minutes=interval, consecutive_failures=count)
    assert effective_interval(source, POLICY) == minutes * MINUTE


@pytest.mark.parametrize(
    ("own_hours", "configured_hours", "count", "minutes"),
    [
        (None, 6, 10, 360),
        (None, 6, 2, 240),
        (6, 24, 10, 360),
        (48, 24, 10, 2880),
        (48, 6, 5, 1920),
        (1, 24, 1, 60),
        (1_000_000, 24, 10**9, 60_000_000),
        (None, 1_000_000, 10**9, 60_000_000),
    ],
)
def test_s3_the_cap_of_the_source_overrides_the_configuration(
    own_hours, configured_hours, count, minutes
):
    source = a_source(
        poll_interval_minutes=60, consecutive_failures=count, max_backoff_hours=own_hours
    )
    policy = a_policy(max_backoff_hours=configured_hours)
    assert effective_interval(source, policy) == minutes * MINUTE


@given(intervals, failures, hours, st.none() | hours)
def test_s3_the_interval_is_the_minimum_and_the_cap_the_maximum(interval, count, configured, own):
    source = a_source(
        poll_interval_minutes=interval, consecutive_failures=count, max_backoff_hours=own
    )
    policy = a_policy(max_backoff_hours=configured)
    effective = effective_interval(source, policy)
    assert interval * MINUTE <= effective
    assert effective <= max(interval * MINUTE, backoff_cap(source, policy))


@given(intervals, st.integers(0, 60), st.integers(0, 60), hours)
def test_s3_more_failures_never_shorten_the_interval(interval, fewer, more, cap):
    assume(fewer <= more)
    policy = a_policy(max_backoff_hours=cap)
    rests = [
        effective_interval(
            a_source(poll_interval_minutes=interval, consecutive_failures=count), policy
        )
        for count in (fewer, more)
    ]
    assert rests[0] <= rests[1]


@given(intervals, st.integers(1, 200), hours)
def test_s3_the_formula_agrees_with_the_specification(interval, count, cap):
    source = a_source(poll_interval_minutes=interval, consecutive_failures=count)
    expected = max(interval, min(interval * 2**count, cap * 60))
    assert effective_interval(source, a_policy(max_backoff_hours=cap)) == expected * MINUTE


@pytest.mark.parametrize(
    ("minutes_ago", "count", "due"),
    [
        (59, 0, False),
        (60, 0, True),
        (61, 0, True),
        (60, 2, False),
        (239, 2, False),
        (240, 2, True),
        (1439, 7, False),
        (1440, 7, True),
    ],
)
def test_s2_a_source_is_due_once_its_effective_interval_is_over(minutes_ago, count, due):
    source = a_source(
        poll_interval_minutes=60,
        consecutive_failures=count,
        last_polled=NOW - minutes_ago * MINUTE,
    )
    assert is_due(source, NOW, POLICY) is due


def test_s2_a_source_is_due_at_the_exact_end_of_its_interval():
    source = a_source(last_polled=NOW - 30 * MINUTE)
    assert is_due(source, NOW, POLICY)
    assert not is_due(source, NOW - timedelta(milliseconds=1), POLICY)


def test_s2_a_source_without_contact_is_not_due_by_time():
    assert not is_due(a_source(last_polled=None), NOW, POLICY)
    assert due_at(a_source(last_polled=None), POLICY) is None


@pytest.mark.parametrize("last_polled", [None, NOW - 1000 * MINUTE, NOW, NOW + 1000 * MINUTE])
def test_s4_a_disabled_source_is_never_due_by_time(last_polled):
    source = a_source(enabled=False, last_polled=last_polled)
    assert not is_due(source, NOW, POLICY)
    assert due_at(source, POLICY) is None


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("last_polled", [None, NOW - MINUTE, NOW])
@pytest.mark.parametrize("count", [0, 12])
def test_s9_a_requested_source_is_due_whatever_its_state(enabled, last_polled, count):
    source = a_source(
        enabled=enabled, last_polled=last_polled, consecutive_failures=count, requested_at=NOW
    )
    assert is_due(source, NOW, POLICY)


@pytest.mark.parametrize("enabled", [True, False])
def test_s9_a_request_survives_a_clock_that_was_set_back(enabled):
    asked = NOW + timedelta(days=365)
    source = a_source(enabled=enabled, last_polled=NOW, requested_at=asked)
    assert is_due(source, NOW, POLICY)


@given(intervals, failures, spans, spans, st.timedeltas(timedelta(0), timedelta(days=800)))
def test_s2_a_due_source_stays_due_until_it_is_polled(interval, count, polled, asked, later):
    source = a_source(
        poll_interval_minutes=interval, consecutive_failures=count, last_polled=NOW + polled
    )
    if is_due(source, NOW + asked, POLICY):
        assert is_due(source, NOW + asked + later, POLICY)


@given(intervals, failures, spans, spans)
def test_s2_due_agrees_with_the_sum_of_the_stored_fields(interval, count, polled, asked):
    source = a_source(
        poll_interval_minutes=interval, consecutive_failures=count, last_polled=NOW + polled
    )
    over = NOW + polled + effective_interval(source, POLICY) <= NOW + asked
    assert is_due(source, NOW + asked, POLICY) is over


@pytest.mark.parametrize(
    ("last_polled", "from_the_future"),
    [
        (None, False),
        (NOW - timedelta(days=900), False),
        (NOW, False),
        (NOW + timedelta(seconds=5), False),
        (NOW + timedelta(seconds=5, milliseconds=1), True),
        (NOW + timedelta(hours=1), True),
        (NOW + timedelta(days=3650), True),
    ],
)
def test_s2_a_poll_more_than_five_seconds_ahead_means_the_clock_was_set_back(
    last_polled, from_the_future
):
    assert is_from_the_future(a_source(last_polled=last_polled), NOW) is from_the_future


@given(intervals, st.randoms(use_true_random=False))
def test_p6_first_contact_lies_within_the_last_interval(interval, rng):
    source = a_source(poll_interval_minutes=interval)
    met = first_contact(source, NOW, rng)
    assert met.last_polled is not None
    assert NOW - interval * MINUTE <= met.last_polled <= NOW


@given(intervals, st.randoms(use_true_random=False))
def test_p6_the_first_poll_is_due_within_one_interval(interval, rng):
    met = first_contact(a_source(poll_interval_minutes=interval), NOW, rng)
    assert is_due(met, NOW + interval * MINUTE, POLICY)
    moment = due_at(met, POLICY)
    assert moment is not None
    assert moment >= NOW


def test_p6_first_polls_are_spread_over_the_interval():
    rng = Random(20260217)
    source = a_source(poll_interval_minutes=100)
    moments = [due_moment(first_contact(source, NOW, rng)) for _ in range(1000)]
    tenths = [sum(1 for m in moments if _tenth(m) == tenth) for tenth in range(10)]
    assert sum(tenths) == 1000
    assert min(tenths) > 50, tenths


def test_p6_randomness_is_an_argument():
    source = a_source()
    assert first_contact(source, NOW, Random(1)) == first_contact(source, NOW, Random(1))
    assert first_contact(source, NOW, Random(1)) != first_contact(source, NOW, Random(2))


def test_p6_first_contact_is_stored_in_whole_milliseconds():
    met = first_contact(a_source(), NOW, Random(7))
    assert met.last_polled is not None
    assert met.last_polled.microsecond % 1000 == 0


def test_p7_first_contact_does_not_count_as_a_poll():
    source = a_source()
    met = first_contact(source, NOW, Random(3))
    assert not met.first_poll_done
    assert met.last_success_at is None
    assert a_source(last_polled=met.last_polled) == met


def test_p6_a_requested_poll_does_not_wait_for_the_jitter():
    met = first_contact(a_source(requested_at=NOW), NOW, Random(3))
    assert is_due(met, NOW, POLICY)


def due_moment(source) -> datetime:
    moment = due_at(source, POLICY)
    assert moment is not None
    return moment


def _tenth(moment: datetime) -> int:
    return int((moment - NOW) / (10 * MINUTE))
