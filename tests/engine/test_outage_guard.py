"""Local failures do not count against the sources (O1-O3)."""

import asyncio
from datetime import timedelta

from headwater.engine.events import Event, EventKind
from headwater.errors import BadStatus, NameNotFound
from headwater.model import Answer, Source, Visit
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import polled
from tests.fakes import START

NAMES = [f"host{n}.example" for n in range(6)]


def url(name: str) -> str:
    return f"https://{name}/feed"


def sources(**settings: object) -> list[Source]:
    return [polled(name, url(name), **settings) for name in NAMES]


async def were_good(env: RunningEngine) -> None:
    """Hosts that resolved and succeeded an hour ago, before this process started."""
    ago = START - timedelta(hours=1)
    await env.store.hosts.keep([Visit(n, ago, succeeded=True, resolved=True) for n in NAMES])


def test_o2_when_all_names_stop_resolving_no_source_is_disabled(
    engine: Engine,
) -> None:
    async def dark(env: RunningEngine) -> tuple[list[Source], list[str | None], int]:
        reported: list[str | None] = []

        def listen(event: Event) -> None:
            if event.kind is EventKind.OUTAGE:
                reported.append(event.text)

        env.service.events.listen(listen)
        await env.store.sources.add_many(sources(poll_interval_minutes=1, max_failures=1))
        for name in NAMES:
            env.fetch.on(url(name), NameNotFound(f"{name} does not exist"))
        await env.run(3600)
        probes = len(env.fetch.visits)
        for name in NAMES:
            env.fetch.on(url(name), Answer(200))
        await env.run(600)
        return [await env.source(n) for n in NAMES], reported, probes

    [_, (after, reported, probes)] = engine.play(were_good, dark)
    assert reported == ["DNS", None]
    assert all(source.enabled and source.consecutive_failures == 0 for source in after)
    assert all(source.last_success_at is not None for source in after)
    # one probe per 30 s, and the few polls before the outage was detected
    assert 100 <= probes <= 130


def test_o2_an_outage_reverts_all_failures_since_a_name_last_resolved(
    engine: Engine,
) -> None:
    """With backoff, sources are polled later than ten minutes after their first failures."""

    async def dark(env: RunningEngine) -> list[int]:
        await env.store.sources.add_many(sources(poll_interval_minutes=1, max_failures=9))
        await env.run(5)
        for name in NAMES:
            env.fetch.on(url(name), NameNotFound(f"{name} does not exist"))
        await env.run(500)
        failures = [(await env.source(name)).consecutive_failures for name in NAMES]
        assert min(failures) > 1
        noticed = [env.service.guard.lasts]
        await env.run(600)
        noticed.append(env.service.guard.lasts)
        assert noticed == [False, True]
        return [(await env.source(name)).consecutive_failures for name in NAMES]

    assert engine.play(were_good, dark)[1] == [0] * len(NAMES)


def test_o3_failures_from_long_before_an_outage_are_not_reverted(engine: Engine) -> None:
    async def portal(env: RunningEngine) -> int:
        gone = polled("gone", url("gone.example"), poll_interval_minutes=600, max_failures=9)
        await env.store.sources.add_many([gone, *sources(last_polled=START)])
        for name in ("gone.example", *NAMES):
            env.fetch.on(url(name), BadStatus(404, "HTTP 404"))
        await env.run(3600)
        assert env.service.guard.lasts
        return (await env.source("gone")).consecutive_failures

    assert engine.play(were_good, portal)[1] == 1


def test_o2_a_single_mistyped_name_stays_permanent(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> Source:
        await env.store.sources.add_many([polled("typo", url("typo.invalid"))])
        env.fetch.on(url("typo.invalid"), NameNotFound("typo.invalid does not exist"))
        for _ in range(5):
            await env.service.poll_now("typo")
        return await env.source("typo")

    [source] = engine.play(scenario)
    assert source.disabled_reason == "Auto-disabled after 5 consecutive DNS errors"


def test_o2_names_that_never_resolved_are_no_evidence(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[Source]:
        await env.store.sources.add_many(sources(max_failures=1))
        for name in NAMES:
            env.fetch.on(url(name), NameNotFound(f"{name} does not exist"))
        await env.run(60)
        return [await env.source(n) for n in NAMES]

    [after] = engine.play(scenario)
    assert not any(source.enabled for source in after)


def test_o3_good_hosts_that_all_fail_with_one_permanent_kind_are_an_outage(engine: Engine) -> None:
    async def portal(env: RunningEngine) -> list[Source]:
        await env.store.sources.add_many(sources(poll_interval_minutes=1, max_failures=1))
        for name in NAMES:
            env.fetch.on(url(name), BadStatus(403, "HTTP 403 from a portal"))
        await env.run(1800)
        for name in NAMES:
            env.fetch.on(url(name), Answer(200))
        await env.run(300)
        return [await env.source(n) for n in NAMES]

    [_, after] = engine.play(were_good, portal)
    assert all(source.enabled and source.consecutive_failures == 0 for source in after)


def test_o3_one_success_in_between_means_no_outage(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[Source]:
        await env.store.sources.add_many(sources(max_failures=1))
        for name in NAMES[:5]:
            env.fetch.on(url(name), BadStatus(404, "HTTP 404"))
        for name in NAMES:
            await env.service.poll_now(name)
            await env.service.poll_now(NAMES[5])
            await asyncio.sleep(1)
        return [await env.source(n) for n in NAMES]

    [_, after] = engine.play(were_good, scenario)
    assert [source.enabled for source in after] == [False] * 5 + [True]
