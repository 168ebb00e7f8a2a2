"""Aggregation works in batches, and concurrent aggregations make no article twice (A3)."""

import asyncio
from functools import partial

import pytest

from headwater.model import Podcast, Source
from headwater.rules.digest import MAX_CHARACTERS, MAX_POSTS, articles_from
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from headwater.store.aggregation import POSTS_PER_BATCH, Aggregation
from headwater.store.row_mapping import row_of_post
from tests.store.store_data import DAY, NOW, StoreClock, a_post_of, rows, stored, with_posts
from tests.store.test_due_plans import plans

POLICY = Policy()
MANY = 2 * POSTS_PER_BATCH + 100


async def aggregated(store: Store) -> Aggregation:
    make = partial(articles_from, now=NOW, policy=POLICY)
    return await store.articles.aggregate(
        "default",
        created_after=NOW - 7 * DAY,
        make=make,
    )


async def busy_source(store: Store, posts: int, *, aggregate: bool) -> Source:
    source = await stored(store, aggregate=aggregate)
    return await with_posts(store, source, *(a_post_of(source, str(n)) for n in range(posts)))


async def test_a2_a_digest_takes_as_many_posts_as_a_batch_and_the_next_continues(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    digesting = await busy_source(store, MANY, aggregate=True)
    single = await busy_source(store, MANY, aggregate=False)
    write = store.database.write
    linked: list[int] = []

    async def counted(work):
        done = await write(work)
        linked.append(done[1])
        return done

    monkeypatch.setattr(store.database, "write", counted)
    made = await aggregated(store)

    assert made.linked_posts == 2 * MANY
    assert max(linked) == POSTS_PER_BATCH == MAX_POSTS
    articles = [a async for a in store.articles.each("default", made.created)]
    digests = [len(a.post_ids) for a in articles if a.source_id == digesting.id]
    assert digests == [MAX_POSTS, MAX_POSTS, 100]
    assert len([a for a in articles if a.source_id == single.id]) == MANY
    assert await rows(store, "SELECT count(*) FROM posts WHERE NOT is_linked") == [(0,)]


async def test_h1_long_posts_make_more_digests_and_none_is_too_long(store: Store):
    source = await stored(store, aggregate=True)
    long = [a_post_of(source, f"{n} " + "x" * 600_000) for n in range(7)]
    await with_posts(store, source, *long)
    made = await aggregated(store)
    articles = [a async for a in store.articles.each("default", made.created)]
    assert [len(a.post_ids) for a in articles] == [3, 3, 1]
    assert max(len(a.body) for a in articles) < MAX_CHARACTERS + 1000
    assert (await aggregated(store)).linked_posts == 0


async def test_small_sources_share_a_batch(store: Store, monkeypatch: pytest.MonkeyPatch):
    for aggregate in (True, False, True):
        await busy_source(store, 3, aggregate=aggregate)
    write = store.database.write
    calls: list[object] = []

    async def counted(work):
        calls.append(work)
        return await write(work)

    monkeypatch.setattr(store.database, "write", counted)
    assert (await aggregated(store)).linked_posts == 9
    assert len(calls) == 1


async def test_a3_two_concurrent_aggregations_create_nothing_twice(store: Store, url: str):
    for aggregate in (True, False, True, False):
        await busy_source(store, POSTS_PER_BATCH // 2, aggregate=aggregate)

    async with Store(open_database(url), StoreClock()) as other:
        done = await asyncio.gather(*(aggregated(s) for s in (store, other, store, other)))

    assert sum(one.linked_posts for one in done) == 2 * POSTS_PER_BATCH
    assert sum(len(one.created) for one in done) == POSTS_PER_BATCH + 2
    doubles = "SELECT post_id FROM post_articles GROUP BY post_id HAVING count(*) > 1"
    assert await rows(store, doubles) == []
    assert await rows(store, "SELECT count(*) FROM articles") == [(POSTS_PER_BATCH + 2,)]


async def test_an_aggregation_reads_the_waiting_posts_only(
    store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
):
    mine = await busy_source(store, 20, aggregate=False)
    for n in range(20):
        await store.accounts.save_podcast(Podcast(f"p{n}", "default", f"Other {n}", NOW))
        other = await stored(store, podcast_id=f"p{n}")
        await with_posts(store, other, *(a_post_of(other, str(n)) for n in range(100)))
    many = [a_post_of(mine, f"linked {n}") for n in range(180)]
    linked = [row_of_post(post) | {"podcast_id": "default", "is_linked": True} for post in many]
    await store.database.write(lambda s: s.insert_rows("posts", linked))
    if kind == "postgres":  # SQLite is never analysed
        await store.database.write(lambda s: s.execute("ANALYZE"))
    found = await plans(store, lambda: aggregated(store), monkeypatch)
    assert "posts_unlinked_age" in found[0], found[0]
