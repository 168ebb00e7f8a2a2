"""A host that fails for many sources at once disables none of them (Y6)."""

from collections.abc import Sequence
from typing import Any

from headwater.engine.pause_state import PauseState
from headwater.errors import BadStatus
from headwater.model import Answer, Source
from headwater.rules.incidents import Incident
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import polled
from tests.fakes import START

GONE = BadStatus(404, "HTTP 404 Not Found")


def sources_of(host: str, number: int, *, url: str | None = None, **settings: Any) -> list[Source]:
    """Sources that have succeeded before and are due only on request."""
    state = {"first_poll_done": True, "last_success_at": START, "last_polled": START}
    return [
        polled(f"{host}-{n:02d}", url or f"https://{host}/{n}", **{**state, **settings})
        for n in range(number)
    ]


async def rounds(env: RunningEngine, sources: Sequence[Source], number: int) -> list[Source]:
    """Poll all of them several times, and return them as stored."""
    for _ in range(number):
        await env.store.sources.request([source.id for source in sources], env.clock.now())
        await env.run(90)
    return [await env.source(source.id) for source in sources]


async def storms_of(env: RunningEngine) -> list[Incident]:
    found = await env.store.incidents.page(None, limit=100)
    return [incident for incident in found if incident.kind == "storm"]


def test_y6_a_storm_of_404_over_8_rounds_disables_none_of_50_sources(engine: Engine) -> None:
    async def storm(env: RunningEngine) -> tuple[list[Source], list[Incident], int]:
        sources = sources_of("host.example", 50)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        after = await rounds(env, sources, 8)
        return after, await storms_of(env), len(env.fetch.visits)

    async def restarted(env: RunningEngine) -> tuple[list[Source], list[Incident]]:
        sources = sources_of("host.example", 50)
        for source in sources:
            env.fetch.on(source.url, GONE)
        await rounds(env, sources, 2)
        lasting = await storms_of(env)
        env.fetch.on(sources[7].url, Answer(200))
        await rounds(env, sources[7:8], 1)
        return [await env.source(source.id) for source in sources], [
            *lasting,
            *await storms_of(env),
        ]

    [(after, opened, visits), (later, closed)] = engine.play(storm, restarted, killed=True)
    assert all(source.enabled and source.permanent_failures == 0 for source in after)
    assert {source.consecutive_failures for source in after} == {8}
    assert visits == 400
    assert [(one.closed_at, len(one.source_ids)) for one in opened] == [(None, 50)]
    assert "host.example fails for 50 sources" in opened[0].title
    assert all(source.enabled for source in later)
    assert [one.id for one in closed] == [opened[0].id] * 2  # the first success ended it
    assert [one.closed_at is None for one in closed] == [True, False]


def test_y6_a_single_dead_feed_is_disabled_as_before(engine: Engine) -> None:
    async def dies(env: RunningEngine) -> tuple[list[Source], list[Incident]]:
        sources = sources_of("host.example", 6)
        await env.store.sources.add_many(sources)
        env.fetch.on(sources[0].url, GONE)
        for source in sources[1:]:
            env.fetch.on(source.url, Answer(200))
        return await rounds(env, sources, 5), await storms_of(env)

    [(after, storms)] = engine.play(dies)
    assert [source.enabled for source in after] == [False, *[True] * 5]
    assert after[0].disabled_reason == "Auto-disabled after 5 consecutive 404 errors"
    assert storms == []


def test_y6_feeds_that_died_at_once_are_a_storm_once_and_then_disabled(engine: Engine) -> None:
    """One feed works: each of its successes would end a storm, and the next round begin one."""

    async def four_die(env: RunningEngine) -> tuple[list[Source], list[Incident]]:
        *dead, healthy = sources_of("host.example", 5)
        await env.store.sources.add_many([*dead, healthy])
        for source in dead:
            env.fetch.on(source.url, GONE)
        env.fetch.on(healthy.url, Answer(200))
        for _ in range(6):  # the first round is the fault of the host
            await rounds(env, dead, 1)
            await rounds(env, [healthy], 1)
        after = [await env.source(source.id) for source in [*dead, healthy]]
        return after, await storms_of(env)

    [(after, storms)] = engine.play(four_die)
    assert [source.enabled for source in after] == [*[False] * 4, True]
    assert len(storms) == 1
    assert storms[0].closed_at is not None


def test_y6_when_a_storm_ends_its_sources_are_polled_once_without_their_backoff(
    engine: Engine,
) -> None:
    async def storm(env: RunningEngine) -> tuple[list[Source], list[int]]:
        sources = sources_of("host.example", 6)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        await rounds(env, sources, 8)
        for source in sources[:4]:  # two are gone for good
            env.fetch.on(source.url, Answer(200))
        visits = [len(env.fetch.visits)]
        await rounds(env, sources[:1], 1)
        for _ in range(3):
            await env.run(90)
            visits.append(len(env.fetch.visits))
        return [await env.source(source.id) for source in sources], visits

    [(after, visits)] = engine.play(storm)
    assert [one.consecutive_failures for one in after] == [0, 0, 0, 0, 9, 9]
    assert [one.permanent_failures for one in after] == [0, 0, 0, 0, 1, 1]
    assert [one - visits[0] for one in visits] == [0, 6, 6, 6]


def test_y6_while_paused_the_end_of_a_storm_requests_nothing(engine: Engine) -> None:
    async def storm(env: RunningEngine) -> list[int]:
        sources = sources_of("host.example", 6)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        await rounds(env, sources, 1)
        await PauseState(env.store.key_values, paused=False).store(paused=True)
        for source in sources:
            env.fetch.on(source.url, Answer(200))
        visits = [len(env.fetch.visits)]
        await rounds(env, sources[:1], 2)
        visits.append(len(env.fetch.visits))
        return visits

    [[before, paused]] = engine.play(storm)
    assert paused - before == 2


def test_y6_sources_that_recovered_can_be_in_another_storm(engine: Engine) -> None:
    async def twice(env: RunningEngine) -> tuple[list[Source], list[Incident]]:
        sources = sources_of("host.example", 4)
        await env.store.sources.add_many(sources)
        for answer in (GONE, Answer(200), GONE):
            for source in sources:
                env.fetch.on(source.url, answer)
            await rounds(env, sources, 1 if answer is not GONE else 6)
        return [await env.source(one.id) for one in sources], await storms_of(env)

    [(after, storms)] = engine.play(twice)
    assert [(source.enabled, source.permanent_failures) for source in after] == [(True, 0)] * 4
    assert sorted(one.closed_at is None for one in storms) == [False, True]


def test_y6_a_source_that_was_not_polled_in_a_storm_can_be_in_the_next(engine: Engine) -> None:
    async def twice(env: RunningEngine) -> list[Source]:
        sources = sources_of("host.example", 7, poll_interval_minutes=1440)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        await env.clock.sleep(3600)
        await rounds(env, sources[:3], 1)
        env.fetch.on(sources[0].url, Answer(200))
        await rounds(env, sources[:1], 1)  # ends it; two sources are gone for good
        await env.clock.sleep(3600)
        return await rounds(env, sources[3:], 6)

    [after] = engine.play(twice)
    assert [(source.enabled, source.permanent_failures) for source in after] == [(True, 0)] * 4


def test_y6_three_of_six_failing_sources_are_no_storm(engine: Engine) -> None:
    async def half(env: RunningEngine) -> list[Source]:
        sources = sources_of("host.example", 6)
        await env.store.sources.add_many(sources)
        for number, source in enumerate(sources):
            env.fetch.on(source.url, GONE if number % 2 else Answer(200))
        return await rounds(env, sources, 5)

    [after] = engine.play(half)
    assert [source.enabled for source in after] == [True, False] * 3


def test_y6_failures_that_led_to_a_storm_are_taken_back_even_if_they_disabled(
    engine: Engine,
) -> None:
    async def impatient(env: RunningEngine) -> list[Source]:
        sources = sources_of("host.example", 4, max_failures=1)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        return await rounds(env, sources, 1)

    [after] = engine.play(impatient)
    assert [(source.enabled, source.permanent_failures) for source in after] == [(True, 0)] * 4


def test_y6_all_failures_within_the_hour_that_led_to_a_storm_are_taken_back(
    engine: Engine,
) -> None:
    async def slowly(env: RunningEngine) -> list[list[tuple[bool, int, int]]]:
        sources = sources_of("host.example", 3)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        found = []
        for polled_sources, number in ((sources[:1], 4), (sources[1:2], 5), (sources, 1)):
            await rounds(env, polled_sources, number)
            after = [await env.source(source.id) for source in sources]
            found.append(
                [(one.enabled, one.permanent_failures, one.consecutive_failures) for one in after]
            )
        return found

    [(first, second, storm)] = engine.play(slowly)
    assert first[0] == (True, 4, 4)
    assert second[1] == (False, 5, 5)
    assert [one[:2] for one in storm] == [(True, 0)] * 3


def test_y6_failures_before_the_hour_stay_counted(engine: Engine) -> None:
    async def slowly(env: RunningEngine) -> list[int]:
        sources = sources_of("host.example", 3)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        await rounds(env, sources[:1], 2)
        await env.clock.sleep(3600)
        await rounds(env, sources[:1], 1)
        return [one.permanent_failures for one in await rounds(env, sources, 1)]

    assert engine.play(slowly) == [[2, 0, 0]]


def test_y6_sources_that_never_succeeded_are_disabled_as_before(engine: Engine) -> None:
    async def mistyped(env: RunningEngine) -> list[Source]:
        sources = sources_of("host.example", 5, first_poll_done=False, last_success_at=None)
        await env.store.sources.add_many(sources)
        for source in sources:
            env.fetch.on(source.url, GONE)
        return await rounds(env, sources, 5)

    [after] = engine.play(mistyped)
    assert not any(source.enabled for source in after)


def test_y6_one_dead_address_is_no_storm_however_many_sources_have_it(engine: Engine) -> None:
    async def popular(env: RunningEngine) -> list[Source]:
        sources = sources_of("host.example", 5, url="https://host.example/feed")
        await env.store.sources.add_many(sources)
        env.fetch.on("https://host.example/feed", GONE)
        return await rounds(env, sources, 5)

    [after] = engine.play(popular)
    assert not any(source.enabled for source in after)
