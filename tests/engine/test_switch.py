"""The scheduler's switch: at once, over restarts, and never in the way of polls by hand (G2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from headwater.engine.switch import Switch
from headwater.model import Answer, Source
from headwater.store.facts import Facts
from tests.engine.conftest import Engine, World
from tests.factories import a_source
from tests.fakes import START

DUE = a_source(url="https://a.org/feed", host="a.org", last_polled=START - timedelta(hours=1))


def some(count: int) -> list[Source]:
    """Due sources of one host."""
    return [replace(DUE, id=f"s{n}", url=f"https://a.org/{n}") for n in range(count)]


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(world.service.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


def test_g2_what_waits_in_its_lane_already_is_not_started_any_more(engine: Engine) -> None:
    async def story(world: World) -> tuple[int, int, int]:
        sources = some(5)
        await world.store.sources.add_many(sources)
        for source in sources:
            world.fetch.on(source.url, Answer(304, unchanged=True), seconds=10)
        async with running(world):
            await asyncio.sleep(15)  # one is done, the second is under way
            await world.service.pause(paused=True)
            await asyncio.sleep(600)
            paused = len(world.fetch.visits)
            by_hand = await world.service.poll_now("s4")
            assert by_hand is not None
            asked = len(world.fetch.visits)
            await world.service.pause(paused=False)
            await asyncio.sleep(25)
            return paused, asked, len(world.fetch.visits)

    assert engine.play(story) == [(2, 3, 5)]


def test_g2_switching_back_on_looks_for_due_sources_at_once(engine: Engine) -> None:
    async def story(world: World) -> tuple[int, int]:
        async with running(world):
            await world.service.pause(paused=True)
            await asyncio.sleep(90)
            await world.store.sources.add_many(some(1))
            await asyncio.sleep(60)
            before = len(world.fetch.visits)
            await world.service.pause(paused=False)
            await asyncio.sleep(1)
            return before, len(world.fetch.visits)

    assert engine.play(story) == [(0, 1)]


def test_g2_the_switch_outlives_a_restart_and_beats_the_configuration(engine: Engine) -> None:
    async def switch(world: World) -> bool:
        before = world.service.paused
        await world.service.pause(paused=not before)
        return before

    async def look(world: World) -> tuple[bool, int]:
        await world.store.sources.add_many(some(1))
        await world.run(5)
        return world.service.paused, len(world.fetch.visits)

    assert engine.play(switch, look) == [False, (True, 0)]


def test_g2_the_configuration_counts_until_somebody_switches(engine: Engine) -> None:
    async def look(world: World) -> bool:
        await world.run(5)
        return world.service.paused

    async def switch_on(world: World) -> None:
        await world.service.pause(paused=False)

    configured = engine.with_pace(paused=True)
    assert configured.play(look, switch_on, look) == [True, None, False]


def test_g2_a_setting_that_was_changed_since_counts_more_than_the_switch(engine: Engine) -> None:
    async def off_and_on(world: World) -> None:
        await world.store.sources.add_many(some(1))
        await world.service.pause(paused=True)
        await world.service.pause(paused=False)

    async def look(world: World) -> tuple[bool, int]:
        await world.run(5)
        return world.service.paused, len(world.fetch.visits)

    async def switch_on(world: World) -> None:
        await world.service.pause(paused=False)

    engine.play(off_and_on)
    configured = engine.with_pace(paused=True)
    assert configured.play(look) == [(True, 0)]
    assert configured.play(switch_on, look)[1][0] is False


class SlowFacts(Facts):
    """Facts that are read, and told only later."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store.database)
        self.told = asyncio.Event()

    async def get(self, name: str) -> str | None:
        fact = await super().get(name)
        await self.told.wait()
        return fact


def test_g2_a_look_under_way_does_not_undo_what_is_switched_meanwhile(engine: Engine) -> None:
    async def story(world: World) -> bool:
        facts = SlowFacts(world)
        switch = Switch(facts, paused=False)
        look = asyncio.create_task(switch.look())
        await asyncio.sleep(1)  # it has read that nobody switched
        await switch.turn(paused=True)
        facts.told.set()
        assert await look is True
        return switch.paused

    assert engine.play(story) == [True]


def test_g2_s9_a_request_from_another_process_is_taken_up_while_paused(engine: Engine) -> None:
    async def story(world: World) -> int:
        await world.store.sources.add_many(some(2))
        await world.service.pause(paused=True)
        async with running(world):
            await asyncio.sleep(5)
            await world.store.sources.request(["s1"], world.clock.now())
            await asyncio.sleep(5)
        return len(world.fetch.visits)

    assert engine.play(story) == [1]


def test_a_lane_knows_how_many_are_polled_before_a_source(engine: Engine) -> None:
    async def story(world: World) -> list[int | None]:
        sources = some(4)
        for number, source in enumerate(sources):  # the first is the longest overdue
            sources[number] = replace(source, last_polled=START - timedelta(hours=9 - number))
            world.fetch.on(source.url, Answer(304, unchanged=True), seconds=60)
        await world.store.sources.add_many(sources)
        await world.service.tick()
        ahead = world.service.lanes.ahead_of
        places = [ahead("a.org", source.id) for source in sources]
        asked = asyncio.create_task(world.service.poll_now("s3", wait_seconds=1))
        await asked
        return [*places, ahead("a.org", "s3"), ahead("a.org", "s1"), ahead("b.org", "s1")]

    assert engine.play(story) == [[None, 0, 1, 2, 0, 1, None]]
