"""The window of events that can be replayed."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.api.events.event_log import EventLimits, EventLog
from headwater.clock import SystemClock
from headwater.engine.events import EventKind, Events
from headwater.model import Outcome, OutcomeKind, Post, Source, Subject
from tests.factories import a_post, a_source, a_subject


def outcome_with(*posts: Post) -> Outcome:
    source = a_source()
    kind = OutcomeKind.STORED if posts else OutcomeKind.UNCHANGED
    return Outcome(source, source, kind, SystemClock().now(), posts=posts)


def a_log(**limits: Any) -> tuple[Events, EventLog]:
    events = Events(SystemClock())
    return events, EventLog(events, SystemClock(), EventLimits(**limits), most_streams_per_user=1)


def everything_in(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from everything_in(part)


def test_events_are_numbered_from_one_and_each_new_post_is_one():
    events, log = a_log()
    events.emit(EventKind.POLL_STARTED, a_subject())
    posts = [a_post(str(n)) for n in range(250)]
    events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(*posts))
    events.emit(EventKind.TICK, text="1")
    assert (log.newest, len(log)) == (252, 252)
    assert [kept.number for kept in log.after(0, 300)] == list(range(1, 253))
    assert [kept.number for kept in log.after(101, 2)] == [102, 103]
    assert [kept.number for kept in log.after(250, 99)] == [251, 252]
    assert not log.after(252, 99)


def test_event_ids_stay_known_as_long_as_all_later_events_are_kept():
    events, log = a_log(most_events=3)
    for _ in range(5):
        events.emit(EventKind.TICK, text="1")
    assert log.resume_after(None) == (5, None)
    assert log.resume_after("") == (5, None)
    assert log.resume_after(log.id_of(5)) == (5, None)
    assert log.resume_after(log.id_of(2)) == (2, None)
    place, missed = log.resume_after(log.id_of(1))
    assert place == 5
    assert missed is not None
    assert "no longer stored" in missed


ODD = ("6", "x-1", "-1", "1-1", "RUN", "RUN-", "RUN-6", "RUN-x", "RUN--1", "RUN-\u0663", "RUN-1-1")


@pytest.mark.parametrize("odd", [*ODD, "RUN-" + "9" * 5000, "\x00"])
def test_foreign_event_ids_are_unknown(odd):
    events, log = a_log()
    for _ in range(5):
        events.emit(EventKind.TICK, text="1")
    place, missed = log.resume_after(odd.replace("RUN", log.run))
    assert place == 5
    assert missed is not None
    assert "unknown" in missed


def test_the_window_is_bounded_by_number():
    events, log = a_log(most_events=1000)
    posts = [a_post(str(n)) for n in range(5000)]
    events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(*posts))
    assert log.newest == 5000
    assert len(log) == 1000
    assert not log.has_all_after(3999)
    assert log.has_all_after(5000)


def test_h2_of_more_posts_than_the_window_holds_only_those_kept_are_read():
    events, log = a_log(most_events=300)
    events.emit(EventKind.TICK, text="1")
    unseen: Any = [object()] * 10_000
    posts = [*unseen, *(a_post(str(n)) for n in range(300))]
    events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(*posts))
    assert (log.newest, len(log)) == (10_301, 300)
    assert not log.has_all_after(10_000)
    assert [kept.number for kept in log.after(10_001, 2)] == [10_002, 10_003]
    events.emit(EventKind.TICK, text="2")
    assert log.newest == 10_302
    assert len(log) == 300


def test_the_window_is_bounded_by_memory():
    events, log = a_log(most_bytes=100_000)
    long = a_post("long", url="https://example.org/" + "x" * 8000)
    for _ in range(100):
        events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(long))
    assert 5 <= len(log) <= 12
    assert 0 < log.size <= 100_000


def test_no_body_source_or_outcome_is_kept_in_memory():
    events, log = a_log()
    subject, outcome = a_subject(), outcome_with(a_post(body="x" * 100_000))
    for kind in EventKind:
        about: dict[str, Any] = {"text": "1"}
        if kind not in (EventKind.TICK, EventKind.OUTAGE):
            about = {"subject": subject, "outcome": outcome}
        events.emit(kind, **about)
    parts = list(everything_in(log.after(0, 99)))
    assert len(parts) > 20
    assert not [part for part in parts if isinstance(part, Outcome | Source | Subject | Post)]
    assert not [part for part in parts if isinstance(part, str) and len(part) > 10_000]
    assert log.size < 10_000


def test_a_closed_log_receives_no_more_events():
    events, log = a_log()
    assert events.listeners == 1
    log.close()
    events.emit(EventKind.TICK, text="1")
    assert (events.listeners, log.newest) == (0, 0)
    assert log.closed.is_set()
