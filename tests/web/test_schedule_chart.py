"""The chart of the time until the next poll."""

import re
from datetime import timedelta
from typing import Any

import pytest

from headwater.model import Hold, HostState, Source
from headwater.rules.explanation import LaneStatus, explain, span
from headwater.web.humanize import minutes
from headwater.web.rendering import templates
from headwater.web.schedule_chart import ScheduleChart, schedule_chart_of
from tests.factories import NOW, a_policy, a_source

MINUTE = timedelta(minutes=1)


def drawn(source: Source, state: HostState | None = None) -> ScheduleChart:
    """The chart of a source at NOW."""
    policy = a_policy()
    explained = explain(source, state or HostState("feeds.example.org"), NOW, policy)
    return schedule_chart_of(source, explained, NOW, policy)


def kinds(picture: ScheduleChart) -> list[tuple[str, str]]:
    return [(part.kind, span(part.seconds)) for part in picture.segments]


def markup(macro: str, *arguments: Any) -> str:
    """What a macro of the charts draws."""
    return str(getattr(templates().get_template("_charts.html").module, macro)(*arguments))


def test_a_healthy_source_waits_for_its_interval():
    picture = drawn(a_source(last_polled=NOW - 15 * MINUTE))
    assert kinds(picture) == [("interval", "30 min")]
    assert picture.now_x == 50
    assert not picture.backoff


def test_s3_failures_extend_the_wait_by_the_backoff():
    picture = drawn(a_source(last_polled=NOW, consecutive_failures=2))
    assert kinds(picture) == [("interval", "30 min"), ("backoff", "1 h 30 min")]
    assert [minutes(step.minutes) for step in picture.backoff] == [
        "30 min", "1 h", "2 h", "4 h", "8 h", "16 h", "1 d"
    ]  # fmt: skip
    assert [step.failures for step in picture.backoff if step.is_current] == [2]
    assert [step.failures for step in picture.backoff if step.is_cap] == [6]


def test_p9_a_hold_follows_the_interval():
    state = HostState("feeds.example.org", hold=Hold(NOW + 60 * MINUTE, NOW, "HTTP 429"))
    picture = drawn(a_source(last_polled=NOW - 10 * MINUTE), state)
    assert kinds(picture) == [("interval", "30 min"), ("hold", "40 min")]


def test_a_hold_shorter_than_the_interval_changes_nothing():
    state = HostState("feeds.example.org", hold=Hold(NOW + MINUTE, NOW, "HTTP 429"))
    picture = drawn(a_source(last_polled=NOW), state)
    assert kinds(picture) == [("interval", "30 min")]


def test_of_two_holds_the_later_one_counts():
    state = HostState("feeds.example.org", hold=Hold(NOW + 90 * MINUTE, NOW, "HTTP 429"))
    source = a_source(last_polled=NOW, hold=Hold(NOW + 60 * MINUTE, NOW, "HTTP 503"))
    assert kinds(drawn(source, state)) == [("interval", "30 min"), ("hold", "1 h")]


def test_an_overdue_source_waits_until_now():
    picture = drawn(a_source(last_polled=NOW - 40 * MINUTE))
    assert kinds(picture) == [("interval", "30 min"), ("waiting", "10 min")]
    assert picture.now_x == 100


def test_s9_a_request_ends_the_interval_but_not_the_lanes_delay():
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
def test_without_a_planned_poll_there_is_no_bar(source: Source):
    picture = drawn(source)
    assert not picture.segments
    assert not picture.backoff
    assert picture.now_x is None


@pytest.mark.parametrize("failures", [1, 2, 9, 27, 10**9])
@pytest.mark.parametrize(("interval", "cap"), [(1, 1_000_000), (525_600, 1), (30, 24), (7, None)])
def test_every_chart_fits_its_frame(failures: int, interval: int, cap: int | None):
    state = HostState("feeds.example.org", hold=Hold(NOW + MINUTE, NOW, "HTTP 429"))
    source = a_source(
        last_polled=NOW,
        consecutive_failures=failures,
        poll_interval_minutes=interval,
        max_backoff_hours=cap,
    )
    picture = drawn(source, state)
    assert sum(part.width for part in picture.segments) == pytest.approx(100, abs=0.1)
    assert all(part.width >= 11 for part in picture.segments)
    assert 1 <= len(picture.backoff) <= 8
    assert sum(step.is_current for step in picture.backoff) == 1
    heights = re.findall(r'height="([\d.]+)%"', markup("backoff_steps", picture.backoff))
    assert len(heights) == len(picture.backoff)
    assert all(0 < float(height) <= 100 for height in heights)


def test_a_long_lane_is_drawn_in_part():
    line = markup("lane_line", LaneStatus(ahead=5000, in_flight=True))
    assert line.count("waits") == 6
    assert "4,994 more" in line
    assert "another one, checked right now" in line
    assert "this source" in line
