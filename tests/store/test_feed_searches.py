"""Searches for lost feeds are stored with polls, and due like pages (Y5)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headwater.model import Failure, FailureType, Source, SuggestionKind
from headwater.rules.feed_search import FeedSearch, SearchResult, after_candidate, after_page
from headwater.rules.policy import Policy
from headwater.rules.shards import shard_of
from headwater.store import Store
from headwater.store.page_visits import source_of_search
from tests.store.store_data import DAY, NOW, a_failure, rows, stored

GONE = Failure(FailureType.PERMANENT, "404", "HTTP 404")
OTHER = "https://other.example/new.xml"


async def lost(store: Store, **changes: object) -> Source:
    """A source whose last poll has started a search."""
    source = await stored(store, first_poll_done=True, url="https://site.example/feed", **changes)
    assert (await store.record(a_failure(source, GONE))).recorded
    return await store.sources.get(source.id)


async def step(store: Store, before: FeedSearch, after: FeedSearch) -> bool:
    outcome = a_failure(await store.sources.get(before.source_id), GONE)
    return await store.record_search(SearchResult(before, after, outcome))


async def test_y5_a_search_is_due_in_the_lane_of_its_next_step(store: Store):
    source = await lost(store, host="site.example")
    (due,) = await store.page_visits.due(NOW, Policy())
    assert (due.lane, due.is_page, due.is_search) == ("site.example", True, True)
    assert due.id != source.id  # the source itself may wait in the same lane
    assert source_of_search(due) == source.id
    search = await store.feed_searches.pending(source.id)
    assert search is not None

    linked = after_page(search, [(OTHER, "News")], NOW)
    assert await step(store, search, linked)
    assert not await step(store, search, linked)  # a step is stored once
    (due,) = await store.page_visits.due(NOW, Policy())
    assert due.lane == "other.example"
    assert await step(store, linked, after_candidate(linked, NOW, is_feed=True, title="News"))
    assert await store.page_visits.due(NOW, Policy()) == []
    last = await store.feed_searches.last(source.id)
    assert last is not None
    assert last.result == "found 1 feed on https://site.example/feed"
    (found,) = (await store.suggestions.of_sources([source.id]))[source.id]
    assert (found.kind, found.detail["url"]) == (SuggestionKind.FEED, OTHER)


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_y5_k8_workers_read_the_searches_of_their_shards(store: Store, kind: str):
    source = await lost(store, host="site.example")
    search = await store.feed_searches.pending(source.id)
    assert search is not None
    first, second = shard_of("site.example"), shard_of("other.example")
    assert len(await store.page_visits.due_in([first], NOW, Policy())) == 1
    assert await store.page_visits.due_in([second], NOW, Policy()) == []
    assert await step(store, search, after_page(search, [(OTHER, "News")], NOW))
    assert await store.page_visits.due_in([first], NOW, Policy()) == []
    assert len(await store.page_visits.due_in([second], NOW, Policy())) == 1


@pytest.mark.parametrize(
    ("age", "is_repeated"),
    [(7 * DAY, True), (7 * DAY - timedelta(seconds=1), False), (-DAY, True)],
)
async def test_y5_a_source_is_searched_for_once_a_week(
    store: Store, age: timedelta, is_repeated: bool
):
    source = await lost(store)
    await store.feed_searches.end(source.id, "nothing")
    earlier = (
        f"UPDATE feed_searches SET started_at = started_at - {age // timedelta(milliseconds=1)}"
    )
    await store.database.write(lambda session: session.execute(earlier))
    await store.record(a_failure(source, GONE))
    assert (await store.feed_searches.pending(source.id) is not None) is is_repeated


async def test_y5_a_running_search_is_not_started_again(store: Store):
    source = await lost(store)
    await store.feed_searches.postpone(source.id, NOW + timedelta(hours=1))
    await store.record(a_failure(source, GONE))
    assert await store.page_visits.due(NOW, Policy()) == []


async def test_y5_a_deleted_source_has_no_search(store: Store):
    source = await lost(store)
    search = await store.feed_searches.pending(source.id)
    assert search is not None
    outcome = a_failure(source, GONE)
    await store.sources.remove(source.id)
    after = replace(after_page(search, [], NOW), pages=())
    assert not await store.record_search(SearchResult(search, after, outcome))
    assert await rows(store, "SELECT 1 FROM feed_searches") == []
