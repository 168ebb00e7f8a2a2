"""Cleanup at every tick, in bounded batches, and never on a false date."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headwater.engine.cleanup import Cleanup
from headwater.errors import DatabaseUnavailable
from headwater.model import Answer
from headwater.rules.policy import Policy
from headwater.store.expired_rows import CleanupBatch
from headwater.store.row_mapping import to_ms
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import FEED, feed_entry, polled

HOUR = 3600.0


def test_c2_d1_old_posts_are_deleted_at_a_tick_and_never_stored_again(engine: Engine) -> None:
    undated = tuple(replace(feed_entry(n), published_at=None) for n in range(2))

    async def stored(env: RunningEngine) -> int:
        await env.store.sources.add_many([polled(poll_interval_minutes=500_000)])
        env.fetch.on(FEED, Answer(200, entries=undated))
        await env.service.poll_now("s1")
        env.clock.set_by(timedelta(days=8))
        return await env.store.posts.count()

    async def a_week_later(env: RunningEngine) -> tuple[int, int]:
        await env.clock.sleep(HOUR)  # after a day without polls, cleanup first waits (C3)
        await env.service.tick()
        cleaned = await env.store.posts.count()
        env.fetch.on(FEED, Answer(200, entries=undated))
        await env.service.poll_now("s1")
        return cleaned, await env.store.posts.count()

    assert engine.play(stored, a_week_later) == [2, (0, 0)]


def test_c3_a_batch_is_bounded_and_the_rest_waits_for_the_next_tick(engine: Engine) -> None:
    many = tuple(feed_entry(n) for n in range(12_345))

    async def scenario(env: RunningEngine) -> list[int]:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200, entries=many))
        await env.service.poll_now("s1")
        cleanup = Cleanup(env.store, env.clock, Policy(max_article_age_days=1))
        env.clock.set_by(timedelta(minutes=59))
        taken = []
        for _ in range(3):
            taken.append(await cleanup.run())
        return [*taken, await env.store.posts.count()]

    assert engine.play(scenario) == [[0, 0, 0, 12_345]]

    async def days_later(env: RunningEngine) -> list[int]:
        env.clock.set_by(timedelta(days=2))
        cleanup = Cleanup(env.store, env.clock, Policy(max_article_age_days=1))
        return [await cleanup.run(), await cleanup.run(), await cleanup.run()]

    assert engine.play(days_later) == [[10_000, 2_345, 0]]


async def with_history(env: RunningEngine, polls: int) -> None:
    """A source with an expired history."""
    await env.store.sources.add_many([polled()])
    old = to_ms(env.clock.now() - timedelta(days=20))
    row = {"source_id": "s1", "started_at": old, "duration_ms": 1, "outcome": "unchanged"}
    await env.store.database.write(lambda s: s.insert_rows("polls", [row] * polls))


async def history(env: RunningEngine) -> int:
    rows = await env.store.database.read(lambda s: s.fetch("SELECT count(*) FROM polls"))
    return int(rows[0][0])


def test_c3_a_tick_deletes_as_many_polls_as_a_busy_minute_adds(engine: Engine) -> None:
    minute = 60 * 1200

    async def scenario(env: RunningEngine) -> tuple[int, int]:
        await with_history(env, minute)
        return await Cleanup(env.store, env.clock, Policy()).run(), await history(env)

    assert engine.play(scenario) == [(minute, 0)]


def test_c3_a_long_history_is_deleted_in_batches_with_polls_in_between(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> tuple[bool, int]:
        await with_history(env, 60_000)
        env.fetch.on(FEED, Answer(200, entries=(feed_entry(1),)))
        cleanup = asyncio.create_task(Cleanup(env.store, env.clock, Policy()).run())
        while await history(env) == 60_000:
            await asyncio.sleep(0)
        await env.service.poll_now("s1")
        recorded_meanwhile = not cleanup.done()
        return recorded_meanwhile, await cleanup

    assert engine.play(scenario) == [(True, 60_000)]


def test_c3_a_slow_database_does_not_delay_a_tick(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[int]:
        await with_history(env, 25_000)
        clean = env.store.clean

        async def slowly(batch: CleanupBatch, now: datetime, limit: int) -> int:
            await env.clock.sleep(1)
            return await clean(batch, now, limit)

        env.store.clean = slowly  # type: ignore[method-assign]
        cleanup = Cleanup(env.store, env.clock, Policy())
        return [await cleanup.run(), await cleanup.run(), await cleanup.run()]

    assert engine.play(scenario) == [[10_000, 10_000, 5_000]]


def test_c3_o4_a_clock_that_jumped_pauses_cleanup_for_an_hour(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[int]:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200, entries=(feed_entry(1),)))
        await env.service.poll_now("s1")
        cleanup = Cleanup(env.store, env.clock, Policy())
        counts = [await cleanup.run()]
        env.clock.set_by(timedelta(days=3650))
        counts.append(await cleanup.run())
        env.clock.set_by(timedelta(days=-3650))
        counts.append(await cleanup.run())
        return [*counts, await env.store.posts.count()]

    assert engine.play(scenario) == [[0, 0, 0, 1]]


async def with_posts(env: RunningEngine) -> None:
    """Store two posts, then set the clock forward by 30 days."""
    await env.store.sources.add_many([polled(poll_interval_minutes=500_000)])
    env.fetch.on(FEED, Answer(200, entries=(feed_entry(1), feed_entry(2))))
    await env.service.poll_now("s1")
    env.clock.set_by(timedelta(days=30))


async def ticked(env: RunningEngine, *, after: float = 0.0) -> tuple[int, bool]:
    """The number of posts after a tick, and whether cleanup is paused."""
    await env.clock.sleep(after)
    await env.service.tick()
    return await env.store.posts.count(), env.service.cleanup_paused_until is not None


def test_c3_o4_a_clock_ahead_of_the_data_at_a_start_pauses_cleanup_for_an_hour(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wrong_clock(env: RunningEngine) -> list[tuple[int, bool]]:
        return [await ticked(env), await ticked(env, after=HOUR - 1), await ticked(env, after=1)]

    assert engine.play(with_posts, wrong_clock)[1] == [(2, True), (2, True), (0, False)]
    assert "[Polling] the clock is ahead of the newest stored data" in capsys.readouterr().err


def test_c3_o4_a_clock_behind_the_data_at_a_start_pauses_cleanup_for_an_hour(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    async def polled_then_set_back(env: RunningEngine) -> None:
        await with_posts(env)
        env.clock.set_by(timedelta(days=-395))

    async def polls_and_paused(env: RunningEngine, *, after: float = 0.0) -> tuple[int, bool]:
        _, paused = await ticked(env, after=after)
        return len(await env.store.polls.newest("s1", limit=9)), paused

    async def wrong_clock(env: RunningEngine) -> list[tuple[int, bool]]:
        return [await polls_and_paused(env), await polls_and_paused(env, after=HOUR - 1)]

    assert engine.play(polled_then_set_back, wrong_clock)[1] == [(1, True), (1, True)]
    assert "[Polling] the clock is behind the newest stored data" in capsys.readouterr().err


def test_c3_o4_a_start_with_the_clock_behind_replaces_a_pause_that_lies_ahead(
    engine: Engine,
) -> None:
    async def paused(env: RunningEngine) -> bool:
        await with_posts(env)
        _, found = await ticked(env)  # the clock jumped: the pause ends at this time
        env.clock.set_by(timedelta(days=-395))
        return found

    assert engine.play(paused, ticked) == [True, (2, True)]


def test_c3_o4_the_pause_outlives_a_restart_and_polls_with_the_wrong_clock(engine: Engine) -> None:
    async def wrong_clock(env: RunningEngine) -> tuple[int, bool]:
        env.fetch.on(FEED, Answer(304))
        await env.service.poll_now("s1")  # now the newest stored data has the wrong time too
        return await ticked(env, after=60)

    async def restarted(env: RunningEngine) -> list[tuple[int, bool]]:
        return [await ticked(env), await ticked(env, after=HOUR)]

    results = engine.play(with_posts, wrong_clock, restarted)
    assert results[1:] == [(2, True), [(2, True), (0, False)]]


def test_c3_o4_a_corrected_clock_ends_the_pause_of_the_next_start(engine: Engine) -> None:
    async def wrong_clock(env: RunningEngine) -> tuple[int, bool]:
        found = await ticked(env)
        env.clock.set_by(timedelta(days=-30))
        return found

    assert engine.play(with_posts, wrong_clock, ticked)[1:] == [(2, True), (2, False)]


def test_c3_o4_workers_share_the_pause(engine: Engine) -> None:
    async def posts_after(worker: Cleanup, env: RunningEngine) -> int:
        await worker.run()
        return await env.store.posts.count()

    async def scenario(env: RunningEngine) -> list[int]:
        workers = [Cleanup(env.store, env.clock, Policy()) for _ in range(2)]
        await with_posts(env)
        started = Cleanup(env.store, env.clock, Policy())  # sees neither a jump nor old data
        await workers[0].run()
        env.fetch.on(FEED, Answer(304))
        await env.service.poll_now("s1")
        await started.check_start()
        counts = [await posts_after(started, env)]
        await env.clock.sleep(HOUR - 1)
        counts.append(await posts_after(workers[1], env))  # finds the jump, prolongs no pause
        await env.clock.sleep(1)
        return [*counts, await posts_after(started, env)]

    assert engine.play(scenario) == [[2, 2, 0]]


@pytest.mark.parametrize("days", [0, 3650])
def test_c3_an_empty_database_never_pauses_cleanup(engine: Engine, days: int) -> None:
    async def nothing(env: RunningEngine) -> None:
        env.clock.set_by(timedelta(days=days))

    assert engine.play(nothing, ticked)[1] == (0, False)


def test_c3_a_pause_that_cannot_be_stored_is_stored_by_the_next_run(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, int]:
        cleanup = Cleanup(env.store, env.clock, Policy())
        await with_posts(env)
        store = env.store.key_values.set

        async def fail(*_: object, **_options: object) -> None:
            raise DatabaseUnavailable("locked")

        env.store.key_values.set = fail  # type: ignore[method-assign]
        with pytest.raises(DatabaseUnavailable):
            await cleanup.run()
        env.store.key_values.set = store  # type: ignore[method-assign]
        return await cleanup.run(), await env.store.posts.count()

    assert engine.play(scenario) == [(0, 2)]
