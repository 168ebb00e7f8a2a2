"""Cleanup at every tick, in bounded bites, and never on a false date."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.engine.cleanup import Cleanup
from headwater.model import Answer
from headwater.rules.policy import Policy
from headwater.store.cleanup import Bite
from tests.engine.conftest import Engine, World
from tests.engine.test_service import FEED, an_entry, polled


def test_c2_d1_old_posts_go_at_a_tick_and_never_come_back(engine: Engine) -> None:
    undated = tuple(replace(an_entry(n), published_at=None) for n in range(2))

    async def stored(world: World) -> int:
        await world.store.sources.add_many([polled(poll_interval_minutes=500_000)])
        world.fetch.on(FEED, Answer(200, entries=undated))
        await world.service.poll_now("s1")
        world.clock.set_by(timedelta(days=8))
        return await world.store.posts.count()

    async def a_week_later(world: World) -> tuple[int, int]:
        await world.service.tick()
        cleaned = await world.store.posts.count()
        world.fetch.on(FEED, Answer(200, entries=undated))
        await world.service.poll_now("s1")
        return cleaned, await world.store.posts.count()

    assert engine.play(stored, a_week_later) == [2, (0, 0)]


def test_c3_a_bite_is_bounded_and_the_rest_waits_for_the_next_tick(engine: Engine) -> None:
    many = tuple(an_entry(n) for n in range(12_345))

    async def story(world: World) -> list[int]:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200, entries=many))
        await world.service.poll_now("s1")
        cleanup = Cleanup(world.store, world.clock, Policy(max_article_age_days=1))
        world.clock.set_by(timedelta(minutes=59))
        taken = []
        for _ in range(3):
            taken.append(await cleanup.run())
        return [*taken, await world.store.posts.count()]

    assert engine.play(story) == [[0, 0, 0, 12_345]]

    async def days_later(world: World) -> list[int]:
        world.clock.set_by(timedelta(days=2))
        cleanup = Cleanup(world.store, world.clock, Policy(max_article_age_days=1))
        return [await cleanup.run(), await cleanup.run(), await cleanup.run()]

    assert engine.play(days_later) == [[10_000, 2_345, 0]]


async def with_history(world: World, polls: int) -> None:
    """A source with a history that is past its time."""
    await world.store.sources.add_many([polled()])
    row = {"source_id": "s1", "started_at": 0, "duration_ms": 1, "outcome": "unchanged"}
    await world.store.database.write(lambda s: s.insert_rows("polls", [row] * polls))


async def history(world: World) -> int:
    rows = await world.store.database.read(lambda s: s.fetch("SELECT count(*) FROM polls"))
    return int(rows[0][0])


def test_c3_a_tick_forgets_as_many_polls_as_a_busy_minute_brings(engine: Engine) -> None:
    minute = 60 * 1200

    async def story(world: World) -> tuple[int, int]:
        await with_history(world, minute)
        return await Cleanup(world.store, world.clock, Policy()).run(), await history(world)

    assert engine.play(story) == [(minute, 0)]


def test_c3_a_long_history_is_bitten_off_and_polls_are_recorded_in_between(
    engine: Engine,
) -> None:
    async def story(world: World) -> tuple[bool, int]:
        await with_history(world, 60_000)
        world.fetch.on(FEED, Answer(200, entries=(an_entry(1),)))
        cleanup = asyncio.create_task(Cleanup(world.store, world.clock, Policy()).run())
        while await history(world) == 60_000:
            await asyncio.sleep(0)
        await world.service.poll_now("s1")
        recorded_meanwhile = not cleanup.done()
        return recorded_meanwhile, await cleanup

    assert engine.play(story) == [(True, 60_000)]


def test_c3_a_slow_database_does_not_make_a_tick_late(engine: Engine) -> None:
    async def story(world: World) -> list[int]:
        await with_history(world, 25_000)
        clean = world.store.clean

        async def slowly(bite: Bite, now: datetime, limit: int) -> int:
            await world.clock.sleep(1)
            return await clean(bite, now, limit)

        world.store.clean = slowly  # type: ignore[method-assign]
        cleanup = Cleanup(world.store, world.clock, Policy())
        return [await cleanup.run(), await cleanup.run(), await cleanup.run()]

    assert engine.play(story) == [[10_000, 10_000, 5_000]]


def test_c3_o4_a_clock_that_jumped_pauses_cleanup_for_an_hour(engine: Engine) -> None:
    async def story(world: World) -> list[int]:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200, entries=(an_entry(1),)))
        await world.service.poll_now("s1")
        cleanup = Cleanup(world.store, world.clock, Policy())
        counts = [await cleanup.run()]
        world.clock.set_by(timedelta(days=3650))
        counts.append(await cleanup.run())
        world.clock.set_by(timedelta(days=-3650))
        counts.append(await cleanup.run())
        return [*counts, await world.store.posts.count()]

    assert engine.play(story) == [[0, 0, 0, 1]]
