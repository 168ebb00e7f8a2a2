"""A row that cannot be read does not end a list: all other rows are still listed (H4)."""

from collections.abc import Sequence
from typing import Any

from headwater.operations.opml_import import export_opml
from headwater.operations.source_views import list_sources
from headwater.store.sources import SourceFilter
from tests.api.conftest import DEFAULT, Served
from tests.api.stored_data import podcast_of, polled, source_of, walked
from tests.store.store_data import NOW, a_polled_source

BEFORE_ALL_TIMES = -(10**16)  # a year that no datetime can have


async def spoil(served: Served, table: str, column: str, value: Any, ids: Sequence[Any]) -> None:
    """Write a wrong value into these rows."""
    sql = f"UPDATE {table} SET {column} = :value WHERE id IN :ids"
    changed = await served.app.store.database.execute(sql, {"value": value, "ids": list(ids)})
    assert changed == len(ids)


async def ids_of(served: Served, path: str) -> list[str]:
    return [item["id"] for page in await walked(served, path) for item in page]


async def sources_in(served: Served, count: int) -> list[str]:
    """Add sources; return their ids in the order of lists."""
    sources = [a_polled_source() for _ in range(count)]
    await served.app.store.sources.add_many(sources)
    return [source.id for source in sources]


async def test_h4_pages_of_sources_continue_behind_unreadable_ones(served_by_each: Served):
    ids = await sources_in(served_by_each, 9)
    unreadable = [ids[1], *ids[3:6]]
    await spoil(served_by_each, "sources", "last_failure_type", "gopher", unreadable)
    pages = await walked(served_by_each, f"{DEFAULT}/sources?limit=2")
    listed = [[source["id"] for source in page] for page in pages]
    assert listed == [[ids[0], ids[2]], [ids[6], ids[7]], [ids[8]]]


async def test_h4_all_readable_sources_are_listed_and_exported(served_by_each: Served):
    store, podcast = served_by_each.app.store, await podcast_of(served_by_each)
    ids = await sources_in(served_by_each, 1003)  # longer than a page of either loop
    await spoil(served_by_each, "sources", "last_failure_type", "gopher", ids[1:2])
    pages = [page async for page in list_sources(store, SourceFilter())]
    assert [source.id for page in pages for source in page] == [ids[0], *ids[2:]]
    limited = [page async for page in list_sources(store, SourceFilter(), limit=502)]
    assert [source.id for page in limited for source in page] == [ids[0], *ids[2:503]]

    await spoil(served_by_each, "sources", "last_failure_type", "gopher", ids[:1001])
    exported = await export_opml(store, podcast, NOW)
    assert exported.count(b"xmlUrl=") == 2


async def test_h4_pages_of_users_continue_behind_an_unreadable_one(served_by_each: Served):
    for name in ("ada", "bob", "cyd", "dan"):
        await served_by_each.person(name)
    token = await served_by_each.admin()
    served_by_each.token = token
    first, odd, *others = await ids_of(served_by_each, "/api/users")
    await spoil(served_by_each, "users", "created_at", BEFORE_ALL_TIMES, [odd])
    assert await ids_of(served_by_each, "/api/users?limit=1") == [first, *others]
    assert await ids_of(served_by_each, "/api/users?limit=2") == [first, *others]


async def test_h4_pages_of_podcasts_continue_behind_an_unreadable_one(served_by_each: Served):
    path = "/api/users/default/podcasts"
    for name in ("one", "two", "three", "four"):
        assert (await served_by_each.post(path, {"name": name})).status == 201
    first, odd, *others = await ids_of(served_by_each, path)
    await spoil(served_by_each, "podcasts", "created_at", BEFORE_ALL_TIMES, [odd])
    assert await ids_of(served_by_each, f"{path}?limit=1") == [first, *others]
    assert await ids_of(served_by_each, f"{path}?limit=2") == [first, *others]


async def test_h4_pages_of_polls_continue_behind_an_unreadable_one(served_by_each: Served):
    source = await source_of(served_by_each)
    for status in range(201, 207):
        await polled(served_by_each, source, status=status)
    last = await served_by_each.app.store.polls.last_id()
    await spoil(served_by_each, "polls", "outcome", "vanished", [last - 1, last - 3])
    pages = await walked(served_by_each, f"{DEFAULT}/sources/{source.id}/polls?limit=2")
    assert [[poll["status"] for poll in page] for page in pages] == [[206, 204], [202, 201]]
