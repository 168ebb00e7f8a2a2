"""Lists and searches that show a story once: by one of the posts they have (I2, B3)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.engine.followers import STORIES, Followers, all_followers
from headwater.model import Post
from headwater.query.parser import parse_query
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Session, Store
from headwater.store.content_filter import EVERYTHING, ContentFilter, Filtered
from headwater.store.search import SearchRequest
from headwater.store.search_followers import search_follower
from headwater.store.stories import MAX_ALSO_FROM
from tests.factories import a_post
from tests.store.store_data import DAY, HOUR, NOW, StoreClock, newest_posts, stored, with_posts
from tests.store.test_search import QUERIES, SOURCES, TIMES, found_ids, posts, store_posts
from tests.story_texts import TextGenerator

TEXT = TextGenerator(1).text(120)
ONCE = ContentFilter(story_once=True)


def representatives(found: Sequence[Post]) -> set[str]:
    """Of these posts those with the fullest text of their story, then the earliest (I2).

    Posts that no filter hides come first (B2).
    """

    def order(post: Post) -> tuple[bool, int, float, int]:
        at = post.published_at or post.created_at
        return post.filtered_by is None, len(post.body), -at.timestamp(), -(post.seq or 0)

    best: dict[str, Post] = {}
    for post in sorted(found, key=order):
        best[post.story_id or post.id] = post
    return {post.id for post in best.values()}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    given_posts=st.lists(posts(), min_size=2, max_size=9),
    stories=st.lists(st.sampled_from([None, "one", "two"]), min_size=9, max_size=9),
    hidden=st.lists(st.booleans(), min_size=9, max_size=9),
    filtered=st.sampled_from(Filtered),
    queries=st.lists(QUERIES, min_size=2, max_size=4),
    source=st.integers(0, len(SOURCES) - 1) | st.none(),
    since=TIMES,
    until=TIMES,
)
async def test_i2_a_story_is_represented_by_one_of_the_posts_that_a_list_or_search_has(
    store: Store,
    clock: StoreClock,
    given_posts: Sequence[dict[str, Any]],
    stories: Sequence[str | None],
    hidden: Sequence[bool],
    filtered: Filtered,
    queries: Sequence[str],
    source: int | None,
    since: datetime | None,
    until: datetime | None,
):
    there = await store_posts(store, [{**one, "page_text": None} for one in given_posts])
    story_of = {post.id: story for (_, post), story in zip(there, stories, strict=False)}
    await store.database.write(partial(set_stories, story_of=story_of))
    blocked = [post.id for (_, post), is_hidden in zip(there, hidden, strict=False) if is_hidden]
    sql = "UPDATE posts SET filtered_by = 'source.block' WHERE id IN :ids"
    await store.database.execute(sql, {"ids": blocked})
    await Followers(store, clock, all_followers()).catch_up()
    source_id = None if source is None else there[source % len(there)][0].id
    chosen = ContentFilter(source_id=source_id, since=since, until=until, filtered=filtered)
    once = replace(chosen, story_once=True)
    listed = await newest_posts(store, podcast_id="default", chosen=EVERYTHING, limit=100)
    by_id = {post.id: post for post in listed}
    assert await ids_in_list(store, once) == representatives(
        [by_id[id_] for id_ in await ids_in_list(store, chosen)]
    )
    for text in queries:
        query = parse_query(text)
        every = await found_ids(store, query, chosen)
        for by_rank in (False, True):
            found = await found_ids(store, query, once, by_rank=by_rank)
            assert len(found) == len(set(found)), text
            assert set(found) == representatives([by_id[id_] for id_ in every]), text


def set_stories(session: Session, story_of: dict[str, str | None]) -> None:
    rows = [{"id": id_, "story": story} for id_, story in story_of.items()]
    session.execute_many("UPDATE posts SET story_id = :story WHERE id = :id", rows)


async def ids_in_list(store: Store, chosen: ContentFilter) -> set[str]:
    page = await store.posts.page(podcast_id="default", chosen=chosen, limit=100)
    return {post.id for post in page.items}


async def two_copies(store: Store) -> tuple[str, str]:
    """Posts of a story, the second with a fuller text of a day later; their ids."""
    made = []
    for word, more, at in (("apricot", "", NOW - DAY), ("banana", " More.", NOW - HOUR)):
        source = await stored(store, label=word)
        url = f"https://{word}.example/story"
        post = a_post(
            source_id=source.id, title=word, body=f"{TEXT}{more}", url=url, published_at=at
        )
        await with_posts(store, source, post)
        made += await newest_posts(store, source_id=source.id, limit=1)
    await Followers(store, StoreClock(), [search_follower(), STORIES]).catch_up()
    return made[0].id, made[1].id


async def test_i2_a_score_and_a_processed_article_limit_who_represents_a_story(store: Store):
    short, full = await two_copies(store)
    assert await ids_in_list(store, ONCE) == {full}
    await store.database.execute("UPDATE posts SET score = 0.9 WHERE id = :id", {"id": short})
    assert await ids_in_list(store, replace(ONCE, min_score=0.5)) == {short}
    await articles_of_each(store)
    sql = """UPDATE articles SET is_processed = TRUE
        WHERE id IN (SELECT article_id FROM post_articles WHERE post_id = :id)"""
    await store.database.execute(sql, {"id": full})
    assert await ids_in_list(store, replace(ONCE, processed=False)) == set()  # its story is
    assert await ids_in_list(store, replace(ONCE, processed=True)) == {full}


async def test_i2_a_hidden_post_represents_a_story_only_where_no_other_does(store: Store):
    short, full = await two_copies(store)
    sql = "UPDATE posts SET filtered_by = 'source.block' WHERE id = :id"
    await store.database.execute(sql, {"id": full})
    both, hidden = replace(ONCE, filtered=Filtered.ANY), replace(ONCE, filtered=Filtered.ONLY)
    assert await ids_in_list(store, both) == {short}
    assert await ids_in_list(store, hidden) == {full}
    assert await ids_in_list(store, ONCE) == {short}
    await store.database.execute(sql, {"id": short})
    assert await ids_in_list(store, both) == await ids_in_list(store, hidden) == {full}


async def test_i2_an_article_that_a_search_finds_represents_its_story(store: Store):
    await two_copies(store)
    await articles_of_each(store)
    await Followers(store, StoreClock(), all_followers()).catch_up()

    async def titles(text: str, **conditions: Any) -> list[str]:
        chosen = replace(ONCE, **conditions)
        request = SearchRequest("default", parse_query(text), chosen, NOW, limit=10)
        return [article.title for article in (await store.search.articles(request)).items]

    assert await titles("apricot") == ["apricot"]
    assert await titles("banana") == ["banana"]
    assert await titles("apricot OR banana") == ["banana"]
    assert await titles("apricot OR banana", until=NOW - DAY / 2) == ["apricot"]
    page = await store.articles.page("default", chosen=replace(ONCE, until=NOW - DAY / 2), limit=10)
    assert [article.title for article in page.items] == ["apricot"]


async def test_i2_the_earliest_posts_of_a_large_story_are_listed(store: Store):
    """Each post and article lists 50 others of its story, never itself."""
    source = await stored(store)
    at = [NOW - n * HOUR / 60 for n in range(120)]
    names = [a_post(f"p{n}", source_id=source.id, published_at=one) for n, one in enumerate(at)]
    await with_posts(store, source, *names)
    await articles_of_each(store)
    sql = "UPDATE posts SET story_id = CASE WHEN seq % 2 = 0 THEN 'even' ELSE 'odd' END"
    await store.database.execute(sql)
    found = await newest_posts(store, source_id=source.id, limit=200)
    earliest_first = sorted(found, key=lambda post: post.published_at or NOW)
    for post in found:
        story = [one.id for one in earliest_first if one.story_id == post.story_id]
        others = [id_ for id_ in story if id_ != post.id]
        assert [each.post_id for each in post.also_from] == others[:MAX_ALSO_FROM]
    by_id = {post.id: post for post in found}
    articles = (await store.articles.page("default", limit=200)).items
    assert len(articles) == 120
    for article in articles:
        (own,) = article.post_ids
        assert article.also_from == by_id[own].also_from


async def articles_of_each(store: Store) -> None:
    """Make an article of each post, also of copies."""
    make = partial(articles_from, now=NOW, policy=Policy())
    await store.articles.aggregate("default", created_after=NOW - 7 * DAY, make=make)
