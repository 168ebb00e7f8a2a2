"""Threads in the database: one article each, extended or followed up (E3)."""

import asyncio
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from headwater.model import Article, FilteredBy, Post, Source, SourceType
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.source_settings import AggregateBy
from headwater.store import Store, open_database
from headwater.store.aggregation import Plan
from headwater.store.annotations import Annotation
from headwater.store.article_processing import Undo
from tests.store.store_data import (
    DAY,
    MINUTE,
    NOW,
    StoreClock,
    a_post_of,
    newest_articles,
    rows,
    stored,
    with_posts,
)
from tests.store.test_due_plans import plans

SELF = "R to @ada: "
POLICY = Policy()
AGGREGATION: dict[str, Any] = {
    "created_after": NOW - 7 * DAY,
    "make": partial(articles_from, now=NOW, policy=POLICY),
}


async def a_nitter_feed(store: Store, **changes: Any) -> Source:
    url = "https://nitter.net/ada/rss"
    return await stored(store, **{"url": url, "aggregate_by": AggregateBy.THREAD} | changes)


def a_tweet(source: Source, name: str, at: datetime, marker: str = "", **changes: Any) -> Post:
    """A post on Nitter."""
    plain: dict[str, Any] = {
        "title": f"{marker}{name}",
        "author": "@ada",
        "url": f"https://nitter.net/ada/status/{ord(name[0])}#m",
        "published_at": at,
        "created_at": at,
    }
    return a_post_of(source, name, **plain | changes)


async def aggregated(store: Store, **options: Any) -> list[Article]:
    """All articles after an aggregation, in the order of their creation."""
    await store.articles.aggregate("default", **AGGREGATION | options)
    found = await newest_articles(store, "default", limit=50)
    return sorted(found, key=lambda article: article.seq or 0)


async def a_thread(store: Store, **changes: Any) -> tuple[Source, Article]:
    """A thread of two posts, and its article."""
    source = await a_nitter_feed(store, **changes)
    first, second = a_tweet(source, "a", NOW - 30 * MINUTE), a_tweet(source, "b", NOW, SELF)
    await with_posts(store, source, first, second)
    (article,) = await aggregated(store)
    assert article.body == "a\n\nb"
    return source, article


async def test_e3_a_thread_is_one_article_and_replies_to_others_stand_alone(store: Store):
    source = await a_nitter_feed(store)
    posts = [
        a_tweet(source, "a", NOW - 30 * MINUTE),
        a_tweet(source, "other", NOW - 20 * MINUTE, "R to @bob: "),
        a_tweet(source, "b", NOW - 10 * MINUTE, SELF),
        a_tweet(source, "new", NOW),
    ]
    await with_posts(store, source, *posts)
    made = await aggregated(store)
    assert sorted(article.body for article in made) == ["a\n\nb", "new", "other"]
    (thread,) = (article for article in made if len(article.post_ids) == 2)
    assert (thread.title, thread.url) == ("a", "https://x.com/ada/status/97")
    assert thread.post_ids == (posts[0].id, posts[2].id)
    assert await aggregated(store) == made


async def test_e3_the_posts_of_one_second_stay_in_order(store: Store):
    source = await a_nitter_feed(store)
    names = [f"{n:02}" for n in range(30)]
    await with_posts(store, source, *(a_tweet(source, n, NOW, SELF) for n in names))
    (article,) = await aggregated(store)
    assert article.body == "\n\n".join(names)


async def test_e3_a_reply_to_an_unprocessed_thread_extends_its_article(store: Store):
    source, article = await a_thread(store)
    reply = a_tweet(source, "c", NOW + 5 * MINUTE, SELF)
    await with_posts(store, source, reply)
    last = await rows(store, "SELECT max(seq) FROM articles")

    (extended,) = await aggregated(store)

    assert (extended.id, extended.seq) == (article.id, article.seq)
    assert extended.body == "a\n\nb\n\nc"
    assert extended.post_ids == (*article.post_ids, reply.id)
    assert (extended.title, extended.url) == (article.title, article.url)
    assert extended.published_at == reply.published_at
    assert (extended.created_at, extended.follow_up_of) == (article.created_at, None)
    changed = await store.articles.changed_after("default", last[0][0], 10)  # V1
    assert [one.id for one in changed.items] == [article.id]
    assert await aggregated(store) == [extended]


@pytest.mark.parametrize("closed", ["processed", "score", "annotations"])
async def test_e3_a_reply_to_an_article_that_was_used_is_a_follow_up(store: Store, closed: str):
    source, article = await a_thread(store)
    if closed == "processed":
        await store.articles.mark_processed("default", [article.id], NOW)
    else:
        value = {"score": 0.5} if closed == "score" else {"annotations": {"used": True}}
        change = Annotation(article.id, value)
        await store.annotations.annotate("articles", "default", [change])
    reply = a_tweet(source, "c", NOW + 5 * MINUTE, SELF)
    await with_posts(store, source, reply)
    before, follow_up = await aggregated(store)
    assert before.body == "a\n\nb"
    assert (follow_up.body, follow_up.follow_up_of) == ("c", article.id)
    assert follow_up.thread_id == article.thread_id

    await with_posts(store, source, a_tweet(source, "d", NOW + 50 * MINUTE, SELF))
    _, follow_up = await aggregated(store)
    assert (follow_up.body, follow_up.follow_up_of) == ("c\n\nd", article.id)
    assert follow_up.url == "https://x.com/ada/status/99"


async def test_e3_conversations_on_x_continue_after_any_time(store: Store):
    source = await a_nitter_feed(store, type=SourceType.TWITTER, url="@ada")
    tweet = partial(a_tweet, source, conversation_id="1", url="https://x.com/ada/status/1")
    await with_posts(store, source, tweet("a", NOW - 5 * DAY), a_tweet(source, "alone", NOW))
    article, _ = await aggregated(store)
    await with_posts(store, source, tweet("b", NOW - 2 * DAY))
    article, alone = await aggregated(store)
    assert (article.body, article.thread_id, alone.thread_id) == ("a\n\nb", "1", None)
    await store.articles.mark_processed("default", [article.id], NOW)
    await with_posts(store, source, tweet("c", NOW))
    *_, last = await aggregated(store)
    assert (last.body, last.follow_up_of) == ("c", article.id)


async def test_e1_an_undone_thread_keeps_its_id_and_grows_with_replies(store: Store):
    source, article = await a_thread(store)
    await store.articles.mark_processed("default", [article.id], NOW, batch="episode 1")

    undone = await store.articles.undo("default", NOW, batch="episode 1")

    assert undone == Undo(unmarked=1, already=0, deleted_digests=0, freed_posts=0)
    (again,) = await aggregated(store)
    assert again == replace(article, kept_until=NOW + DAY)
    await with_posts(store, source, a_tweet(source, "c", NOW + 5 * MINUTE, SELF))
    (extended,) = await aggregated(store)
    assert (extended.id, extended.seq) == (article.id, article.seq)
    assert (extended.body, extended.kept_until) == ("a\n\nb\n\nc", NOW + DAY)


async def test_e1_an_undone_thread_keeps_score_and_annotations(store: Store):
    source, article = await a_thread(store)
    change = Annotation(article.id, {"score": 0.5, "annotations": {"used": True}})
    await store.annotations.annotate("articles", "default", [change])
    await store.articles.mark_processed("default", [article.id], NOW)
    await store.articles.undo("default", NOW, article_ids=[article.id])
    await with_posts(store, source, a_tweet(source, "c", NOW + 5 * MINUTE, SELF))
    before, follow_up = await aggregated(store)
    assert (before.id, before.score, before.annotations) == (article.id, 0.5, {"used": True})
    assert (before.body, follow_up.body, follow_up.follow_up_of) == ("a\n\nb", "c", article.id)


@pytest.mark.parametrize("is_processed", [False, True])
async def test_e1_an_undone_thread_keeps_its_follow_up_and_later_replies_go_on_there(
    store: Store, is_processed: bool
):
    source, article = await a_thread(store)
    await store.articles.mark_processed("default", [article.id], NOW)
    await with_posts(store, source, a_tweet(source, "c", NOW + 5 * MINUTE, SELF))
    _, follow_up = await aggregated(store)
    if is_processed:
        await store.articles.mark_processed("default", [follow_up.id], NOW)
    await store.articles.undo("default", NOW, article_ids=[article.id])
    await with_posts(store, source, a_tweet(source, "d", NOW + 10 * MINUTE, SELF))

    made = [(one.body, one.follow_up_of) for one in await aggregated(store)]

    if is_processed:
        assert made == [("a\n\nb", None), ("c", article.id), ("d", follow_up.id)]
    else:
        assert made == [("a\n\nb", None), ("c\n\nd", article.id)]


async def test_b2_hidden_posts_are_left_out_and_do_not_end_a_thread(store: Store):
    source = await a_nitter_feed(store)
    hidden = FilteredBy.SOURCE_BLOCK
    posts = [
        a_tweet(source, "a", NOW - 100 * MINUTE),
        a_tweet(source, "b", NOW - 50 * MINUTE, SELF, filtered_by=hidden),
        a_tweet(source, "c", NOW, SELF),
    ]
    await with_posts(store, source, *posts)
    (article,) = await aggregated(store)
    assert article.body == "a\n\nc"


async def test_t4_a_thread_waits_for_the_page_of_a_post_but_not_for_ever(store: Store):
    source = await a_nitter_feed(store)
    first, second = a_tweet(source, "a", NOW - 9 * MINUTE), a_tweet(source, "b", NOW, SELF)
    await with_posts(store, source, first, second)
    sql = """INSERT INTO page_visits (post_id, source_id, host, created_at, not_before)
        VALUES (:post, :source, 'nitter.net', 2000, 0)"""
    await store.database.execute(sql, {"post": first.id, "source": source.id})
    early, late = (datetime.fromtimestamp(n, tz=NOW.tzinfo) for n in (1, 3))
    plan = await store.articles.plan(
        "default", **AGGREGATION, pending_since=early, story_once=False
    )
    assert plan == Plan(0, 0, ())
    assert await aggregated(store, pending_since=early) == []
    (article,) = await aggregated(store, pending_since=late)
    assert article.body == "a\n\nb"


async def test_e2_a_dry_run_shows_new_threads_and_counts_posts_of_extended_ones(store: Store):
    source, article = await a_thread(store)
    new = a_tweet(source, "new", NOW + 2 * MINUTE)
    await with_posts(store, source, a_tweet(source, "c", NOW + MINUTE, SELF), new)
    plan = await store.articles.plan("default", **AGGREGATION, pending_since=NOW, story_once=True)
    assert (plan.created, plan.linked_posts) == (1, 2)
    assert [one.title for one in plan.articles] == ["new"]
    assert await newest_articles(store, "default", limit=5) == [article]
    made = await store.articles.aggregate("default", **AGGREGATION, story_once=True)
    assert (len(made.created), made.linked_posts) == (1, 2)


async def test_a3_a_thread_with_the_text_of_another_article_is_linked_to_that(store: Store):
    source = await a_nitter_feed(store)
    await with_posts(store, source, a_tweet(source, "a\n\nb", NOW - DAY))
    (article,) = await aggregated(store)
    await with_posts(store, source, a_tweet(source, "a", NOW))
    await aggregated(store)
    await with_posts(store, source, a_tweet(source, "b", NOW, SELF))
    same, other = await aggregated(store)
    assert (same.id, other.body) == (article.id, "a")
    assert len(same.post_ids) == 3
    assert await rows(store, "SELECT count(*) FROM posts WHERE NOT is_linked") == [(0,)]


async def test_a3_concurrent_aggregations_put_every_reply_into_one_article(store: Store, url: str):
    source = await a_nitter_feed(store, type=SourceType.TWITTER, url="@ada")
    async with Store(open_database(url), StoreClock()) as other:
        for number in range(10):
            tweets = [
                a_tweet(source, f"{number} {n}", NOW + number * MINUTE, conversation_id=str(n))
                for n in range(5)
            ]
            await with_posts(store, source, *tweets)
            aggregate = (s.articles.aggregate("default", **AGGREGATION) for s in (store, other))
            await asyncio.gather(*aggregate)
    made = await aggregated(store)
    assert [len(article.post_ids) for article in made] == [10] * 5
    doubles = "SELECT post_id FROM post_articles GROUP BY post_id HAVING count(*) > 1"
    assert await rows(store, doubles) == []


async def test_a_reply_reads_the_posts_and_articles_of_its_thread_only(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    source = await a_nitter_feed(store)
    old = [a_tweet(source, f"old {n}", NOW - DAY - n * MINUTE) for n in range(500)]
    await with_posts(store, source, *old)
    await aggregated(store)
    await with_posts(store, source, a_tweet(source, "a", NOW, SELF))
    if kind == "postgres":  # SQLite is never analysed
        await store.database.write(lambda s: s.execute("ANALYZE"))
    found = await plans(store, lambda: aggregated(store), monkeypatch)
    used = "\n".join(map(str, found))
    assert "posts_source_newest" in used
    assert "articles_thread" in used
