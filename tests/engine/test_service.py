"""The whole service: from due to stored, over ticks, requests and restarts."""

import asyncio
import io
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headwater import logs
from headwater.engine.events import Event, EventKind
from headwater.engine.hosts.access import HostVisit
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
    Subject,
)
from headwater.rules.outcome import edited
from headwater.rules.policy import HoldScope, HostOverride
from headwater.rules.urls import url_host
from headwater.store import Session
from tests.engine.conftest import Engine, RunningEngine
from tests.fakes import START

FEED = "https://example.org/feed"
OTHER = "https://example.org/other"  # of the same host


def feed_source(id_: str = "s1", url: str = FEED, **settings: object) -> Source:
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
    """A source after first contact, due at once."""
    return feed_source(id_, url, **{"last_polled": START - timedelta(days=2), **settings})


def feed_entry(n: int, *, hours_ago: float = 0.0) -> Entry:
    return Entry(
        id=f"e{n}",
        title=f"Title {n}",
        url=f"https://example.org/{n}",
        published_at=START - timedelta(hours=hours_ago),
        author=None,
        body=f"Body {n}",
    )


def test_s1_a_tick_runs_at_start_and_then_every_tick_seconds(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[float]:
        ticks: list[float] = []

        def listen(event: Event) -> None:
            if event.kind is EventKind.TICK:
                ticks.append(round(env.clock.monotonic() - 1000))

        env.service.events.listen(listen)
        await env.run(150)
        return ticks

    assert engine.play(scenario) == [[0, 60, 120]]


def test_s2_s7_a_due_source_is_polled_once_per_interval_and_last_polled_moves(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> tuple[list[float], Source]:
        await env.store.sources.add_many([polled(poll_interval_minutes=5)])
        await env.run(16 * 60)
        return env.fetch.times(FEED), await env.source("s1")

    [(times, source)] = engine.play(scenario)
    assert [round(t - 1000, -1) for t in times] == [0, 300, 600, 900]
    assert source.last_polled is not None
    assert source.last_polled >= START + timedelta(minutes=15)


def test_s2_a_last_polled_in_the_future_is_rewritten_once(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[Source, list[float]]:
        await env.store.sources.add_many([feed_source(last_polled=START + timedelta(days=400))])
        await env.run(10)
        rewritten = await env.source("s1")
        await env.run(31 * 60)
        return rewritten, env.fetch.times(FEED)

    [(rewritten, times)] = engine.play(scenario)
    assert rewritten.last_polled == START
    assert len(times) == 1  # not silent for longer than one interval


def test_s4_disabled_sources_are_polled_by_hand_only_and_stay_disabled(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, Source]:
        await env.store.sources.add_many([polled(enabled=False)])
        await env.run(120)
        assert env.fetch.visits == []
        await env.service.poll_now("s1")
        return len(env.fetch.visits), await env.source("s1")

    [(visits, source)] = engine.play(scenario)
    assert visits == 1
    assert not source.enabled


def test_s9_a_request_is_stored_survives_a_restart_and_needs_no_jitter(engine: Engine) -> None:
    async def request_poll(env: RunningEngine) -> None:
        await env.store.sources.add_many([feed_source(poll_interval_minutes=100_000)])
        await env.store.sources.request(["s1"], env.clock.now())

    async def after_restart(env: RunningEngine) -> tuple[list[float], Source]:
        await env.run(5)
        return env.fetch.times(FEED), await env.source("s1")

    [_, (times, source)] = engine.play(request_poll, after_restart)
    assert len(times) == 1
    assert source.requested_at is None


def test_s10_a_request_from_another_process_is_polled_within_two_seconds(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> list[float]:
        far_off = START + timedelta(days=-1)
        await env.store.sources.add_many(
            [feed_source(last_polled=far_off, poll_interval_minutes=500_000)]
        )
        running = asyncio.create_task(env.run(30))
        await asyncio.sleep(10)
        await env.store.sources.request(["s1"], env.clock.now())
        await running
        return [t - 1000 for t in env.fetch.times(FEED)]

    [times] = engine.play(scenario)
    assert len(times) == 1
    assert 10 <= times[0] <= 12


def test_s10_a_second_service_on_the_same_database_is_refused(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> None:
        with pytest.raises(AlreadyPolling):
            async with engine.started(env.clock):
                pass

    engine.play(scenario)


def test_p6_p7_jitter_is_drawn_once_and_does_not_defeat_the_first_poll_rule(
    engine: Engine,
) -> None:
    old, new = feed_entry(1, hours_ago=5), feed_entry(2, hours_ago=-0.01)

    async def first_tick(env: RunningEngine) -> Source:
        await env.store.sources.add_many([feed_source(poll_interval_minutes=60)])
        await env.run(1)
        return await env.source("s1")

    async def later(env: RunningEngine) -> tuple[Source, Source, int]:
        env.fetch.on(FEED, Answer(200, entries=(old, new)))
        await env.run(1)
        same = await env.source("s1")
        await env.run(61 * 60)
        return same, await env.source("s1"), await env.store.posts.count("s1")

    [first, (same, after, posts)] = engine.play(first_tick, later)
    assert first.last_polled is not None
    assert START - timedelta(hours=1) <= first.last_polled <= START
    assert same.last_polled == first.last_polled
    assert not same.first_poll_done
    assert after.first_poll_done
    assert posts == 1  # the old one was published before the source was added (D3)


def test_p8_304_is_a_success_with_no_new_posts(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> Source:
        await env.store.sources.add_many([polled(consecutive_failures=2)])
        outcome = await env.service.poll_now("s1")
        assert outcome is not None
        assert outcome.kind is OutcomeKind.UNCHANGED
        return await env.source("s1")

    [source] = engine.play(scenario)
    assert source.consecutive_failures == 0
    assert source.first_poll_done


def test_p9_retry_after_holds_the_whole_lane_over_a_restart_and_others_keep_their_state(
    engine: Engine,
) -> None:
    other = "https://example.org/other"

    async def limited(env: RunningEngine) -> None:
        await env.store.sources.add_many([polled("s1"), polled("s2", other)])
        env.fetch.on(FEED, BadStatus(429, "HTTP 429", host="example.org", hold_seconds=1800))
        await env.service.poll_now("s1")
        await env.run(600)
        assert env.fetch.times(other) == []

    async def after_restart(env: RunningEngine) -> tuple[list[float], Source]:
        source = await env.source("s2")
        await env.run(1800)
        return [t - 1000 for t in env.fetch.times(other)], source

    [_, (times, untouched)] = engine.play(limited, after_restart)
    assert len(times) == 1
    assert 1800 <= times[0] <= 1900
    assert untouched.consecutive_failures == 0
    assert untouched.last_polled == START - timedelta(days=2)


def test_p9_hold_scope_source_holds_that_source_only(engine: Engine) -> None:
    other = "https://example.org/other"
    narrow = engine.with_policy(
        host_overrides={"example.org": HostOverride(None, HoldScope.SOURCE)}
    )

    async def scenario(env: RunningEngine) -> tuple[int, int]:
        await env.store.sources.add_many(
            [polled("s1", poll_interval_minutes=1), polled("s2", other, poll_interval_minutes=1)]
        )
        env.fetch.on(FEED, BadStatus(429, "HTTP 429", host="example.org", hold_seconds=1800))
        await env.run(900)
        return len(env.fetch.times(FEED)), len(env.fetch.times(other))

    [(held, free)] = narrow.play(scenario)
    assert held == 1
    assert free >= 13


def test_p9_a_queued_source_on_hold_is_not_polled(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[float]:
        longer = START - timedelta(days=3)
        await env.store.sources.add_many([polled(last_polled=longer), polled("s2", OTHER)])
        env.fetch.on(FEED, Answer(200), seconds=20)
        running = asyncio.create_task(env.run(400))
        await asyncio.sleep(5)
        now = env.clock.now()
        hold = Hold(now + timedelta(seconds=100), now, "HTTP 429")
        await env.store.sources.edit("s2", lambda s: replace(s, hold=hold))
        await running
        return [t - 1000 for t in env.fetch.times(OTHER)]

    assert engine.play(scenario) == [[120]]  # the first tick after the hold


def test_p10_a_manual_poll_of_a_source_on_hold_sends_and_records_nothing(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[object, Source, int, int]:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, BadStatus(429, "HTTP 429", host="example.org", hold_seconds=1800))
        await env.service.poll_now("s1")
        before = await env.source("s1")
        outcome = await env.service.poll_now("s1")
        assert await env.source("s1") == before
        polls = await env.store.polls.newest("s1", limit=10)
        return outcome, before, len(env.fetch.visits), len(polls)

    [(outcome, _, visits, polls)] = engine.play(scenario)
    assert outcome.kind is OutcomeKind.FAILED
    assert "on hold until 2026-02-16T08:30:00Z" in outcome.failure.message
    assert outcome.failure.type is FailureType.TRANSIENT
    assert (visits, polls) == (1, 1)


def test_p10_a_manual_poll_that_waits_a_minute_in_its_lane_stays_requested(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[object, Source, list[float]]:
        other = "https://example.org/other"
        await env.store.sources.add_many([polled("s1"), polled("s2", other)])
        env.fetch.on(other, Answer(200), seconds=100)
        slow = asyncio.create_task(env.service.poll_now("s2", wait_seconds=None))
        await asyncio.sleep(1)
        outcome = await env.service.poll_now("s1")
        waiting = await env.source("s1")
        await slow
        await env.service.lanes.emptied(env.service.lanes.names())
        return outcome, waiting, [t - 1000 for t in env.fetch.times(FEED)]

    [(outcome, waiting, times)] = engine.play(scenario)
    assert outcome is None
    assert waiting.requested_at is not None
    assert times == [100]


def test_a_manual_poll_of_a_missing_source_is_an_error(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> None:
        with pytest.raises(NotFound):
            await env.service.poll_now("nobody")

    engine.play(scenario)


def test_f3_five_404s_in_a_row_disable_with_a_reason_and_an_event(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[Source, list[EventKind]]:
        events: list[EventKind] = []
        env.service.events.listen(lambda event: events.append(event.kind))
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, BadStatus(404, "HTTP 404"))
        for _ in range(5):
            await env.service.poll_now("s1")
        return await env.source("s1"), events

    [(source, events)] = engine.play(scenario)
    assert not source.enabled
    assert source.disabled_reason == "Auto-disabled after 5 consecutive 404 errors"
    assert events.count(EventKind.SOURCE_DISABLED) == 1


def test_s3_f4_transient_failures_back_off_and_never_disable(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[list[float], Source]:
        await env.store.sources.add_many([polled(poll_interval_minutes=10)])
        env.fetch.on(FEED, BadStatus(500, "HTTP 500"))
        await env.run(160 * 60)
        return [round((t - 1000) / 60) for t in env.fetch.times(FEED)], await env.source("s1")

    [(minutes, source)] = engine.play(scenario)
    assert minutes == [0, 20, 60, 140]
    assert source.enabled


def test_d4_the_result_for_an_edited_source_is_discarded(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, Source]:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200, entries=(feed_entry(1),)), seconds=10)
        polling = asyncio.create_task(env.service.poll_now("s1"))
        await asyncio.sleep(5)
        await env.store.sources.edit(
            "s1", lambda s: replace(s, url="https://example.org/new", generation=s.generation + 1)
        )
        outcome = await polling
        assert outcome is not None
        assert not outcome.recorded
        return await env.store.posts.count("s1"), await env.source("s1")

    [(posts, source)] = engine.play(scenario)
    assert posts == 0
    assert source.last_polled == START - timedelta(days=2)


def test_k1_s8_results_fetched_before_the_stop_are_stored(engine: Engine) -> None:
    async def stopped(env: RunningEngine) -> None:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200, entries=(feed_entry(1),)), seconds=5)
        await env.run(1)

    async def after(env: RunningEngine) -> int:
        return await env.store.posts.count("s1")

    assert engine.play(stopped, after)[1] == 1


def test_s8_the_result_of_a_cut_off_poll_is_stored(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(env: RunningEngine) -> None:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200, entries=(feed_entry(1),)), seconds=5)
        await env.run(1)
        database, write = env.store.database, env.store.database.write

        async def write_slowly(work: Callable[[Session], Any]) -> Any:
            """The next write takes longer than polls are given to end."""
            monkeypatch.setattr(database, "write", write)
            await asyncio.sleep(engine.pace.shutdown_seconds)
            return await write(work)

        monkeypatch.setattr(database, "write", write_slowly)

    async def after(env: RunningEngine) -> int:
        return await env.store.posts.count("s1")

    assert engine.play(stopped, after)[1] == 1


def test_f6_o1_local_failures_move_no_counter(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> Source:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, NameUnresolved("no nameserver answers"))
        await env.service.poll_now("s1")
        return await env.source("s1")

    [source] = engine.play(scenario)
    assert source.consecutive_failures == 0
    assert source.last_polled == START


def test_g2_paused_the_scheduler_starts_nothing_but_manual_polls_work(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, int]:
        await env.store.sources.add_many([polled()])
        await env.run(300)
        scheduled = len(env.fetch.visits)
        await env.service.poll_now("s1")
        return scheduled, len(env.fetch.visits)

    assert engine.with_pace(paused=True).play(scenario) == [(0, 1)]


def test_d3_the_outcome_counts_entries_published_before_the_source_was_added(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> object:
        await env.store.sources.add_many([feed_source()])
        entries = tuple(feed_entry(n, hours_ago=n) for n in range(1, 13))
        env.fetch.on(FEED, Answer(200, entries=entries))
        return await env.service.poll_now("s1")

    [outcome] = engine.play(scenario)
    assert outcome.skipped == {SkipReason.BEFORE_CREATION: 12}


def test_p3_after_a_clean_stop_an_unvisited_lane_does_not_wait(engine: Engine) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(env: RunningEngine) -> None:
        await env.store.sources.add_many([polled()])

    async def after(env: RunningEngine) -> list[float]:
        await env.run(30)
        return [t - 1000 for t in env.fetch.times(FEED)]

    assert slow.play(before, after)[1] == [0]


def test_p3_after_a_clean_stop_a_lane_waits_for_the_rest_of_its_delay(engine: Engine) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(env: RunningEngine) -> list[float]:
        longer = START - timedelta(days=3)
        await env.store.sources.add_many([polled(last_polled=longer), polled("s2", OTHER)])
        await env.run(5)
        return [t - 1000 for t in env.fetch.times(FEED)]

    async def after(env: RunningEngine) -> tuple[float, list[float]]:
        started = env.clock.monotonic() - 1000
        await env.run(60)
        return started, [t - 1000 for t in env.fetch.times(OTHER)]

    assert slow.play(before, after) == [[0], (5, [20])]


def test_p3_s8_the_delay_after_a_cut_off_poll_counts_from_its_end(
    engine: Engine,
) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(env: RunningEngine) -> None:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200), seconds=100)
        await env.run(5)

    async def after(env: RunningEngine) -> tuple[float, list[float]]:
        started = env.clock.monotonic() - 1000
        await env.run(60)
        return started, [t - 1000 for t in env.fetch.times(FEED)]

    cut_off = 5 + slow.pace.shutdown_seconds
    assert slow.play(before, after)[1] == (cut_off, [cut_off + 20])


@pytest.mark.parametrize("seconds", [0, 100])  # the last visit was recorded, or it was not
def test_p3_after_an_unclean_stop_the_delay_counts_from_the_start_of_the_new_process(
    engine: Engine, seconds: float
) -> None:
    slow = engine.with_policy(type_delay_seconds={SourceType.RSS: 20.0})

    async def before(env: RunningEngine) -> int:
        longer = START - timedelta(days=3)
        await env.store.sources.add_many([polled(last_polled=longer), polled("s2", OTHER)])
        env.fetch.on(FEED, Answer(200), seconds=seconds)
        await env.run(5)
        return len(await env.store.polls.newest("s1", limit=10))

    async def after(env: RunningEngine) -> tuple[float, list[float]]:
        started = env.clock.monotonic() - 1000
        await env.run(60)
        return started, [began - 1000 for _, began, _ in env.fetch.visits]

    [recorded, (started, visits)] = slow.play(before, after, killed=True)
    assert recorded == (1 if seconds == 0 else 0)
    assert started == 5
    # one source is left where the first visit was recorded, else both are
    assert visits == ([25] if recorded else [25, 45])


def test_p1_a_queued_source_that_moved_to_another_host_waits_in_its_new_lane(
    engine: Engine,
) -> None:
    first, elsewhere = "https://example.org/first", "https://elsewhere.org/feed"

    async def scenario(env: RunningEngine) -> tuple[list[float], list[float]]:
        await env.store.sources.add_many([polled("s0", first), polled("s1")])
        env.fetch.on(first, Answer(200), seconds=20)
        running = asyncio.create_task(env.run(30))
        await asyncio.sleep(5)
        now = env.clock.now()
        await env.store.sources.edit("s1", lambda s: edited(s, replace(s, url=elsewhere), now))
        await running
        return env.fetch.times(FEED), [t - 1000 for t in env.fetch.times(elsewhere)]

    [(old, new)] = engine.play(scenario)
    assert old == []
    assert len(new) == 1
    assert new[0] <= 7  # in its own lane, not behind the slow one


def test_h4_k5_a_result_that_cannot_be_stored_is_a_transient_failure_of_its_source(
    engine: Engine,
) -> None:
    unstorable = replace(feed_entry(1), published_at=None, body="x\ud800")

    async def scenario(env: RunningEngine) -> Source:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200, entries=(unstorable,)))
        await env.service.poll_now("s1")
        return await env.source("s1")

    [source] = engine.play(scenario)
    assert source.consecutive_failures == 1
    assert source.last_failure_type is FailureType.TRANSIENT
    assert source.last_polled == START


@pytest.mark.parametrize("hours", [8, 24 * 400])
def test_o4_a_clock_set_forward_causes_no_burst(engine: Engine, hours: int) -> None:
    hosts = 100

    async def scenario(env: RunningEngine) -> list[float]:
        fresh = [
            polled(f"s{n}", f"https://host{n}.example/", last_polled=START) for n in range(hosts)
        ]
        await env.store.sources.add_many(fresh)
        running = asyncio.create_task(env.run(300))
        await asyncio.sleep(90)
        assert env.fetch.visits == []
        env.clock.set_by(timedelta(hours=hours))
        await running
        return sorted(began for _, began, _ in env.fetch.visits)

    [begun] = engine.play(scenario)
    assert len(begun) == hosts
    in_seconds = Counter(int(moment) for moment in begun)
    assert max(in_seconds.values()) < hosts / 4
    assert begun[-1] - begun[0] <= hosts / 10  # lanes per second, as after an outage


def test_k5_a_service_logs_that_results_wait_to_be_stored(engine: Engine, lines: io.StringIO):
    async def scenario(env: RunningEngine) -> None:
        logs.configure(stream=lines)
        await env.store.sources.add_many([polled()])
        await env.store.database.execute("PRAGMA busy_timeout = 1")
        with closing(sqlite3.connect(engine.folder / "test.db", isolation_level=None)) as other:

            async def answer_and_lock(_subject: Subject, _visit: HostVisit) -> Answer:
                other.execute("BEGIN IMMEDIATE")
                return Answer(304, unchanged=True)

            env.fetch.answers[FEED] = answer_and_lock
            await env.run(15)
            other.execute("ROLLBACK")
            await env.run(30)

    engine.play(scenario)
    logged = lines.getvalue()
    assert logged.count("[Store] results are waiting to be stored count=1") == 2  # 8 s, 16 s
    assert logged.count("[Store] results are stored again") == 1
