"""What the engine tells, in which order, and to whom it belongs."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from headwater.engine.events import Event, EventKind, Events
from headwater.engine.turns import VisitTurns
from headwater.errors import BadStatus
from headwater.model import Answer, Subject
from tests.engine.conftest import Engine, World
from tests.factories import FEED_URL, a_source, a_subject, an_entry
from tests.fakes import START

POLL = (EventKind.POLL_STARTED, EventKind.POST_CREATED, EventKind.POLL_FINISHED)


class StandingClock:
    """A clock that counts how often it is asked."""

    doubt_seconds: float = 0.0
    asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return START

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


async def heard_of_polls(world: World, times: int, **settings: Any) -> list[Event]:
    """The events of some polls of one source."""
    source = a_source(created_at=START, include_history=True, **settings)
    await world.store.sources.add_many([source])
    heard: list[Event] = []
    stop_listening = world.service.events.listen(heard.append)
    for _ in range(times):
        await world.service.poll_now(source.id)
    stop_listening()
    return heard


def test_nothing_is_made_for_nobody():
    clock = StandingClock()
    events = Events(clock)
    events.tell(EventKind.TICK, text="1")
    assert (clock.asked, events.listeners) == (0, 0)


def test_listeners_hear_in_order_until_they_stop():
    events, heard = Events(StandingClock()), list[str]()
    stop_first = events.listen(lambda event: heard.append(f"first {event.text}"))
    events.listen(lambda event: heard.append(f"second {event.text}"))
    events.tell(EventKind.TICK, text="1")
    stop_first()
    stop_first()
    events.tell(EventKind.TICK, text="2")
    assert heard == ["first 1", "second 1", "second 2"]


def test_a_listener_may_stop_while_it_hears():
    events, heard = Events(StandingClock()), list[str]()

    def once(_: Event) -> None:
        heard.append("once")
        stop()

    stop = events.listen(once)
    events.listen(lambda _: heard.append("always"))
    events.tell(EventKind.TICK)
    events.tell(EventKind.TICK)
    assert heard == ["once", "always", "always"]


def test_an_event_knows_whose_source_it_is_about():
    subject = a_subject(user_id="ada", podcast_id="news")
    event = Event(EventKind.POLL_STARTED, START, subject)
    assert (event.user_id, event.podcast_id) == ("ada", "news")
    assert event.source_id == subject.source.id
    nobody = Event(EventKind.TICK, START)
    assert (nobody.user_id, nobody.podcast_id, nobody.source_id) == (None, None, None)


def test_new_posts_are_told_once_between_start_and_end_of_their_poll(engine: Engine):
    async def story(world: World) -> list[Event]:
        entries = tuple(an_entry(name, published_at=START) for name in ("a", "b"))
        world.fetch.on(FEED_URL, Answer(200, entries=entries))
        return await heard_of_polls(world, 2)

    (heard,) = engine.play(story)
    unchanged = [EventKind.POLL_STARTED, EventKind.POLL_FINISHED]
    assert [event.kind for event in heard] == [*POLL, *unchanged]
    created = heard[1]
    assert created.outcome is not None
    assert [post.url for post in created.outcome.posts] == [
        "https://example.org/a",
        "https://example.org/b",
    ]
    assert {(event.user_id, event.podcast_id) for event in heard} == {("default", "default")}


def test_d4_a_discarded_poll_ends_without_posts(engine: Engine):
    async def story(world: World) -> list[Event]:
        async def edited_meanwhile(subject: Subject, _: VisitTurns) -> Answer:
            await world.store.sources.edit(
                subject.source.id, lambda now: replace(now, generation=now.generation + 1)
            )
            return Answer(200, entries=(an_entry(published_at=START),))

        world.fetch.answers[FEED_URL] = edited_meanwhile
        return await heard_of_polls(world, 1)

    (heard,) = engine.play(story)
    assert [event.kind for event in heard] == [EventKind.POLL_STARTED, EventKind.POLL_FINISHED]
    assert heard[-1].outcome is not None
    assert not heard[-1].outcome.recorded


def test_f3_disabling_is_told_after_the_poll_that_did_it(engine: Engine):
    async def story(world: World) -> list[Event]:
        world.fetch.on(FEED_URL, BadStatus(410, "HTTP 410 Gone"))
        return await heard_of_polls(world, 1, max_failures=1)

    (heard,) = engine.play(story)
    assert [event.kind for event in heard] == [
        EventKind.POLL_STARTED,
        EventKind.POLL_FINISHED,
        EventKind.SOURCE_DISABLED,
    ]
