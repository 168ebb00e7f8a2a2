"""Pausing the scheduler: at once, across restarts, and without affecting manual polls (G2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from headwater.engine.pause_state import PauseState
from headwater.model import Answer, Source
from headwater.store.key_values import KeyValues
from tests.engine.conftest import Engine, RunningEngine
from tests.factories import a_source
from tests.fakes import START

DUE = a_source(url="https://a.org/feed", host="a.org", last_polled=START - timedelta(hours=1))


def some(count: int) -> list[Source]:
    """Due sources of one host."""
    return [replace(DUE, id=f"s{n}", url=f"https://a.org/{n}") for n in range(count)]


@asynccontextmanager
async def running(env: RunningEngine) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(env.service.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


def test_g2_sources_queued_in_a_lane_are_not_started_while_paused(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, int, int]:
        sources = some(5)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, Answer(304, unchanged=True), seconds=10)
        async with running(env):
            await asyncio.sleep(15)  # one is done, the second is running
            await env.service.pause(paused=True)
            await asyncio.sleep(600)
            paused = len(env.fetch.visits)
            by_hand = await env.service.poll_now("s4")
            assert by_hand is not None
            asked = len(env.fetch.visits)
            await env.service.pause(paused=False)
            await asyncio.sleep(25)
            return paused, asked, len(env.fetch.visits)

    assert engine.play(scenario) == [(2, 3, 5)]


def test_g2_resuming_queries_due_sources_at_once(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, int]:
        async with running(env):
            await env.service.pause(paused=True)
            await asyncio.sleep(90)
            await env.store.sources.add_many(some(1))
            await asyncio.sleep(60)
            before = len(env.fetch.visits)
            await env.service.pause(paused=False)
            await asyncio.sleep(1)
            return before, len(env.fetch.visits)

    assert engine.play(scenario) == [(0, 1)]


def test_g2_the_stored_pause_survives_a_restart_and_overrides_the_configuration(
    engine: Engine,
) -> None:
    async def pause(env: RunningEngine) -> bool:
        before = env.service.paused
        await env.service.pause(paused=not before)
        return before

    async def check(env: RunningEngine) -> tuple[bool, int]:
        await env.store.sources.add_many(some(1))
        await env.run(5)
        return env.service.paused, len(env.fetch.visits)

    assert engine.play(pause, check) == [False, (True, 0)]


def test_g2_the_configuration_applies_until_the_first_change(engine: Engine) -> None:
    async def check(env: RunningEngine) -> bool:
        await env.run(5)
        return env.service.paused

    async def resume(env: RunningEngine) -> None:
        await env.service.pause(paused=False)

    configured = engine.with_pace(paused=True)
    assert configured.play(check, resume, check) == [True, None, False]


def test_g2_a_later_change_of_the_configuration_overrides_the_stored_pause(engine: Engine) -> None:
    async def pause_and_resume(env: RunningEngine) -> None:
        await env.store.sources.add_many(some(1))
        await env.service.pause(paused=True)
        await env.service.pause(paused=False)

    async def check(env: RunningEngine) -> tuple[bool, int]:
        await env.run(5)
        return env.service.paused, len(env.fetch.visits)

    async def resume(env: RunningEngine) -> None:
        await env.service.pause(paused=False)

    engine.play(pause_and_resume)
    configured = engine.with_pace(paused=True)
    assert configured.play(check) == [(True, 0)]
    assert configured.play(resume, check)[1][0] is False


class SlowKeyValues(KeyValues):
    """Key-values that are read at once and returned later."""

    def __init__(self, env: RunningEngine) -> None:
        super().__init__(env.store.database)
        self.reported = asyncio.Event()

    async def get(self, name: str) -> str | None:
        fact = await super().get(name)
        await self.reported.wait()
        return fact


def test_g2_a_running_read_does_not_undo_a_newer_change(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> bool:
        facts = SlowKeyValues(env)
        pause = PauseState(facts, paused=False)
        check = asyncio.create_task(pause.read())
        await asyncio.sleep(1)  # it has read that no pause is stored
        await pause.store(paused=True)
        facts.reported.set()
        assert await check is True
        return pause.paused

    assert engine.play(scenario) == [True]


def test_g2_s9_a_request_from_another_process_is_polled_while_paused(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> int:
        await env.store.sources.add_many(some(2))
        await env.service.pause(paused=True)
        async with running(env):
            await asyncio.sleep(5)
            await env.store.sources.request(["s1"], env.clock.now())
            await asyncio.sleep(5)
        return len(env.fetch.visits)

    assert engine.play(scenario) == [1]


def test_a_lane_reports_how_many_sources_are_polled_first(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[int | None]:
        sources = some(4)
        for number, source in enumerate(sources):  # the first is the longest overdue
            sources[number] = replace(source, last_polled=START - timedelta(hours=9 - number))
            env.fetch.on(source.url, Answer(304, unchanged=True), seconds=60)
        await env.store.sources.add_many(sources)
        await env.service.tick()
        ahead = env.service.lanes.ahead_of
        places = [ahead("a.org", source.id) for source in sources]
        asked = asyncio.create_task(env.service.poll_now("s3", wait_seconds=1))
        await asked
        return [*places, ahead("a.org", "s3"), ahead("a.org", "s1"), ahead("b.org", "s1")]

    assert engine.play(scenario) == [[None, 0, 1, 2, 0, 1, None]]
