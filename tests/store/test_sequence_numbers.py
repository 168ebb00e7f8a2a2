"""Posts are numbered as they are stored, on both databases (R9)."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.model import Post, Source
from headwater.operations.copy_database import copy_database
from headwater.rules.digest import articles_from
from headwater.store import POSTS_PER_COMMIT, Store, open_database, sequence_numbers
from headwater.store.backup_file import back_up, restore
from headwater.store.expired_rows import unnumbered_posts
from tests.factories import a_policy, a_post
from tests.store.conftest import BOTH
from tests.store.store_data import (
    NOW,
    StoreClock,
    a_success,
    newest_posts,
    rows,
    stored,
    with_posts,
)


def new_post(source: Source, name: str) -> Post:
    """A post as a poll decides it, at the same time as all others."""
    return a_post(name, source_id=source.id)


async def test_r9_a_thread_of_one_second_is_listed_in_order(store: Store):
    source = await stored(store)
    names = [f"{n:02}" for n in range(40)]
    for start in range(0, 40, 10):  # several polls
        source = await with_posts(
            store, source, *(new_post(source, name) for name in names[start : start + 10])
        )
    posts = await newest_posts(store, source_id=source.id, limit=100)
    assert [post.title for post in reversed(posts)] == [f"The {name} title" for name in names]
    numbers = [post.seq or 0 for post in reversed(posts)]
    assert numbers == sorted(set(numbers))

    made = await store.articles.aggregate(
        source.podcast_id,
        created_after=NOW,
        make=partial(articles_from, now=NOW, policy=a_policy()),
    )
    page = await store.articles.page(source.podcast_id, limit=100, oldest_first=True)
    assert [article.title for article in page.items] == [f"The {name} title" for name in names]
    assert len(made.created) == 40


async def test_r9_numbers_are_unique_and_are_those_of_the_recorded_outcome(store: Store):
    sources = [await stored(store) for _ in range(5)]
    polls = [
        store.record(a_success(source, [new_post(source, str(n)) for n in range(7)]))
        for source in sources
    ]
    outcomes = await asyncio.gather(*polls)
    recorded = {(post.id, post.seq) for outcome in outcomes for post in outcome.posts}
    assert len({seq for _, seq in recorded}) == 35
    assert recorded == set(await rows(store, "SELECT id, seq FROM posts"))


async def test_r9_a_large_outcome_is_numbered_in_order(store: Store):
    source = await stored(store)
    many = [new_post(source, f"{n:05}") for n in range(POSTS_PER_COMMIT + 1)]
    await with_posts(store, source, *many)
    titles = [row[0] for row in await rows(store, "SELECT title FROM posts ORDER BY seq")]
    assert titles == [post.title for post in many]


async def test_r9_posts_of_earlier_versions_are_numbered_in_the_order_they_were_stored(
    store: Store,
):
    source = await stored(store)
    await with_posts(store, source, *(new_post(source, str(n)) for n in range(5)))
    await store.database.write(lambda s: s.execute("UPDATE posts SET seq = NULL"))
    posts = await newest_posts(store, source_id=source.id, limit=10)
    assert [post.seq for post in posts] == [None] * 5
    batches = [await store.clean(unnumbered_posts(), NOW, 2) for _ in range(4)]
    assert batches == [2, 2, 1, 0]
    found = await rows(store, "SELECT seq FROM posts ORDER BY created_at, id")
    assert [seq for (seq,) in found] == [6, 7, 8, 9, 10]


async def test_r9_posts_without_a_number_beyond_the_reserved_ones_continue_after_the_last(
    store: Store,
):
    source = await stored(store)
    await with_posts(store, source, *(new_post(source, str(n)) for n in range(5)))
    await store.database.write(lambda s: s.execute("UPDATE posts SET seq = NULL"))
    await store.key_values.set("numbers of earlier posts", "1-3")
    batches = [await store.clean(unnumbered_posts(), NOW, 2) for _ in range(4)]
    assert batches == [2, 2, 1, 0]
    found = await rows(store, "SELECT seq FROM posts ORDER BY created_at, id")
    assert [seq for (seq,) in found] == [1, 2, 3, 6, 7]


@pytest.mark.parametrize("to", BOTH)
async def test_r9_a_number_is_never_used_again_in_a_copy_or_after_a_restore(
    store: Store, to: str, request: pytest.FixtureRequest, tmp_path: Path
):
    make: Callable[[], str] = request.getfixturevalue(f"new_{to}")
    source = await stored(store)
    await with_posts(store, source, *(new_post(source, str(n)) for n in range(5)))
    await store.database.write(lambda s: s.execute("DELETE FROM posts"))
    last = await store.database.read(sequence_numbers.last)
    assert last == 5
    backup = tmp_path / "backup.db"
    await back_up(store.database, backup)
    async with (
        Store(open_database(make()), StoreClock()) as copied,
        Store(open_database(make()), StoreClock()) as restored,
    ):
        await copy_database(store, copied, SystemClock(), lambda _: None)
        await restore(restored.database, backup)
        for one in (copied, restored):
            await with_posts(one, await one.sources.get(source.id), new_post(source, "next"))
            assert await rows(one, "SELECT seq FROM posts") == [(last + 1,)]
        await restore(copied.database, backup)  # older than the last number
        await with_posts(copied, await copied.sources.get(source.id), new_post(source, "next"))
        assert await rows(copied, "SELECT seq FROM posts") == [(last + 2,)]
