"""Followers handle every stored post once, also if their process is killed (V1)."""

import asyncio
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headwater import logs
from headwater.engine.followers import Followers, all_followers
from headwater.model import Post
from headwater.query.tokens import MAX_CHARACTERS
from headwater.rules.filters import searchable
from headwater.store import Session, Store, open_database, sequence_numbers
from headwater.store.followers import POSTS_PER_BATCH, Follower
from headwater.store.search_index import FOLLOWER, add_entries, entry_of, replace_entries
from tests.factories import a_post
from tests.store.killed_following import BATCH, NOTES
from tests.store.store_data import StoreClock, rows, stored, with_posts
from tests.store.test_cursors import store_posts
from tests.story_texts import TextGenerator


@pytest.fixture
async def notes(store: Store) -> Callable[[], "asyncio.Future[list[str]]"]:
    """Creates the table that `NOTES` writes to, and reads it in order."""
    kind = "SERIAL" if store.database.takes_workers else "INTEGER"
    await store.database.execute(f"CREATE TABLE followed (n {kind} PRIMARY KEY, post_id TEXT)")

    async def read() -> list[str]:
        return [row[0] for row in await rows(store, "SELECT post_id FROM followed ORDER BY n")]

    return lambda: asyncio.ensure_future(read())


async def test_v1_a_follower_handles_every_post_once_in_batches(store: Store, clock, notes):
    source = await stored(store)
    names = [str(n) for n in range(2 * POSTS_PER_BATCH + 1)]
    ids = await store_posts(store, source, *names)
    followers = Followers(store, clock, [NOTES])
    await followers.run()
    assert await notes() == ids
    await followers.catch_up()
    assert await notes() == ids
    ids += await store_posts(store, source, "new")
    await Followers(store, clock, [NOTES]).run()  # another process
    assert await notes() == ids


async def test_v1_followers_of_changes_handle_posts_again(store: Store, clock, notes):
    ids = await store_posts(store, await stored(store), *"abc")
    changes = replace(NOTES, name="changes", column="changed_seq")
    followers = Followers(store, clock, [NOTES, changes])
    await followers.run()
    await store.database.write(lambda s: sequence_numbers.mark_changed(s, "posts", ids[1:2]))
    await followers.run()
    await followers.run()
    assert await notes() == [*ids, ids[1]]


async def test_v1_a_post_that_cannot_be_handled_is_skipped(store: Store, clock, notes):
    ids = await store_posts(store, await stored(store), *"abcd")

    def picky(session: Session, posts: Sequence[Post]) -> None:
        if any(post.id == ids[2] for post in posts):
            raise ValueError("not this one")
        NOTES.handle(session, posts)

    lines = io.StringIO()
    logs.configure(stream=lines)
    await Followers(store, clock, [Follower("picky", picky)]).run()
    assert await notes() == [ids[0], ids[1], ids[3]]
    assert f"a post was skipped of=picky post={ids[2]}" in lines.getvalue()


async def test_h1_followers_read_the_beginnings_of_long_texts(store: Store, clock):
    source = await stored(store)
    await with_posts(store, source, a_post(source_id=source.id, body="x" * (MAX_CHARACTERS + 1)))
    lengths: list[int] = []

    def measure(_session: Session, posts: Sequence[Post]) -> None:
        lengths.extend(len(post.body) for post in posts)

    await Followers(store, clock, [Follower("measure", measure)]).run()
    assert lengths == [MAX_CHARACTERS]


async def test_v1_two_processes_handle_no_post_twice(store: Store, url: str, clock, notes):
    """As when a worker continues while another one has taken over its shard."""
    ids = await store_posts(store, await stored(store), *(str(n) for n in range(500)))
    async with Store(open_database(url), StoreClock()) as other:
        await asyncio.gather(
            Followers(store, clock, [NOTES]).run(), Followers(other, clock, [NOTES]).run()
        )
    assert await notes() == ids


async def test_b3_a_poll_writes_neither_index_nor_marks(store: Store, clock):
    await store_posts(store, await stored(store), "one", "two")
    written = "SELECT (SELECT count(*) FROM search_documents), (SELECT count(*) FROM story_marks)"
    assert await rows(store, written) == [(0, 0)]
    await Followers(store, clock, all_followers()).catch_up()
    documents, marks = (await rows(store, written))[0]
    assert documents == 2
    assert marks > 0


async def test_b3_posts_that_join_a_story_are_indexed_once(store: Store, clock):
    text = TextGenerator(1).text(60)
    for end in ("", "More."):
        source = await stored(store)
        url = f"https://{source.id}.example/1"
        await with_posts(store, source, a_post(source_id=source.id, body=f"{text} {end}", url=url))
    indexed: list[str] = []

    def noted(follower: Follower) -> Follower:
        def handle(session: Session, found: Sequence[Any]) -> None:
            indexed.extend(each.id for each in found)
            follower.handle(session, found)

        return replace(follower, handle=handle) if follower.name == FOLLOWER else follower

    followers = Followers(store, clock, [noted(each) for each in all_followers()])
    for _ in range(2):
        await followers.run()
    found = await rows(store, "SELECT id FROM posts WHERE story_id IS NOT NULL ORDER BY id")
    assert [(id_,) for id_ in sorted(indexed)] == found


async def test_b3_an_entry_of_the_index_that_stays_the_same_is_not_written(store: Store):
    source = await stored(store)
    post = a_post(source_id=source.id, seq=1)
    entry, other = (
        entry_of("posts", "default", each, searchable(source, each))
        for each in (post, replace(post, title="Another title"))
    )
    write = store.database.write
    assert await write(lambda s: replace_entries(s, [entry])) == 0  # it is yet to be added
    assert await write(lambda s: add_entries(s, [entry])) == 1
    assert await write(lambda s: replace_entries(s, [entry])) == 0
    assert await write(lambda s: replace_entries(s, [other])) == 1
    moved = replace(other, labels=other.labels.replace("source", "source0"))
    assert await write(lambda s: replace_entries(s, [moved])) == 1
    assert await write(lambda s: replace_entries(s, [moved])) == 0


@pytest.mark.slow
async def test_v1_a_killed_process_leaves_no_gap_and_repeats_nothing(store: Store, url: str, notes):
    """Killed before any statement and before the commit of several batches."""
    ids = await store_posts(store, await stored(store), *(str(n) for n in range(100 * BATCH)))
    command = [sys.executable, "-m", "tests.store.killed_following", url, "25"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    handled = await notes()
    assert 0 < len(handled) < len(ids)
    assert handled == ids[: len(handled)]
    await Followers(store, StoreClock(), [NOTES]).catch_up()
    assert await notes() == ids
