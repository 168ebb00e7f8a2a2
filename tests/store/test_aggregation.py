"""Aggregation goes in bites, and whoever aggregates at the same time makes nothing twice (A3)."""

import asyncio
from functools import partial

import pytest

from headwater.model import Source
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from headwater.store.aggregation import POSTS_PER_BITE
from headwater.store.articles import Aggregation
from tests.store.pieces import DAY, NOW, StoreClock, a_post, rows, stored, with_posts

POLICY = Policy()
MANY = 2 * POSTS_PER_BITE + 100


async def aggregated(store: Store) -> Aggregation:
    make = partial(articles_from, now=NOW, policy=POLICY)
    return await store.articles.aggregate(
        "default",
        created_after=NOW - 7 * DAY,
        make=make,
        is_whole=lambda source: source.aggregate is True,
    )


async def busy_source(store: Store, posts: int, *, aggregate: bool) -> Source:
    source = await stored(store, aggregate=aggregate)
    return await with_posts(store, source, *(a_post(source, str(n)) for n in range(posts)))


async def test_a2_a_digest_is_made_of_all_posts_and_single_articles_in_bites(
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
    assert sorted(linked) == [100, POSTS_PER_BITE, POSTS_PER_BITE, MANY]
    (digest,) = [a for a in made.created if a.source_id == digesting.id]
    assert len(digest.post_ids) == MANY
    assert len([a for a in made.created if a.source_id == single.id]) == MANY
    assert await rows(store, "SELECT count(*) FROM posts WHERE NOT is_linked") == [(0,)]


async def test_small_sources_share_a_bite(store: Store, monkeypatch: pytest.MonkeyPatch):
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


async def test_a3_two_programs_that_aggregate_at_once_make_nothing_twice(store: Store, url: str):
    for aggregate in (True, False, True, False):
        await busy_source(store, POSTS_PER_BITE // 2, aggregate=aggregate)

    async with Store(open_database(url), StoreClock()) as other:
        done = await asyncio.gather(*(aggregated(s) for s in (store, other, store, other)))

    assert sum(one.linked_posts for one in done) == 2 * POSTS_PER_BITE
    assert sum(len(one.created) for one in done) == POSTS_PER_BITE + 2
    doubles = "SELECT post_id FROM post_articles GROUP BY post_id HAVING count(*) > 1"
    assert await rows(store, doubles) == []
    assert await rows(store, "SELECT count(*) FROM articles") == [(POSTS_PER_BITE + 2,)]
