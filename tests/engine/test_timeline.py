"""What happened of late, counted as it happens and, after a restart, from the history."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater.engine import failures, timeline
from headwater.engine.events import Event, EventKind
from headwater.engine.failures import RecentFailures
from headwater.engine.timeline import Bucket, Span, Timeline, totals
from headwater.errors import BadStatus, DatabaseUnavailable, TimedOut
from headwater.model import Answer, Failure, FailureType, Outcome, OutcomeKind, Subject
from headwater.store.poll_tallies import FailedPoll
from headwater.store.polls import Polls
from tests.engine.conftest import Engine, World
from tests.engine.test_service import an_entry, polled
from tests.factories import NOW, a_post, a_subject
from tests.fakes import START, FakeClock, in_virtual_time

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
REFUSED = Failure(FailureType.TRANSIENT, "429", "HTTP 429 Too Many Requests", status=429)
NO_NETWORK = Failure(FailureType.TRANSIENT, "local", "no route", local=True)


def finished(
    subject: Subject, failure: Failure | None = None, posts: int = 0, **changes: Any
) -> Event:
    """The event of a poll that has just ended."""
    kind = OutcomeKind.FAILED if failure else OutcomeKind.STORED if posts else OutcomeKind.UNCHANGED
    outcome = Outcome(
        before=subject.source,
        source=subject.source,
        kind=kind,
        started_at=START,
        posts=tuple(a_post(str(n)) for n in range(posts)),
        failure=failure,
    )
    at = changes.pop("at", FakeClock().now())
    return Event(EventKind.POLL_FINISHED, at, subject, replace(outcome, **changes))


def with_timeline(story: Callable[[Timeline, FakeClock], Any]) -> Any:
    """Tell a story of a timeline in virtual time."""

    async def told() -> Any:
        clock = FakeClock()
        found = story(Timeline(clock), clock)
        return await found if asyncio.iscoroutine(found) else found

    return in_virtual_time(told)


def counted(buckets: Sequence[Bucket]) -> list[tuple[int, int, int, int]]:
    """The buckets in which something happened, without their moments."""
    return [tuple(bucket[1:]) for bucket in buckets if any(bucket[1:])]  # type: ignore[misc]


def test_polls_are_counted_by_minute_outcome_and_owner():
    def story(seen: Timeline, _: FakeClock) -> None:
        seen.hear(finished(a_subject(user_id="ada"), posts=3))
        seen.hear(finished(a_subject(user_id="ada")))
        seen.hear(finished(a_subject(user_id="bob"), REFUSED))
        for span in Span:
            assert counted(seen.buckets("ada", span)) == [(1, 1, 0, 3)]
            assert counted(seen.buckets("bob", span)) == [(0, 0, 1, 0)]
            assert counted(seen.buckets(None, span)) == [(1, 1, 1, 3)]
        assert counted(seen.buckets("carol", Span.HOUR)) == []

    with_timeline(story)


def test_an_hour_has_a_bucket_per_minute_and_a_day_one_per_quarter_up_to_now():
    def story(seen: Timeline, clock: FakeClock) -> None:
        now = clock.now()
        hour, day = seen.buckets(None, Span.HOUR), seen.buckets(None, Span.DAY)
        assert (len(hour), hour[-1].at, hour[0].at) == (60, now, now - 59 * MINUTE)
        assert (len(day), day[-1].at, day[0].at) == (96, now, now - DAY + 15 * MINUTE)

    with_timeline(story)


def test_what_is_too_long_ago_falls_out():
    async def story(seen: Timeline, clock: FakeClock) -> None:
        seen.hear(finished(a_subject(), at=clock.now()))
        await clock.sleep(59 * 60)
        assert seen.buckets(None, Span.HOUR)[0].unchanged == 1
        await clock.sleep(60)
        seen.hear(finished(a_subject(), REFUSED, at=clock.now()))
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 0, 1, 0)]
        assert totals(seen.buckets(None, Span.DAY)) == {
            OutcomeKind.STORED: 0, OutcomeKind.UNCHANGED: 1, OutcomeKind.FAILED: 1,
        }  # fmt: skip
        await clock.sleep(2 * 86_400)
        assert counted(seen.buckets(None, Span.DAY)) == []

    with_timeline(story)


def test_o4_a_clock_that_jumps_leaves_no_ghosts_behind():
    def story(seen: Timeline, clock: FakeClock) -> None:
        seen.hear(finished(a_subject(), at=clock.now() + 400 * DAY))
        assert counted(seen.buckets(None, Span.HOUR)) == []
        seen.hear(finished(a_subject(), at=clock.now()))
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 1, 0, 0)]

    with_timeline(story)


def test_a_poll_that_was_discarded_is_not_counted():
    def story(seen: Timeline, _: FakeClock) -> None:
        seen.hear(finished(a_subject(), recorded=False))
        assert counted(seen.buckets(None, Span.HOUR)) == []

    with_timeline(story)


def test_memory_is_bounded_whoever_is_polled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeline, "_MOST_OWNERS", 3)
    monkeypatch.setattr(timeline, "_MOST_UNDERWAY", 3)

    def story(seen: Timeline, _: FakeClock) -> None:
        for name in ("a", "b", "c", "a", "d"):
            seen.hear(finished(a_subject(user_id=name)))
            subject = a_subject(id=name)
            seen.hear(Event(EventKind.POLL_STARTED, START, subject))
        assert counted(seen.buckets("b", Span.HOUR)) == []  # the one without polls for longest
        assert counted(seen.buckets("a", Span.HOUR)) == [(0, 2, 0, 0)]
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 5, 0, 0)]
        assert len(seen.underway("abcd")) == 3

    with_timeline(story)


def test_polls_under_way_are_known_with_their_beginning(engine: Engine):
    async def story(world: World) -> None:
        slow, slower = polled("slow", "https://a.example/"), polled("slower", "https://b.example/")
        await world.store.sources.add_many([slow, slower])
        world.fetch.on("https://a.example/", Answer(304, unchanged=True), seconds=20)
        world.fetch.on("https://b.example/", Answer(304, unchanged=True), seconds=40)
        seen = world.service.timeline
        world.service.events.listen(seen.hear)
        running = asyncio.create_task(world.run(60))
        await asyncio.sleep(10)
        begun = seen.underway(world.service.lanes.in_flight().values())
        assert {poll.subject.source.id for poll in begun} == {"slow", "slower"}
        assert all(timedelta(seconds=5) < world.clock.now() - p.since for p in begun)
        await asyncio.sleep(20)
        begun = seen.underway(world.service.lanes.in_flight().values())
        assert [poll.subject.source.id for poll in begun] == ["slower"]
        await running
        assert seen.underway(["slow", "slower"]) == []

    engine.play(story)


def test_failures_are_grouped_by_host_and_kind_until_a_poll_succeeds():
    def story(seen: Timeline, _: FakeClock) -> None:
        here = "nitter.example"
        for n in range(12):
            seen.hear(finished(a_subject(id=f"s{n}", host=here), REFUSED))
        other = a_subject(id="other", host="b.example", podcast_id="second", user_id="bob")
        seen.hear(finished(other, REFUSED))
        seen.hear(finished(a_subject(id="s3", host=here)))
        first, second = seen.failures.causes(None, 5)[0]
        assert (first.host, first.kind, first.sources) == ("nitter.example", "429", 11)
        assert (second.host, second.sources) == ("b.example", 1)
        assert (first.podcast_id, second.podcast_id) == ("default", "second")
        assert [cause.host for cause in seen.failures.causes("bob", 5)[0]] == ["b.example"]
        assert seen.failures.causes(None, 1) == ([first], 2)
        assert seen.failures.causes("carol", 5) == ([], 0)

    with_timeline(story)


def test_f6_our_own_outage_is_nobodys_failure():
    def story(seen: Timeline, _: FakeClock) -> None:
        seen.hear(finished(a_subject(), NO_NETWORK))
        assert seen.failures.causes(None, 5) == ([], 0)
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 0, 1, 0)]

    with_timeline(story)


def a_failed(name: str, **changes: Any) -> FailedPoll:
    plain = FailedPoll(name, "ada", "default", "a.example", "404", "HTTP 404", NOW, disabled=False)
    return plain._replace(**changes)


def test_failures_remembered_are_bounded_in_number_and_age(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(failures, "_MOST", 3)
    seen = RecentFailures()
    for n in range(5):
        seen.failed(a_failed(f"s{n}", at=NOW + n * MINUTE))
    assert len(seen) == 3
    seen.restore([a_failed("old", at=NOW)], NOW)
    assert len(seen) == 3  # there is no room for older ones
    seen.failed(a_failed("late", at=NOW + 2 * DAY))
    assert [cause.sources for cause in seen.causes(None, 9)[0]] == [1]


def test_what_is_remembered_already_is_newer_than_what_is_stored():
    seen = RecentFailures()
    seen.failed(a_failed("s1", kind="429"))
    seen.restore([a_failed("s1"), a_failed("s2", disabled=True), a_failed("s3", at=NOW - DAY * 3)],
                 NOW)  # fmt: skip
    found = {cause.kind: (cause.sources, cause.disabled) for cause in seen.causes(None, 9)[0]}
    assert found == {"429": (1, 0), "404": (1, 1)}


async def polls_and_failures(world: World) -> None:
    """A few polls, of which one brings posts and one fails."""
    await world.store.sources.add_many(
        [polled("fresh", "https://a.example/"), polled("same", "https://b.example/"),
         polled("late", "https://c.example/", host="c.example")]
    )  # fmt: skip
    world.fetch.on("https://a.example/", Answer(200, entries=(an_entry(1), an_entry(2))))
    world.fetch.on("https://c.example/", TimedOut("no answer"))
    await world.run(10)


async def filled(world: World, seconds: float = 5) -> Timeline:
    async with world.service.timeline.filling(world.store.polls):
        await asyncio.sleep(seconds)
    return world.service.timeline


def test_after_a_restart_the_history_is_counted(engine: Engine):
    async def story(world: World) -> None:
        seen = await filled(world)
        buckets = seen.buckets("default", Span.DAY)
        assert list(totals(buckets).values()) == [1, 1, 1]
        assert sum(bucket.new_posts for bucket in buckets) == 2
        assert counted(seen.buckets("somebody else", Span.DAY)) == []
        (cause,), _ = seen.failures.causes("default", 5)
        assert (cause.host, cause.kind) == ("c.example", "timeout")
        assert cause.newest[0].source_id == "late"
        assert seen.known_since is None

    engine.play(polls_and_failures, story)


def test_polls_made_meanwhile_are_counted_once(engine: Engine):
    async def again(world: World) -> None:
        world.fetch.on("https://c.example/", BadStatus(410, "gone"))
        world.service.events.listen(world.service.timeline.hear)
        async with world.service.timeline.filling(world.store.polls):
            await world.store.sources.request(["late"], world.clock.now())
            await world.run(5)
        seen = world.service.timeline
        assert totals(seen.buckets(None, Span.DAY))[OutcomeKind.FAILED] == 2
        assert [c.kind for c in seen.failures.causes(None, 9)[0]] == ["410"]

    engine.play(polls_and_failures, again)


def test_only_the_newest_polls_are_counted_and_it_says_since_when(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(timeline, "_MOST_HISTORY", 2)
    monkeypatch.setattr(timeline, "_STRETCH", 1)

    async def story(world: World) -> None:
        seen = await filled(world)
        assert sum(totals(seen.buckets(None, Span.DAY)).values()) == 2
        assert seen.known_since is not None

    engine.play(polls_and_failures, story)


def test_a_history_that_cannot_be_read_hurts_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    async def away(*_: object) -> None:
        raise DatabaseUnavailable("the disk is gone")

    monkeypatch.setattr(Polls, "by_minute", away)

    async def story(world: World) -> None:
        seen = await filled(world)
        assert counted(seen.buckets(None, Span.DAY)) == []
        assert seen.known_since is not None

    engine.play(polls_and_failures, story)
