"""Concurrent user actions, polls, ticks and network failures."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from headwater.engine.hosts.access import HostVisit
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
from headwater.operations.manual_polls import PollReport, hand_over
from headwater.operations.sources import edit_source
from headwater.rules.policy import HostOverride, Policy
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_outage_guard import NAMES, sources, url, were_good
from tests.engine.test_service import FEED, feed_source, polled
from tests.fakes import START, JumpingLoop, visiting

OTHER = "https://example.org/other"


def test_o2_an_outage_longer_than_a_day_ends_when_the_network_is_back(engine: Engine) -> None:
    async def dark(env: RunningEngine) -> bool:
        await env.store.sources.add_many(sources())
        for name in NAMES:
            env.fetch.on(url(name), NameUnresolved("no network"))
        await env.run(60)
        assert env.service.guard.lasts
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        loop.jump(25 * 3600)
        env.service.guard.drop_old_evidence()  # the remembered host results are still needed
        for name in NAMES:
            env.fetch.on(url(name), Answer(200))
        await env.run(300)
        return env.service.guard.lasts

    assert engine.play(were_good, dark)[1] is False


def test_o2_a_machine_that_boots_before_its_network_recovers_by_itself(engine: Engine) -> None:
    async def two_days_ago(env: RunningEngine) -> None:
        ago = START - timedelta(days=2)
        await env.store.hosts.keep([Visit(n, ago, succeeded=True, resolved=True) for n in NAMES])
        await env.store.sources.add_many(sources())

    async def boot(env: RunningEngine) -> tuple[bool, bool]:
        for name in NAMES:
            env.fetch.on(url(name), NameUnresolved("no network yet"))
        await env.run(60)
        was = env.service.guard.lasts
        for name in NAMES:
            env.fetch.on(url(name), Answer(200))
        await env.run(300)
        return was, env.service.guard.lasts

    assert engine.play(two_days_ago, boot)[1] == (True, False)


def test_o2_a_deleted_source_does_not_stop_failures_from_being_reverted(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> list[int]:
        await env.store.sources.add_many(sources(max_failures=9))
        for name in NAMES:
            env.fetch.on(url(name), BadStatus(404, "HTTP 404"))
            await env.service.poll_now(name)
        await env.store.sources.remove(NAMES[0])
        await env.service.guard.undo_failures("404")
        return [(await env.source(name)).consecutive_failures for name in NAMES[1:]]

    assert engine.play(scenario) == [[0] * 5]


def test_o2_a_missing_key_is_no_evidence_about_names(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> bool:
        guard = env.service.guard
        keyless = Subject(feed_source(type=SourceType.TWITTER, url="@a"), "default")
        for name in NAMES[:3]:
            subject = Subject(feed_source(url=url(name)), "default")
            failure = Failure(FailureType.PERMANENT, "DNS", "gone")
            guard.judge(subject, failure, NameNotFound("gone", name=name))
            guard.judge(keyless, Failure(FailureType.TRANSIENT, "key", "x"), KeyMissing("x"))
        return guard.lasts

    assert engine.play(were_good, scenario)[1] is True


def test_o2_a_dead_redirect_target_does_not_count_against_the_redirecting_host(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> bool:
        await env.store.sources.add_many(sources())
        for name in NAMES:
            gone = NameNotFound("moved.example does not exist", name="moved.example")
            env.fetch.on(url(name), gone)
        await env.run(60)
        return env.service.guard.lasts

    assert engine.play(were_good, scenario)[1] is False


def test_s9_a_completed_request_is_not_polled_again_from_a_stale_query(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> int:
        await env.store.sources.add_many([feed_source(last_polled=START, requested_at=START)])
        stale = await env.store.sources.requested(env.clock.now(), Policy())
        for _ in range(2):
            env.service.lanes.offer(stale)
            await env.service.lanes.emptied(env.service.lanes.names())
        return len(env.fetch.visits)

    assert engine.play(scenario) == [1]


def test_s4_a_source_enabled_and_disabled_again_while_queued_is_not_polled(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> list[float]:
        await env.store.sources.add_many(
            [
                polled("busy", OTHER, poll_delay_seconds=60),
                feed_source(last_polled=START, enabled=False),
            ]
        )
        running = asyncio.create_task(env.run(300))
        await asyncio.sleep(5)
        await edit_source(env.store, "s1", {"enabled": True}, env.clock.now(), allowed=True)
        await asyncio.sleep(5)
        await edit_source(env.store, "s1", {"enabled": False}, env.clock.now(), allowed=True)
        await running
        return env.fetch.times(FEED)

    assert engine.play(scenario) == [[]]


def test_p9_the_hold_of_a_poll_whose_result_is_discarded_survives_a_restart(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> None:
        soon = START - timedelta(minutes=29)
        await env.store.sources.add_many([polled(), polled("s2", OTHER, last_polled=soon)])
        limited = BadStatus(429, "HTTP 429", host="example.org", hold_seconds=3600)
        env.fetch.on(FEED, limited, seconds=10)
        running = asyncio.create_task(env.run(30))
        await asyncio.sleep(5)
        await edit_source(env.store, "s1", {"enabled": False}, env.clock.now(), allowed=True)
        await running

    async def after(env: RunningEngine) -> list[float]:
        await env.run(600)
        return env.fetch.times(OTHER)

    assert engine.play(scenario, after)[1] == []


def test_p3_a_redirect_visit_cut_off_by_a_stop_is_stored(engine: Engine) -> None:
    elsewhere = "https://b.org/1"
    slow = engine.with_policy(host_overrides={"b.org": HostOverride(120)})
    slow = slow.with_pace(shutdown_seconds=1)

    async def scenario(env: RunningEngine) -> float:
        soon = START - timedelta(minutes=29, seconds=30)
        await env.store.sources.add_many([polled(), polled("b1", elsewhere, last_polled=soon)])

        async def redirected(_: Subject, visit: HostVisit) -> Answer:
            async with visit.redirect_to("b.org"):
                await asyncio.sleep(500)
            return Answer(200)

        env.fetch.answers[FEED] = redirected
        await env.run(20)
        return env.clock.monotonic()

    async def after(env: RunningEngine) -> list[float]:
        await env.run(200)
        return env.fetch.times(elsewhere)

    stopped, times = slow.play(scenario, after)
    assert times[0] - stopped >= 119


def test_h4_one_unreadable_row_affects_no_other_source(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> int:
        await env.store.sources.add_many([polled("odd", "https://odd.org/"), polled()])
        await env.store.database.write(
            lambda s: s.execute(
                "UPDATE sources SET type = 'mastodon', requested_at = 1 WHERE id = 'odd'"
            )
        )
        await env.run(120)
        return len(env.fetch.times(FEED))

    assert engine.play(scenario) == [1]


def test_k5_a_database_error_is_not_reported_as_a_missing_source(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> str:
        await env.store.sources.add_many([polled()])

        async def broken(_: Outcome) -> Outcome:
            raise StoreError("the disk is full")

        env.store.record = broken  # type: ignore[method-assign,assignment]
        try:
            await env.service.poll_now("s1")
        except StoreError as error:
            return str(error)
        return ""

    assert "still due" in engine.play(scenario)[0]


def test_p10_a_source_that_moves_while_its_poll_is_queued_stays_requested(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> tuple[Outcome | None, bool]:
        await env.store.sources.add_many([polled()])
        async with visiting(env.service.gates, "example.org"):
            waiting = asyncio.create_task(env.service.poll_now("s1"))
            await asyncio.sleep(1)
            await env.store.sources.edit(
                "s1", lambda s: replace(s, url="https://other.example/rss", host="other.example")
            )
        outcome = await waiting
        return outcome, (await env.source("s1")).requested_at is not None

    assert engine.play(scenario) == [(None, True)]


def test_p10_a_manual_poll_that_joins_a_running_one_leaves_no_request_behind(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> tuple[int, Source]:
        await env.store.sources.add_many([polled()])
        env.fetch.on(FEED, Answer(200), seconds=5)
        running = asyncio.create_task(env.run(30))
        await asyncio.sleep(2)
        await env.service.poll_now("s1")
        await running
        return len(env.fetch.visits), await env.source("s1")

    [(visits, source)] = engine.play(scenario)
    assert visits == 1
    assert source.requested_at is None


def test_s10_a_request_handed_over_and_taken_back_ends_the_wait(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[PollReport]:
        await env.store.sources.add_many([feed_source(last_polled=START)])
        subject = await env.store.sources.subject("s1")
        assert subject is not None

        async def collected() -> list[PollReport]:
            return [report async for report in hand_over(env.store, env.clock, [subject])]

        waiting = asyncio.create_task(collected())
        await asyncio.sleep(0.3)
        await edit_source(env.store, "s1", {"enabled": False}, env.clock.now(), allowed=True)
        await env.run(60)
        return await asyncio.wait_for(waiting, 60)

    [[report]] = engine.play(scenario)
    assert report.error == "the request was cancelled"


def test_o4_history_dated_ahead_by_a_wrong_clock_does_not_protect_older_rows(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> int:
        await env.store.sources.add_many([feed_source(last_polled=START)])
        now = int(START.timestamp() * 1000)
        row = {"source_id": "s1", "duration_ms": 1, "outcome": "stored"}
        ahead = [row | {"started_at": now + 10 * 365 * 86_400_000}] * 1000
        old = [row | {"started_at": now - 100 * 86_400_000}] * 3000
        await env.store.database.write(lambda s: s.insert_rows("polls", [*ahead, *old]))
        await env.service.tick()
        counted = await env.store.database.read(lambda s: s.fetch("SELECT count(*) FROM polls"))
        return int(counted[0][0])

    assert engine.play(scenario) == [0]
