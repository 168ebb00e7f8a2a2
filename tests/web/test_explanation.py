"""The picture of the way to the next poll."""

from datetime import timedelta
from typing import Any

import pytest

from headwater.model import Hold, HostState, Source
from headwater.rules.explanation import LaneNow, explain
from headwater.web.explanation import Picture, picture_of
from tests.factories import NOW, a_policy, a_source

MINUTE = timedelta(minutes=1)


def drawn(source: Source, state: HostState | None = None, **lane: Any) -> Picture:
    """The picture of a source at NOW."""
    policy, lane_now = a_policy(), LaneNow(**lane)
    state = state or HostState("feeds.example.org")
    return picture_of(
        source, explain(source, state, NOW, policy, lane=lane_now), lane_now, NOW, policy
    )


def kinds(picture: Picture) -> list[tuple[str, str]]:
    return [(part.kind, part.length) for part in picture.stretches]


def test_a_healthy_source_rests_for_its_interval():
    picture = drawn(a_source(last_polled=NOW - 15 * MINUTE))
    assert kinds(picture) == [("interval", "30 min")]
    assert picture.now_x == 50
    assert not picture.backoff


def test_s3_failures_lengthen_the_rest_by_the_backoff():
    picture = drawn(a_source(last_polled=NOW, consecutive_failures=2))
    assert kinds(picture) == [("interval", "30 min"), ("backoff", "1 h 30 min")]
    assert [step.length for step in picture.backoff] == [
        "30 min", "1 h", "2 h", "4 h", "8 h", "16 h", "1 d"
    ]  # fmt: skip
    assert [step.failures for step in picture.backoff if step.is_current] == [2]
    assert [step.failures for step in picture.backoff if step.is_cap] == [6]


def test_p9_a_hold_comes_behind_the_rest():
    state = HostState("feeds.example.org", hold=Hold(NOW + 60 * MINUTE, NOW, "HTTP 429"))
    picture = drawn(a_source(last_polled=NOW - 10 * MINUTE), state)
    assert kinds(picture) == [("interval", "30 min"), ("hold", "40 min")]


def test_a_hold_that_ends_before_the_rest_is_over_changes_nothing():
    state = HostState("feeds.example.org", hold=Hold(NOW + MINUTE, NOW, "HTTP 429"))
    picture = drawn(a_source(last_polled=NOW), state)
    assert kinds(picture) == [("interval", "30 min")]


def test_of_two_holds_the_later_one_counts():
    state = HostState("feeds.example.org", hold=Hold(NOW + 90 * MINUTE, NOW, "HTTP 429"))
    source = a_source(last_polled=NOW, hold=Hold(NOW + 60 * MINUTE, NOW, "HTTP 503"))
    assert kinds(drawn(source, state)) == [("interval", "30 min"), ("hold", "1 h")]


def test_what_is_overdue_waits_until_now():
    picture = drawn(a_source(last_polled=NOW - 40 * MINUTE))
    assert kinds(picture) == [("interval", "30 min"), ("waiting", "10 min")]
    assert picture.now_x == 100


def test_s9_a_request_cuts_the_rest_short_but_not_the_lanes_delay():
    delay = HostState(
        "feeds.example.org", next_allowed_at=NOW + MINUTE, next_allowed_set_at=NOW - MINUTE
    )
    source = a_source(last_polled=NOW - 5 * MINUTE, requested_at=NOW)
    assert kinds(drawn(source, delay)) == [("interval", "5 min"), ("delay", "1 min")]


@pytest.mark.parametrize(
    "source",
    [
        a_source(),
        a_source(enabled=False, last_polled=NOW),
        a_source(enabled=False, consecutive_failures=5, last_polled=NOW),
    ],
)
def test_where_no_poll_is_planned_there_is_no_bar(source: Source):
    picture = drawn(source)
    assert (picture.stretches, picture.now_x, picture.backoff) == ((), None, ())


@pytest.mark.parametrize("failures", [1, 2, 9, 27, 10**9])
@pytest.mark.parametrize(("interval", "cap"), [(1, 1_000_000), (525_600, 1), (30, 24), (7, None)])
def test_every_picture_fits_its_frame(failures: int, interval: int, cap: int | None):
    state = HostState("feeds.example.org", hold=Hold(NOW + MINUTE, NOW, "HTTP 429"))
    source = a_source(
        last_polled=NOW,
        consecutive_failures=failures,
        poll_interval_minutes=interval,
        max_backoff_hours=cap,
    )
    picture = drawn(source, state)
    assert sum(part.width for part in picture.stretches) == pytest.approx(100, abs=0.1)
    assert all(part.width >= 11 for part in picture.stretches)
    assert 1 <= len(picture.backoff) <= 8
    assert sum(step.is_current for step in picture.backoff) == 1
    assert all(0 < step.height <= 100 for step in picture.backoff)


def test_a_long_lane_is_drawn_in_part():
    lane = drawn(a_source(last_polled=NOW), ahead=5000, in_flight=True).lane
    assert (lane.ahead, lane.hidden, lane.polling_other, lane.is_in_line) == (6, 4994, True, True)


def test_steps_speak_of_buttons_and_not_of_commands():
    (first, *_) = drawn(a_source(enabled=False)).steps
    assert first.detail == "switched off by a person; Enable starts it again"
