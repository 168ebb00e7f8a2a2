"""What any source of a podcast has is found by one look per hash (D5)."""

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
from headwater.rules.admission import mark
from headwater.store import Session, Store, marks, open_database, posts
from headwater.store.backup import back_up, restore
from headwater.store.cleanup import unmarked_posts
from headwater.store.record import record, record_large
from tests.store.pieces import (
    MINUTE,
    NOW,
    a_post,
    a_source,
    a_success,
    rows,
    stored,
    with_posts,
)
from tests.store.test_due_plans import Watching
from tests.store.test_known import an_entry, bury_all, known_of, sifted_from

FEW, MANY = 3, 300
POSTS_EACH = 5


async def a_podcast(store: Store, id_: str = "p", *, once: bool = True) -> Podcast:
    podcast = Podcast(id_, "default", id_, NOW, dedupe_across_sources=once)
    await store.people.save_podcast(podcast)
    return podcast


async def mark_all(store: Store, limit: int = 1000) -> int:
    """Mark what was stored before, as cleanup does, and answer in how many bites."""
    count = 0
    for now in (NOW, NOW + 16 * MINUTE):
        while await store.clean(unmarked_posts(), now, limit):
            count += 1
    return count


async def is_complete(store: Store, podcast: Podcast) -> bool:
    sql = "SELECT is_complete FROM marked_podcasts WHERE podcast_id = :id"
    return [bool(row[0]) for row in await rows(store, sql, id=podcast.id)] == [True]


async def marks_of(store: Store, podcast: Podcast) -> set[tuple[str, str]]:
    sql = "SELECT source_id, mark FROM podcast_marks WHERE podcast_id = :id"
    return set(await rows(store, sql, id=podcast.id))


async def full(store: Store, name: str, count: int) -> Source:
    """A podcast of so many sources with posts, all marked, and one source more."""
    await a_podcast(store, name)
    sources = [a_source(podcast_id=name) for _ in range(count)]
    await store.sources.add_many(sources)
    outcomes = [
        a_success(s, [a_post(s, f"{s.id} {n}") for n in range(POSTS_EACH)], dedupe_in_podcast=True)
        for s in sources
    ]
    await store.database.write(lambda s: record(s, outcomes))
    return await stored(store, podcast_id=name)


def work_of(session: Session, source: Source, bodies: Sequence[str]) -> int:
    """What a look-up has the database do: steps of SQLite, or pages that PostgreSQL reads."""
    subject = Subject(source, "default", dedupe_across_sources=True)
    sifted = sifted_from(source, *(an_entry(a_post(source, body)) for body in bodies))
    connection: Any = getattr(session, "connection")  # noqa: B009 - each kind has one
    if session.kind == "sqlite":
        steps = []
        connection.set_progress_handler(lambda: steps.append(1), 10)
        posts.known_of_many(session, [(subject, sifted)])
        connection.set_progress_handler(None, 0)
        return len(steps)
    watching: Any = Watching(session)
    posts.known_of_many(watching, [(subject, sifted)])
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
    plans = [session.fetch(explain + sql, params)[0][0] for sql, params in watching.seen]
    tops = [(json.loads(p) if isinstance(p, str) else p)[0]["Plan"] for p in plans]
    return sum(top["Shared Hit Blocks"] + top["Shared Read Blocks"] for top in tops)


@pytest.mark.parametrize("known", ["with statistics", "without statistics"])
async def test_d5_a_look_up_costs_the_same_however_many_sources_there_are(store: Store, known: str):
    bodies = [f"body {n}" for n in range(200)]
    in_small, in_large = await full(store, "small", FEW), await full(store, "large", MANY)
    await mark_all(store)
    if known == "with statistics":
        await store.database.write(lambda s: s.execute("ANALYZE"))

    few = await store.database.read(lambda s: work_of(s, in_small, bodies))
    many = await store.database.read(lambda s: work_of(s, in_large, bodies))
    one = await store.database.read(lambda s: work_of(s, in_large, bodies[:1]))

    assert many < 1.5 * few
    assert one < many / 5  # and it follows the hashes


async def test_d5_what_was_stored_before_is_marked_by_and_by(store: Store):
    podcast = await a_podcast(store, once=False)
    sources = [await stored(store, podcast_id=podcast.id) for _ in range(3)]
    for source in sources:
        await with_posts(store, source, *(a_post(source, f"old {source.id} {n}") for n in range(7)))
    await bury_all(store)
    for source in sources:
        source = await store.sources.get(source.id)
        await with_posts(store, source, *(a_post(source, f"new {source.id} {n}") for n in range(7)))
    assert await marks_of(store, podcast) == set()
    await a_podcast(store)

    assert not await is_complete(store, podcast)
    assert await mark_all(store, limit=4) > 10
    assert await is_complete(store, podcast)

    sql = (
        "SELECT source_id, mark FROM tombstones UNION SELECT source_id, substr(content_hash, 1, 32)"
    )
    assert await marks_of(store, podcast) == set(await rows(store, f"{sql} FROM posts"))
    assert len(await marks_of(store, podcast)) == 42


async def test_d5_until_polls_that_began_before_are_over_all_sources_are_looked_through(
    store: Store,
):
    podcast = await a_podcast(store, once=False)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    await a_podcast(store)
    assert await store.clean(unmarked_posts(), NOW, 1000) == 1
    assert await store.clean(unmarked_posts(), NOW + 14 * MINUTE, 1000) == 0
    await with_posts(store, other, post := a_post(other, "by a poll that began before"))

    assert (await known_of(store, source, an_entry(post))).marks == {mark(post.content_hash)}
    await store.clean(unmarked_posts(), NOW + 16 * MINUTE, 1000)
    assert await is_complete(store, podcast)
    assert (await known_of(store, source, an_entry(post))).marks == {mark(post.content_hash)}


async def test_d5_switched_off_and_on_again_nothing_is_forgotten(store: Store):
    podcast = await a_podcast(store)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    await mark_all(store)
    await store.people.change_podcast(replace(podcast, dedupe_across_sources=False))
    await with_posts(store, other, post := a_post(other, "while it was off"))
    await store.people.change_podcast(podcast)

    for _ in range(2):
        assert (await known_of(store, source, an_entry(post))).marks == {mark(post.content_hash)}
        await mark_all(store)
        assert await is_complete(store, podcast)


async def test_d5_marks_go_with_their_source(store: Store):
    podcast = await a_podcast(store)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    post = a_post(other, "story")
    await store.record(a_success(other, [post], dedupe_in_podcast=True))
    await mark_all(store)

    await store.sources.remove(other.id)

    assert await marks_of(store, podcast) == set()
    assert (await known_of(store, source, an_entry(post))).marks == frozenset()


async def test_d5_what_a_backup_brings_is_marked_anew(store: Store, tmp_path: Path):
    podcast = await a_podcast(store)
    source, other = [await stored(store, podcast_id=podcast.id) for _ in range(2)]
    post = a_post(other, "story")
    await store.record(a_success(other, [post], dedupe_in_podcast=True))
    await mark_all(store)
    whole = await marks_of(store, podcast)
    await back_up(store.database, tmp_path / "backup.db")

    await restore(store.database, tmp_path / "backup.db")

    assert not await is_complete(store, podcast)
    assert (await known_of(store, source, an_entry(post))).marks == {mark(post.content_hash)}
    await mark_all(store)
    assert await is_complete(store, podcast)
    assert await marks_of(store, podcast) == whole


async def test_d5_podcasts_that_take_everything_have_no_marks(store: Store):
    source = await stored(store)
    await with_posts(store, source, a_post(source))

    assert await mark_all(store) == 0
    assert await rows(store, "SELECT * FROM podcast_marks") == []


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not marked yet"])
@pytest.mark.parametrize("way", ["small", "large"])
async def test_d5_two_workers_that_store_a_story_at_once_keep_it_once(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch, marked: bool, way: str
):
    """Each has looked for twins, and found none, before any of them stores."""
    podcast = await a_podcast(store)
    outcomes = [await a_story(store, podcast) for _ in range(2)]
    if marked:
        await mark_all(store)
    both = threading.Barrier(2)
    look = marks.known

    def looked(*args: Any) -> Any:
        found = look(*args)
        meet(both)  # the other should not have come so far before this one is done
        return found

    monkeypatch.setattr(marks, "known", looked)
    results = at_once(url, outcomes, way)

    assert await rows(store, "SELECT count(*) FROM posts") == [(1,)]
    assert sorted(len(result.posts) for result in results) == [0, 1]
    assert len(await marks_of(store, podcast)) == 1


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_d5_workers_whose_commits_have_several_podcasts_never_wait_in_a_circle(
    store: Store, url: str
):
    podcasts = [await a_podcast(store, f"p{n}") for n in range(6)]
    batches = [[await a_story(store, podcast) for podcast in podcasts] for _ in range(2)]
    both = threading.Barrier(2)

    def pausing(batch: Sequence[Outcome]) -> list[Outcome]:
        return writing(url, lambda s: record(cast(Any, Pausing(s, both)), batch))

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(pausing, (batches[0], batches[1][::-1])))

    assert sum(len(result.posts) for batch in results for result in batch) == len(podcasts)


async def a_story(store: Store, podcast: Podcast) -> Outcome:
    source = await stored(store, podcast_id=podcast.id)
    return a_success(source, [a_post(source, "the story")], dedupe_in_podcast=True)


class Pausing:
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
    """Wait for the other, but not for long: where there is a lock it cannot come."""
    with suppress(threading.BrokenBarrierError):
        both.wait(timeout=0.5)


def at_once(url: str, outcomes: Sequence[Outcome], way: str) -> list[Outcome]:
    """Store outcomes, each through a connection of its own."""

    def store_one(outcome: Outcome) -> Outcome:
        if way == "large":
            return writing(url, lambda s: record_large(s, outcome))
        return writing(url, lambda s: record(s, [outcome]))[0]

    with ThreadPoolExecutor(len(outcomes)) as threads:
        return list(threads.map(store_one, outcomes))


def writing(url: str, work: Any) -> Any:
    database = open_database(url)
    try:
        return database._writing(work)
    finally:
        database._shut()
