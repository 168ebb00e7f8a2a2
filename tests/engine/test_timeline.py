"""Recent polls, counted by events and, after a restart, from the history."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater.engine import timeline
from headwater.engine.events import Event, EventKind
from headwater.engine.timeline import Bucket, Span, Timeline
from headwater.errors import BadStatus, DatabaseUnavailable, TimedOut
from headwater.model import Answer, Failure, FailureType, Outcome, OutcomeKind, Subject
from headwater.store.poll_history import PollHistory
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import feed_entry, polled
from tests.factories import a_post, a_subject
from tests.fakes import START, FakeClock, in_virtual_time

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
REFUSED = Failure(FailureType.TRANSIENT, "429", "HTTP 429 Too Many Requests", status=429)


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


def with_timeline(scenario: Callable[[Timeline, FakeClock], Any]) -> Any:
    """Run a test of a timeline in virtual time."""

    async def reported() -> Any:
        clock = FakeClock()
        found = scenario(Timeline(clock), clock)
        return await found if asyncio.iscoroutine(found) else found

    return in_virtual_time(reported)


def counted(buckets: Sequence[Bucket]) -> list[tuple[int, int, int, int]]:
    """The non-empty buckets, without their times."""
    return [tuple(bucket[1:]) for bucket in buckets if any(bucket[1:])]  # type: ignore[misc]


def totals(buckets: Sequence[Bucket]) -> tuple[int, int, int]:
    """How many polls stored posts, found nothing new, and failed."""
    return (
        sum(bucket.stored for bucket in buckets),
        sum(bucket.unchanged for bucket in buckets),
        sum(bucket.failed for bucket in buckets),
    )


def test_polls_are_counted_by_minute_outcome_and_owner():
    def scenario(seen: Timeline, _: FakeClock) -> None:
        seen.on_event(finished(a_subject(user_id="ada"), posts=3))
        seen.on_event(finished(a_subject(user_id="ada")))
        seen.on_event(finished(a_subject(user_id="bob"), REFUSED))
        for span in Span:
            assert counted(seen.buckets("ada", span)) == [(1, 1, 0, 3)]
            assert counted(seen.buckets("bob", span)) == [(0, 0, 1, 0)]
            assert counted(seen.buckets(None, span)) == [(1, 1, 1, 3)]
        assert counted(seen.buckets("carol", Span.HOUR)) == []

    with_timeline(scenario)


def test_an_hour_has_a_bucket_per_minute_and_a_day_one_per_quarter_up_to_now():
    def scenario(seen: Timeline, clock: FakeClock) -> None:
        now = clock.now()
        hour, day = seen.buckets(None, Span.HOUR), seen.buckets(None, Span.DAY)
        assert (len(hour), hour[-1].at, hour[0].at) == (60, now, now - 59 * MINUTE)
        assert (len(day), day[-1].at, day[0].at) == (96, now, now - DAY + 15 * MINUTE)

    with_timeline(scenario)


def test_old_buckets_are_dropped():
    async def scenario(seen: Timeline, clock: FakeClock) -> None:
        seen.on_event(finished(a_subject(), at=clock.now()))
        await clock.sleep(59 * 60)
        assert seen.buckets(None, Span.HOUR)[0].unchanged == 1
        await clock.sleep(60)
        seen.on_event(finished(a_subject(), REFUSED, at=clock.now()))
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 0, 1, 0)]
        assert totals(seen.buckets(None, Span.DAY)) == (0, 1, 1)
        await clock.sleep(2 * 86_400)
        assert counted(seen.buckets(None, Span.DAY)) == []

    with_timeline(scenario)


def test_o4_a_clock_that_jumps_leaves_no_stale_buckets():
    def scenario(seen: Timeline, clock: FakeClock) -> None:
        seen.on_event(finished(a_subject(), at=clock.now() + 400 * DAY))
        assert counted(seen.buckets(None, Span.HOUR)) == []
        seen.on_event(finished(a_subject(), at=clock.now()))
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 1, 0, 0)]

    with_timeline(scenario)


def test_a_poll_that_was_discarded_is_not_counted():
    def scenario(seen: Timeline, _: FakeClock) -> None:
        seen.on_event(finished(a_subject(), recorded=False))
        assert counted(seen.buckets(None, Span.HOUR)) == []

    with_timeline(scenario)


def test_memory_is_bounded_for_any_number_of_owners(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeline, "MAX_OWNERS", 3)

    def scenario(seen: Timeline, _: FakeClock) -> None:
        for name in ("a", "b", "c", "a", "d"):
            seen.on_event(finished(a_subject(user_id=name)))
        assert counted(seen.buckets("d", Span.HOUR)) == []
        assert counted(seen.buckets("a", Span.HOUR)) == [(0, 2, 0, 0)]
        assert counted(seen.buckets(None, Span.HOUR)) == [(0, 5, 0, 0)]

    with_timeline(scenario)


def test_running_polls_are_known_with_their_start(engine: Engine):
    async def scenario(env: RunningEngine) -> None:
        slow, slower = polled("slow", "https://a.example/"), polled("slower", "https://b.example/")
        await env.store.sources.add_many([slow, slower])
        env.fetch.on("https://a.example/", Answer(304, unchanged=True), seconds=20)
        env.fetch.on("https://b.example/", Answer(304, unchanged=True), seconds=40)
        running = asyncio.create_task(env.run(60))
        await asyncio.sleep(10)
        begun = env.service.lanes.running_since()
        assert begun.keys() == {"slow", "slower"}
        assert all(timedelta(seconds=5) < env.clock.now() - since for since in begun.values())
        await asyncio.sleep(20)
        assert env.service.lanes.running_since().keys() == {"slower"}
        await running
        assert env.service.lanes.running_since() == {}

    engine.play(scenario)


async def polls_and_failures(env: RunningEngine) -> None:
    """A few polls: one stores posts and one fails."""
    await env.store.sources.add_many(
        [polled("fresh", "https://a.example/"), polled("same", "https://b.example/"),
         polled("late", "https://c.example/", host="c.example")]
    )  # fmt: skip
    env.fetch.on("https://a.example/", Answer(200, entries=(feed_entry(1), feed_entry(2))))
    env.fetch.on("https://c.example/", TimedOut("no answer"))
    await env.run(10)


async def filled(env: RunningEngine, seconds: float = 5) -> Timeline:
    async with env.service.timeline.filling(env.store.polls):
        await asyncio.sleep(seconds)
    return env.service.timeline


def test_after_a_restart_the_history_is_counted(engine: Engine):
    async def scenario(env: RunningEngine) -> None:
        seen = await filled(env)
        buckets = seen.buckets("default", Span.DAY)
        assert totals(buckets) == (1, 1, 1)
        assert sum(bucket.new_posts for bucket in buckets) == 2
        assert counted(seen.buckets("another user", Span.DAY)) == []
        assert seen.known_since is None

    engine.play(polls_and_failures, scenario)


def test_polls_made_while_the_history_loads_are_counted_once(engine: Engine):
    async def again(env: RunningEngine) -> None:
        env.fetch.on("https://c.example/", BadStatus(410, "gone"))
        env.service.events.listen(env.service.timeline.on_event)
        async with env.service.timeline.filling(env.store.polls):
            await env.store.sources.request(["late"], env.clock.now())
            await env.run(5)
        seen = env.service.timeline
        assert totals(seen.buckets(None, Span.DAY))[2] == 2

    engine.play(polls_and_failures, again)


def test_only_the_newest_polls_are_counted_and_the_start_is_reported(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(timeline, "MAX_HISTORY", 2)
    monkeypatch.setattr(timeline, "CHUNK", 1)

    async def scenario(env: RunningEngine) -> None:
        seen = await filled(env)
        assert sum(totals(seen.buckets(None, Span.DAY))) == 2
        assert seen.known_since is not None

    engine.play(polls_and_failures, scenario)


def test_an_unreadable_history_is_ignored(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    async def away(*_: object) -> None:
        raise DatabaseUnavailable("the disk is gone")

    monkeypatch.setattr(PollHistory, "by_minute", away)

    async def scenario(env: RunningEngine) -> None:
        seen = await filled(env)
        assert counted(seen.buckets(None, Span.DAY)) == []
        assert seen.known_since is not None

    engine.play(polls_and_failures, scenario)
