"""Posts are grouped into stories, on both databases (I1-I3)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from headwater.engine.followers import STORIES, Followers, handle_batch
from headwater.errors import NotFound
from headwater.model import Article, Podcast, Post, Source
from headwater.rules.digest import articles_from
from headwater.rules.stories import WINDOW, ComparedText
from headwater.store import Store
from headwater.store.aggregation import Aggregation
from headwater.store.content_filter import ContentFilter
from headwater.store.expired_rows import old_articles, old_posts, old_story_marks
from tests.factories import a_policy, a_post
from tests.store.store_data import (
    DAY,
    HOUR,
    NOW,
    StoreClock,
    newest_articles,
    newest_posts,
    rows,
    stored,
    with_posts,
)
from tests.story_texts import TextGenerator

TEXT = TextGenerator(1).text(120)
REPORT = "The river rose by {0} cm over night, says the gauge. " * 9
ONCE = ContentFilter(story_once=True)


async def store_copies(store: Store, *texts: str, **changes: Any) -> list[Source]:
    """Store a post with each text, of sources of their own."""
    sources = []
    for text in texts:
        source = await stored(store)
        await with_posts(store, source, post_of(source, text, **changes))
        sources.append(source)
    return sources


def post_of(source: Source, text: str = TEXT, **changes: Any) -> Post:
    """A post with a link of its own."""
    url = f"https://{source.id}.example/{len(text)}-{text[:9]}"
    return a_post(source_id=source.id, body=text, **({"url": url} | changes))


async def grouped(store: Store) -> list[Post]:
    """All posts of the podcast, in the order they were stored, after they were grouped."""
    await Followers(store, StoreClock(), [STORIES]).run()
    posts = await newest_posts(store, podcast_id="default", limit=100)
    return sorted(posts, key=lambda post: post.seq or 0)


async def aggregated(store: Store, *, story_once: bool = True) -> Aggregation:
    """Create articles of the waiting posts."""
    return await store.articles.aggregate(
        "default",
        created_after=NOW - 7 * DAY,
        story_once=story_once,
        make=partial(articles_from, now=NOW, policy=a_policy()),
    )


async def only_article(store: Store) -> Article:
    """The article of the podcast."""
    (article,) = await newest_articles(store, "default", limit=10)
    return article


async def test_i1_copies_share_a_story_and_name_each_other(store: Store):
    sources = await store_copies(store, TEXT, f"{TEXT} More of it.", "Something else.")
    first, second, other = await grouped(store)
    assert first.story_id == second.story_id is not None
    assert other.story_id is None
    assert [each.post_id for each in first.also_from] == [second.id]
    (also,) = second.also_from
    assert (also.post_id, also.link, also.timestamp) == (first.id, first.url, first.published_at)
    assert (also.source.id, also.source.url) == (sources[0].id, sources[0].url)
    assert not other.also_from
    assert (await store.posts.get("default", first.id)).also_from == first.also_from


async def test_i1_stories_do_not_depend_on_batches_and_are_the_same_again(store: Store):
    texts = [TEXT, f"{TEXT} More.", f"Agency. {TEXT}"]
    await store_copies(store, *texts[:1])
    await grouped(store)
    await store_copies(store, *texts[1:])
    posts = await grouped(store)
    assert len({post.story_id for post in posts}) == 1
    await store.database.execute("UPDATE posts SET story_id = NULL")
    await store.database.execute("DELETE FROM story_marks")
    await store.database.execute("DELETE FROM facts WHERE name = 'cursor:stories'")
    assert [post.story_id for post in await grouped(store)] == [post.story_id for post in posts]


async def test_i1_posts_before_the_window_are_skipped_after_an_upgrade(store: Store):
    old, recent = NOW - WINDOW - HOUR, NOW - WINDOW + HOUR
    source = await stored(store)
    times = [old, old, recent, old, NOW]
    posts = [
        post_of(source, f"{number} {TEXT}", published_at=NOW, created_at=at)
        for number, at in enumerate(times)
    ]
    await with_posts(store, source, *posts)
    await store_copies(store, f"Agency. {TEXT}", created_at=NOW)
    grouped_posts = await grouped(store)
    assert [post.created_at for post in grouped_posts] == [*times, NOW]
    marked = await rows(store, "SELECT DISTINCT seq FROM story_marks ORDER BY seq")
    assert [row[0] for row in marked] == [grouped_posts[n].seq for n in (2, 4, 5)]


async def test_i1_many_posts_before_the_window_are_skipped_at_once(store: Store):
    old = NOW - WINDOW - HOUR
    source = await stored(store)
    posts = [post_of(source, f"{n} {TEXT}", created_at=old) for n in range(5001)]
    await with_posts(store, source, *posts, post_of(source, created_at=NOW))
    batches = 1
    while await handle_batch(store, STORIES):
        batches += 1
    assert batches <= 3
    assert await rows(store, "SELECT count(DISTINCT seq) FROM story_marks") == [(1,)]


async def test_i1_posts_of_one_source_and_of_other_podcasts_stay_apart(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    source, foreign = await stored(store), await stored(store, podcast_id="other")
    await with_posts(store, source, post_of(source, TEXT), post_of(source, f"{TEXT} More."))
    await with_posts(store, foreign, post_of(foreign, TEXT))
    await grouped(store)
    assert await rows(store, "SELECT count(*) FROM posts WHERE story_id IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("at_once", [True, False])
async def test_i1_posts_of_one_source_do_not_meet_in_a_story_through_others(
    store: Store, at_once: bool
):
    one, two, three = [await stored(store) for _ in range(3)]
    copies = [(one, ""), (two, " More."), (one, " More. Or less."), (three, " More. Or less. Or.")]
    for source, end in copies:
        await with_posts(store, source, post_of(source, f"{TEXT}{end}"))
        if not at_once:
            await grouped(store)
    first, second, again, third = await grouped(store)
    assert first.story_id == second.story_id == third.story_id is not None
    assert again.story_id is None


@pytest.mark.parametrize("at_once", [False, True])
async def test_i1_posts_of_one_source_do_not_meet_through_a_post_that_joins_by_its_link(
    store: Store, at_once: bool
):
    one, two, three = [await stored(store) for _ in range(3)]
    url, other = "https://example.org/a", REPORT.format(7)
    await with_posts(store, one, post_of(one, TEXT))
    await with_posts(store, two, post_of(two, f"{TEXT} More.", url=url))
    await grouped(store)
    await with_posts(store, three, post_of(three, other, url=url))
    if not at_once:
        await grouped(store)
    await with_posts(store, one, post_of(one, f"{other} More.", url="https://example.org/b"))
    first, second, linked, again = await grouped(store)
    assert first.story_id == second.story_id == linked.story_id is not None
    assert again.story_id is None


async def test_i1_a_link_adds_another_post_of_a_source_to_a_story(store: Store):
    one, two = await stored(store), await stored(store)
    url = "https://example.org/a"
    await with_posts(store, one, post_of(one, TEXT))
    await with_posts(store, two, post_of(two, f"{TEXT} More.", url=url))
    await with_posts(store, one, post_of(one, "Short.", url=url))
    assert len({post.story_id for post in await grouped(store)}) == 1


async def test_i1_each_text_of_a_batch_is_prepared_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    prepared: list[str] = []
    prepare = ComparedText.of

    def noted(text: str) -> ComparedText:
        prepared.append(text)
        return prepare(text)

    monkeypatch.setattr(ComparedText, "of", noted)
    for _ in range(2):
        prepared.clear()
        for source in [await stored(store) for _ in range(5)]:
            reports = [f"{source.id} reports: " + REPORT.format(n) for n in range(10)]
            new = [post_of(source, r, url=f"{source.url}/{n}") for n, r in enumerate(reports)]
            await with_posts(store, source, *new)
        posts = await grouped(store)
        assert {post.body for post in posts[-50:]} <= set(prepared)
        assert len(prepared) == len(set(prepared))
    stories = Counter((post.story_id, post.source_id) for post in posts if post.story_id)
    assert set(stories.values()) == {1}  # a source has one post in each
    assert len(stories) > 50


async def test_i1_the_same_link_makes_a_story(store: Store):
    one, two = await stored(store), await stored(store)
    await with_posts(store, one, post_of(one, "First.", url="https://example.org/a?utm_source=x"))
    await with_posts(store, two, post_of(two, "Second.", url="https://example.org/a"))
    first, second = await grouped(store)
    assert first.story_id == second.story_id is not None


async def test_i1_many_posts_with_the_same_boilerplate_are_found_and_compared(store: Store):
    texts, boilerplate = TextGenerator(8), " ".join(["This very long footer is everywhere."] * 9)
    await store_copies(store, *(f"{texts.text(45)} {boilerplate}" for _ in range(30)), TEXT, TEXT)
    posts = await grouped(store)
    assert [post.body for post in posts if post.story_id] == [TEXT, TEXT]


async def test_i1_marks_past_the_window_are_deleted(store: Store):
    await store_copies(store, TEXT, created_at=NOW - WINDOW)
    await store_copies(store, f"{TEXT} More.")
    await grouped(store)
    before = await rows(store, "SELECT count(*) FROM story_marks")
    assert await store.clean(old_story_marks(), NOW, 1000) == 0
    assert await store.clean(old_story_marks(), NOW + timedelta(seconds=1), 1000) > 0
    assert await store.clean(old_story_marks(), NOW + timedelta(seconds=1), 1000) == 0
    assert (0,) < (await rows(store, "SELECT count(*) FROM story_marks"))[0] < before[0]
    await store_copies(store, f"{TEXT} Even more.")
    first, second, third = await grouped(store)  # the second is still found
    assert first.story_id == second.story_id == third.story_id


async def test_v1_a_change_of_story_counts_as_a_change(store: Store):
    await store_copies(store, TEXT)
    await aggregated(store)
    await store_copies(store, f"{TEXT} More.", "Something else.")
    posts = await grouped(store)
    changed = await store.posts.changed_after("default", 0, 10)
    assert {post.id for post in changed.items} == {post.id for post in posts[:2]}
    articles = await store.articles.changed_after("default", 0, 10)
    assert [article.post_ids for article in articles.items] == [(posts[0].id,)]
    await store.stories.undo("default", posts[1].id)
    again = await store.posts.changed_after("default", changed.next_after, 10)
    assert {post.id for post in again.items} == {post.id for post in posts[:2]}


async def test_i2_a_list_shows_a_story_once_with_its_fullest_text(store: Store):
    one, two, _ = await store_copies(store, TEXT, f"{TEXT} More.", "Something else.")
    await grouped(store)

    async def bodies(source: Source | None = None) -> list[str]:
        chosen = replace(ONCE, source_id=None if source is None else source.id)
        page = await store.posts.page(podcast_id="default", chosen=chosen, limit=10)
        return sorted(post.body for post in page.items)

    assert await bodies() == sorted([f"{TEXT} More.", "Something else."])
    assert await bodies(one) == [TEXT]  # the story of this source
    assert await bodies(two) == [f"{TEXT} More."]


async def test_i2_of_equal_texts_the_earliest_represents_the_story(store: Store):
    later, earlier = await stored(store), await stored(store)
    await with_posts(store, later, post_of(later, TEXT, published_at=NOW))
    await with_posts(store, earlier, post_of(earlier, TEXT, published_at=NOW - HOUR))
    await grouped(store)
    page = await store.posts.page(podcast_id="default", limit=10, chosen=ONCE)
    assert [post.source_id for post in page.items] == [earlier.id]


async def test_i2_aggregation_takes_a_story_once_and_links_its_copies(store: Store):
    await store_copies(store, TEXT, f"{TEXT} More.", "Something else.")
    posts = await grouped(store)
    made = await aggregated(store)
    assert (len(made.created), made.linked_posts) == (2, 3)
    articles = {a.body: a for a in await newest_articles(store, "default", limit=10)}
    article = articles[f"{TEXT} More."]
    assert article.post_ids == (posts[1].id,)
    assert [each.post_id for each in article.also_from] == [posts[0].id]
    assert await aggregated(store) == Aggregation((), 0)


async def test_i2_a_copy_that_arrives_later_is_not_presented_again(store: Store):
    await store_copies(store, TEXT)
    await aggregated(store)
    article = await only_article(store)
    await store.articles.mark_processed("default", [article.id], NOW)
    await store_copies(store, f"{TEXT} A longer version.")
    posts = await grouped(store)
    assert await aggregated(store) == Aggregation((), 1)
    article = await only_article(store)
    assert article.post_ids == (posts[0].id,)
    assert [each.post_id for each in article.also_from] == [posts[1].id]
    late = await store.posts.page(podcast_id="default", limit=10)
    assert len(late.items) == 2  # nothing is deleted or skipped (I1)


async def test_i2_a_later_copy_does_not_represent_a_processed_story(store: Store):
    (one,) = await store_copies(store, TEXT)
    await aggregated(store)
    article = await only_article(store)
    await store.articles.mark_processed("default", [article.id], NOW)
    (two,) = await store_copies(store, f"{TEXT} A longer version.")
    first, second = await grouped(store)

    async def shown(**chosen: Any) -> list[str]:
        page = await store.posts.page(
            podcast_id="default", limit=10, chosen=replace(ONCE, **chosen)
        )
        return [post.id for post in page.items]

    for _ in range(2):  # before and after aggregation links the copy
        assert await shown() == await shown(processed=True) == [first.id]
        assert await shown(processed=False) == []
        assert await shown(source_id=one.id) == [first.id]
        assert await shown(source_id=two.id) == [second.id]  # what this source has
        assert await shown(source_id=two.id, processed=True) == [second.id]
        assert await shown(source_id=two.id, processed=False) == []
        assert [each.id for each in await store.headlines.newest(["default"], limit=9)] == [
            first.id
        ]
        await aggregated(store)
    await store.articles.undo("default", NOW, article_ids=[article.id])
    assert await shown() == await shown(processed=False) == [second.id]  # the fullest again


async def test_i2_without_the_setting_every_copy_becomes_an_article(store: Store):
    await store_copies(store, TEXT, f"{TEXT} More.")
    await grouped(store)
    assert len((await aggregated(store, story_once=False)).created) == 2
    once = await store.articles.page("default", limit=10, chosen=ONCE)
    assert [article.body for article in once.items] == [f"{TEXT} More."]
    assert len((await store.articles.page("default", limit=10)).items) == 2


async def test_i2_a_story_waits_for_the_page_of_any_of_its_posts(store: Store):
    source, _ = await store_copies(store, TEXT, f"{TEXT} More.")
    posts = await grouped(store)
    await store.database.execute(
        """INSERT INTO page_visits (post_id, source_id, host, created_at, not_before)
        VALUES (:post, :source, 'example.org', 9, 0)""",
        {"post": posts[0].id, "source": source.id},
    )
    assert await aggregated(store) == Aggregation((), 0)
    await store.page_visits.drop(posts[0].id)
    assert len((await aggregated(store)).created) == 1


async def test_c1_c2_copies_are_deleted_with_the_article_of_their_story(store: Store):
    await store_copies(store, TEXT, f"{TEXT} More.")
    await grouped(store)
    await aggregated(store)
    late = NOW + 8 * DAY
    assert await store.clean(old_posts(7), late, 100) == 0  # copies are no waiting posts
    assert await store.clean(old_articles(7), late, 100) == 3
    assert await rows(store, "SELECT count(*) FROM posts") == [(0,)]
    assert await rows(store, "SELECT count(*) FROM tombstones") == [(2,)]


async def test_i3_a_wrong_merge_is_undone_for_good(store: Store):
    await store_copies(store, TEXT, f"{TEXT} More.", f"Agency. {TEXT}")
    first, wrong, third = await grouped(store)
    assert await store.stories.undo("default", wrong.id)
    assert not await store.stories.undo("default", wrong.id)
    await store_copies(store, f"{TEXT} More. Or less.")  # most like the post that was removed
    posts = await grouped(store)
    assert [post.story_id for post in posts] == [
        first.story_id,
        None,
        third.story_id,
        first.story_id,
    ]
    assert not posts[1].also_from


async def test_i3_two_posts_are_no_story_once_one_of_them_is_removed(store: Store):
    await store_copies(store, TEXT, f"{TEXT} More.")
    first, _ = await grouped(store)
    await store.stories.undo("default", first.id)
    assert [post.story_id for post in await grouped(store)] == [None, None]
    await store_copies(store, f"{TEXT} Even more.")  # the other one can still be found
    assert [bool(post.story_id) for post in await grouped(store)] == [False, True, True]


@pytest.mark.parametrize("removed", [0, 1])
async def test_i3_a_copy_that_was_linked_by_mistake_waits_again(store: Store, removed: int):
    await store_copies(store, TEXT, f"{TEXT} More.")
    posts = await grouped(store)
    await aggregated(store)
    await store.stories.undo("default", posts[removed].id)
    assert len((await aggregated(store)).created) == 1
    articles: Sequence[Article] = await newest_articles(store, "default", limit=10)
    assert {article.post_ids for article in articles} == {(post.id,) for post in posts}
    assert not any(article.also_from for article in articles)


async def test_u2_a_story_of_another_podcast_cannot_be_undone(store: Store):
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    await store_copies(store, TEXT, f"{TEXT} More.")
    post, _ = await grouped(store)
    with pytest.raises(NotFound):
        await store.stories.undo("other", post.id)


async def test_b2_a_filtered_copy_is_not_part_of_its_story(store: Store):
    await store_copies(store, TEXT, f"{TEXT} More.", f"Agency. {TEXT}")
    first, filtered, third = await grouped(store)
    sql = "UPDATE posts SET filtered_by = 'podcast.block' WHERE id = :id"
    await store.database.execute(sql, {"id": filtered.id})
    post = await store.posts.get("default", first.id)
    assert [each.post_id for each in post.also_from] == [third.id]
    assert (await aggregated(store)).linked_posts == 2
    page = await store.posts.page(podcast_id="default", limit=10, chosen=ONCE)
    assert [post.id for post in page.items] == [third.id]  # the fullest that is shown
