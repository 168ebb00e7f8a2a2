"""PostgreSQL compares indexed text by its bytes, whatever the collation of a database (K7)."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headwater.store import Session, Store, open_database
from headwater.store.postgres import PostgresDatabase
from headwater.store.source_pages import SourceOrder
from headwater.store.sources import SourceFilter
from tests.postgres import PostgresServer
from tests.store.store_data import StoreClock, rows, stored
from tests.store.test_due_plans import plans

pytestmark = pytest.mark.postgres
# the collations of all columns of all indexes; 0 is that of a number
_COLLATIONS = """
    SELECT DISTINCT c.collname, i.indexrelid::regclass::text
    FROM pg_index i CROSS JOIN unnest(i.indcollation) AS of_column
    JOIN pg_collation c ON c.oid = of_column
    WHERE i.indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
"""


@pytest.fixture
async def upgraded(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Store]:
    """A database of schema 8 with rows, migrated to the newest one."""
    url = postgres_server.new_database()
    old = PostgresDatabase(url)
    old.migrations = tmp_path
    for path in PostgresDatabase.migrations.glob("000[1-8]_*.sql"):
        shutil.copy(path, tmp_path)
    async with Store(old, StoreClock()) as store:
        assert await store.prepare() == (0, 8)
        await store.database.write(_fill)
    async with Store(open_database(url), StoreClock()) as store:
        await store.prepare()
        yield store
    postgres_server.drop(url)


def _fill(session: Session) -> None:
    for n in range(50):
        session.execute(
            f"""INSERT INTO sources (id, podcast_id, type, url, host)
            VALUES ('s{n}', 'default', 'rss', 'http://h{n}/', 'h{n}')"""
        )
        session.execute(
            f"""INSERT INTO posts
                (id, source_id, podcast_id, title, body, url, content_hash, created_at)
            VALUES ('p{n}', 's{n}', 'default', 't', 'b', 'u', 'hash', {n})"""
        )


async def test_k7_no_index_depends_on_a_language_collation(upgraded: Store):
    found = await rows(upgraded, _COLLATIONS)
    assert len(found) > 30
    assert [index for collation, index in found if collation != "C"] == []


async def test_k7_rows_and_constraints_survive_the_new_collation(upgraded: Store):
    assert await upgraded.posts.count() == 50
    assert await upgraded.posts.count("s7") == 1
    shards = await rows(upgraded, "SELECT shard FROM sources ORDER BY id")
    await upgraded.database.write(lambda s: s.execute("UPDATE sources SET host = 'h0'"))
    moved = await rows(upgraded, "SELECT DISTINCT shard FROM sources")
    assert len(set(shards)) > 1
    assert len(moved) == 1, "the trigger that sets the shard is gone"
    await upgraded.database.write(lambda s: s.execute("DELETE FROM sources WHERE id = 's7'"))
    assert await upgraded.posts.count("s7") == 0


async def test_k7_the_planner_statistics_are_kept(upgraded: Store):
    sql = "SELECT attname FROM pg_stats WHERE tablename = 'posts' AND attname LIKE '%id'"
    assert sorted(await rows(upgraded, sql)) == [("id",), ("podcast_id",), ("source_id",)]


@pytest.mark.parametrize("kind", ["postgres"])
async def test_an_empty_database_is_not_planned_as_if_it_stayed_empty(store: Store):
    assert await rows(store, "SELECT reltuples FROM pg_class WHERE relname = 'posts'") == [(-1,)]


async def test_names_are_sorted_by_the_collation_of_the_database(upgraded: Store):
    for label in ("\u00c9b", "\u00e9a"):  # by bytes the capital letter is first
        await stored(upgraded, label=label)
    everything = SourceFilter(podcast_id="default")
    found = await upgraded.sources.page(everything, SourceOrder.NAME, limit=100)
    assert [one.label for one in found.sources if one.label] == ["\u00e9a", "\u00c9b"]


async def test_an_id_prefix_is_looked_up_by_index(upgraded: Store, monkeypatch: pytest.MonkeyPatch):
    await upgraded.database.write(_add_many_sources)
    found = await plans(
        upgraded, lambda: upgraded.sources.find_by_reference("id-77777"), monkeypatch
    )
    assert [plan for plan in found if "Index" not in plan or "Seq Scan" in plan] == []


def _add_many_sources(session: Session) -> None:
    session.execute(
        """INSERT INTO sources (id, podcast_id, type, url, host)
        SELECT 'id-' || n || '-0', 'default', 'rss', 'http://many/' || n, 'many'
        FROM generate_series(60000, 80000) AS n"""
    )
    session.execute("ANALYZE sources")
