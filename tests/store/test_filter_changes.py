"""Changed filters: posts are evaluated again in batches, in both directions, across kills (B2)."""

from dataclasses import replace
from datetime import datetime
from functools import partial

import pytest

from headwater.errors import SearchTooSlow
from headwater.model import FilteredBy, Podcast, Source, Subject
from headwater.rules.digest import articles_from
from headwater.rules.policy import Policy
from headwater.store import Session, Store, filter_changes
from headwater.store.content_filter import ContentFilter, Filtered
from headwater.store.expired_rows import changed_filters
from headwater.store.filter_changes import (
    ALL_SOURCES,
    POSTS_PER_BATCH,
    SECOND_PASS_AFTER,
    FilterEffect,
)
from tests.store.store_data import DAY, MINUTE, NOW, a_post_of, rows, stored, with_posts

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
LATER = NOW + SECOND_PASS_AFTER + MINUTE


async def block(store: Store, source: Source, query: str | None) -> None:
    await store.sources.edit(source.id, lambda before: replace(before, block=query))


async def evaluate_all(store: Store, now: datetime = NOW) -> int:
    """Evaluate until nothing is left to do at this time; return the number of batches."""
    batches = 0
    while await store.clean(changed_filters(), now, 0):
        batches += 1
        assert batches < 100
    return batches


async def titles(store: Store, filtered: Filtered = Filtered.NO) -> set[str]:
    chosen = ContentFilter(filtered=filtered)
    page = await store.posts.page(podcast_id="default", chosen=chosen, limit=5000)
    return {post.title for post in page.items}


async def source_with(store: Store, *names: str, **settings: object) -> Source:
    source = await stored(store, **settings)
    return await with_posts(
        store, source, *(a_post_of(source, f"{name} text", title=name) for name in names)
    )


async def test_b2_a_changed_filter_applies_to_stored_posts_in_both_directions(store: Store):
    source = await source_with(store, "bank", "fish", "ship")
    other = await source_with(store, "bank of another source")
    await block(store, source, "bank OR fish")
    await evaluate_all(store)
    assert await titles(store) == {"ship", "bank of another source"}
    assert await titles(store, Filtered.ONLY) == {"bank", "fish"}
    assert await titles(store, Filtered.ANY) == {"bank", "fish", "ship", "bank of another source"}
    reasons = await rows(store, "SELECT DISTINCT filtered_by FROM posts ORDER BY 1 NULLS FIRST")
    assert reasons == [(None,), ("source.block",)]

    await block(store, source, "ship")
    await evaluate_all(store)
    assert await titles(store) == {"bank", "fish", "bank of another source"}
    changes = await store.posts.changed_after("default", 0, 10)  # V1
    assert {post.title for post in changes.items} == {"bank", "fish", "ship"}

    await block(store, source, None)
    await evaluate_all(store)
    assert await titles(store, Filtered.ONLY) == set()
    assert other.block is None


async def test_b2_a_filter_of_the_podcast_applies_to_all_its_sources(store: Store):
    await source_with(store, "bank", "fish")
    await source_with(store, "ship", block="ship")
    await store.accounts.save_podcast(Podcast("other", "default", "Other", NOW))
    await source_with(store, "elsewhere", podcast_id="other")
    await store.accounts.edit_podcast("default", lambda podcast: replace(podcast, keep="fish"))
    await evaluate_all(store)
    found = await rows(store, "SELECT title, filtered_by FROM posts ORDER BY title")
    assert found == [
        ("bank", "podcast.keep"),
        ("elsewhere", None),
        ("fish", None),
        ("ship", "source.block"),
    ]
    assert (await store.accounts.podcast_with("default")).keep == "fish"
    subject = await store.sources.subject((await rows(store, "SELECT id FROM sources"))[0][0])
    assert subject is not None
    assert (subject.keep, subject.block) == ("fish", None)


async def test_b2_posts_in_articles_stay_as_they_are(store: Store):
    source = await source_with(store, "bank")
    make = partial(articles_from, now=NOW, policy=Policy())
    await store.articles.aggregate("default", created_after=NOW - 7 * DAY, make=make)
    await with_posts(store, source, a_post_of(source, "another bank", title="another bank"))
    await block(store, source, "bank")
    await evaluate_all(store)
    assert await titles(store, Filtered.ONLY) == {"another bank"}
    made = await store.articles.aggregate("default", created_after=NOW - 7 * DAY, make=make)
    assert made.linked_posts == 0  # no article is made of a filtered post


async def test_b2_many_posts_are_evaluated_in_batches_and_a_kill_loses_none(store: Store):
    source = await stored(store)
    many = [a_post_of(source, f"bank {n}", title=str(n)) for n in range(2 * POSTS_PER_BATCH + 10)]
    await with_posts(store, source, *many)
    await block(store, source, "bank")
    counts = []
    while await store.clean(changed_filters(), NOW, 0):  # a kill between two calls loses nothing
        found = await rows(store, "SELECT count(*) FROM posts WHERE filtered_by IS NOT NULL")
        counts.append(found[0][0])
    assert counts == [POSTS_PER_BATCH, 2 * POSTS_PER_BATCH, len(many), len(many)]


async def test_b2_posts_of_polls_that_began_before_the_change_are_evaluated_too(store: Store):
    source = await source_with(store, "bank")
    await block(store, source, "bank")
    await evaluate_all(store)
    # the poll of this post had read the source before the filter was changed
    await with_posts(store, source, a_post_of(source, "late bank", title="late bank"))
    assert await evaluate_all(store) == 0
    await evaluate_all(store, LATER)
    assert await titles(store) == set()
    assert await rows(store, "SELECT count(*) FROM filter_changes") == [(0,)]


async def test_b2_a_batch_of_a_filter_that_changed_meanwhile_is_discarded(store: Store):
    source = await source_with(store, "bank")
    await block(store, source, "bank")
    batch = changed_filters()
    found = await store.database.read(lambda session: batch.find(session, NOW, 0))
    await block(store, source, "fish")
    assert await store.database.write(lambda session: batch.remove(session, found, 0)) == 0
    await evaluate_all(store)
    assert await titles(store) == {"bank"}


async def test_b2_an_edit_of_other_settings_evaluates_nothing(store: Store):
    source = await source_with(store, "bank", block="bank")
    await store.sources.edit(source.id, lambda before: replace(before, label="Bank"))
    await store.accounts.edit_podcast("default", lambda podcast: replace(podcast, name="new"))
    assert await evaluate_all(store) == 0


async def test_b2_what_filters_hide_is_counted(store: Store):
    source = await source_with(store, "bank", "fish", "ship", block="bank OR fish", keep="sea")
    quiet = await source_with(store, "other", block="nothing")
    await store.accounts.edit_podcast("default", lambda podcast: replace(podcast, block="other"))
    await evaluate_all(store)
    await store.sources.edit(source.id, lambda before: replace(before, block="bank OR fish OR x"))
    await evaluate_all(store)
    found = await store.posts.filter_matches("source_id", [source.id, quiet.id])
    assert {key: one.matched for key, one in found.items()} == {
        (source.id, FilteredBy.SOURCE_BLOCK): 2,
        (source.id, FilteredBy.SOURCE_KEEP): 1,
    }
    kept = found[source.id, FilteredBy.SOURCE_KEEP]
    assert (kept.last_title, kept.last_at) == ("ship", NOW)
    of_podcast = await store.posts.filter_matches("podcast_id", ["default"])
    assert {key[1]: one.matched for key, one in of_podcast.items()} == {FilteredBy.PODCAST_BLOCK: 1}


@pytest.mark.parametrize("filtered", [Filtered.NO, Filtered.ONLY])
async def test_b2_lists_continue_behind_a_page(store: Store, filtered: Filtered):
    source = await stored(store)
    posts = [a_post_of(source, f"{'bank' if n % 2 else 'fish'} {n}") for n in range(20)]
    await with_posts(store, source, *posts)
    await block(store, source, "bank")
    await evaluate_all(store)
    chosen, seen, before = ContentFilter(filtered=filtered), [], None
    while True:
        page = await store.posts.page(source_id=source.id, chosen=chosen, limit=3, before=before)
        seen += [post.body for post in page.items]
        if not page.more:
            break
        before = page.items[-1].id
    expected = "fish" if filtered is Filtered.NO else "bank"
    assert sorted(seen) == sorted(post.body for post in posts if expected in post.body)


@pytest.mark.parametrize("evaluated_batches", [0, 1])
async def test_b2_a_cancelled_preview_reports_the_batches_before(
    store: Store, evaluated_batches: int
):
    source = await stored(store)
    posts = [a_post_of(source, f"bank {n}") for n in range(POSTS_PER_BATCH + 1)]
    await with_posts(store, source, *posts)
    started = 0

    def change(subject: Subject) -> Subject:
        """Called once per batch and source; the statement after that takes too long."""
        nonlocal started
        started += 1
        if started > evaluated_batches:
            raise SearchTooSlow("cancelled")
        return replace(subject, block="bank")  # of the podcast

    if not evaluated_batches:
        with pytest.raises(SearchTooSlow, match="this preview takes too long"):
            await store.search.filter_effect("default", ALL_SOURCES, change)
        return
    effect = await store.search.filter_effect("default", ALL_SOURCES, change)
    assert (effect.checked, effect.hidden) == (POSTS_PER_BATCH, POSTS_PER_BATCH)
    assert not effect.is_complete


async def test_b2_a_statement_of_a_preview_is_cancelled_and_the_connection_is_used_again(
    store: Store,
):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source, "bank"))

    def preview(session: Session) -> FilterEffect:
        def change(subject: Subject) -> Subject:
            session.fetch(_ENDLESS)
            return subject

        return filter_changes.preview(session, "default", ALL_SOURCES, change, seconds=0.1)

    with pytest.raises(SearchTooSlow, match="this preview takes too long"):
        await store.database.read(preview)
    effect = await store.search.filter_effect("default", ALL_SOURCES, lambda one: one)
    assert effect.is_complete
