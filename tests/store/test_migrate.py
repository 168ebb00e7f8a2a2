"""A database is migrated to the program's schema, completely or not at all (K7)."""

import asyncio
import contextlib
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SchemaTooNew, StoreError
from headwater.store import Session, Store, open_database
from headwater.store.migrate import newest_version, statements
from headwater.store.sqlite import SqliteDatabase
from tests.postgres import PostgresServer
from tests.store.store_data import (
    NOW,
    StoreClock,
    a_post_of,
    everything,
    newest_articles,
    newest_posts,
    rows,
    stored,
    with_posts,
)
from tests.store.test_webhooks import SEALED, a_webhook

NEWEST = newest_version(SqliteDatabase.migrations)
STARS = """-- What people think of a source; a semicolon; does not end a statement here.
ALTER TABLE sources ADD COLUMN stars INTEGER NOT NULL DEFAULT 3;

UPDATE sources SET label = 'one; two', stars = 5;
"""
BROKEN = """ALTER TABLE sources ADD COLUMN moons INTEGER;
DELETE FROM posts;
INSERT INTO nowhere VALUES (1);
"""


@pytest.fixture
def newer(kind: str, tmp_path: Path) -> Path:
    """The program's migrations and one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(SqliteDatabase.migrations.parent / kind, folder)
    number = newest_version(folder) + 1
    (folder / f"{number:04d}_stars.sql").write_text(STARS)
    (folder / "README.md").write_text("not a migration")
    return folder


def opened(url: str, folder: Path | None = None) -> Store:
    database = open_database(url)
    if folder is not None:
        database.migrations = folder
    return Store(database, StoreClock())


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Creates a database without any schema at every call and returns its URL."""
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.new_database
    return lambda: f"sqlite:///{tmp_path}/new/{len(list(tmp_path.glob('new/*')))}.db"


async def test_k7_an_empty_database_gets_the_newest_schema_once(empty_url: Callable[[], str]):
    async with opened(empty_url()) as store:
        assert await store.schema() == (0, NEWEST)
        assert await store.prepare() == (0, NEWEST)
        assert await store.prepare() == (NEWEST, NEWEST)
        assert await store.schema() == (NEWEST, NEWEST)
        assert len(await store.accounts.users()) == 1


async def test_k7_a_database_with_rows_is_upgraded_in_place(store: Store, url: str, newer: Path):
    source = await stored(store, label="before")
    await with_posts(store, source, a_post_of(source))
    before = await everything(store)

    async with opened(url, newer) as upgraded:
        assert await upgraded.schema() == (NEWEST, NEWEST + 1)
        assert await upgraded.prepare() == (NEWEST, NEWEST + 1)
        assert await rows(upgraded, "SELECT label, stars FROM sources") == [("one; two", 5)]

    after = await everything(store)
    assert before.pop("sources") != after.pop("sources")
    assert before == after
    # the indexes still work: due sources are found
    assert (await store.sources.get(source.id)).label == "one; two"


async def test_k7_a_migration_that_fails_leaves_the_old_schema_and_every_row(
    store: Store, url: str, newer: Path
):
    source = await stored(store)
    await with_posts(store, source, a_post_of(source))
    before = await everything(store)
    (newer / "0099_broken.sql").write_text(BROKEN)

    async with opened(url, newer) as upgraded:
        with pytest.raises(StoreError, match="nowhere"):
            await upgraded.prepare()
        assert await upgraded.schema() == (NEWEST, 99)
        assert await everything(upgraded) == before

        (newer / "0099_broken.sql").unlink()
        assert await upgraded.prepare() == (NEWEST, NEWEST + 1)


async def test_k7_an_older_program_refuses_a_newer_schema(store: Store, url: str, newer: Path):
    await stored(store)
    async with opened(url, newer) as upgraded:
        await upgraded.prepare()
    before = await everything(store)

    with pytest.raises(
        SchemaTooNew, match=f"schema {NEWEST + 1}, this program knows {NEWEST}"
    ) as caught:
        await store.prepare()

    assert "\n" not in str(caught.value)
    assert await everything(store) == before
    assert await rows(store, "SELECT version FROM schema_version ORDER BY version") == [
        (number,) for number in range(1, NEWEST + 2)
    ]


async def test_k7_concurrently_starting_programs_migrate_once(empty_url: Callable[[], str]):
    for _ in range(5):
        url = empty_url()
        stores = [opened(url) for _ in range(4)]
        versions = await asyncio.gather(*(store.prepare() for store in stores))
        for store in stores:
            await store.close()

        assert sorted(versions) == [
            (0, NEWEST),
            (NEWEST, NEWEST),
            (NEWEST, NEWEST),
            (NEWEST, NEWEST),
        ]


PREPARE = """
import asyncio, sys
from headwater.clock import SystemClock
from headwater.store import Store, open_database

async def main():
    async with Store(open_database(sys.argv[1]), SystemClock()) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        print(*await store.prepare(), flush=True)

asyncio.run(main())
"""


async def test_k7_concurrently_starting_processes_migrate_once(empty_url: Callable[[], str]):
    url, pipe = empty_url(), asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PREPARE, url, stdin=pipe, stdout=pipe, stderr=pipe
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout
        assert await process.stdout.readline() == b"ready\n"

    reported = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))

    assert sorted(out for out, _ in reported) == [b"0 %d\n" % NEWEST] + 2 * [
        b"%d %d\n" % (NEWEST, NEWEST)
    ], reported
    async with opened(url) as store:
        assert await store.schema() == (NEWEST, NEWEST)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("", []),
        ("-- nothing\n", []),
        ("A;\nB;", ["A", "B"]),
        ("A\n  b; -- why\n\nC;\n", ["A\n  b", "C"]),
        ("A 'x; y';\n", ["A 'x; y'"]),
    ],
)
def test_a_script_is_split_into_statements(script: str, found: list[Any]):
    assert statements(script) == found


async def test_k7_a_database_of_another_program_is_left_unchanged(tmp_path: Path):
    path = tmp_path / "songs.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    async with Store(open_database(f"sqlite:///{path}"), StoreClock()) as store:
        with pytest.raises(StoreError, match="not a headwater database"):
            await store.prepare()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]


async def test_k7_posts_and_articles_of_schema_1_get_their_podcast(
    kind: str, empty_url: Callable[[], str], tmp_path: Path
):
    url, first = empty_url(), tmp_path / "first"
    first.mkdir()
    shutil.copy(SqliteDatabase.migrations.parent / kind / "0001_initial.sql", first)
    async with opened(url, first) as old:
        await old.prepare()
        await old.database.write(_fill_schema_1)

    async with opened(url) as store:
        assert await store.prepare() == (1, NEWEST)
        assert [post.id for post in await newest_posts(store, podcast_id="default", limit=9)] == [
            "p"
        ]
        articles = await newest_articles(store, "default", processed=False, limit=9)
        assert [article.id for article in articles] == ["a"]


def _fill_schema_1(session: Session) -> None:
    session.execute(
        "INSERT INTO sources (id, podcast_id, type, url) VALUES ('s', 'default', 'rss', 'http://x')"
    )
    for table, id_ in (("posts", "p"), ("articles", "a")):
        session.execute(
            f"""INSERT INTO {table} (id, source_id, title, body, url, content_hash, created_at)
            VALUES ('{id_}', 's', 't', 'b', 'u', 'h', 1)"""
        )


async def test_k7_y3_messages_of_webhooks_survive_the_migration_to_channels(
    empty_url: Callable[[], str], kind: str, tmp_path: Path
):
    folder = tmp_path / "before channels"
    shutil.copytree(SqliteDatabase.migrations.parent / kind, folder)
    for file in folder.iterdir():
        if file.name >= "0034":
            file.unlink()
    url = empty_url()
    async with opened(url, folder) as store:
        await store.prepare()
        await store.webhooks.add(a_webhook("w", None), SEALED)
        await store.webhooks.add_test(a_webhook("w", None), "webhook.test", "1", NOW)
    async with opened(url) as store:
        await store.prepare()
        (message,) = await store.webhooks.deliveries("w", limit=10)
        assert message.webhook_id == "w"
        assert await store.webhooks.with_due(NOW) == ["w"]
        await store.webhooks.remove(a_webhook("w", None))
        assert await rows(store, "SELECT count(*) FROM deliveries") == [(0,)]
