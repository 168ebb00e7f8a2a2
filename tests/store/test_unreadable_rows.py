"""A row that another program filled with wrong values hides no other row (H4)."""

import io
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from headwater import logs
from headwater.errors import StoreError
from headwater.model import Source, SourceType
from headwater.rules.policy import Policy
from headwater.store import Store, open_database
from headwater.store.source_pages import SourceOrder
from headwater.store.sources import SourceFilter
from tests.store.store_data import (
    HOUR,
    NOW,
    StoreClock,
    a_polled_source,
    a_post_of,
    a_success,
    stored,
)

BEFORE_ALL_TIMES = -(10**16)  # a year that no datetime can have

WRONG = [
    ("last_failure_type", "'gopher'"),
    ("type", "'mastodon'"),
    ("seen_keys", "'[\"k1\"'"),
]
WRONG_TYPES = [  # PostgreSQL refuses these
    ("poll_interval_minutes", "'abc'"),
    ("enabled", "'abc'"),
    ("last_polled", "'yesterday'"),
    ("created_at", "9000000000000000"),
    ("hold_until", "'never', hold_set_at = 1"),
    ("label", "x'ff'"),
]


@pytest.fixture
async def file_store(new_sqlite: Callable[[], str], clock: StoreClock) -> AsyncIterator[Store]:
    """A store on SQLite, which keeps values of any type in any column."""
    async with Store(open_database(new_sqlite()), clock) as store:
        yield store


async def spoil(store: Store, table: str, id_: object, column: str, value: str) -> None:
    """Write a wrong value into one row."""
    sql = f"UPDATE {table} SET {column} = {value} WHERE id = :id"
    assert await store.database.execute(sql, {"id": id_}) == 1


async def check_source(store: Store, column: str, value: str) -> None:
    odd, healthy = await stored(store), await stored(store)
    await spoil(store, "sources", odd.id, column, value)
    for _ in range(2):
        page = await store.sources.page(SourceFilter(), SourceOrder.URL, limit=5)
        found = await store.sources.find(SourceFilter(), limit=5)
        watched = await store.hosts.watched(healthy.host or "", owner=None, limit=5)
        known = await store.sources.known([odd.id, healthy.id])
        for ids in (page.sources, found, watched, known.values()):
            assert [source.id for source in ids] == [healthy.id]
    with pytest.raises(StoreError, match=rf"{odd.id} of the table sources .*column {column}:"):
        await store.sources.get(odd.id)
    with pytest.raises(StoreError, match=rf"{odd.id} of the table sources .*column {column}:"):
        await store.sources.edit(odd.id, lambda source: source)
    healthy_only = await store.sources.edit_many(SourceFilter(), [odd.id, healthy.id], _same)
    assert healthy_only.matched == 1


def _same(source: Source) -> Source:
    return source


@pytest.mark.parametrize(("column", "value"), WRONG)
async def test_h4_an_unreadable_source_is_left_out_of_lists(store: Store, column: str, value: str):
    await check_source(store, column, value)


@pytest.mark.parametrize(("column", "value"), WRONG_TYPES)
async def test_h4_a_value_of_a_wrong_type_is_left_out_of_lists(
    file_store: Store, column: str, value: str
):
    await check_source(file_store, column, value)


async def test_h4_an_unreadable_due_source_delays_no_other(file_store: Store):
    columns = ("poll_interval_minutes", "hold_until")
    for column in columns:
        odd = await stored(file_store, last_polled=NOW - 99 * HOUR)
        await spoil(file_store, "sources", odd.id, column, "'abc'")
        with pytest.raises(StoreError, match=f"column {column}"):
            await file_store.sources.due_one(odd.id, Policy())
    healthy = await stored(file_store, last_polled=NOW - 99 * HOUR)
    assert [due.id for due in await file_store.sources.due(NOW, Policy())] == [healthy.id]


async def test_h4_an_unreadable_row_is_logged_once(store: Store, lines: io.StringIO):
    logs.configure(stream=lines)
    odd = await stored(store)
    await spoil(store, "sources", odd.id, "last_failure_type", "'gopher'")
    for _ in range(3):
        await store.sources.find(SourceFilter(), limit=5)
    logged = [line for line in lines.getvalue().splitlines() if "[Store] unreadable row" in line]
    assert len(logged) == 1
    assert f"table=sources id={odd.id} column=last_failure_type" in logged[0]
    assert "gopher" in logged[0]


async def test_h4_pages_continue_behind_unreadable_posts(file_store: Store):
    source = await stored(file_store)
    posts = [a_post_of(source, f"post {n}", id=f"p{n}") for n in range(6)]
    await file_store.record(a_success(source, posts))
    for id_ in ("p5", "p3", "p2", "p0"):
        await spoil(file_store, "posts", id_, "published_at", "'abc'")
    found, before = [], None
    while True:
        page = await file_store.posts.page(podcast_id="default", limit=1, before=before)
        found += [post.id for post in page.items]
        if not page.more:
            break
        before = page.items[-1].id
    assert found == ["p4", "p1"]


async def test_h4_a_page_continues_behind_very_many_unreadable_posts(store: Store):
    source = await stored(store)
    last = sys.getrecursionlimit()  # newest first: it is behind all others
    posts = [a_post_of(source, f"post {n}", id=f"p{last - n:06}") for n in range(last + 1)]
    await store.record(a_success(source, posts))
    sql = "UPDATE posts SET published_at = :wrong WHERE id > 'p000000'"
    await store.database.execute(sql, {"wrong": BEFORE_ALL_TIMES})
    page = await store.posts.page(podcast_id="default", limit=1)
    assert ([post.id for post in page.items], page.more) == (["p000000"], False)


async def test_h4_lists_continue_behind_very_many_unreadable_rows(store: Store):
    sources = [a_polled_source(id=f"s{n:06}") for n in range(sys.getrecursionlimit() + 1)]
    await store.sources.add_many(sources)
    sql = "UPDATE sources SET last_failure_type = 'gopher' WHERE id < :last"
    await store.database.execute(sql, {"last": sources[-1].id})
    found = await store.sources.find(SourceFilter(), limit=1)
    assert [source.id for source in found] == [sources[-1].id]
    assert await store.sources.find(SourceFilter(type=SourceType.TWITTER), limit=1) == []


async def test_h4_an_unreadable_poll_is_left_out_of_the_history(store: Store):
    source = await stored(store)
    for column, value in (("outcome", "'vanished'"), ("skipped", "'{'"), ("status", "200")):
        await store.record(a_success(await store.sources.get(source.id)))
        await spoil(store, "polls", await store.polls.last_id(), column, value)
    assert [record.id for record in await store.polls.newest(source.id, limit=5)] == [3]
    by_source = await store.polls.newest_of_each([source.id], limit=5)
    assert [record.id for record in by_source[source.id]] == [3]
    tallies = await store.polls.by_minute(0, 3)
    assert sum(tally.polls for tally in tallies) == 2


async def test_h4_rows_of_a_database_opened_later_are_logged(store: Store, lines: io.StringIO):
    many = [a_polled_source() for _ in range(1001)]  # more than are logged
    await store.sources.add_many(many)
    await store.database.execute("UPDATE sources SET last_failure_type = 'gopher'", {})
    await store.sources.find(SourceFilter(), limit=5000)
    logs.configure(stream=lines)
    await store.sources.find(SourceFilter(), limit=5000)
    assert lines.getvalue() == ""
    open_database("sqlite:///opened-later.db")
    await store.sources.find(SourceFilter(), limit=5000)
    assert "[Store] unreadable row" in lines.getvalue()
