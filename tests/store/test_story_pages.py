"""Posts are grouped again with the text of their page, on both databases (I1, T4)."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from headwater.engine.followers import STORIES, Followers, handle_batch
from headwater.model import Entry, Outcome, OutcomeKind, Post, Source, SourceType
from headwater.rules.full_text import PageResult
from headwater.rules.stories import WINDOW
from headwater.store import Session, Store, sequence_numbers
from headwater.store.aggregation import Aggregation
from tests.store.store_data import NOW, StoreClock, newest_articles, rows, stored, with_posts
from tests.store.test_stories import (
    aggregated,
    grouped,
    only_article,
    post_of,
    store_copies,
)
from tests.story_texts import TextGenerator

TEXT = TextGenerator(1).text(120)
TEASER = "What the council decided on Tuesday."


async def store_teaser(store: Store, teaser: str = TEASER, **changes: Any) -> Source:
    """Store a post with a teaser, whose page is pending."""
    source = await stored(store, full_text="on")
    url = f"https://{source.id}.example/teaser"
    await with_posts(store, source, post_of(source, teaser, **({"url": url} | changes)))
    return source


async def read_page(store: Store, source: Source, text: str = TEXT) -> None:
    """Record the text of the page of the only post of a source."""
    ((post_id,),) = await rows(store, f"SELECT id FROM posts WHERE source_id = '{source.id}'")
    visit = await store.page_visits.pending(post_id)
    assert visit is not None
    source = await store.sources.get(source.id)
    outcome = Outcome(source, source, OutcomeKind.UNCHANGED, NOW)
    page = Entry(None, "Page", None, None, None, text)
    assert await store.record_page(PageResult(visit, outcome, page, error=None, retry=None))


async def stories(store: Store) -> list[str | None]:
    """The stories of all posts, in the order they were stored."""
    return [post.story_id for post in await grouped(store)]


@pytest.mark.parametrize("first", ["teaser", "copies"])
@pytest.mark.parametrize("at_once", [True, False])
async def test_i1_t4_a_teaser_joins_the_story_of_its_page(store: Store, first: str, at_once: bool):
    if first == "copies":
        await store_copies(store, TEXT, f"{TEXT} More.")
    source = await store_teaser(store)
    if not at_once:
        await grouped(store)
    if first == "teaser":
        await store_copies(store, TEXT, f"{TEXT} More.")
    if not at_once:
        assert sorted(map(bool, await stories(store))) == [False, True, True]
    await read_page(store, source)
    found = await stories(store)
    assert len(found) == 3
    assert len(set(found)) == 1
    assert found[0] is not None


async def test_i1_t4_a_later_copy_joins_a_post_whose_page_was_read(store: Store):
    source = await store_teaser(store)
    assert await stories(store) == [None]
    await read_page(store, source)
    assert await stories(store) == [None]
    await store_copies(store, TEXT)
    first, second = await stories(store)
    assert first == second is not None


async def test_i1_t4_a_later_copy_joins_teasers_that_are_a_story_already(store: Store):
    url = "https://example.org/a"
    one, two = await store_teaser(store, url=url), await store_teaser(store, url=url)
    story, again = await stories(store)
    assert story == again is not None
    await read_page(store, one)
    await read_page(store, two)
    assert await stories(store) == [story, story]
    await store_copies(store, TEXT)
    assert await stories(store) == [story] * 3


async def test_i1_t4_marks_of_the_teaser_are_replaced_once(store: Store):
    teaser = TextGenerator(2).text(60)
    source = await store_teaser(store, teaser)
    await grouped(store)
    sql = "SELECT mark FROM story_marks ORDER BY mark"
    before = await rows(store, sql)
    await read_page(store, source)
    await grouped(store)
    after = await rows(store, sql)
    assert len(before) == len(after) == 17
    assert len({*before} & {*after}) == 1  # that of the link
    number = "SELECT last FROM post_numbers"
    if store.database.takes_workers:  # PostgreSQL
        number = "SELECT last_value FROM post_numbers"
    last = await rows(store, number)
    await grouped(store)
    assert await rows(store, number) == last  # grouping caused no change


async def test_i1_t4_a_post_that_joined_is_not_changed_again(store: Store):
    source = await store_teaser(store)
    await store_copies(store, TEXT)
    await read_page(store, source)
    await grouped(store)
    sql = "SELECT id, changed_seq, story_id FROM posts ORDER BY id"
    joined = await rows(store, sql)
    assert all(story for *_, story in joined)
    for _ in range(3):
        await grouped(store)
        assert await rows(store, sql) == joined


async def test_i1_t4_posts_beyond_the_window_stay_apart(store: Store):
    await store_copies(store, TEXT, published_at=NOW - WINDOW - timedelta(minutes=1))
    source = await store_teaser(store, published_at=NOW)
    await grouped(store)
    await read_page(store, source)
    assert await stories(store) == [None, None]


async def test_i1_t4_pages_of_one_source_stay_apart(store: Store):
    (other,) = await store_copies(store, TEXT)
    source = await stored(store, full_text="on")
    await with_posts(store, source, post_of(source, f"{TEXT} More."))
    await grouped(store)
    await with_posts(store, source, post_of(source, TEASER))
    found = await grouped(store)
    assert [bool(post.story_id) for post in found] == [True, True, False]
    await set_page(store, found[2])
    assert [bool(post.story_id) for post in await grouped(store)] == [True, True, False]
    assert other.id == found[0].source_id


async def set_page(store: Store, post: Post, text: str = TEXT) -> None:
    """Give one of several posts of a source the text of its page."""

    def write(session: Session) -> None:
        session.update_rows("posts", [{"id": post.id, "page_text": text, "text_from": "page"}])
        sequence_numbers.mark_changed(session, "posts", [post.id])

    await store.database.write(write)


async def test_i1_w5_additions_to_a_watched_page_are_compared_rather_than_the_page(store: Store):
    site = await stored(store, type=SourceType.WEBSITE)
    await with_posts(store, site, post_of(site, TextGenerator(3).text(60), page_text=TEXT))
    await store_copies(store, TEXT)
    found = await grouped(store)
    await store.database.write(lambda s: sequence_numbers.mark_changed(s, "posts", [found[0].id]))
    assert await stories(store) == [None, None]


async def test_i3_t4_a_post_that_was_taken_out_of_its_story_is_not_grouped_again(store: Store):
    source = await store_teaser(store)
    await store_copies(store, TEXT, f"{TEXT} More.")
    await read_page(store, source)
    posts = await grouped(store)
    await store.stories.undo("default", posts[0].id)
    assert [bool(story) for story in await stories(store)] == [False, True, True]
    await store_copies(store, f"Agency. {TEXT}")
    assert [bool(story) for story in await stories(store)] == [False, True, True, True]


async def test_i3_t4_a_teaser_that_was_taken_out_is_not_grouped_by_its_page(store: Store):
    url = "https://example.org/a"
    source = await store_teaser(store, url=url)
    await store_copies(store, TEXT, f"{TEXT} More.", url=url)
    posts = await grouped(store)
    assert all(post.story_id for post in posts)
    await store.stories.undo("default", posts[0].id)
    await read_page(store, source)
    assert [bool(story) for story in await stories(store)] == [False, True, True]


async def test_i2_t4_a_story_becomes_one_article_with_the_teaser_as_a_copy(store: Store):
    source = await store_teaser(store)
    await store_copies(store, f"{TEXT} More.", TEXT)
    await read_page(store, source)
    await grouped(store)
    assert len((await aggregated(store)).created) == 1
    article = await only_article(store)
    assert len(article.also_from) == 2


async def test_i2_t4_a_teaser_that_joins_a_processed_story_is_not_presented_again(store: Store):
    await store_copies(store, TEXT)
    await aggregated(store)
    article = await only_article(store)
    await store.articles.mark_processed("default", [article.id], NOW)
    source = await store_teaser(store)
    await grouped(store)
    await read_page(store, source, f"{TEXT} And much more.")
    await grouped(store)
    assert await aggregated(store) == Aggregation((), 1)
    assert [each.source.id for each in (await only_article(store)).also_from] == [source.id]


async def test_i1_t4_many_other_changes_are_skipped_in_few_batches(store: Store):
    source = await stored(store)
    await with_posts(store, source, *(post_of(source, f"{n} {TEASER}") for n in range(5001)))
    teaser = await store_teaser(store)
    await store_copies(store, TEXT)
    posts = await grouped(store)
    ids = [row[0] for row in await rows(store, "SELECT id FROM posts")]
    await store.database.write(lambda s: sequence_numbers.mark_changed(s, "posts", ids))
    await read_page(store, teaser)
    batches = 1
    while await handle_batch(store, STORIES):
        batches += 1
    assert batches <= 3
    assert len(posts) == 100
    sql = "SELECT count(*) FROM posts WHERE story_id IS NOT NULL"
    assert await rows(store, sql) == [(2,)]
    assert await newest_articles(store, "default", limit=1) == []


@pytest.mark.slow
async def test_i1_t4_a_killed_process_leaves_no_page_ungrouped(store: Store, url: str):
    """Killed before any statement and before the commit of several batches."""
    sources = [await store_teaser(store, f"{n} {TEASER}") for n in range(4)]
    texts = [TextGenerator(10 + n).text(60) for n in range(4)]
    await store_copies(store, *texts)
    await grouped(store)
    for source, text in zip(sources, texts, strict=True):
        await read_page(store, source, text)
    command = [sys.executable, "-m", "tests.store.killed_following", url, "30", STORIES.name]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    await Followers(store, StoreClock(), [STORIES]).catch_up()
    found = await stories(store)
    assert found[:4] == found[4:]
    assert len({*found} - {None}) == 4
