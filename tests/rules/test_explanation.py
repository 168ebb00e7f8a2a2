"""When a source is polled next, and why."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import Hold, HostState, SourceType
from headwater.rules.explanation import LaneStatus, explain, next_poll_at
from headwater.rules.policy import HostOverride
from headwater.rules.schedule import due_at
from headwater.source_settings import FullText
from tests.factories import NOW, a_policy, a_source

POLICY = a_policy()
FREE = HostState("feeds.example.org")
MINUTE = timedelta(minutes=1)
PROBES = "only probes and manual polls run"


def held(minutes):
    return Hold(NOW + minutes * MINUTE, NOW - MINUTE, "HTTP 429 Too Many Requests")


def resting(minutes):
    return replace(
        FREE, next_allowed_at=NOW + minutes * MINUTE, next_allowed_set_at=NOW - 60 * MINUTE
    )


@pytest.mark.parametrize(
    ("source", "state", "expected"),
    [
        (a_source(), FREE, None),
        (a_source(enabled=False, last_polled=NOW), FREE, None),
        (a_source(last_polled=NOW), FREE, 30),
        (a_source(last_polled=NOW, consecutive_failures=2), FREE, 120),
        (a_source(last_polled=NOW - 50 * MINUTE), FREE, -20),
        (a_source(last_polled=NOW), replace(FREE, hold=held(90)), 90),
        (a_source(last_polled=NOW), replace(FREE, hold=held(10)), 30),
        (a_source(last_polled=NOW), replace(FREE, hold=held(-10)), 30),
        (a_source(last_polled=NOW - 50 * MINUTE), resting(5), 5),
        (a_source(last_polled=NOW), resting(5), 30),
        (a_source(last_polled=NOW, hold=held(45)), FREE, 45),
        (a_source(last_polled=NOW, requested_at=NOW - MINUTE), FREE, 0),
        (a_source(requested_at=NOW), FREE, 0),
        (a_source(enabled=False, requested_at=NOW), FREE, 0),
    ],
)
def test_the_next_poll_is_the_later_of_due_and_free(source, state, expected):
    moment = next_poll_at(source, state, NOW, POLICY)
    assert moment == (None if expected is None else NOW + expected * MINUTE)


@given(
    st.integers(-3000, 3000),
    st.integers(0, 12),
    st.none() | st.integers(-60, 3000),
    st.none() | st.integers(-60, 3000),
)
def test_the_next_poll_is_never_before_the_source_is_due(polled, failures, hold, rest):
    source = a_source(last_polled=NOW + polled * MINUTE, consecutive_failures=failures)
    state = FREE if rest is None else resting(rest)
    state = state if hold is None else replace(state, hold=held(hold))
    moment, due = next_poll_at(source, state, NOW, POLICY), due_at(source, POLICY)
    assert moment is not None
    assert due is not None
    waits = [NOW + wait * MINUTE for wait in (hold, rest) if wait is not None and wait > 0]
    assert moment == max([due, *waits])


def steps_of(source, state=FREE, policy=POLICY):
    explanation = explain(source, state, NOW, policy)
    assert explanation.next_poll_at == next_poll_at(source, state, NOW, policy)
    return {step.what: step for step in explanation.steps}


def test_an_ordinary_source_is_explained_by_its_interval():
    steps = steps_of(a_source(last_polled=NOW, first_poll_done=True))
    assert "30 min" in steps["interval"].detail
    assert steps["last polled"].at == NOW
    assert steps["due"].at == NOW + 30 * MINUTE
    assert "feeds.example.org" in steps["lane"].detail
    assert not {"backoff", "hold", "requested", "disabled"} & steps.keys()


def test_a_failing_source_is_explained_by_its_backoff():
    source = a_source(poll_interval_minutes=60, last_polled=NOW, consecutive_failures=5)
    steps = steps_of(source)
    assert "failed 5 times" in steps["backoff"].detail
    assert "at most 1 d" in steps["backoff"].detail
    assert steps["due"].at == NOW + timedelta(hours=24)


def test_a_hold_is_explained_by_the_response_of_the_host():
    steps = steps_of(a_source(last_polled=NOW), replace(FREE, hold=held(90)))
    assert steps["hold"].at == NOW + 90 * MINUTE
    assert "429" in steps["hold"].detail
    assert "hold" not in steps_of(a_source(last_polled=NOW), replace(FREE, hold=held(-1)))


def test_a_disabled_source_is_explained_by_its_reason():
    reason = "Auto-disabled after 5 consecutive 404 errors"
    assert reason in steps_of(a_source(enabled=False, disabled_reason=reason))["disabled"].detail
    assert "by a user" in steps_of(a_source(enabled=False))["disabled"].detail


def test_s4_a_disabled_source_that_is_polled_manually_is_explained_by_the_request():
    steps = steps_of(a_source(enabled=False, requested_at=NOW))
    assert steps["requested"].at == NOW


def test_a_source_before_first_contact_is_explained():
    steps = steps_of(a_source())
    assert "first contact" in steps
    assert "due" not in steps


def test_p6_a_synthetic_last_poll_is_not_explained_as_a_poll():
    explanation = explain(a_source(last_polled=NOW), FREE, NOW, POLICY, polled=False)
    assert [step.what for step in explanation.steps] == ["interval", "first contact", "due", "lane"]
    assert explanation.steps[1].at == NOW


def test_one_failure_is_reported_in_the_singular():
    steps = steps_of(a_source(last_polled=NOW, consecutive_failures=1))
    assert steps["backoff"].detail == "failed once: 30 min doubled is 1 h, at most 1 d"


def test_x1_a_missing_key_is_a_step():
    explanation = explain(a_source(), FREE, NOW, POLICY, key_advice="store one")
    assert ("API key", "none; store one") in [(s.what, s.detail) for s in explanation.steps]


def test_p2_the_lane_reports_its_delay_and_its_origin():
    policy = a_policy(
        host_overrides={"feeds.example.org": HostOverride(poll_delay_seconds=3)},
        type_delay_seconds={SourceType.RSS: 1},
    )
    detail = steps_of(a_source(last_polled=NOW), policy=policy)["lane"].detail
    assert "3 s" in detail
    assert "host-overrides" in detail


def test_p4_the_null_lane_is_reported_as_such():
    policy = a_policy(type_delay_seconds={SourceType.RSS: 9})
    detail = steps_of(a_source(url="no url at all", last_polled=NOW), policy=policy)["lane"].detail
    assert "null lane" in detail
    assert "0 s" in detail


def steps_now(lane, **changes):
    explanation = explain(a_source(last_polled=NOW, **changes), FREE, NOW, POLICY, lane=lane)
    return explanation.next_poll_at, {step.what: step.detail for step in explanation.steps}


@pytest.mark.parametrize(
    ("lane", "what", "detail"),
    [
        (LaneStatus(ahead=0), "lane position", "next in its lane"),
        (LaneStatus(ahead=1), "lane position", "1 source waits before it"),
        (
            LaneStatus(ahead=7, in_flight=True),
            "lane position",
            "7 sources wait before it, one is being polled right now",
        ),
        (
            LaneStatus(in_flight=True),
            "lane position",
            "another source of the lane is being polled right now",
        ),
        (LaneStatus(in_flight=True, polling=True), "in flight", "it is being polled right now"),
    ],
)
def test_the_state_of_the_lane_is_a_step(lane, what, detail):
    next_at, steps = steps_now(lane)
    assert steps[what] == detail
    assert next_at == NOW + 30 * MINUTE


def test_o2_during_an_outage_only_a_requested_poll_has_a_time():
    next_at, steps = steps_now(LaneStatus(outage="DNS"))
    assert steps["outage"] == "this machine seems to be offline (DNS); " + PROBES
    assert next_at is None
    assert steps_now(LaneStatus(outage="DNS"), requested_at=NOW)[0] == NOW


def test_sources_ahead_in_the_lane_delay_the_next_poll():
    waiting = LaneStatus(ahead=3, seconds_before=90.0)
    next_at, steps = steps_now(waiting, requested_at=NOW)
    assert next_at == NOW + timedelta(seconds=90)
    assert steps["lane position"] == "3 sources wait before it; their delays take 1 min 30 s"


def test_an_idle_lane_adds_no_step():
    assert steps_now(LaneStatus())[1].keys() == steps_of(a_source(last_polled=NOW)).keys()


def test_g2_while_the_scheduler_is_paused_only_a_requested_poll_has_a_time():
    paused = LaneStatus(paused=True)
    assert steps_now(paused)[0] is None
    assert "paused" in steps_now(paused)[1]["paused"]
    assert steps_now(paused, requested_at=NOW)[0] == NOW
    assert steps_now(replace(paused, polling=True))[0] is not None


@pytest.mark.parametrize(
    ("changes", "pending", "end"),
    [
        ({}, 0, "none is pending"),
        ({}, 1, "1 is pending"),
        ({}, 1200, "1,200 are pending"),
        ({"enabled": False}, 2, "2 are pending until the source is enabled"),
    ],
)
def test_t4_pending_pages_are_explained(changes, pending, end):
    source = a_source(full_text=FullText.ON, **changes)
    (step,) = (
        step
        for step in explain(source, FREE, NOW, POLICY, pages_pending=pending).steps
        if step.what == "full text"
    )
    assert step.detail.endswith(end)
    assert "full text" not in {step.what for step in explain(a_source(), FREE, NOW, POLICY).steps}
