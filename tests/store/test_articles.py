"""Posts become articles once, and consumers mark them as processed (A1, A3)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from headwater.errors import NotFound
from headwater.model import Article, Podcast, Post, Source
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.aggregation import Aggregation
from headwater.store.keyset_pages import MAX_CHARACTERS
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    a_post_of,
    everything,
    newest_articles,
    newest_posts,
    rows,
    stored,
    with_posts,
)

POLICY = Policy()


async def aggregated(store: Store, podcast_id: str = "default", *, at=NOW) -> Aggregation:
    make = partial(articles_from, now=at, policy=POLICY)
    return await store.articles.aggregate(podcast_id, created_after=at - 7 * DAY, make=make)


async def made(store: Store, podcast_id: str = "default") -> list[Article]:
    """The articles that an aggregation creates now."""
    ids = (await aggregated(store, podcast_id)).created
    return [article async for article in store.articles.each(podcast_id, ids)]


async def test_a3_aggregating_twice_creates_nothing_twice(store: Store):
    digesting, single = await stored(store, aggregate=True), await stored(store)
    await with_posts(store, digesting, *(a_post_of(digesting, body) for body in "abc"))
    await with_posts(store, single, *(a_post_of(single, body) for body in "de"))

    first = await aggregated(store)
    after = await everything(store)
    second = await aggregated(store, at=NOW + HOUR)

    assert len(first.created) == 3
    assert first.linked_posts == 5
    assert second == Aggregation((), 0)
    assert await everything(store) == after
    listed = await newest_articles(store, "default", limit=10)
    assert {article.id for article in listed} == set(first.created)
    assert sorted(len(article.post_ids) for article in listed) == [1, 1, 3]


async def test_a3_two_concurrent_aggregations_share_the_posts(store: Store):
    source = await stored(store)
    await with_posts(store, source, *(a_post_of(source, str(n)) for n in range(20)))

    done = await asyncio.gather(*(aggregated(store) for _ in range(4)))

    assert sorted(len(one.created) for one in done) == [0, 0, 0, 20]
    assert await rows(store, "SELECT count(*) FROM post_articles") == [(20,)]


async def test_a1_only_unlinked_posts_of_this_podcast_within_the_window_count(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    source, foreign = await stored(store), await stored(store, podcast_id="other")
    old = a_post_of(source, "old", created_at=NOW - 7 * DAY - HOUR)
    edge = a_post_of(source, "edge", created_at=NOW - 7 * DAY)
    await with_posts(store, source, old, edge)
    await with_posts(store, foreign, a_post_of(foreign))

    assert [article.body for article in await made(store)] == ["edge"]
    assert await newest_articles(store, "other", limit=10) == []
    assert await store.articles.counts([source.id]) == {source.id: 1}


async def test_a3_an_existing_hash_is_linked_to_its_article(store: Store):
    source = await stored(store)
    first, second = a_post_of(source, "one"), a_post_of(source, "two")
    source = await with_posts(store, source, first)
    (article,) = await made(store)

    def the_same_again(_: Source, posts: Sequence[Post], **_context: object) -> list[Article]:
        (post,) = posts
        return [replace(article, id="another id", title="Other", post_ids=(post.id,))]

    await with_posts(store, source, second)
    done = await store.articles.aggregate("default", created_after=NOW - DAY, make=the_same_again)

    assert done == Aggregation((), 1)
    (found,) = await newest_articles(store, "default", limit=10)
    assert replace(found, post_ids=()) == replace(article, post_ids=())
    assert set(found.post_ids) == {first.id, second.id}
    assert (await aggregated(store)).linked_posts == 0


async def test_a3_a_failed_aggregation_links_nothing(store: Store):
    first, second = await stored(store), await stored(store)
    for source in (first, second):
        await with_posts(store, source, a_post_of(source))
    before = await everything(store)

    def broken(source: Source, posts: Sequence[Post], **_context: object) -> list[Article]:
        if source.id == second.id:
            raise RuntimeError("broken")
        return articles_from(source, posts, NOW, POLICY)

    with pytest.raises(RuntimeError):
        await store.articles.aggregate("default", created_after=NOW - DAY, make=broken)

    assert await everything(store) == before


async def test_a3_marking_processed_twice_changes_nothing(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, "a"), a_post_of(source, "b"))
    done, open_ = await made(store)

    assert await store.articles.mark_processed("default", [done.id, done.id], NOW) == (
        [done.id],
        [],
    )
    after = await everything(store)
    assert await store.articles.mark_processed("default", [done.id], NOW + DAY) == ([], [])
    assert await store.articles.mark_processed("default", [], NOW) == ([], [])

    assert await everything(store) == after
    unprocessed = await newest_articles(store, "default", processed=False, limit=10)
    processed = await newest_articles(store, "default", processed=True, limit=10)
    assert [article.id for article in unprocessed] == [open_.id]
    assert [(article.id, article.is_processed) for article in processed] == [(done.id, True)]


async def test_u2_articles_of_another_podcast_cannot_be_marked(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    source, foreign = await stored(store), await stored(store, podcast_id="other")
    for one in (source, foreign):
        await with_posts(store, one, a_post_of(one))
    (mine,) = await made(store)
    (theirs,) = await made(store, "other")

    for wrong in (theirs.id, "nonsense"):
        with pytest.raises(NotFound, match=wrong):
            await store.articles.mark_processed("default", [mine.id, wrong], NOW)

    assert len(await newest_articles(store, "default", processed=False, limit=10)) == 1


async def test_articles_and_posts_are_listed_newest_first_page_by_page(store: Store):
    source = await stored(store)
    moments = [NOW - n * HOUR for n in range(5)]
    posts = [a_post_of(source, str(n), created_at=at) for n, at in enumerate(moments)]
    await with_posts(store, source, *posts)
    for post in reversed(posts):
        make = partial(articles_from, now=post.created_at, policy=POLICY)
        await store.articles.aggregate("default", created_after=post.created_at, make=make)

    pages = [await newest_posts(store, podcast_id="default", limit=2)]
    while pages[-1]:
        last = pages[-1][-1].id
        pages.append(await newest_posts(store, podcast_id="default", limit=2, before=last))

    assert [post.body for page in pages for post in page] == list("01234")
    first = await newest_articles(store, "default", limit=3)
    rest = await newest_articles(store, "default", limit=3, behind=first[-1].id)
    assert len(first) + len(rest) == 5
    ids = [article.id for article in (*first, *rest)]
    assert ids == sorted(ids, reverse=True)


async def test_articles_are_listed_oldest_first_on_request(store: Store):
    source = await stored(store)
    posts = [a_post_of(source, str(n), published_at=NOW - n * HOUR) for n in range(5)]
    await with_posts(store, source, *posts)
    await aggregated(store)

    first = await store.articles.page("default", limit=3, oldest_first=True)
    last = first.items[-1].id
    rest = await store.articles.page("default", limit=3, behind=last, oldest_first=True)
    assert [a.body for a in first.items] == ["4", "3", "2"]
    assert ([a.body for a in rest.items], rest.more) == (["1", "0"], False)


async def test_h2_long_posts_make_a_page_shorter_and_none_is_left_out(store: Store):
    source = await stored(store)
    lengths = [MAX_CHARACTERS // 2, 10, MAX_CHARACTERS // 2, MAX_CHARACTERS + 1, 10]
    posts = [
        a_post_of(source, str(n) * length, published_at=None, created_at=NOW - n * HOUR)
        for n, length in enumerate(lengths)
    ]
    await with_posts(store, source, *posts)

    pages: list[list[str]] = []
    before = None
    while not pages or before is not None:
        part = await store.posts.page(source_id=source.id, limit=3, before=before)
        pages.append([post.body[0] for post in part.items])
        before = part.items[-1].id if part.more else None

    assert pages == [["0", "1"], ["2"], ["3"], ["4"]]


async def test_an_article_is_found_in_its_own_podcast_only(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    source = await stored(store)
    post = a_post_of(source)
    await with_posts(store, source, post)
    (article,) = await made(store)

    assert await store.articles.get("default", article.id) == article
    assert article.post_ids == (post.id,)
    for podcast_id, wrong in (("other", article.id), ("default", "nonsense")):
        with pytest.raises(NotFound, match=wrong):
            await store.articles.get(podcast_id, wrong)


async def test_h1_many_long_articles_are_read_a_few_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    source = await stored(store)
    long = [a_post_of(source, f"{n}" + "x" * 400_000) for n in range(5)]
    await with_posts(store, source, *long, *(a_post_of(source, str(n)) for n in range(150)))
    ids = (await aggregated(store)).created
    read = store.database.read
    lengths: list[int] = []

    async def watched(work):
        found = await read(work)
        if isinstance(found, list):  # not the measurement itself
            lengths.append(sum(len(article.body) for article in found))
        return found

    monkeypatch.setattr(store.database, "read", watched)
    wanted = [ids[3], "nobody", *reversed(ids)]
    assert [a.id async for a in store.articles.each("default", wanted)] == [
        ids[3],
        *reversed(ids),
    ]
    assert max(lengths) < 1_000_000
    assert sum(lengths) > 2_000_000
    assert [a async for a in store.articles.each("other", ids)] == []
