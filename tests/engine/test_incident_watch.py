"""Incidents of a running service: they open once, close once, and survive restarts (Y1)."""

from dataclasses import replace
from datetime import timedelta

from headwater.engine.events import Event, EventKind
from headwater.errors import BadStatus, TimedOut
from headwater.model import Answer
from headwater.rules.incidents import Incident
from headwater.rules.outcome import edited
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import FEED, polled
from tests.fakes import START

HOUR = 3600.0
Published = tuple[str, str]


def published_by(env: RunningEngine) -> list[Published]:
    """The events of incidents, as they are emitted."""
    found: list[Published] = []

    def listen(event: Event) -> None:
        assert event.incident is not None
        found.append((event.kind.value, event.incident.kind.value))

    env.service.events.listen(listen, (EventKind.INCIDENT_OPENED, EventKind.INCIDENT_CLOSED))
    return found


async def all_incidents(env: RunningEngine) -> list[Incident]:
    return list(await env.store.incidents.page(None, limit=100))


def test_y1_a_failing_source_is_one_incident_until_its_recovery(engine: Engine) -> None:
    async def fails(env: RunningEngine) -> tuple[list[Published], list[Published]]:
        published = published_by(env)
        await env.store.sources.add_many([polled(poll_interval_minutes=10)])
        env.fetch.on(FEED, TimedOut("no answer"))
        await env.run(1.9 * HOUR)
        early = list(published)
        await env.run(0.2 * HOUR)
        return early, published

    async def restarted(env: RunningEngine) -> list[Published]:
        published = published_by(env)
        env.fetch.on(FEED, TimedOut("no answer"))
        await env.run(0.1 * HOUR)
        return published

    async def recovers(env: RunningEngine) -> tuple[list[Published], list[Incident]]:
        published = published_by(env)
        env.fetch.on(FEED, Answer(200))
        await env.store.sources.request(["s1"], env.clock.now())
        await env.run(120)
        return published, await all_incidents(env)

    played = engine.with_policy(failing_hours=2).play(fails, restarted, recovers, killed=True)
    [(early, late), again, (ended, found)] = played
    assert (early, late, again) == ([], [("incident.opened", "failing")], [])
    assert ended == [("incident.closed", "failing")]
    assert len(found) == 1
    assert found[0].opened_at - START >= timedelta(hours=2)
    assert found[0].closed_at is not None


def test_y1_a_source_that_fails_now_and_then_opens_no_incident(engine: Engine) -> None:
    async def flaps(env: RunningEngine) -> list[Incident]:
        await env.store.sources.add_many([polled(poll_interval_minutes=5)])
        for _ in range(4):
            env.fetch.on(FEED, TimedOut("no answer"))
            await env.run(0.7 * HOUR)
            env.fetch.on(FEED, Answer(200))
            await env.store.sources.request(["s1"], env.clock.now())
            await env.run(60)
        return await all_incidents(env)

    assert engine.with_policy(failing_hours=1).play(flaps) == [[]]


def test_y1_a_disabled_source_is_reported_within_seconds_and_closed_when_enabled(
    engine: Engine,
) -> None:
    async def disabled(env: RunningEngine) -> tuple[list[Published], list[Published]]:
        published = published_by(env)
        await env.store.sources.add_many([polled(max_failures=1)])
        env.fetch.on(FEED, BadStatus(404, "HTTP 404 Not Found"))
        await env.run(5)
        at_once = list(published)
        env.fetch.on(FEED, Answer(200))
        await env.store.sources.edit(
            "s1", lambda one: edited(one, replace(one, enabled=True), START)
        )
        await env.run(70)
        return at_once, published

    [(at_once, afterwards)] = engine.play(disabled)
    assert at_once == [("incident.opened", "disabled")]
    assert afterwards == [("incident.opened", "disabled"), ("incident.closed", "disabled")]
