"""Many posts at once: whole or not at all, and nobody waits for them (D4, H3, K1)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from headwater.errors import StoreError
from headwater.model import LateKeys, Podcast, Source
from headwater.store import Store, open_database, polls, posts
from headwater.store.shards import Shards
from tests.store.pieces import (
    NOW,
    StoreClock,
    a_post,
    a_rich_success,
    a_success,
    bodies,
    everything,
    stored,
)

T = TypeVar("T")
POSTGRES = [pytest.param("postgres", marks=pytest.mark.postgres)]
MANY = 9  # posts; two are inserted at a time


@pytest.fixture(autouse=True)
def small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a feed of a few posts be a large one."""
    monkeypatch.setattr("headwater.store._POSTS_PER_COMMIT", 2)
    monkeypatch.setattr(posts, "_MOST_TOGETHER", 2)


@pytest.fixture
async def elsewhere(url: str) -> AsyncIterator[Store]:
    """The store of another process."""
    async with Store(open_database(url), StoreClock()) as store:
        yield store


class Held:
    """Stops who stores many posts, at a place, until it may go on."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self._reached = threading.Event()

    def stop_here(self) -> None:
        if threading.current_thread().name.startswith("headwater-aside"):
            self._reached.set()
            assert self.go.wait(120)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 120)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Held]:
    """Stops it between two bites, or right before its commit."""
    held = Held()
    module = polls if getattr(request, "param", "bites") == "commit" else posts
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
    news = [a_post(source, f"post {n}") for n in range(MANY)]
    return replace(outcome, posts=tuple(news), **changes)


async def promptly(work: Awaitable[T]) -> T:
    """What does not wait for the large feed; that one would wait for ever."""
    return await asyncio.wait_for(work, 60)


async def switched_off(store: Store, source: Source) -> None:
    """Who deletes a source has come so far that a poll may notice."""
    while (await store.sources.get(source.id)).enabled:
        await asyncio.sleep(0.01)


async def records_others(*stores: Store) -> None:
    """Polls of other sources are stored meanwhile."""
    for store in stores:
        other = await promptly(stored(store))
        assert (await promptly(store.record(a_success(other, [a_post(other)])))).recorded


@pytest.mark.parametrize("kind", POSTGRES)
async def test_h3_while_a_large_feed_is_stored_others_are(
    store: Store, elsewhere: Store, held: Held
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
async def test_h3_a_source_is_edited_while_its_large_feed_is_stored(
    store: Store, elsewhere: Store, held: Held, by: str
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
async def test_d4_a_large_feed_of_a_source_that_is_given_another_url_is_discarded(
    store: Store, held: Held
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
    assert len(whole["hosts"]) == 1  # what the host asked for holds (P9)


@pytest.mark.parametrize("kind", POSTGRES)
async def test_k8_a_shard_is_taken_over_while_a_large_feed_of_it_is_stored(
    store: Store, elsewhere: Store, held: Held
):
    source = await stored(store)
    fence = await Shards(store.database).open(1, "a")
    storing = asyncio.create_task(store.record(large(source, fence=fence)))
    await held.reached()

    await promptly(Shards(elsewhere.database).open(1, "b"))

    held.go.set()
    assert not (await storing).recorded
    assert await store.sources.get(source.id) == source
    assert await bodies(store, source) == []


@pytest.mark.parametrize("kind", POSTGRES)
@pytest.mark.parametrize("by", ["this process", "another"])
@pytest.mark.parametrize("held", ["bites", "commit"], indirect=True)
async def test_d4_a_source_that_is_deleted_while_its_large_feed_is_stored_leaves_nothing(
    store: Store, elsewhere: Store, held: Held, by: str, request: pytest.FixtureRequest
):
    before = await everything(store)
    source = await stored(store)
    storing = asyncio.create_task(store.record(large(source)))
    await held.reached()

    removing = asyncio.create_task(
        (store if by == "this process" else elsewhere).sources.remove(source.id)
    )
    if "bites" in request.node.name:
        others = [await stored(one) for one in (store, elsewhere)]
        for other in others:
            await promptly(store.record(a_success(other, [a_post(other)])))
            await promptly(store.sources.remove(other.id))
        await promptly(switched_off(store, source))

    held.go.set()
    result = await promptly(storing)
    await promptly(removing)
    assert not result.recorded or "commit" in request.node.name
    assert (await everything(store)) | {"hosts": []} == before


@pytest.mark.parametrize("dedupe", [False, True], ids=["plain", "once in its podcast"])
@pytest.mark.parametrize("bite", range(1, 6))
async def test_k1_a_large_feed_whose_storing_fails_half_way_is_as_if_it_never_came(
    store: Store, monkeypatch: pytest.MonkeyPatch, bite: int, dedupe: bool
):
    podcast = Podcast("p", "default", "P", NOW, dedupe_across_sources=True)
    await store.people.save_podcast(podcast)
    source = await stored(store, podcast_id="p")
    before = await everything(store)
    outcome, insert, passes = large(source, dedupe_in_podcast=dedupe), posts.insert, []

    def failing(*args: Any) -> None:
        passes.append(args)
        if len(passes) == bite:
            raise StoreError("the database refused this")
        insert(*args)

    with monkeypatch.context() as patch:
        patch.setattr(posts, "insert", failing)
        with pytest.raises(StoreError):
            await store.record(outcome)
    assert len(passes) == bite
    assert await everything(store) == before  # the validators, too: the feed is asked for again

    assert (await store.record(outcome)).recorded
    assert len(await bodies(store, source)) == MANY


async def test_d5_of_a_large_feed_what_another_source_has_is_taken_back(store: Store):
    podcast = Podcast("p", "default", "P", NOW, dedupe_across_sources=True)
    await store.people.save_podcast(podcast)
    source, other = [await stored(store, podcast_id="p") for _ in range(2)]
    theirs = [a_post(other, f"post {n}") for n in (0, 4, 8)]
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


async def test_r8_a_large_feed_forgets_its_late_keys(store: Store):
    source = await stored(store, late_keys_kept=True)
    await store.record(large(source))
    source = await store.sources.get(source.id)

    await store.record(large(source, late_keys=LateKeys(forget_all=True)))

    assert (await everything(store))["late_keys"] == []
