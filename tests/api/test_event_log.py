"""The window of events that can be told again."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.api.event_log import EventLimits, EventLog
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
    return events, EventLog(events, SystemClock(), EventLimits(**limits))


def everything_in(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, tuple | list):
        for part in value:
            yield from everything_in(part)


def test_events_are_numbered_from_one_and_each_new_post_is_one():
    events, log = a_log()
    events.tell(EventKind.POLL_STARTED, a_subject())
    posts = [a_post(str(n)) for n in range(250)]
    events.tell(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(*posts))
    events.tell(EventKind.TICK, text="1")
    assert (log.newest, len(log)) == (252, 252)
    assert [kept.last for kept in log.after(0, 99)] == [1, 101, 201, 251, 252]
    assert [kept.last for kept in log.after(101, 2)] == [201, 251]
    assert [kept.last for kept in log.after(150, 99)] == [201, 251, 252]
    assert not log.after(252, 99)


def test_ids_of_this_run_are_known_as_long_as_what_follows_them_is_kept():
    events, log = a_log(most_events=3)
    for _ in range(5):
        events.tell(EventKind.TICK, text="1")
    assert log.place_of(None) == (5, None)
    assert log.place_of("") == (5, None)
    assert log.place_of(log.id_of(5)) == (5, None)
    assert log.place_of(log.id_of(2)) == (2, None)
    place, missed = log.place_of(log.id_of(1))
    assert place == 5
    assert missed is not None
    assert "kept" in missed


ODD = ("6", "x-1", "-1", "1-1", "RUN", "RUN-", "RUN-6", "RUN-x", "RUN--1", "RUN-\u0663", "RUN-1-1")


@pytest.mark.parametrize("odd", [*ODD, "RUN-" + "9" * 5000, "\x00"])
def test_ids_of_nobody_are_unknown(odd):
    events, log = a_log()
    for _ in range(5):
        events.tell(EventKind.TICK, text="1")
    place, missed = log.place_of(odd.replace("RUN", log.run))
    assert place == 5
    assert missed is not None
    assert "not known" in missed


def test_the_window_is_bounded_by_number():
    events, log = a_log(most_events=1000)
    posts = [a_post(str(n)) for n in range(5000)]
    events.tell(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(*posts))
    assert log.newest == 5000
    assert 900 <= len(log) <= 1000
    assert not log.reaches(3999)
    assert log.reaches(5000)


def test_h2_of_more_posts_than_are_kept_only_those_are_looked_at():
    events, log = a_log(most_events=300)
    events.tell(EventKind.TICK, text="1")
    unseen: Any = [object()] * 10_000
    posts = [*unseen, *(a_post(str(n)) for n in range(300))]
    events.tell(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(*posts))
    assert (log.newest, len(log)) == (10_301, 300)
    assert not log.reaches(10_000)
    assert [kept.last for kept in log.after(10_001, 99)] == [10_101, 10_201, 10_301]
    events.tell(EventKind.TICK, text="2")
    assert log.newest == 10_302
    assert 200 <= len(log) <= 300


def test_the_window_is_bounded_by_memory():
    events, log = a_log(most_bytes=100_000)
    long = a_post("long", url="https://example.org/" + "x" * 8000)
    for _ in range(100):
        events.tell(EventKind.POST_CREATED, a_subject(), outcome=outcome_with(long))
    assert 5 <= len(log) <= 12
    assert 0 < log.size <= 100_000


def test_no_body_source_or_outcome_is_kept_alive():
    events, log = a_log()
    subject, outcome = a_subject(), outcome_with(a_post(body="x" * 100_000))
    for kind in EventKind:
        about: dict[str, Any] = {"text": "1"}
        if kind not in (EventKind.TICK, EventKind.OUTAGE):
            about = {"subject": subject, "outcome": outcome}
        events.tell(kind, **about)
    parts = list(everything_in(log.after(0, 99)))
    assert len(parts) > 20
    assert not [part for part in parts if isinstance(part, Outcome | Source | Subject | Post)]
    assert not [part for part in parts if isinstance(part, str) and len(part) > 10_000]
    assert log.size < 10_000


def test_a_closed_log_listens_no_more():
    events, log = a_log()
    assert events.listeners == 1
    log.close()
    events.tell(EventKind.TICK, text="1")
    assert (events.listeners, log.newest) == (0, 0)
    assert log.closed.is_set()
