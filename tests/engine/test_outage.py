"""Trouble on our side is not held against the sources (O1-O3)."""

import asyncio
from datetime import timedelta

from headwater.engine.events import Event, EventKind
from headwater.errors import BadStatus, NameNotFound
from headwater.model import Answer, Source, Visit
from tests.engine.conftest import Engine, World
from tests.engine.test_service import polled
from tests.fakes import START

NAMES = [f"host{n}.example" for n in range(6)]


def url(name: str) -> str:
    return f"https://{name}/feed"


def sources(**settings: object) -> list[Source]:
    return [polled(name, url(name), **settings) for name in NAMES]


async def were_good(world: World) -> None:
    """Hosts that resolved and succeeded an hour ago, before this process started."""
    ago = START - timedelta(hours=1)
    await world.store.hosts.keep([Visit(n, ago, succeeded=True, resolved=True) for n in NAMES])


def test_o2_names_that_all_stop_existing_are_an_outage_and_nobody_is_disabled(
    engine: Engine,
) -> None:
    async def dark(world: World) -> tuple[list[Source], list[str | None], int]:
        told: list[str | None] = []

        def listen(event: Event) -> None:
            if event.kind is EventKind.OUTAGE:
                told.append(event.text)

        world.service.events.listen(listen)
        await world.store.sources.add_many(sources(poll_interval_minutes=1, max_failures=1))
        for name in NAMES:
            world.fetch.on(url(name), NameNotFound(f"{name} does not exist"))
        await world.run(3600)
        probes = len(world.fetch.visits)
        for name in NAMES:
            world.fetch.on(url(name), Answer(200))
        await world.run(600)
        return [await world.source(n) for n in NAMES], told, probes

    [_, (after, told, probes)] = engine.play(were_good, dark)
    assert told == ["DNS", None]
    assert all(source.enabled and source.consecutive_failures == 0 for source in after)
    assert all(source.last_success_at is not None for source in after)
    # one probe per 30 s, and the few polls before the outage was noticed
    assert 100 <= probes <= 130


def test_o2_an_outage_gives_back_all_that_failed_since_a_name_last_resolved(
    engine: Engine,
) -> None:
    """Backing off, sources notice it later than ten minutes after their first failures."""

    async def dark(world: World) -> list[int]:
        await world.store.sources.add_many(sources(poll_interval_minutes=1, max_failures=9))
        await world.run(5)
        for name in NAMES:
            world.fetch.on(url(name), NameNotFound(f"{name} does not exist"))
        await world.run(500)
        failures = [(await world.source(name)).consecutive_failures for name in NAMES]
        assert min(failures) > 1
        noticed = [world.service.guard.lasts]
        await world.run(600)
        noticed.append(world.service.guard.lasts)
        assert noticed == [False, True]
        return [(await world.source(name)).consecutive_failures for name in NAMES]

    assert engine.play(were_good, dark)[1] == [0] * len(NAMES)


def test_o3_failures_from_long_before_an_outage_are_not_given_back(engine: Engine) -> None:
    async def portal(world: World) -> int:
        gone = polled("gone", url("gone.example"), poll_interval_minutes=600, max_failures=9)
        await world.store.sources.add_many([gone, *sources(last_polled=START)])
        for name in ("gone.example", *NAMES):
            world.fetch.on(url(name), BadStatus(404, "HTTP 404"))
        await world.run(3600)
        assert world.service.guard.lasts
        return (await world.source("gone")).consecutive_failures

    assert engine.play(were_good, portal)[1] == 1


def test_o2_a_lone_mistyped_name_stays_permanent(engine: Engine) -> None:
    async def story(world: World) -> Source:
        await world.store.sources.add_many([polled("typo", url("typo.invalid"))])
        world.fetch.on(url("typo.invalid"), NameNotFound("typo.invalid does not exist"))
        for _ in range(5):
            await world.service.poll_now("typo")
        return await world.source("typo")

    [source] = engine.play(story)
    assert source.disabled_reason == "Auto-disabled after 5 consecutive DNS errors"


def test_o2_names_that_never_resolved_are_no_evidence(engine: Engine) -> None:
    async def story(world: World) -> list[Source]:
        await world.store.sources.add_many(sources(max_failures=1))
        for name in NAMES:
            world.fetch.on(url(name), NameNotFound(f"{name} does not exist"))
        await world.run(60)
        return [await world.source(n) for n in NAMES]

    [after] = engine.play(story)
    assert not any(source.enabled for source in after)


def test_o3_good_hosts_that_all_turn_to_one_permanent_kind_are_an_outage(engine: Engine) -> None:
    async def portal(world: World) -> list[Source]:
        await world.store.sources.add_many(sources(poll_interval_minutes=1, max_failures=1))
        for name in NAMES:
            world.fetch.on(url(name), BadStatus(403, "HTTP 403 from a portal"))
        await world.run(1800)
        for name in NAMES:
            world.fetch.on(url(name), Answer(200))
        await world.run(300)
        return [await world.source(n) for n in NAMES]

    [_, after] = engine.play(were_good, portal)
    assert all(source.enabled and source.consecutive_failures == 0 for source in after)


def test_o3_one_success_meanwhile_means_that_it_is_the_hosts(engine: Engine) -> None:
    async def story(world: World) -> list[Source]:
        await world.store.sources.add_many(sources(max_failures=1))
        for name in NAMES[:5]:
            world.fetch.on(url(name), BadStatus(404, "HTTP 404"))
        for name in NAMES:
            await world.service.poll_now(name)
            await world.service.poll_now(NAMES[5])
            await asyncio.sleep(1)
        return [await world.source(n) for n in NAMES]

    [_, after] = engine.play(were_good, story)
    assert [source.enabled for source in after] == [False] * 5 + [True]
