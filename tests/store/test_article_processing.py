"""Articles are processed in batches, undone and deleted; cleanup leaves undone ones a day (E1)."""

import asyncio
from functools import partial
from typing import Any

import pytest

from headwater.errors import NotFound
from headwater.model import Article, Source
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from headwater.store.article_processing import Undo
from headwater.store.expired_rows import old_articles, old_posts
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    StoreClock,
    a_post_of,
    bodies,
    everything,
    newest_articles,
    newest_posts,
    rows,
    stored,
    with_posts,
)

POLICY = Policy()


async def aggregated(store: Store, *, at=NOW) -> list[Article]:
    """The articles that an aggregation creates."""
    make = partial(articles_from, now=at, policy=POLICY)
    made = await store.articles.aggregate("default", created_after=at - 7 * DAY, make=make)
    return [article async for article in store.articles.each("default", made.created)]


async def cleaned(store: Store, *, at) -> None:
    """Delete what is expired."""
    for batch in (old_articles(7), old_posts(7)):
        await store.clean(batch, at, 1000)


async def with_digest(store: Store, *texts: str) -> tuple[Source, Article]:
    """A source with posts, and a digest of them."""
    source = await stored(store, aggregate=True)
    await with_posts(store, source, *(a_post_of(source, text) for text in texts))
    (digest,) = await aggregated(store)
    return source, digest


async def test_e1_undoing_an_article_keeps_its_id_and_frees_it_from_its_batch(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, "a"), a_post_of(source, "b"))
    first, second = await aggregated(store)
    before = await everything(store)
    ids = [first.id, second.id]
    await store.articles.mark_processed("default", ids, NOW, batch="episode 1")
    processed = await newest_articles(store, "default", processed=True, limit=10)
    assert {article.batch for article in processed} == {"episode 1"}

    undone = await store.articles.undo("default", NOW, article_ids=[first.id])

    assert undone == Undo(unmarked=1, already=0, deleted_digests=0, freed_posts=0)
    (article,) = await newest_articles(store, "default", processed=False, limit=10)
    assert (article.id, article.batch, article.is_processed) == (first.id, None, False)
    again = await store.articles.undo("default", NOW, article_ids=ids)
    assert (again.unmarked, again.already) == (1, 1)
    after = await everything(store)
    assert after["post_articles"] == before["post_articles"]
    assert after["posts"] == before["posts"]


async def test_e1_undoing_a_digest_deletes_it_and_its_posts_join_newer_ones(store: Store):
    source, digest = await with_digest(store, "a", "b")
    await store.articles.mark_processed("default", [digest.id], NOW, batch="episode 1")
    await with_posts(store, source, a_post_of(source, "c"))

    undone = await store.articles.undo("default", NOW, batch="episode 1")

    assert undone == Undo(unmarked=1, already=0, deleted_digests=1, freed_posts=2)
    assert await newest_articles(store, "default", limit=10) == []
    (again,) = await aggregated(store)
    assert len(again.post_ids) == 3
    assert again.id != digest.id


async def test_e1_an_article_of_one_post_is_no_digest_even_if_another_post_is_linked(store: Store):
    source, other = await stored(store), await stored(store)
    await with_posts(store, source, a_post_of(source, "a"))
    (article,) = await aggregated(store)
    copy = a_post_of(other, "the same story elsewhere")
    await with_posts(store, other, copy)
    sql = "INSERT INTO post_articles (post_id, article_id) VALUES (:post, :article)"
    await store.database.execute(sql, {"post": copy.id, "article": article.id})
    await store.articles.mark_processed("default", [article.id], NOW)

    undone = await store.articles.undo("default", NOW, article_ids=[article.id])

    assert (undone.unmarked, undone.deleted_digests) == (1, 0)


@pytest.mark.parametrize(
    ("wanted", "message", "field"),
    [
        ({"batch": "episode 2"}, "there is no batch 'episode 2'", "batch"),
        ({"article_ids": ["gone"]}, "there is no article gone; nothing was undone", "ids"),
    ],
)
async def test_e1_what_does_not_exist_is_named_and_nothing_is_undone(
    store: Store, wanted: dict[str, Any], message: str, field: str
):
    _, digest = await with_digest(store, "a", "b")
    await store.articles.mark_processed("default", [digest.id], NOW, batch="episode 1")
    if "article_ids" in wanted:
        wanted = {"article_ids": [digest.id, *wanted["article_ids"]]}
    before = await everything(store)

    with pytest.raises(NotFound, match=message) as raised:
        await store.articles.undo("default", NOW, **wanted)

    assert raised.value.field == field
    assert await everything(store) == before


async def test_e1_cleanup_keeps_undone_articles_and_freed_posts_for_a_day(store: Store):
    single, digesting = await stored(store), await stored(store, aggregate=True)
    await with_posts(store, single, a_post_of(single, "alone"))
    await with_posts(store, digesting, *(a_post_of(digesting, text) for text in "ab"))
    ids = [article.id for article in await aggregated(store)]
    await store.articles.mark_processed("default", ids, NOW)
    much_later = NOW + 30 * DAY
    await cleaned(store, at=much_later)
    assert len(await newest_articles(store, "default", limit=10)) == 2

    await store.articles.undo("default", much_later, article_ids=ids)
    await cleaned(store, at=much_later + DAY)

    assert await bodies(store, single) == ["alone"]
    assert await bodies(store, digesting) == ["a", "b"]
    (digest,) = await aggregated(store, at=much_later + HOUR)  # beyond the age window, but freed
    await cleaned(store, at=much_later + DAY)  # the new digest has the same day
    assert digest.id in [a.id for a in await newest_articles(store, "default", limit=10)]

    await cleaned(store, at=much_later + DAY + HOUR)
    assert await newest_articles(store, "default", limit=10) == []
    assert await bodies(store, single) == await bodies(store, digesting) == []


async def test_e1_an_article_undone_while_cleanup_runs_is_kept(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, "a"))
    (article,) = await aggregated(store)
    later = NOW + 8 * DAY
    batch = old_articles(7)
    found = await store.database.read(lambda session: batch.find(session, later, 10))
    assert len(found) == 1
    await store.articles.mark_processed("default", [article.id], later)
    await store.articles.undo("default", later, article_ids=[article.id])

    removed = await store.database.write(lambda session: batch.remove(session, found, 10))

    assert removed == 0
    assert await newest_articles(store, "default", limit=10) != []


async def test_e1_a_post_freed_while_cleanup_runs_is_kept(store: Store):
    source = await stored(store, aggregate=True)
    await with_posts(store, source, *(a_post_of(source, text) for text in "ab"))
    later = NOW + 8 * DAY
    batch = old_posts(7)
    found = await store.database.read(lambda session: batch.find(session, later, 10))
    make = partial(articles_from, now=later, policy=POLICY)
    made = await store.articles.aggregate("default", created_after=NOW, make=make)
    await store.articles.mark_processed("default", made.created, later)
    await store.articles.undo("default", later, article_ids=made.created)

    removed = await store.database.write(lambda session: batch.remove(session, found, 10))

    assert (len(found), removed) == (2, 0)


async def test_e1_batches_are_listed_with_the_last_used_first(store: Store):
    source = await stored(store)
    await with_posts(store, source, *(a_post_of(source, text) for text in "abcde"))
    ids = [article.id for article in await aggregated(store)]
    for number, some in enumerate((ids[:2], ids[2:3], ids[3:])):
        at = NOW + number * HOUR
        await store.articles.mark_processed("default", some, at, batch=f"épisode {number}")

    listed = await store.articles.batches("default", limit=10)

    expected = [("épisode 2", 2), ("épisode 1", 1), ("épisode 0", 2)]
    assert [(batch.name, batch.articles) for batch in listed] == expected
    assert [batch.processed_at for batch in listed] == [NOW + n * HOUR for n in (2, 1, 0)]
    first = (await store.articles.batches("default", limit=1))[0]
    behind = round(first.processed_at.timestamp() * 1000), first.first_id
    assert await store.articles.batches("default", limit=10, after=behind) == listed[1:]
    assert await store.articles.batches("other", limit=10) == []


@pytest.mark.parametrize("drop", [False, True])
async def test_e2_a_deleted_article_frees_its_posts_or_takes_them_along(store: Store, drop: bool):
    source, digest = await with_digest(store, "a", "b")

    assert await store.articles.delete("default", digest.id, NOW, drop_posts=drop) == 2

    assert await bodies(store, source) == ([] if drop else ["a", "b"])
    tombstones = await rows(store, "SELECT count(*) FROM tombstones")
    assert tombstones == [(2 if drop else 0,)]  # D1: dropped posts do not come back
    assert len(await aggregated(store)) == (0 if drop else 1)
    with pytest.raises(NotFound):
        await store.articles.delete("default", "gone", NOW, drop_posts=drop)


async def test_e1_polls_and_aggregations_do_not_change_scores(store: Store):
    source = await stored(store)
    post = a_post_of(source, "a")
    await with_posts(store, source, post)
    sql = "UPDATE posts SET score = 0.5, annotations = '{\"a\":1}'"
    await store.database.execute(sql)
    await with_posts(store, source, post)  # the same post once more
    (read,) = await newest_posts(store, source_id=source.id, limit=10)
    assert (read.score, read.annotations) == (0.5, {"a": 1})


@pytest.mark.postgres
async def test_e1_undo_cleanup_and_aggregation_at_once_lose_no_post(new_postgres):
    """Three processes on PostgreSQL: each post is in exactly one place at the end."""
    url = new_postgres()
    async with (
        Store(open_database(url), StoreClock()) as marking,
        Store(open_database(url), StoreClock()) as aggregating,
        Store(open_database(url), StoreClock()) as cleaning,
    ):
        source = await stored(marking, aggregate=True)
        texts = [f"post {n}" for n in range(60)]
        await with_posts(marking, source, *(a_post_of(source, text) for text in texts))
        later = NOW + 6 * DAY  # nothing is expired yet
        done = asyncio.Event()

        async def keep(work) -> None:
            while not done.is_set():
                await work()

        async def mark_and_undo() -> None:
            for number in range(25):
                articles = await newest_articles(marking, "default", limit=10)
                await marking.articles.mark_processed(
                    "default", [a.id for a in articles], later, batch=str(number), skip_missing=True
                )
                if await marking.articles.batches("default", limit=10):
                    await marking.articles.undo("default", later, batch=str(number))
            done.set()

        await asyncio.gather(
            mark_and_undo(),
            keep(partial(aggregated, aggregating, at=later)),
            keep(partial(cleaned, cleaning, at=later)),
        )
        await aggregated(aggregating, at=later)
        assert await bodies(marking, source) == sorted(texts)
        links = await rows(marking, "SELECT count(*), count(DISTINCT post_id) FROM post_articles")
        assert links == [(60, 60)]
        sql = "SELECT count(*) FROM posts WHERE NOT is_linked"
        assert await rows(marking, sql) == [(0,)]
