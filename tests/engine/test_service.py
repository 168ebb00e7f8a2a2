"""The service as a whole: from due to stored, over ticks, requests and restarts."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater.engine.events import Event, EventKind
from headwater.errors import AlreadyPolling, BadStatus, NameUnresolved, NotFound
from headwater.model import (
    Answer,
    Entry,
    FailureType,
    Hold,
    OutcomeKind,
    SkipReason,
    Source,
    SourceType,
)
from headwater.rules.outcome import edited
from headwater.rules.policy import HoldScope, HostOverride
from headwater.rules.urls import url_host
from headwater.store import Session
from tests.engine.conftest import Engine, World
from tests.fakes import START

FEED = "https://example.org/feed"
OTHER = "https://example.org/other"  # of the same host


def a_source(id_: str = "s1", url: str = FEED, **settings: object) -> Source:
    base = Source(
        id=id_,
        podcast_id="default",
        type=SourceType.RSS,
        url=url,
        created_at=START,
        host=url_host(url),
        poll_interval_minutes=30,
    )
    return replace(base, **settings)  # type: ignore[arg-type]


def polled(id_: str = "s1", url: str = FEED, **settings: object) -> Source:
    """A source whose first contact lies behind it, due at once."""
    return a_source(id_, url, **{"last_polled": START - timedelta(days=2), **settings})


def an_entry(n: int, *, hours_ago: float = 0.0) -> Entry:
    return Entry(
        id=f"e{n}",
        title=f"Title {n}",
        url=f"https://example.org/{n}",
        published_at=START - timedelta(hours=hours_ago),
        author=None,
        body=f"Body {n}",
    )


def test_s1_a_tick_runs_at_start_and_then_every_tick_seconds(engine: Engine) -> None:
    async def story(world: World) -> list[float]:
        ticks: list[float] = []

        def listen(event: Event) -> None:
            if event.kind is EventKind.TICK:
                ticks.append(round(world.clock.monotonic() - 1000))

        world.service.events.listen(listen)
        await world.run(150)
        return ticks

    assert engine.play(story) == [[0, 60, 120]]


def test_s2_s7_a_due_source_is_polled_once_per_interval_and_last_polled_moves(
    engine: Engine,
) -> None:
    async def story(world: World) -> tuple[list[float], Source]:
        await world.store.sources.add_many([polled(poll_interval_minutes=5)])
        await world.run(16 * 60)
        return world.fetch.times(FEED), await world.source("s1")

    [(times, source)] = engine.play(story)
    assert [round(t - 1000, -1) for t in times] == [0, 300, 600, 900]
    assert source.last_polled is not None
    assert source.last_polled >= START + timedelta(minutes=15)


def test_s2_a_last_polled_in_the_future_is_rewritten_once(engine: Engine) -> None:
    async def story(world: World) -> tuple[Source, list[float]]:
        await world.store.sources.add_many([a_source(last_polled=START + timedelta(days=400))])
        await world.run(10)
        rewritten = await world.source("s1")
        await world.run(31 * 60)
        return rewritten, world.fetch.times(FEED)

    [(rewritten, times)] = engine.play(story)
    assert rewritten.last_polled == START
    assert len(times) == 1  # not silent for longer than one interval


def test_s4_disabled_sources_are_polled_by_hand_only_and_stay_disabled(engine: Engine) -> None:
    async def story(world: World) -> tuple[int, Source]:
        await world.store.sources.add_many([polled(enabled=False)])
        await world.run(120)
        assert world.fetch.visits == []
        await world.service.poll_now("s1")
        return len(world.fetch.visits), await world.source("s1")

    [(visits, source)] = engine.play(story)
    assert visits == 1
    assert not source.enabled


def test_s9_a_request_is_stored_survives_a_restart_and_needs_no_jitter(engine: Engine) -> None:
    async def ask(world: World) -> None:
        await world.store.sources.add_many([a_source(poll_interval_minutes=100_000)])
        await world.store.sources.request(["s1"], world.clock.now())

    async def after_restart(world: World) -> tuple[list[float], Source]:
        await world.run(5)
        return world.fetch.times(FEED), await world.source("s1")

    [_, (times, source)] = engine.play(ask, after_restart)
    assert len(times) == 1
    assert source.requested_at is None


def test_s10_a_request_from_another_process_is_taken_up_within_a_second_or_two(
    engine: Engine,
) -> None:
    async def story(world: World) -> list[float]:
        far_off = START + timedelta(days=-1)
        await world.store.sources.add_many(
            [a_source(last_polled=far_off, poll_interval_minutes=500_000)]
        )
        running = asyncio.create_task(world.run(30))
        await asyncio.sleep(10)
        await world.store.sources.request(["s1"], world.clock.now())
        await running
        return [t - 1000 for t in world.fetch.times(FEED)]

    [times] = engine.play(story)
    assert len(times) == 1
    assert 10 <= times[0] <= 12


def test_s10_a_second_service_on_the_same_database_is_refused(engine: Engine) -> None:
    async def story(world: World) -> None:
        with pytest.raises(AlreadyPolling):
            async with engine.started(world.clock):
                pass

    engine.play(story)


def test_p6_p7_jitter_is_drawn_once_and_does_not_defeat_the_first_poll_rule(
    engine: Engine,
) -> None:
    old, new = an_entry(1, hours_ago=5), an_entry(2, hours_ago=-0.01)

    async def first_tick(world: World) -> Source:
        await world.store.sources.add_many([a_source(poll_interval_minutes=60)])
        await world.run(1)
        return await world.source("s1")

    async def later(world: World) -> tuple[Source, Source, int]:
        world.fetch.on(FEED, Answer(200, entries=(old, new)))
        await world.run(1)
        same = await world.source("s1")
        await world.run(61 * 60)
        return same, await world.source("s1"), await world.store.posts.count("s1")

    [first, (same, after, posts)] = engine.play(first_tick, later)
    assert first.last_polled is not None
    assert START - timedelta(hours=1) <= first.last_polled <= START
    assert same.last_polled == first.last_polled
    assert not same.first_poll_done
    assert after.first_poll_done
    assert posts == 1  # the old one was published before the source was added (D3)


def test_p8_304_is_a_success_with_no_new_posts(engine: Engine) -> None:
    async def story(world: World) -> Source:
        await world.store.sources.add_many([polled(consecutive_failures=2)])
        outcome = await world.service.poll_now("s1")
        assert outcome is not None
        assert outcome.kind is OutcomeKind.UNCHANGED
        return await world.source("s1")

    [source] = engine.play(story)
    assert source.consecutive_failures == 0
    assert source.first_poll_done


def test_p9_retry_after_holds_the_whole_lane_over_a_restart_and_others_keep_their_state(
    engine: Engine,
) -> None:
    other = "https://example.org/other"

    async def limited(world: World) -> None:
        await world.store.sources.add_many([polled("s1"), polled("s2", other)])
        world.fetch.on(FEED, BadStatus(429, "HTTP 429", host="example.org", hold_seconds=1800))
        await world.service.poll_now("s1")
        await world.run(600)
        assert world.fetch.times(other) == []

    async def after_restart(world: World) -> tuple[list[float], Source]:
        source = await world.source("s2")
        await world.run(1800)
        return [t - 1000 for t in world.fetch.times(other)], source

    [_, (times, untouched)] = engine.play(limited, after_restart)
    assert len(times) == 1
    assert 1800 <= times[0] <= 1900
    assert untouched.consecutive_failures == 0
    assert untouched.last_polled == START - timedelta(days=2)


def test_p9_hold_scope_source_holds_only_that_one(engine: Engine) -> None:
    other = "https://example.org/other"
    narrow = engine.with_policy(
        host_overrides={"example.org": HostOverride(None, HoldScope.SOURCE)}
    )

    async def story(world: World) -> tuple[int, int]:
        await world.store.sources.add_many(
            [polled("s1", poll_interval_minutes=1), polled("s2", other, poll_interval_minutes=1)]
        )
        world.fetch.on(FEED, BadStatus(429, "HTTP 429", host="example.org", hold_seconds=1800))
        await world.run(900)
        return len(world.fetch.times(FEED)), len(world.fetch.times(other))

    [(held, free)] = narrow.play(story)
    assert held == 1
    assert free >= 13


def test_p9_a_queued_source_that_was_told_to_wait_meanwhile_is_left_alone(engine: Engine) -> None:
    async def story(world: World) -> list[float]:
        longer = START - timedelta(days=3)
        await world.store.sources.add_many([polled(last_polled=longer), polled("s2", OTHER)])
        world.fetch.on(FEED, Answer(200), seconds=20)
        running = asyncio.create_task(world.run(400))
        await asyncio.sleep(5)
        now = world.clock.now()
        hold = Hold(now + timedelta(seconds=100), now, "HTTP 429")
        await world.store.sources.edit("s2", lambda s: replace(s, hold=hold))
        await running
        return [t - 1000 for t in world.fetch.times(OTHER)]

    assert engine.play(story) == [[120]]  # the first tick after the hold


def test_p10_a_manual_poll_of_a_source_on_hold_sends_and_records_nothing(engine: Engine) -> None:
    async def story(world: World) -> tuple[object, Source, int, int]:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, BadStatus(429, "HTTP 429", host="example.org", hold_seconds=1800))
        await world.service.poll_now("s1")
        before = await world.source("s1")
        outcome = await world.service.poll_now("s1")
        assert await world.source("s1") == before
        polls = await world.store.polls.newest("s1", limit=10)
        return outcome, before, len(world.fetch.visits), len(polls)

    [(outcome, _, visits, polls)] = engine.play(story)
    assert outcome.kind is OutcomeKind.FAILED
    assert "on hold until 2026-02-16T08:30:00Z" in outcome.failure.message
    assert outcome.failure.type is FailureType.TRANSIENT
    assert (visits, polls) == (1, 1)


def test_p10_a_manual_poll_that_waits_a_minute_in_its_lane_stays_requested(engine: Engine) -> None:
    async def story(world: World) -> tuple[object, Source, list[float]]:
        other = "https://example.org/other"
        await world.store.sources.add_many([polled("s1"), polled("s2", other)])
        world.fetch.on(other, Answer(200), seconds=100)
        slow = asyncio.create_task(world.service.poll_now("s2", wait_seconds=None))
        await asyncio.sleep(1)
        outcome = await world.service.poll_now("s1")
        waiting = await world.source("s1")
        await slow
        await world.service.lanes.wait_until_idle()
        return outcome, waiting, [t - 1000 for t in world.fetch.times(FEED)]

    [(outcome, waiting, times)] = engine.play(story)
    assert outcome is None
    assert waiting.requested_at is not None
    assert times == [100]


def test_a_manual_poll_of_a_source_that_is_not_there_says_so(engine: Engine) -> None:
    async def story(world: World) -> None:
        with pytest.raises(NotFound):
            await world.service.poll_now("nobody")

    engine.play(story)


def test_f3_five_404s_in_a_row_disable_with_a_reason_and_an_event(engine: Engine) -> None:
    async def story(world: World) -> tuple[Source, list[EventKind]]:
        events: list[EventKind] = []
        world.service.events.listen(lambda event: events.append(event.kind))
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, BadStatus(404, "HTTP 404"))
        for _ in range(5):
            await world.service.poll_now("s1")
        return await world.source("s1"), events

    [(source, events)] = engine.play(story)
    assert not source.enabled
    assert source.disabled_reason == "Auto-disabled after 5 consecutive 404 errors"
    assert events.count(EventKind.SOURCE_DISABLED) == 1


def test_s3_f4_transient_failures_back_off_and_never_disable(engine: Engine) -> None:
    async def story(world: World) -> tuple[list[float], Source]:
        await world.store.sources.add_many([polled(poll_interval_minutes=10)])
        world.fetch.on(FEED, BadStatus(500, "HTTP 500"))
        await world.run(160 * 60)
        return [round((t - 1000) / 60) for t in world.fetch.times(FEED)], await world.source("s1")

    [(minutes, source)] = engine.play(story)
    assert minutes == [0, 20, 60, 140]
    assert source.enabled


def test_d4_a_result_is_discarded_if_the_source_was_edited_meanwhile(engine: Engine) -> None:
    async def story(world: World) -> tuple[int, Source]:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200, entries=(an_entry(1),)), seconds=10)
        polling = asyncio.create_task(world.service.poll_now("s1"))
        await asyncio.sleep(5)
        await world.store.sources.edit(
            "s1", lambda s: replace(s, url="https://example.org/new", generation=s.generation + 1)
        )
        outcome = await polling
        assert outcome is not None
        assert not outcome.recorded
        return await world.store.posts.count("s1"), await world.source("s1")

    [(posts, source)] = engine.play(story)
    assert posts == 0
    assert source.last_polled == START - timedelta(days=2)


def test_k1_s8_what_a_poll_fetched_before_the_stop_is_stored(engine: Engine) -> None:
    async def stopped(world: World) -> None:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200, entries=(an_entry(1),)), seconds=5)
        await world.run(1)

    async def after(world: World) -> int:
        return await world.store.posts.count("s1")

    assert engine.play(stopped, after)[1] == 1


def test_s8_what_a_cut_off_poll_handed_in_for_storing_is_stored(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(world: World) -> None:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200, entries=(an_entry(1),)), seconds=5)
        await world.run(1)
        database, write = world.store.database, world.store.database.write

        async def write_slowly(work: Callable[[Session], Any]) -> Any:
            """The next write outlasts the time that polls are given to end."""
            monkeypatch.setattr(database, "write", write)
            await asyncio.sleep(engine.pace.shutdown_seconds)
            return await write(work)

        monkeypatch.setattr(database, "write", write_slowly)

    async def after(world: World) -> int:
        return await world.store.posts.count("s1")

    assert engine.play(stopped, after)[1] == 1


def test_f6_o1_local_failures_move_no_counter(engine: Engine) -> None:
    async def story(world: World) -> Source:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, NameUnresolved("no nameserver answers"))
        await world.service.poll_now("s1")
        return await world.source("s1")

    [source] = engine.play(story)
    assert source.consecutive_failures == 0
    assert source.last_polled == START


def test_g2_paused_the_scheduler_starts_nothing_but_manual_polls_work(engine: Engine) -> None:
    async def story(world: World) -> tuple[int, int]:
        await world.store.sources.add_many([polled()])
        await world.run(300)
        scheduled = len(world.fetch.visits)
        await world.service.poll_now("s1")
        return scheduled, len(world.fetch.visits)

    assert engine.with_pace(paused=True).play(story) == [(0, 1)]


def test_d3_the_outcome_says_how_many_were_published_before_the_source_was_added(
    engine: Engine,
) -> None:
    async def story(world: World) -> object:
        await world.store.sources.add_many([a_source()])
        entries = tuple(an_entry(n, hours_ago=n) for n in range(1, 13))
        world.fetch.on(FEED, Answer(200, entries=entries))
        return await world.service.poll_now("s1")

    [outcome] = engine.play(story)
    assert outcome.skipped == {SkipReason.BEFORE_CREATION: 12}


def test_p3_after_a_clean_stop_a_lane_that_nobody_visited_does_not_wait(engine: Engine) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(world: World) -> None:
        await world.store.sources.add_many([polled()])

    async def after(world: World) -> list[float]:
        await world.run(30)
        return [t - 1000 for t in world.fetch.times(FEED)]

    assert slow.play(before, after)[1] == [0]


def test_p3_after_a_clean_stop_a_lane_waits_for_the_rest_of_its_delay(engine: Engine) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(world: World) -> list[float]:
        longer = START - timedelta(days=3)
        await world.store.sources.add_many([polled(last_polled=longer), polled("s2", OTHER)])
        await world.run(5)
        return [t - 1000 for t in world.fetch.times(FEED)]

    async def after(world: World) -> tuple[float, list[float]]:
        started = world.clock.monotonic() - 1000
        await world.run(60)
        return started, [t - 1000 for t in world.fetch.times(OTHER)]

    assert slow.play(before, after) == [[0], (5, [20])]


def test_p3_s8_the_delay_after_a_poll_that_a_clean_stop_cut_off_counts_from_its_end(
    engine: Engine,
) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(world: World) -> None:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200), seconds=100)
        await world.run(5)

    async def after(world: World) -> tuple[float, list[float]]:
        started = world.clock.monotonic() - 1000
        await world.run(60)
        return started, [t - 1000 for t in world.fetch.times(FEED)]

    cut_off = 5 + slow.pace.shutdown_seconds
    assert slow.play(before, after)[1] == (cut_off, [cut_off + 20])


@pytest.mark.parametrize("seconds", [0, 100])  # the last visit was recorded, or it was not
def test_p3_after_an_unclean_stop_the_delay_counts_from_the_start_of_the_new_process(
    engine: Engine, seconds: float
) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(world: World) -> int:
        longer = START - timedelta(days=3)
        await world.store.sources.add_many([polled(last_polled=longer), polled("s2", OTHER)])
        world.fetch.on(FEED, Answer(200), seconds=seconds)
        await world.run(5)
        return len(await world.store.polls.newest("s1", limit=10))

    async def after(world: World) -> tuple[float, list[float]]:
        started = world.clock.monotonic() - 1000
        await world.run(60)
        return started, [began - 1000 for _, began, _ in world.fetch.visits]

    [recorded, (started, visits)] = slow.play(before, after, killed=True)
    assert recorded == (1 if seconds == 0 else 0)
    assert started == 5
    # one source is left where the first visit was recorded, else both are
    assert visits == ([25] if recorded else [25, 45])


def test_p1_a_queued_source_that_moved_to_another_host_is_left_to_its_new_lane(
    engine: Engine,
) -> None:
    first, elsewhere = "https://example.org/first", "https://elsewhere.org/feed"

    async def story(world: World) -> tuple[list[float], list[float]]:
        await world.store.sources.add_many([polled("s0", first), polled("s1")])
        world.fetch.on(first, Answer(200), seconds=20)
        running = asyncio.create_task(world.run(30))
        await asyncio.sleep(5)
        now = world.clock.now()
        await world.store.sources.edit("s1", lambda s: edited(s, replace(s, url=elsewhere), now))
        await running
        return world.fetch.times(FEED), [t - 1000 for t in world.fetch.times(elsewhere)]

    [(old, new)] = engine.play(story)
    assert old == []
    assert len(new) == 1
    assert new[0] <= 7  # in its own lane, not behind the slow one


def test_h4_k5_a_result_that_cannot_be_stored_is_a_transient_failure_of_its_source(
    engine: Engine,
) -> None:
    unstorable = replace(an_entry(1), published_at=None, body="x\ud800")

    async def story(world: World) -> Source:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200, entries=(unstorable,)))
        await world.service.poll_now("s1")
        return await world.source("s1")

    [source] = engine.play(story)
    assert source.consecutive_failures == 1
    assert source.last_failure_type is FailureType.TRANSIENT
    assert source.last_polled == START


@pytest.mark.parametrize("hours", [8, 24 * 400])
def test_o4_a_clock_set_forward_makes_no_burst(engine: Engine, hours: int) -> None:
    hosts = 100

    async def story(world: World) -> list[float]:
        fresh = [
            polled(f"s{n}", f"https://host{n}.example/", last_polled=START) for n in range(hosts)
        ]
        await world.store.sources.add_many(fresh)
        running = asyncio.create_task(world.run(300))
        await asyncio.sleep(90)
        assert world.fetch.visits == []
        world.clock.set_by(timedelta(hours=hours))
        await running
        return sorted(began for _, began, _ in world.fetch.visits)

    [begun] = engine.play(story)
    assert len(begun) == hosts
    in_seconds = Counter(int(moment) for moment in begun)
    assert max(in_seconds.values()) < hosts / 4
    assert begun[-1] - begun[0] <= hosts / 10  # lanes per second, as after an outage
