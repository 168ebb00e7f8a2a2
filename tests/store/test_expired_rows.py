"""Expired rows are removed in batches, and their hashes stay known (C1-C3, D1)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from headwater.model import Article, OutcomeKind, Podcast, Post, Source
from headwater.store import Session, Store
from headwater.store.expired_rows import old_articles, old_polls, old_posts, old_processed
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    a_post_of,
    a_success,
    bodies,
    rows,
    stored,
    with_posts,
)

MS = timedelta(milliseconds=1)
LIMIT = 1000


async def with_article(store: Store, source: Source, *posts: Post, **changes: Any) -> str:
    """Store posts and one article of all of them; return its id."""
    article = Article(
        **{
            "id": f"article {posts[0].body}",
            "source_id": source.id,
            "title": "t",
            "body": posts[0].body,
            "url": source.url,
            "published_at": None,
            "author": None,
            "content_hash": posts[0].content_hash,
            "created_at": NOW,
            "post_ids": tuple(post.id for post in posts),
        }
        | changes
    )
    await with_posts(store, source, *posts)
    await store.articles.aggregate(
        source.podcast_id, created_after=NOW - 999 * DAY, make=lambda _s, _p, context: [article]
    )
    return article.id


async def articles(store: Store) -> set[str]:
    return {row[0] for row in await rows(store, "SELECT id FROM articles")}


async def test_c1_an_unprocessed_article_expires_by_its_publication_else_its_creation(store: Store):
    source = await stored(store)
    limit = NOW - 7 * DAY
    cases: Sequence[tuple[str, datetime | None, datetime]] = [
        ("published at the limit", limit, NOW),
        ("published before it", limit - MS, NOW),
        ("published after it, created long ago", limit + MS, NOW - 30 * DAY),
        ("undated at the limit", None, limit),
        ("undated before it", None, limit - MS),
    ]
    for body, published_at, created_at in cases:
        post = a_post_of(source, body)
        changes = {"id": body, "published_at": published_at, "created_at": created_at}
        await with_article(store, source, post, **changes)

    assert await store.clean(old_articles(7), NOW, LIMIT) == 4  # with a post each
    assert await store.clean(old_articles(7), NOW, LIMIT) == 0

    gone = {"published before it", "undated before it"}
    kept = {body for body, *_ in cases} - gone
    assert await articles(store) == kept
    assert set(await bodies(store, source)) == kept


async def test_c1_posts_of_a_deleted_article_are_deleted_and_shared_ones_stay(store: Store):
    source = await stored(store)
    mine, shared = a_post_of(source, "mine"), a_post_of(source, "shared")
    old = await with_article(store, source, mine, shared, created_at=NOW - 8 * DAY)
    young = await with_article(store, source, a_post_of(source, "young"))

    def share(session: Session) -> None:
        sql = "INSERT INTO post_articles (post_id, article_id) VALUES (:post, :article)"
        session.execute(sql, {"post": shared.id, "article": young})

    await store.database.write(share)

    assert await store.clean(old_articles(7), NOW, LIMIT) == 2

    assert await articles(store) == {young}
    assert await bodies(store, source) == ["shared", "young"]
    assert await rows(store, "SELECT mark FROM tombstones") == [(mine.content_hash[:32],)]
    links = await rows(store, "SELECT post_id FROM post_articles WHERE article_id = :a", a=old)
    assert links == []
    # still linked, so it is not aggregated again
    assert await rows(store, "SELECT count(*) FROM posts WHERE NOT is_linked") == [(0,)]


async def test_c1_processed_articles_stay_unless_retention_is_set(store: Store):
    source = await stored(store)
    post = a_post_of(source, "read", created_at=NOW - 90 * DAY)
    article = await with_article(store, source, post, created_at=NOW - 90 * DAY)
    await store.articles.mark_processed("default", [article], NOW - 30 * DAY)

    for batch in (old_articles(7), old_posts(7), old_processed(30)):
        assert await store.clean(batch, NOW, LIMIT) == 0
    assert await bodies(store, source) == ["read"]

    assert await store.clean(old_processed(29), NOW, LIMIT) == 2
    assert await articles(store) == set()
    assert await bodies(store, source) == []
    assert await rows(store, "SELECT mark FROM tombstones") == [(post.content_hash[:32],)]


async def test_c1_retention_does_not_affect_unprocessed_articles(store: Store):
    source = await stored(store)
    await with_article(store, source, a_post_of(source), created_at=NOW - 90 * DAY)

    assert await store.clean(old_processed(1), NOW, LIMIT) == 0


async def test_c2_unlinked_posts_expire_by_their_creation_and_linked_ones_stay(store: Store):
    source = await stored(store)
    limit = NOW - 7 * DAY
    linked = a_post_of(source, "linked", created_at=NOW - 30 * DAY)
    await with_article(store, source, linked)
    await with_posts(
        store,
        source,
        a_post_of(source, "at the limit", created_at=limit, published_at=NOW - 30 * DAY),
        a_post_of(source, "before it", created_at=limit - MS, published_at=NOW),
        a_post_of(source, "young", created_at=NOW - HOUR),
    )

    assert await store.clean(old_posts(7), NOW, LIMIT) == 1
    assert await store.clean(old_posts(7), NOW, LIMIT) == 0

    assert await bodies(store, source) == ["at the limit", "linked", "young"]


async def test_c1_c2_every_podcast_has_its_own_age_limit(store: Store):
    limits = {"default": None, "short": 1, "long": 30, "none": 0}
    for name, days in limits.items():
        podcast = Podcast(name, "default", name, NOW, max_article_age_days=days)
        await store.accounts.save_podcast(podcast)
        for age in (0, 2, 10, 40):
            source = await stored(store, podcast_id=name)
            at = NOW - age * DAY - HOUR
            loose = a_post_of(source, f"{name} {age} loose", created_at=at)
            linked = a_post_of(source, f"{name} {age} linked", created_at=at)
            await with_posts(store, source, loose, linked)
            await store.database.write(partial(_linked, post=linked))

    assert await store.clean(old_articles(7), NOW, LIMIT) == 20
    assert await store.clean(old_posts(7), NOW, LIMIT) == 10

    kept = ["default 0", "default 2", "long 0", "long 10", "long 2", "short 0"]
    found = [row[0] for row in await rows(store, "SELECT body FROM posts")]
    assert sorted(found) == [f"{name} {state}" for name in kept for state in ("linked", "loose")]
    assert len(await articles(store)) == len(kept)


def _linked(session: Session, post: Post) -> None:
    """An article of one post, of the same age."""
    session.execute(
        """INSERT INTO articles
            (id, source_id, podcast_id, title, body, url, content_hash, created_at)
        SELECT id, source_id, podcast_id, title, body, url, content_hash, created_at FROM posts
        WHERE id = :id""",
        {"id": post.id},
    )
    sql = "INSERT INTO post_articles (post_id, article_id) VALUES (:id, :id)"
    session.execute(sql, {"id": post.id})
    session.execute("UPDATE posts SET is_linked = TRUE WHERE id = :id", {"id": post.id})


async def test_c1_c2_a_long_limit_is_exact_to_the_millisecond_beside_a_short_one(store: Store):
    podcast = Podcast("long", "default", "Long", NOW, max_article_age_days=30)
    await store.accounts.save_podcast(podcast)
    source = await stored(store, podcast_id="long")
    limit = NOW - 30 * DAY
    for name, at in (("kept", limit), ("gone", limit - MS)):
        loose, linked = (a_post_of(source, f"{name} {n}", created_at=at) for n in (1, 2))
        await with_posts(store, source, loose, linked)
        await store.database.write(partial(_linked, post=linked))

    assert await store.clean(old_articles(7), NOW, LIMIT) == 2
    assert await store.clean(old_posts(7), NOW, LIMIT) == 1

    assert await bodies(store, source) == ["kept 1", "kept 2"]


async def test_c3_a_batch_takes_no_more_than_its_limit(store: Store):
    source = await stored(store)
    old = NOW - 10 * DAY
    posts = [a_post_of(source, f"post {n}", created_at=old) for n in range(25)]
    await with_posts(store, source, *posts)

    taken = [await store.clean(old_posts(7), NOW, 10) for _ in range(4)]

    assert taken == [10, 10, 5, 0]
    assert await rows(store, "SELECT count(*) FROM tombstones") == [(25,)]


async def test_c3_a_batch_of_articles_counts_their_posts_too(store: Store):
    source = await stored(store)
    posts = [a_post_of(source, f"post {n}", created_at=NOW - 10 * DAY) for n in range(7)]
    await with_posts(store, source, *posts)
    for post in posts:
        await store.database.write(partial(_linked, post=post))

    assert [await store.clean(old_articles(7), NOW, 7) for _ in range(4)] == [6, 6, 2, 0]
    assert await rows(store, "SELECT count(*) FROM tombstones") == [(7,)]


async def test_c3_an_article_with_more_posts_than_a_batch_is_deleted_alone(store: Store):
    source = await stored(store)
    old = NOW - 10 * DAY
    for number in range(3):
        posts = [a_post_of(source, f"post {number} {n}", created_at=old) for n in range(20)]
        await with_article(store, source, *posts, id=f"article {number}", created_at=old)

    assert [await store.clean(old_articles(7), NOW, 10) for _ in range(4)] == [21, 21, 21, 0]
    assert await bodies(store, source) == []


async def test_c1_articles_processed_between_query_and_deletion_stay(store: Store):
    source = await stored(store)
    for name in ("read", "unread"):
        await with_article(
            store, source, a_post_of(source, name), id=name, created_at=NOW - 8 * DAY
        )
    batch = old_articles(7)
    found = await store.database.read(lambda s: batch.find(s, NOW, LIMIT))
    assert sorted(found) == [("read", None), ("unread", None)]
    await store.articles.mark_processed("default", ["read"], NOW)

    assert await store.database.write(lambda s: batch.remove(s, found, LIMIT)) == 2
    assert await articles(store) == {"read"}
    assert await bodies(store, source) == ["read"]


async def test_c2_posts_linked_between_query_and_deletion_stay(store: Store):
    source = await stored(store)
    kept, gone = (a_post_of(source, name, created_at=NOW - 8 * DAY) for name in ("kept", "gone"))
    await with_posts(store, source, kept, gone)
    batch = old_posts(7)
    found = await store.database.read(lambda s: batch.find(s, NOW, LIMIT))
    assert len(found) == 2
    await store.database.write(partial(_linked, post=kept))

    assert await store.database.write(lambda s: batch.remove(s, found, LIMIT)) == 1
    assert await bodies(store, source) == ["kept"]


async def test_the_poll_history_is_bounded(store: Store):
    source = await stored(store)
    for age in (20, 16, 14, 0):
        current = await store.sources.get(source.id)
        await store.record(a_success(current, started_at=NOW - age * DAY, duration_ms=age))

    assert await store.clean(old_polls(14), NOW, 1) == 1
    assert await store.clean(old_polls(14), NOW, LIMIT) == 1
    assert await store.clean(old_polls(14), NOW, LIMIT) == 0

    kept = await store.polls.newest(source.id, limit=10)
    assert [poll.duration_ms for poll in kept] == [0, 14]
    assert kept[0].outcome is OutcomeKind.UNCHANGED


async def test_cleaning_an_empty_database_deletes_nothing(store: Store):
    await store.accounts.remove_podcast("default")

    for batch in (old_articles(7), old_posts(7), old_processed(7), old_polls(7)):
        assert await store.clean(batch, NOW, LIMIT) == 0
