"""A source on probation is polled again, and enabled by a success (Y9)."""

from datetime import UTC, datetime

from headwater.demo.demo_web import Reply, Request
from headwater.operations.incidents import checked_incidents
from tests.self_healing.conftest import DAY, HOUR, RunningService, feed, rss, running
from tests.system.conftest import web_of

NOW = datetime.now(UTC)


async def given_up(env: RunningService, url: str) -> str:
    """A source that failures have disabled; return its id."""
    id_ = await env.add(url, max_failures=1)
    await env.poll(id_)
    assert not (await env.source(id_)).enabled
    return id_


async def attempts(env: RunningService, id_: str, days: int) -> list[int]:
    """The days on which a source was polled, with a tick every 8 hours."""
    found, polled = [], (await env.source(id_)).last_polled
    for number in range(3 * days):
        await env.tick(after=DAY / 3)
        now = (await env.source(id_)).last_polled
        if now != polled:
            polled = now
            found.append((number + 1) // 3)
    return found


async def test_y9_a_disabled_source_is_polled_on_five_days_and_then_no_more(url: str):
    async with web_of(host=lambda _: Reply(404)) as web, running(url, probation=True) as env:
        id_ = await given_up(env, web.url("host", "/feed"))
        assert await attempts(env, id_, 40) == [1, 3, 7, 14, 28]
        assert not (await env.source(id_)).enabled


async def test_y9_probation_is_off_by_default_and_never_for_users_choices(url: str):
    async with web_of(host=lambda _: Reply(404)) as web:
        async with running(url) as env:
            id_ = await given_up(env, web.url("host", "/feed"))
            assert await attempts(env, id_, 5) == []
        async with running(url, probation=True) as env:
            other = await env.add(web.url("host", "/other"), enabled=False)
            assert await attempts(env, other, 5) == []


async def test_y9_a_success_enables_the_source_and_closes_its_incident(url: str):
    replies = [Reply(404)]

    def site(_: Request) -> Reply:
        return replies[0]

    async with web_of(host=site) as web, running(url, probation=True) as env:
        id_ = await given_up(env, web.url("host", "/feed"))
        store, policy = env.app.store, env.app.policy
        (incident,) = await checked_incidents(store, policy, env.clock.now(), None)
        assert (incident.kind, incident.source_ids) == ("disabled", (id_,))
        replies[0] = rss(feed("a", at=NOW))
        await env.poll(id_)
        assert not (await env.source(id_)).enabled  # a manual poll enables nothing (S4)
        await env.tick(after=DAY + HOUR)
        source = await env.source(id_)
        assert source.enabled
        assert (source.disabled_reason, source.disabled_at) == (None, None)
        assert await checked_incidents(store, policy, env.clock.now(), None) == []
