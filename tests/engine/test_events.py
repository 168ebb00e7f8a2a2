"""Events of the engine: their order and their owner."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from headwater.engine.events import Event, EventKind, Events
from headwater.engine.hosts.access import HostVisit
from headwater.errors import BadStatus
from headwater.model import Answer, Subject
from tests.engine.conftest import Engine, RunningEngine
from tests.factories import FEED_URL, a_source, a_subject, an_entry
from tests.fakes import START

POLL = (EventKind.POLL_STARTED, EventKind.POST_CREATED, EventKind.POLL_FINISHED)


class CountingClock:
    """A clock that does not move and counts how often it is read."""

    doubt_seconds: float = 0.0
    asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return START

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


async def events_of_polls(env: RunningEngine, times: int, **settings: Any) -> list[Event]:
    """The events of some polls of one source."""
    source = a_source(created_at=START, include_history=True, **settings)
    await env.store.sources.add_many([source])
    heard: list[Event] = []
    stop_listening = env.service.events.listen(heard.append)
    for _ in range(times):
        await env.service.poll_now(source.id)
    stop_listening()
    return heard


def test_no_event_is_created_without_listeners():
    clock = CountingClock()
    events = Events(clock)
    events.emit(EventKind.TICK, text="1")
    assert (clock.asked, events.listeners) == (0, 0)


def test_listeners_receive_events_in_order_until_they_unsubscribe():
    events, heard = Events(CountingClock()), list[str]()
    stop_first = events.listen(lambda event: heard.append(f"first {event.text}"))
    events.listen(lambda event: heard.append(f"second {event.text}"))
    events.emit(EventKind.TICK, text="1")
    stop_first()
    stop_first()
    events.emit(EventKind.TICK, text="2")
    assert heard == ["first 1", "second 1", "second 2"]


def test_a_listener_may_unsubscribe_while_it_is_called():
    events, heard = Events(CountingClock()), list[str]()

    def once(_: Event) -> None:
        heard.append("once")
        stop()

    stop = events.listen(once)
    events.listen(lambda _: heard.append("always"))
    events.emit(EventKind.TICK)
    events.emit(EventKind.TICK)
    assert heard == ["once", "always", "always"]


def test_an_event_has_the_owner_of_its_source():
    subject = a_subject(user_id="ada", podcast_id="news")
    event = Event(EventKind.POLL_STARTED, START, subject)
    assert (event.user_id, event.podcast_id) == ("ada", "news")
    assert event.source_id == subject.source.id
    nobody = Event(EventKind.TICK, START)
    assert (nobody.user_id, nobody.podcast_id, nobody.source_id) == (None, None, None)


def test_new_posts_are_reported_once_between_start_and_end_of_their_poll(engine: Engine):
    async def scenario(env: RunningEngine) -> list[Event]:
        entries = tuple(an_entry(name, published_at=START) for name in ("a", "b"))
        env.fetch.on(FEED_URL, Answer(200, entries=entries))
        return await events_of_polls(env, 2)

    (heard,) = engine.play(scenario)
    unchanged = [EventKind.POLL_STARTED, EventKind.POLL_FINISHED]
    assert [event.kind for event in heard] == [*POLL, *unchanged]
    created = heard[1]
    assert created.outcome is not None
    assert [post.url for post in created.outcome.posts] == [  # oldest first (R9)
        "https://example.org/b",
        "https://example.org/a",
    ]
    assert {(event.user_id, event.podcast_id) for event in heard} == {("default", "default")}


def test_d4_a_discarded_poll_ends_without_posts(engine: Engine):
    async def scenario(env: RunningEngine) -> list[Event]:
        async def edited_during_poll(subject: Subject, _: HostVisit) -> Answer:
            await env.store.sources.edit(
                subject.source.id, lambda now: replace(now, generation=now.generation + 1)
            )
            return Answer(200, entries=(an_entry(published_at=START),))

        env.fetch.answers[FEED_URL] = edited_during_poll
        return await events_of_polls(env, 1)

    (heard,) = engine.play(scenario)
    assert [event.kind for event in heard] == [EventKind.POLL_STARTED, EventKind.POLL_FINISHED]
    assert heard[-1].outcome is not None
    assert not heard[-1].outcome.recorded


def test_f3_disabling_is_reported_after_the_poll_that_caused_it(engine: Engine):
    async def scenario(env: RunningEngine) -> list[Event]:
        env.fetch.on(FEED_URL, BadStatus(410, "HTTP 410 Gone"))
        return await events_of_polls(env, 1, max_failures=1)

    (heard,) = engine.play(scenario)
    assert [event.kind for event in heard] == [
        EventKind.POLL_STARTED,
        EventKind.POLL_FINISHED,
        EventKind.SOURCE_DISABLED,
    ]
