"""Hashes of any source of a podcast are found by one lookup each (D5)."""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.model import Outcome, Podcast, Source, Subject
from headwater.rules.admission import hash_prefix
from headwater.store import Session, Store, open_database, podcast_duplicates, posts
from headwater.store.backup_file import back_up, restore
from headwater.store.expired_rows import unindexed_posts
from headwater.store.record_outcomes import record, record_large
from tests.store.store_data import (
    MINUTE,
    NOW,
    a_polled_source,
    a_post_of,
    a_success,
    rows,
    stored,
    with_posts,
)
from tests.store.test_due_plans import RecordingSession
from tests.store.test_known import entry_of, expire_all, known_of, sifted_from

FEW, MANY = 3, 300
POSTS_EACH = 5


async def stored_podcast(store: Store, id_: str = "p", *, once: bool = True) -> Podcast:
    podcast = Podcast(id_, "default", id_, NOW, dedupe_across_sources=once)
    await store.accounts.save_podcast(podcast)
    return podcast


async def mark_all(store: Store, limit: int = 1000) -> int:
    """Index the posts stored before, as cleanup does; return the number of batches."""
    count = 0
    for now in (NOW, NOW + 16 * MINUTE):
        while await store.clean(unindexed_posts(), now, limit):
            count += 1
    return count


async def is_complete(store: Store, podcast: Podcast) -> bool:
    sql = "SELECT is_complete FROM marked_podcasts WHERE podcast_id = :id"
    return [bool(row[0]) for row in await rows(store, sql, id=podcast.id)] == [True]


async def marks_of(store: Store, podcast: Podcast) -> set[tuple[str, str]]:
    sql = "SELECT source_id, mark FROM podcast_marks WHERE podcast_id = :id"
    return set(await rows(store, sql, id=podcast.id))


async def full(store: Store, name: str, count: int) -> Source:
    """A podcast of this many sources with posts, all indexed, and one source more."""
    await stored_podcast(store, name)
    sources = [a_polled_source(podcast_id=name) for _ in range(count)]
    await store.sources.add_many(sources)
    outcomes = [
        a_success(
            s, [a_post_of(s, f"{s.id} {n}") for n in range(POSTS_EACH)], dedupe_in_podcast=True
        )
        for s in sources
    ]
    await store.database.write(lambda s: record(s, outcomes))
    return await stored(store, podcast_id=name)


def work_of(session: Session, source: Source, bodies: Sequence[str]) -> int:
    """The cost of a lookup in the database: SQLite steps, or pages that PostgreSQL reads."""
    subject = Subject(source, "default", dedupe_across_sources=True)
    sifted = sifted_from(source, *(entry_of(a_post_of(source, body)) for body in bodies))
    connection: Any = getattr(session, "connection")  # noqa: B009 - each kind has one
    if session.kind == "sqlite":
        steps = []
        connection.set_progress_handler(lambda: steps.append(1), 10)
        posts.known_of_many(session, [(subject, sifted)])
        connection.set_progress_handler(None, 0)
        return len(steps)
    watching: Any = RecordingSession(session)
    posts.known_of_many(watching, [(subject, sifted)])
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
    plans = [session.fetch(explain + sql, params)[0][0] for sql, params in watching.seen]
    tops = [(json.loads(p) if isinstance(p, str) else p)[0]["Plan"] for p in plans]
    return sum(top["Shared Hit Blocks"] + top["Shared Read Blocks"] for top in tops)


@pytest.mark.parametrize("known", ["with statistics", "without statistics"])
async def test_d5_the_cost_of_a_lookup_does_not_depend_on_the_number_of_sources(
    store: Store, known: str
):
    bodies = [f"body {n}" for n in range(200)]
    in_small, in_large = await full(store, "small", FEW), await full(store, "large", MANY)
    await mark_all(store)
    if known == "with statistics":
        await store.database.write(lambda s: s.execute("ANALYZE"))

    few = await store.database.read(lambda s: work_of(s, in_small, bodies))
    many = await store.database.read(lambda s: work_of(s, in_large, bodies))
    one = await store.database.read(lambda s: work_of(s, in_large, bodies[:1]))

    assert many < 1.5 * few
    assert one < many / 5  # it grows with the hashes


async def test_d5_older_posts_are_indexed_gradually(store: Store):
    podcast = await stored_podcast(store, once=False)
    sources = [await stored(store, podcast_id=podcast.id) for _ in range(3)]
    for source in sources:
        await with_posts(
            store, source, *(a_post_of(source, f"old {source.id} {n}") for n in range(7))
        )
    await expire_all(store)
    for source in sources:
        source = await store.sources.get(source.id)
        await with_posts(
            store, source, *(a_post_of(source, f"new {source.id} {n}") for n in range(7))
        )
    assert await marks_of(store, podcast) == set()
    await stored_podcast(store)

    assert not await is_complete(store, podcast)
    assert await mark_all(store, limit=4) > 10
    assert await is_complete(store, podcast)

    sql = (
        "SELECT source_id, mark FROM tombstones UNION SELECT source_id, substr(content_hash, 1, 32)"
    )
    assert await marks_of(store, podcast) == set(await rows(store, f"{sql} FROM posts"))
    assert len(await marks_of(store, podcast)) == 42


async def test_d5_until_earlier_polls_are_over_all_sources_are_searched(
    store: Store,
):
    podcast = await stored_podcast(store, once=False)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    await stored_podcast(store)
    assert await store.clean(unindexed_posts(), NOW, 1000) == 1
    assert await store.clean(unindexed_posts(), NOW + 14 * MINUTE, 1000) == 0
    await with_posts(store, other, post := a_post_of(other, "by a poll that began before"))

    assert (await known_of(store, source, entry_of(post))).hash_prefixes == {
        hash_prefix(post.content_hash)
    }
    await store.clean(unindexed_posts(), NOW + 16 * MINUTE, 1000)
    assert await is_complete(store, podcast)
    assert (await known_of(store, source, entry_of(post))).hash_prefixes == {
        hash_prefix(post.content_hash)
    }


async def test_d5_disabling_and_enabling_again_loses_no_hash(store: Store):
    podcast = await stored_podcast(store)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    await mark_all(store)
    await store.accounts.edit_podcast(
        podcast.id, lambda before: replace(before, dedupe_across_sources=False)
    )
    await with_posts(store, other, post := a_post_of(other, "while it was off"))
    await store.accounts.edit_podcast(podcast.id, lambda _: podcast)

    for _ in range(2):
        assert (await known_of(store, source, entry_of(post))).hash_prefixes == {
            hash_prefix(post.content_hash)
        }
        await mark_all(store)
        assert await is_complete(store, podcast)


async def test_d5_index_rows_are_deleted_with_their_source(store: Store):
    podcast = await stored_podcast(store)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    post = a_post_of(other, "story")
    await store.record(a_success(other, [post], dedupe_in_podcast=True))
    await mark_all(store)

    await store.sources.remove(other.id)

    assert await marks_of(store, podcast) == set()
    assert (await known_of(store, source, entry_of(post))).hash_prefixes == frozenset()


async def test_d5_posts_of_a_backup_are_indexed_again(store: Store, tmp_path: Path):
    podcast = await stored_podcast(store)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    post = a_post_of(other, "story")
    await store.record(a_success(other, [post], dedupe_in_podcast=True))
    await mark_all(store)
    whole = await marks_of(store, podcast)
    await back_up(store.database, tmp_path / "backup.db")

    await restore(store.database, tmp_path / "backup.db")

    assert not await is_complete(store, podcast)
    assert (await known_of(store, source, entry_of(post))).hash_prefixes == {
        hash_prefix(post.content_hash)
    }
    await mark_all(store)
    assert await is_complete(store, podcast)
    assert await marks_of(store, podcast) == whole


async def test_d5_podcasts_without_deduplication_have_no_index_rows(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source))

    assert await mark_all(store) == 0
    assert await rows(store, "SELECT * FROM podcast_marks") == []


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not marked yet"])
@pytest.mark.parametrize("way", ["small", "large"])
async def test_d5_two_workers_that_store_the_same_post_concurrently_store_it_once(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch, marked: bool, way: str
):
    """Each has queried duplicates, and found none, before either stores."""
    podcast = await stored_podcast(store)
    outcomes = [await a_story(store, podcast) for _ in range(2)]
    if marked:
        await mark_all(store)
    both = threading.Barrier(2)
    look = podcast_duplicates.known

    def has_looked_up(*args: Any) -> Any:
        found = look(*args)
        meet(both)  # the other one cannot get here before this one is done
        return found

    monkeypatch.setattr(podcast_duplicates, "known", has_looked_up)
    results = at_once(url, outcomes, way)

    assert await rows(store, "SELECT count(*) FROM posts") == [(1,)]
    assert sorted(len(result.posts) for result in results) == [0, 1]
    assert len(await marks_of(store, podcast)) == 1


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_d5_workers_that_commit_several_podcasts_never_deadlock(store: Store, url: str):
    podcasts = [await stored_podcast(store, f"p{n}") for n in range(6)]
    batches = [[await a_story(store, podcast) for podcast in podcasts] for _ in range(2)]
    both = threading.Barrier(2)

    def pausing(batch: Sequence[Outcome]) -> list[Outcome]:
        return writing(url, lambda s: record(cast(Any, PausingSession(s, both)), batch))

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(pausing, (batches[0], batches[1][::-1])))

    assert sum(len(result.posts) for batch in results for result in batch) == len(podcasts)


async def a_story(store: Store, podcast: Podcast) -> Outcome:
    source = await stored(store, podcast_id=podcast.id)
    return a_success(source, [a_post_of(source, "the story")], dedupe_in_podcast=True)


class PausingSession:
    """A session that waits for another one after every lock on a podcast."""

    def __init__(self, session: Session, both: threading.Barrier) -> None:
        self._session = session
        self._both = both

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def execute(self, sql: str, params: Any) -> int:
        count = self._session.execute(sql, params)
        if "pg_advisory_xact_lock" in sql:
            meet(self._both)
        return count


def meet(both: threading.Barrier) -> None:
    """Wait for the other, but not for long: if there is a lock it cannot arrive."""
    with suppress(threading.BrokenBarrierError):
        both.wait(timeout=0.5)


def at_once(url: str, outcomes: Sequence[Outcome], way: str) -> list[Outcome]:
    """Store outcomes, each over a separate connection."""

    def store_one(outcome: Outcome) -> Outcome:
        if way == "large":
            return writing(url, lambda s: record_large(s, outcome))
        return writing(url, lambda s: record(s, [outcome]))[0]

    with ThreadPoolExecutor(len(outcomes)) as threads:
        return list(threads.map(store_one, outcomes))


def writing(url: str, work: Any) -> Any:
    database = open_database(url)
    try:
        return database.run_transaction(work)
    finally:
        database.shut_down()
