"""What happens when people, polls, ticks and the network get in each other's way."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from headwater.engine.turns import VisitTurns
from headwater.errors import BadStatus, KeyMissing, NameNotFound, NameUnresolved, StoreError
from headwater.model import (
    Answer,
    Failure,
    FailureType,
    Outcome,
    Source,
    SourceType,
    Subject,
    Visit,
)
from headwater.operations.polling import PollReport, hand_over
from headwater.operations.sources import edit_source
from headwater.rules.policy import HostOverride, Policy
from tests.engine.conftest import Engine, World
from tests.engine.test_outage import NAMES, sources, url, were_good
from tests.engine.test_service import FEED, a_source, polled
from tests.fakes import START

OTHER = "https://example.org/other"


def test_o2_an_outage_longer_than_a_day_ends_when_the_network_is_back(engine: Engine) -> None:
    async def dark(world: World) -> bool:
        await world.store.sources.add_many(sources())
        for name in NAMES:
            world.fetch.on(url(name), NameUnresolved("no network"))
        await world.run(60)
        assert world.service.guard.lasts
        world.service.guard._watch.forget_old(world.clock.monotonic() + 25 * 3600)
        for name in NAMES:
            world.fetch.on(url(name), Answer(200))
        await world.run(300)
        return world.service.guard.lasts

    assert engine.play(were_good, dark)[1] is False


def test_o2_a_machine_that_boots_before_its_network_recovers_by_itself(engine: Engine) -> None:
    async def two_days_ago(world: World) -> None:
        ago = START - timedelta(days=2)
        await world.store.hosts.keep([Visit(n, ago, succeeded=True, resolved=True) for n in NAMES])
        await world.store.sources.add_many(sources())

    async def boot(world: World) -> tuple[bool, bool]:
        for name in NAMES:
            world.fetch.on(url(name), NameUnresolved("no network yet"))
        await world.run(60)
        was = world.service.guard.lasts
        for name in NAMES:
            world.fetch.on(url(name), Answer(200))
        await world.run(300)
        return was, world.service.guard.lasts

    assert engine.play(two_days_ago, boot)[1] == (True, False)


def test_o2_a_source_removed_meanwhile_keeps_nobody_from_getting_failures_back(
    engine: Engine,
) -> None:
    async def story(world: World) -> list[int]:
        await world.store.sources.add_many(sources(max_failures=9))
        for name in NAMES:
            world.fetch.on(url(name), BadStatus(404, "HTTP 404"))
            await world.service.poll_now(name)
        await world.store.sources.remove(NAMES[0])
        await world.service.guard.give_back("404")
        return [(await world.source(name)).consecutive_failures for name in NAMES[1:]]

    assert engine.play(story) == [[0] * 5]


def test_o2_a_missing_key_says_nothing_about_names(engine: Engine) -> None:
    async def story(world: World) -> bool:
        guard = world.service.guard
        keyless = Subject(a_source(type=SourceType.TWITTER, url="@a"), "default")
        for name in NAMES[:3]:
            subject = Subject(a_source(url=url(name)), "default")
            failure = Failure(FailureType.PERMANENT, "DNS", "gone")
            guard.judge(subject, failure, NameNotFound("gone", name=name))
            guard.judge(keyless, Failure(FailureType.TRANSIENT, "key", "x"), KeyMissing("x"))
        return guard.lasts

    assert engine.play(were_good, story)[1] is True


def test_o2_a_dead_target_of_a_redirect_is_no_loss_of_the_host_that_redirected(
    engine: Engine,
) -> None:
    async def story(world: World) -> bool:
        await world.store.sources.add_many(sources())
        for name in NAMES:
            gone = NameNotFound("moved.example does not exist", name="moved.example")
            world.fetch.on(url(name), gone)
        await world.run(60)
        return world.service.guard.lasts

    assert engine.play(were_good, story)[1] is False


def test_s9_a_request_that_was_answered_is_not_polled_again_from_a_stale_look(
    engine: Engine,
) -> None:
    async def story(world: World) -> int:
        await world.store.sources.add_many([a_source(last_polled=START, requested_at=START)])
        stale = await world.store.sources.requested(world.clock.now(), Policy())
        for _ in range(2):
            world.service.lanes.offer(stale)
            await world.service.lanes.wait_until_idle()
        return len(world.fetch.visits)

    assert engine.play(story) == [1]


def test_s4_a_source_enabled_and_disabled_again_while_it_waits_is_not_polled(
    engine: Engine,
) -> None:
    async def story(world: World) -> list[float]:
        await world.store.sources.add_many(
            [
                polled("busy", OTHER, poll_delay_seconds=60),
                a_source(last_polled=START, enabled=False),
            ]
        )
        running = asyncio.create_task(world.run(300))
        await asyncio.sleep(5)
        await edit_source(world.store, "s1", {"enabled": True}, world.clock.now())
        await asyncio.sleep(5)
        await edit_source(world.store, "s1", {"enabled": False}, world.clock.now())
        await running
        return world.fetch.times(FEED)

    assert engine.play(story) == [[]]


def test_p9_the_hold_of_a_poll_whose_result_is_discarded_survives_a_restart(
    engine: Engine,
) -> None:
    async def story(world: World) -> None:
        soon = START - timedelta(minutes=29)
        await world.store.sources.add_many([polled(), polled("s2", OTHER, last_polled=soon)])
        limited = BadStatus(429, "HTTP 429", host="example.org", hold_seconds=3600)
        world.fetch.on(FEED, limited, seconds=10)
        running = asyncio.create_task(world.run(30))
        await asyncio.sleep(5)
        await edit_source(world.store, "s1", {"enabled": False}, world.clock.now())
        await running

    async def after(world: World) -> list[float]:
        await world.run(600)
        return world.fetch.times(OTHER)

    assert engine.play(story, after)[1] == []


def test_p3_a_redirects_visit_that_a_stop_cut_off_is_remembered(engine: Engine) -> None:
    elsewhere = "https://b.org/1"
    slow = engine.with_policy(host_overrides={"b.org": HostOverride(120)})
    slow = slow.with_pace(shutdown_seconds=1)

    async def story(world: World) -> float:
        soon = START - timedelta(minutes=29, seconds=30)
        await world.store.sources.add_many([polled(), polled("b1", elsewhere, last_polled=soon)])

        async def redirected(_: Subject, turns: VisitTurns) -> Answer:
            async with turns.at("b.org"):
                await asyncio.sleep(500)
            return Answer(200)

        world.fetch.answers[FEED] = redirected
        await world.run(20)
        return world.clock.monotonic()

    async def after(world: World) -> list[float]:
        await world.run(200)
        return world.fetch.times(elsewhere)

    stopped, times = slow.play(story, after)
    assert times[0] - stopped >= 119


def test_h4_one_row_that_nobody_can_read_stops_nobody_else(engine: Engine) -> None:
    async def story(world: World) -> int:
        await world.store.sources.add_many([polled("odd", "https://odd.org/"), polled()])
        await world.store.database.write(
            lambda s: s.execute(
                "UPDATE sources SET type = 'mastodon', requested_at = 1 WHERE id = 'odd'"
            )
        )
        await world.run(120)
        return len(world.fetch.times(FEED))

    assert engine.play(story) == [1]


def test_k5_a_database_in_trouble_is_not_told_as_a_missing_source(engine: Engine) -> None:
    async def story(world: World) -> str:
        await world.store.sources.add_many([polled()])

        async def broken(_: Outcome) -> Outcome:
            raise StoreError("the disk is full")

        world.store.record = broken  # type: ignore[method-assign,assignment]
        try:
            await world.service.poll_now("s1")
        except StoreError as error:
            return str(error)
        return ""

    assert "still due" in engine.play(story)[0]


def test_p10_a_source_that_moves_while_its_poll_waits_stays_requested(engine: Engine) -> None:
    async def story(world: World) -> tuple[Outcome | None, bool]:
        await world.store.sources.add_many([polled()])
        async with world.service.gates.turn("example.org", 0.0, lambda _: None):
            waiting = asyncio.create_task(world.service.poll_now("s1"))
            await asyncio.sleep(1)
            await world.store.sources.edit(
                "s1", lambda s: replace(s, url="https://other.example/rss", host="other.example")
            )
        outcome = await waiting
        return outcome, (await world.source("s1")).requested_at is not None

    assert engine.play(story) == [(None, True)]


def test_p10_a_manual_poll_that_joins_one_under_way_leaves_no_request_behind(
    engine: Engine,
) -> None:
    async def story(world: World) -> tuple[int, Source]:
        await world.store.sources.add_many([polled()])
        world.fetch.on(FEED, Answer(200), seconds=5)
        running = asyncio.create_task(world.run(30))
        await asyncio.sleep(2)
        await world.service.poll_now("s1")
        await running
        return len(world.fetch.visits), await world.source("s1")

    [(visits, source)] = engine.play(story)
    assert visits == 1
    assert source.requested_at is None


def test_s10_a_request_handed_over_and_taken_back_ends_the_wait(engine: Engine) -> None:
    async def story(world: World) -> list[PollReport]:
        await world.store.sources.add_many([a_source(last_polled=START)])
        subject = await world.store.sources.subject("s1")
        assert subject is not None

        async def collected() -> list[PollReport]:
            return [report async for report in hand_over(world.store, world.clock, [subject])]

        waiting = asyncio.create_task(collected())
        await asyncio.sleep(0.3)
        await edit_source(world.store, "s1", {"enabled": False}, world.clock.now())
        await world.run(60)
        return await asyncio.wait_for(waiting, 60)

    [[report]] = engine.play(story)
    assert report.error == "the request was taken back"


def test_o4_history_dated_ahead_by_a_wrong_clock_does_not_keep_older_rows(engine: Engine) -> None:
    async def story(world: World) -> int:
        await world.store.sources.add_many([a_source(last_polled=START)])
        now = int(START.timestamp() * 1000)
        row = {"source_id": "s1", "duration_ms": 1, "outcome": "stored"}
        ahead = [row | {"started_at": now + 10 * 365 * 86_400_000}] * 1000
        old = [row | {"started_at": now - 100 * 86_400_000}] * 3000
        await world.store.database.write(lambda s: s.insert_rows("polls", [*ahead, *old]))
        await world.service.tick()
        counted = await world.store.database.read(lambda s: s.fetch("SELECT count(*) FROM polls"))
        return int(counted[0][0])

    assert engine.play(story) == [0]
