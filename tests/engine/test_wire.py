"""Events that go from one process to another arrive as what they were (U2, U4)."""

from dataclasses import replace
from datetime import timedelta

from headwater.engine.events import Event, EventKind
from headwater.engine.wire import LONGEST, events_of, texts_of
from headwater.model import Failure, FailureType, Outcome, OutcomeKind, SkipReason, Subject
from tests.factories import NOW, a_post, a_source


def an_outcome(posts: int = 0, **changes: object) -> Outcome:
    before = a_source(consecutive_failures=2)
    after = replace(before, consecutive_failures=0, last_polled=NOW)
    made = tuple(a_post(source_id=before.id, title=f"Title {n} €", body="b" * 9000)
                 for n in range(posts))  # fmt: skip
    outcome = Outcome(before, after, OutcomeKind.STORED, started_at=NOW, posts=made,
                      skipped={SkipReason.DUPLICATE: 3}, status=200, duration_ms=17)  # fmt: skip
    return replace(outcome, **changes)  # type: ignore[arg-type]


def there_and_back(*events: Event) -> list[Event]:
    texts = list(texts_of(events))
    assert all(len(text.encode()) <= LONGEST for text in texts)
    return [event for text in texts for event in events_of(text)]


def test_a_poll_arrives_with_all_that_is_told_of_it():
    failure = Failure(FailureType.TRANSIENT, "503", "the server said 503", 503)
    outcome = an_outcome(2, failure=failure)
    subject = Subject(outcome.before, "ada")
    sent = Event(EventKind.POLL_FINISHED, NOW, subject, outcome, seconds=1.5)
    (found,) = there_and_back(sent)
    assert (found.kind, found.at, found.seconds) == (sent.kind, NOW, 1.5)
    assert (found.user_id, found.source_id) == ("ada", outcome.before.id)
    assert found.outcome is not None
    assert found.outcome.failure == failure
    assert len(found.outcome.posts) == 2
    assert found.outcome.recovered == outcome.recovered
    assert found.outcome.skipped == outcome.skipped
    assert (found.outcome.status, found.outcome.duration_ms) == (200, 17)


def test_many_posts_arrive_without_their_bodies_and_in_order():
    outcome = an_outcome(50)
    sent = Event(EventKind.POST_CREATED, NOW, Subject(outcome.before, "ada"), outcome)
    found = there_and_back(sent, sent)
    posts = [post for event in found if event.outcome for post in event.outcome.posts]
    assert [post.title for post in posts] == 2 * [post.title for post in outcome.posts]
    assert {post.body for post in posts} == {""}


def test_what_is_about_no_source_arrives_too():
    sent = [
        Event(EventKind.TICK, NOW, text="12", seconds=0.25),
        Event(EventKind.OUTAGE, NOW + timedelta(seconds=1), text=None),
    ]
    assert there_and_back(*sent) == sent


def test_one_event_too_long_for_a_notice_costs_no_other():
    source = a_source(url=f"https://example.org/{'x' * 9000}")
    long = Event(EventKind.POLL_STARTED, NOW, Subject(source, "ada"))
    short = Event(EventKind.TICK, NOW, text="1")
    assert there_and_back(short, long, short) == [short, short]


def test_a_notice_of_somebody_else_s_is_no_event():
    for text in ("", "[]", "hello", '{"kind": "tick"}', '[{"kind": "nonsense", "at": 0}]'):
        assert events_of(text) == []
