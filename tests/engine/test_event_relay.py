"""Events sent from one process to another arrive unchanged (U2, U4)."""

from dataclasses import replace
from datetime import timedelta

from headwater.engine.cluster.event_relay import MAX_BYTES, decode_events, encode_events
from headwater.engine.events import Event, EventKind
from headwater.model import Failure, FailureType, Outcome, OutcomeKind, SkipReason, Subject
from tests.factories import NOW, a_post, a_source


def an_outcome(posts: int = 0, **changes: object) -> Outcome:
    before = a_source(consecutive_failures=2)
    after = replace(before, consecutive_failures=0, last_polled=NOW)
    made = tuple(a_post(source_id=before.id, title=f"Title {n} €", body="b" * 9000,
                        markdown="m" * 9000, categories=("c" * 9000,))
                 for n in range(posts))  # fmt: skip
    outcome = Outcome(before, after, OutcomeKind.STORED, started_at=NOW, posts=made,
                      skipped={SkipReason.DUPLICATE: 3}, status=200, duration_ms=17)  # fmt: skip
    return replace(outcome, **changes)  # type: ignore[arg-type]


def round_trip(*events: Event) -> list[Event]:
    texts = list(encode_events(events))
    assert all(len(text.encode()) <= MAX_BYTES for text in texts)
    return [event for text in texts for event in decode_events(text)]


def test_a_poll_event_arrives_complete():
    failure = Failure(FailureType.TRANSIENT, "503", "the server said 503", 503)
    outcome = an_outcome(2, failure=failure)
    subject = Subject(outcome.before, "ada")
    sent = Event(EventKind.POLL_FINISHED, NOW, subject, outcome, seconds=1.5)
    (found,) = round_trip(sent)
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
    found = round_trip(sent, sent)
    posts = [post for event in found if event.outcome for post in event.outcome.posts]
    assert [post.title for post in posts] == 2 * [post.title for post in outcome.posts]
    assert {(post.body, post.markdown, post.categories) for post in posts} == {("", None, ())}


def test_an_event_without_a_source_arrives():
    sent = [
        Event(EventKind.TICK, NOW, text="12", seconds=0.25),
        Event(EventKind.OUTAGE, NOW + timedelta(seconds=1), text=None),
    ]
    assert round_trip(*sent) == sent


def test_an_event_too_long_for_a_notification_affects_no_other():
    source = a_source(url=f"https://example.org/{'x' * 9000}")
    long = Event(EventKind.POLL_STARTED, NOW, Subject(source, "ada"))
    short = Event(EventKind.TICK, NOW, text="1")
    assert round_trip(short, long, short) == [short, short]


def test_a_notification_of_another_program_is_ignored():
    for text in ("", "[]", "hello", '{"kind": "tick"}', '[{"kind": "nonsense", "at": 0}]'):
        assert decode_events(text) == []
