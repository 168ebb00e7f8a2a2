"""Ticks aggregate where that is automatic, and announce what expires (E2, E5)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headwater.engine.events import Event, EventKind
from headwater.model import Answer, Podcast, SealedSecret
from headwater.store.aggregation import Aggregation
from headwater.store.articles import Articles
from headwater.store.expiry import ANNOUNCED_KEY, Announced, ExpiringCounts
from tests.engine.conftest import Engine, RunningEngine
from tests.engine.test_service import FEED, feed_entry, polled
from tests.factories import a_post
from tests.fakes import START
from tests.store.store_data import with_posts
from tests.store.test_webhooks import a_webhook

UNDATED = tuple(replace(feed_entry(n), published_at=None) for n in range(3))


async def poll_posts(env: RunningEngine) -> None:
    """Poll a source that brings three posts."""
    await env.store.sources.add_many([polled(poll_interval_minutes=500_000)])
    env.fetch.on(FEED, Answer(200, entries=UNDATED))
    await env.service.poll_now("s1")


async def set_automatic(env: RunningEngine) -> None:
    """Let the podcast be aggregated automatically."""
    podcast = await env.store.accounts.podcast("default", "default")
    await env.store.accounts.save_podcast(replace(podcast, aggregate_automatically=True))


async def tick(env: RunningEngine) -> None:
    """Run one tick, and what it starts."""
    await env.service.tick()
    await env.service.ticker.articles.finish(60)


async def articles(env: RunningEngine) -> int:
    return len((await env.store.articles.page("default", limit=100)).items)


def test_e2_a_tick_aggregates_new_posts_only_where_that_is_automatic(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[int]:
        await poll_posts(env)
        await tick(env)
        counts = [await articles(env)]
        await set_automatic(env)
        await tick(env)
        counts.append(await articles(env))
        await tick(env)
        return [*counts, await articles(env)]

    assert engine.play(scenario) == [[0, 3, 3]]


def test_s6_a_tick_does_not_wait_for_automatic_aggregation(engine: Engine) -> None:
    class SlowArticles(Articles):
        started = 0
        may_end = asyncio.Event()

        async def aggregate(self, *args: Any, **options: Any) -> Aggregation:
            self.started += 1
            await self.may_end.wait()
            return await super().aggregate(*args, **options)

    async def scenario(env: RunningEngine) -> list[int]:
        await poll_posts(env)
        await set_automatic(env)
        env.store.articles = slow = SlowArticles(env.store.database)
        await env.store.sources.request(["s1"], env.clock.now())
        queued = await env.service.tick()
        await env.service.tick()  # a second run does not start beside the first
        counts = [queued, slow.started, await articles(env)]
        slow.may_end.set()
        await tick(env)
        return [*counts, await articles(env)]

    assert engine.play(scenario) == [[1, 1, 0, 3]]


def test_e2_a_tick_aggregates_a_bounded_number_of_posts_and_all_podcasts_in_turn(
    engine: Engine,
) -> None:
    async def scenario(env: RunningEngine) -> list[list[int]]:
        env.service.ticker.articles.posts_per_tick = 1000
        for number in range(3):
            podcast = Podcast(f"p{number}", "default", f"Podcast {number}", START)
            await env.store.accounts.save_podcast(replace(podcast, aggregate_automatically=True))
            source = polled(f"s{number}", f"https://{number}.example/", podcast_id=podcast.id)
            await env.store.sources.add_many([replace(source, enabled=False)])
            posts = [a_post(f"{n}", source_id=source.id, created_at=START) for n in range(1200)]
            await with_posts(env.store, source, *posts)
        counts = []
        for _ in range(5):
            await tick(env)
            sql = """SELECT podcast_id, sum(CASE WHEN is_linked THEN 1 ELSE 0 END) FROM posts
                GROUP BY podcast_id ORDER BY podcast_id"""
            counts.append([row[1] for row in await env.store.database.fetch(sql)])
        return counts

    (counts,) = engine.play(scenario)
    assert counts == [
        [1000, 0, 0], [1000, 1000, 0], [1000, 1000, 1000],
        [1200, 1200, 1200], [1200, 1200, 1200],
    ]  # fmt: skip


def test_e2_automatic_aggregation_is_not_in_the_audit_log(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> int:
        await poll_posts(env)
        await set_automatic(env)
        await tick(env)
        return len(await env.store.audit.newest(limit=10))

    assert engine.play(scenario) == [0]


def test_e5_what_expires_within_a_day_is_announced_once_per_podcast(engine: Engine) -> None:
    async def scenario(env: RunningEngine) -> list[ExpiringCounts | None]:
        found: list[Event] = []
        env.service.events.listen(found.append, (EventKind.ARTICLES_EXPIRING,))
        await poll_posts(env)
        for hours in (0, 5 * 24, 25, 1, 12):
            await env.clock.sleep(timedelta(hours=hours).total_seconds())
            await tick(env)
        assert {(event.podcast_id, event.user_id) for event in found} == {("default", "default")}
        return [event.expiring for event in found]

    assert engine.play(scenario) == [[ExpiringCounts(articles=0, posts=3)]]


def test_e5_v2_webhooks_are_told_once_what_expires(engine: Engine) -> None:
    async def stored(env: RunningEngine) -> list[object]:
        for webhook in (a_webhook(), a_webhook("all", None), a_webhook("silent", events=())):
            await env.store.webhooks.add(webhook, SealedSecret("k", b"n", b"c"))
        await poll_posts(env)
        await tick(env)
        await env.clock.sleep(timedelta(days=6, hours=2).total_seconds())
        return await told(env)

    async def told(env: RunningEngine) -> list[object]:
        for _ in range(5):
            await tick(env)
            await env.clock.sleep(1200)
        found = [
            (id_, json.loads(one.payload)["data"])
            for id_ in ("w", "all", "silent")
            for one in await env.store.webhooks.deliveries(id_, limit=100)
            if one.event == "articles.expiring"
        ]
        return list(found)

    expiring = {"podcastId": "default", "articles": 0, "posts": 3}
    once = [("w", expiring), ("all", expiring)]
    assert engine.play(stored, told, killed=True) == [once, once]


def test_e5_an_event_is_announced_once_across_restarts(engine: Engine) -> None:
    async def stored(env: RunningEngine) -> int:
        await poll_posts(env)
        await tick(env)
        await env.clock.sleep(timedelta(days=6, hours=2).total_seconds())
        return await announced(env)

    async def announced(env: RunningEngine) -> int:
        found: list[Event] = []
        env.service.events.listen(found.append, (EventKind.ARTICLES_EXPIRING,))
        await env.clock.sleep(2 * 3600)
        await tick(env)
        return len(found)

    assert engine.play(stored, announced, killed=True) == [1, 0]


def announced_when(
    engine: Engine, arrives: Callable[[RunningEngine], Awaitable[None]]
) -> list[ExpiringCounts | None]:
    """What a day of hourly ticks announces after something changed between two of them."""

    async def scenario(env: RunningEngine) -> list[ExpiringCounts | None]:
        found: list[Event] = []
        env.service.events.listen(found.append, (EventKind.ARTICLES_EXPIRING,))
        await env.store.sources.add_many([polled(poll_interval_minutes=500_000, enabled=False)])
        await poll_posts_of_last_week(env)
        await tick(env)
        found.clear()
        await arrives(env)
        for _ in range(24):
            await tick(env)
            await env.clock.sleep(3600)
        return [event.expiring for event in found]

    (found,) = engine.play(scenario)
    return found


async def poll_posts_of_last_week(env: RunningEngine) -> None:
    """Articles that expire in 12 and in 84 hours, of which the first is announced."""
    await set_automatic(env)
    await with_article(env, hours_old=156)
    await with_article(env, hours_old=84)


async def with_article(env: RunningEngine, *, hours_old: int) -> None:
    """A post that the next tick makes an article of."""
    now = env.clock.now()
    published_at = now - timedelta(hours=hours_old)
    post = a_post(f"{hours_old} {now}", created_at=now, published_at=published_at)
    await with_posts(env.store, await env.store.sources.get("s1"), replace(post, source_id="s1"))


def test_e5_an_article_that_arrives_with_less_than_a_day_left_is_announced(engine: Engine) -> None:
    async def arrives(env: RunningEngine) -> None:
        await with_article(env, hours_old=158)

    assert announced_when(engine, arrives) == [ExpiringCounts(articles=1, posts=0)]


def test_e5_what_a_lower_age_limit_brings_within_a_day_is_announced(engine: Engine) -> None:
    async def arrives(env: RunningEngine) -> None:
        podcast = await env.store.accounts.podcast("default", "default")
        await env.store.accounts.save_podcast(replace(podcast, max_article_age_days=4))

    assert announced_when(engine, arrives) == [ExpiringCounts(articles=1, posts=0)]


def test_e5_what_a_higher_age_limit_postpones_is_announced_again(engine: Engine) -> None:
    async def arrives(env: RunningEngine) -> None:
        podcast = await env.store.accounts.podcast("default", "default")
        await env.store.accounts.save_podcast(replace(podcast, max_article_age_days=8))

    assert announced_when(engine, arrives) == [ExpiringCounts(articles=1, posts=0)]


def test_e5_a_clock_that_was_far_ahead_does_not_silence_announcements(engine: Engine) -> None:
    async def arrives(env: RunningEngine) -> None:
        far = Announced(env.clock.now() + timedelta(days=900), 0, 7, {})
        await env.store.key_values.set(ANNOUNCED_KEY, far.to_json())
        await with_article(env, hours_old=158)

    assert announced_when(engine, arrives) == [ExpiringCounts(articles=2, posts=0)]
