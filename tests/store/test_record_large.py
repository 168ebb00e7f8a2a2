"""Outcomes of many posts: stored as a whole or not at all, without blocking others (D4, H3, K1)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from headwater.errors import DuplicateUrl, NotFound, StoreError, TooMuch
from headwater.model import LateKeys, Podcast, Source
from headwater.store import Store, open_database, poll_history, posts
from headwater.store.audit import describe
from tests.store.store_data import (
    NOW,
    StoreClock,
    a_polled_source,
    a_post_of,
    a_rich_success,
    a_success,
    bodies,
    everything,
    open_shard,
    rows,
    stored,
)

T = TypeVar("T")
POSTGRES = [pytest.param("postgres", marks=pytest.mark.postgres)]
MANY = 9  # posts; two are inserted at a time


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a feed of a few posts count as a large one."""
    monkeypatch.setattr("headwater.store.POSTS_PER_COMMIT", 2)
    monkeypatch.setattr(posts, "ROWS_PER_STATEMENT", 2)


@pytest.fixture
async def elsewhere(url: str) -> AsyncIterator[Store]:
    """The store of another process."""
    async with Store(open_database(url), StoreClock()) as store:
        yield store


class PausedInsert:
    """Stops the storing of many posts at a given step until it is released."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self._reached = threading.Event()

    def stop_here(self) -> None:
        if threading.current_thread().name.startswith("headwater-long-writer"):
            self._reached.set()
            assert self.go.wait(120)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 120)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[PausedInsert]:
    """Stops it between two batches, or right before its commit."""
    held = PausedInsert()
    module = poll_history if getattr(request, "param", "batches") == "commit" else posts
    insert = module.insert

    def inserting(*args: Any) -> None:
        insert(*args)
        held.stop_here()

    monkeypatch.setattr(module, "insert", inserting)
    yield held
    held.go.set()


def large(source: Source, **changes: Any) -> Any:
    """An outcome of many posts that writes to every table."""
    outcome = a_rich_success(source)
    news = [a_post_of(source, f"post {n}") for n in range(MANY)]
    return replace(outcome, posts=tuple(news), **changes)


async def promptly(work: Awaitable[T]) -> T:
    """Await something that must not wait for the blocked large feed."""
    return await asyncio.wait_for(work, 60)


async def switched_off(store: Store, source: Source) -> None:
    """A deletion that has progressed so far that a poll may notice it."""
    while (await store.sources.get(source.id)).enabled:
        await asyncio.sleep(0.01)


async def records_others(*stores: Store) -> None:
    """Polls of other sources are stored at the same time."""
    for store in stores:
        other = await promptly(stored(store))
        assert (await promptly(store.record(a_success(other, [a_post_of(other)])))).recorded


@pytest.mark.parametrize("kind", POSTGRES)
async def test_h3_other_polls_are_stored_while_a_large_feed_is_stored(
    store: Store, elsewhere: Store, held: PausedInsert
):
    source = await stored(store)
    storing = asyncio.create_task(store.record(large(source)))
    await held.reached()

    await records_others(store, elsewhere)

    held.go.set()
    assert (await storing).recorded
    assert len(await bodies(store, source)) == MANY


@pytest.mark.parametrize("kind", POSTGRES)
@pytest.mark.parametrize("by", ["this process", "another"])
async def test_h3_a_source_can_be_edited_while_its_large_feed_is_stored(
    store: Store, elsewhere: Store, held: PausedInsert, by: str
):
    source = await stored(store)
    storing = asyncio.create_task(store.record(large(source)))
    await held.reached()

    editing = (store if by == "this process" else elsewhere).sources
    await promptly(editing.edit(source.id, lambda current: replace(current, label="New")))
    await records_others(store, elsewhere)

    held.go.set()
    assert (await storing).recorded
    after = await store.sources.get(source.id)
    assert (after.label, after.generation, after.last_polled) == ("New", 1, NOW)
    assert len(await bodies(store, source)) == MANY


@pytest.mark.parametrize("kind", POSTGRES)
async def test_d4_a_large_feed_of_a_source_with_a_changed_url_is_discarded(
    store: Store, held: PausedInsert
):
    source = await stored(store)
    storing = asyncio.create_task(store.record(large(source)))
    await held.reached()

    url = "https://elsewhere.example.org/rss"
    edited = await promptly(store.sources.edit(source.id, lambda now: replace(now, url=url)))

    held.go.set()
    result = await storing
    assert (result.recorded, result.posts) == (False, ())
    assert await store.sources.get(source.id) == edited
    whole = await everything(store)
    assert [whole[table] for table in ("posts", "late_keys", "polls")] == [[], [], []]
    assert len(whole["hosts"]) == 1  # the hold of the host applies (P9)


@pytest.mark.parametrize("kind", POSTGRES)
async def test_k8_a_shard_can_be_taken_over_while_a_large_feed_of_it_is_stored(
    store: Store, elsewhere: Store, held: PausedInsert
):
    source = await stored(store)
    fence = await open_shard(store, 1, "a")
    storing = asyncio.create_task(store.record(large(source, fence=fence)))
    await held.reached()

    await promptly(open_shard(elsewhere, 1, "b"))

    held.go.set()
    assert not (await storing).recorded
    assert await store.sources.get(source.id) == source
    assert await bodies(store, source) == []


@pytest.mark.parametrize("kind", POSTGRES)
@pytest.mark.parametrize("by", ["this process", "another"])
@pytest.mark.parametrize("held", ["batches", "commit"], indirect=True)
async def test_d4_a_source_deleted_while_its_large_feed_is_stored_leaves_nothing(
    store: Store, elsewhere: Store, held: PausedInsert, by: str, request: pytest.FixtureRequest
):
    before = await everything(store)
    source = await stored(store)
    storing = asyncio.create_task(store.record(large(source)))
    await held.reached()

    removing = asyncio.create_task(
        (store if by == "this process" else elsewhere).sources.remove(source.id)
    )
    if "batches" in request.node.name:
        others = [await stored(one) for one in (store, elsewhere)]
        for other in others:
            await promptly(store.record(a_success(other, [a_post_of(other)])))
            await promptly(store.sources.remove(other.id))
        await promptly(switched_off(store, source))

    held.go.set()
    result = await promptly(storing)
    await promptly(removing)
    assert not result.recorded or "commit" in request.node.name
    assert (await everything(store)) | {"hosts": []} == before


@pytest.mark.parametrize("dedupe", [False, True], ids=["plain", "once in its podcast"])
@pytest.mark.parametrize("batch", range(1, 6))
async def test_k1_a_large_feed_that_fails_half_way_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, batch: int, dedupe: bool
):
    podcast = Podcast("p", "default", "P", NOW, dedupe_across_sources=True)
    await store.accounts.save_podcast(podcast)
    source = await stored(store, podcast_id="p")
    before = await everything(store)
    outcome, insert, passes = large(source, dedupe_in_podcast=dedupe), posts.insert, []

    def failing(*args: Any) -> None:
        passes.append(args)
        if len(passes) == batch:
            raise StoreError("the database refused this")
        insert(*args)

    with monkeypatch.context() as patch:
        patch.setattr(posts, "insert", failing)
        with pytest.raises(StoreError):
            await store.record(outcome)
    assert len(passes) == batch
    assert await everything(store) == before  # not the validators either: the feed is fetched again

    assert (await store.record(outcome)).recorded
    assert len(await bodies(store, source)) == MANY


async def test_d5_duplicates_of_other_sources_are_removed_from_a_large_feed(store: Store):
    podcast = Podcast("p", "default", "P", NOW, dedupe_across_sources=True)
    await store.accounts.save_podcast(podcast)
    source, other = [await stored(store, podcast_id="p") for _ in range(2)]
    theirs = [a_post_of(other, f"post {n}") for n in (0, 4, 8)]
    await store.record(a_success(other, theirs[:1], dedupe_in_podcast=True))
    await store.record(
        a_success(await store.sources.get(other.id), theirs[1:], dedupe_in_podcast=True)
    )

    result = await store.record(large(source, dedupe_in_podcast=True))

    assert len(result.posts) == MANY - 3
    assert sorted(await bodies(store, source)) == sorted(post.body for post in result.posts)
    (poll,) = await store.polls.newest(source.id, limit=1)
    assert (poll.new_posts, poll.skipped) == (MANY - 3, result.skipped)
    assert len(await bodies(store, other)) == 3


async def test_r8_a_large_feed_deletes_its_late_keys(store: Store):
    source = await stored(store, late_keys_kept=True)
    await store.record(large(source))
    source = await store.sources.get(source.id)

    await store.record(large(source, late_keys=LateKeys(forget_all=True)))

    assert (await everything(store))["late_keys"] == []


async def test_u9_a_new_source_with_many_posts_has_an_audit_entry(store: Store):
    source = a_polled_source(last_polled=None)
    async with store.audit.acting("token laptop"):
        describe("source.add", f"source {source.id}")
        await store.add_source(source, urls=[source.url], most=10, outcome=large(source))
        # stored with the source, not only at the end
        entries = await store.audit.newest(limit=10)
    assert [entry.action for entry in entries] == ["source.add"]


async def a_deduplicated_podcast(store: Store) -> None:
    podcast = Podcast("p", "default", "P", NOW, dedupe_across_sources=True)
    await store.accounts.save_podcast(podcast)


@pytest.mark.parametrize("kind", POSTGRES)
async def test_h3_other_sources_are_added_and_polled_while_a_large_new_one_is_stored(
    store: Store, elsewhere: Store, held: PausedInsert
):
    await a_deduplicated_podcast(store)
    source = a_polled_source(last_polled=None, podcast_id="p")
    outcome = large(source, dedupe_in_podcast=True)
    adding = asyncio.create_task(
        store.add_source(source, urls=[source.url], most=10, outcome=outcome)
    )
    await held.reached()

    for one in (store, elsewhere):
        other = a_polled_source(url=f"{source.url}?{one is store}", podcast_id="p")
        await promptly(one.add_source(other, urls=[other.url], most=10))
        poll = a_success(other, [a_post_of(other)], dedupe_in_podcast=True)
        assert (await promptly(one.record(poll))).recorded

    held.go.set()
    assert (await adding)[0] is None
    assert len(await bodies(store, source)) == MANY


@pytest.mark.parametrize("kind", POSTGRES)
@pytest.mark.parametrize(
    ("options", "error"),
    [({"most": 10}, None), ({"most": 10, "unique": True}, DuplicateUrl), ({"most": 1}, TooMuch)],
)
async def test_j3_a_source_that_was_added_while_a_large_one_is_stored_counts(
    store: Store,
    elsewhere: Store,
    held: PausedInsert,
    options: dict[str, Any],
    error: type[Exception] | None,
):
    source = a_polled_source(last_polled=None)
    adding = asyncio.create_task(
        store.add_source(source, urls=[source.url], outcome=large(source), **options)
    )
    await held.reached()
    other = a_polled_source(url=source.url)
    await promptly(elsewhere.add_source(other, urls=[other.url], most=10))

    held.go.set()
    if error is None:
        assert (await adding)[0] == other.id
        return
    with pytest.raises(error):
        await adding
    assert await bodies(store, source) == []
    assert await rows(store, "SELECT id FROM sources") == [(other.id,)]


async def test_u8_a_large_new_source_within_the_limit_is_stored(store: Store):
    source = a_polled_source(last_polled=None)
    outcome = large(source)
    there, _ = await store.add_source(
        source, urls=[source.url], most=1, unique=True, outcome=outcome
    )
    assert there is None
    assert len(await bodies(store, source)) == MANY
    assert (await store.sources.get(source.id)).first_poll_done


async def test_a_large_source_of_a_deleted_podcast_is_refused(store: Store):
    source = a_polled_source(last_polled=None, podcast_id="gone")
    with pytest.raises(NotFound):
        await store.add_source(source, urls=[source.url], most=1, outcome=large(source))
